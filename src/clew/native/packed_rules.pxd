from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef class RulePacker:
    cdef const uint8_t[::1] cfa_kind, cell_kind
    cdef const uint32_t[::1] cfa_register, context, first, size, cell_register
    cdef const int64_t[::1] cfa_value, cell_value
    cdef uint32_t registers, stack_pointer, return_address
    cdef uint64_t saved, same
    cdef bint plain(self, size_t number, uint8_t[::1] out, size_t at) except -1
