from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef class Assembly:
    cdef readonly size_t functions, lines, inlines, ranges
    cdef uint64_t[::1] f_address, f_size
    cdef uint32_t[::1] f_name, f_first_line, f_end_line, f_first_inline, f_end_inline
    cdef uint8_t[::1] f_orphan
    cdef uint64_t[::1] l_address
    cdef uint32_t[::1] l_size, l_line, l_file, l_discriminator
    cdef bint discriminators
    cdef uint16_t[::1] i_depth
    cdef uint32_t[::1] i_name, i_file, i_line, i_first_range
    cdef uint64_t[::1] r_address, r_size
    cdef int grow_functions(self) except -1
    cdef int grow_lines(self) except -1
    cdef int grow_inlines(self) except -1
    cdef int grow_ranges(self) except -1
    cdef int begin(self, uint64_t low, uint64_t high, uint32_t name, bint orphan) except -1
