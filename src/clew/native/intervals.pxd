from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef class Intervals:
    cdef const uint32_t[::1] group, o_group
    cdef const uint64_t[::1] first, last, o_first, o_last
    cdef uint32_t[::1] r_other, r_which, open
    cdef uint64_t[::1] r_first, r_last
    cdef size_t count
    cdef int close(self, size_t depth, uint64_t at) except -1
    cdef int put(self, size_t other, size_t which, uint64_t first, uint64_t last) except -1
    cdef int cut_all(self) except -1

cdef class Lists:
    cdef const uint32_t[::1] first, end, size
    cdef const uint64_t[::1] low, high, address
    cdef uint8_t[::1] bad
    cdef int look(self) except -1
