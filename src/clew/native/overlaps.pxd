from libc.stdint cimport uint32_t, uint64_t

cdef class Overlay:
    cdef const uint64_t[::1] start, stop, row_start
    cdef const uint32_t[::1] first, row_rule, row_args
    cdef uint64_t[::1] out_start
    cdef uint32_t[::1] out_rule, out_args, next_row, open
    cdef size_t count
    cdef uint64_t show(self, size_t which, uint64_t low, uint64_t high) except? -1
    cdef int put(self, uint64_t start, uint32_t rule, uint32_t args) except -1
