from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef class Nests:
    cdef const uint16_t[::1] depth
    cdef const uint32_t[::1] first_range, w_first, w_end
    cdef const uint64_t[::1] address, last, w_low, w_high
    cdef uint8_t[::1] found, shuffled
    cdef uint32_t[::1] out_first, out_end, which, out_range, level_first, level_end, level_owner
    cdef uint64_t[::1] out_address, out_last, reach, level_top
    cdef size_t count, range_count
    cdef int run(self) except -1
    cdef size_t search(self, size_t low, size_t high, uint64_t address) except -1
    cdef bint call(self, size_t window, size_t k, size_t depth) except -1
