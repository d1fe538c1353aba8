from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t

cdef class SymbolIndex:
    cdef const uint64_t[::1] address, size, line_address
    cdef const uint32_t[::1] first_line, end_line, line_size, name, line_file, line, discriminator
    cdef bint has_discriminators
    cdef uint64_t[::1] bound
    cdef int32_t[::1] owner
    cdef int32_t[::1] above, home
    cdef Py_ssize_t function_at(self, uint64_t address) noexcept
    cdef Py_ssize_t line_at(self, size_t function, uint64_t address) noexcept
    cdef Py_ssize_t inline_at(self, uint64_t address) noexcept
    cdef link(self, const uint32_t[::1] first, const uint32_t[::1] end, const uint16_t[::1] depth, size_t deepest)
    cdef flatten(self, const uint64_t[::1] start, const uint64_t[::1] size, const uint32_t[::1] first, const Py_ssize_t[::1] order, const uint32_t[::1] begin, const uint32_t[::1] end)
