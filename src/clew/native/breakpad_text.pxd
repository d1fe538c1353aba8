from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from clew.native.textbuffer cimport TextBuffer

cdef class SymbolText(TextBuffer):
    cdef const uint64_t[::1] f_address, f_size, l_address, r_address, r_size, p_address
    cdef const uint32_t[::1] f_parameter, f_line, f_end_line, f_inline, f_end_inline, l_size, l_line, l_file
    cdef const uint32_t[::1] i_name, i_file, i_line, i_range, p_parameter
    cdef const uint16_t[::1] i_depth
    cdef const uint8_t[::1] f_multiple, p_multiple
    cdef uint32_t[::1] file_number, name_number
    cdef const unsigned char[::1] given
    cdef const long long[::1] cuts
    cdef size_t at, stop, first, line_at, inline_at, levels
    cdef uint64_t low, high, from_, upto
    cdef bint inside
    cdef int mark(self) except -1
    cdef int frame(self, size_t i) except -1
    cdef bint part(self, uint64_t address, uint64_t size) except -1
    cdef int head(self) except -1
    cdef int name(self, size_t i) except -1
    cdef int tail(self) except -1
    cdef int line(self, unsigned char[::1] data, uint64_t address, uint64_t size, uint32_t number, uint32_t file) except -1
    cdef int inline(self, size_t k) except -1
    cdef int public(self) except -1
