from libc.stdint cimport int64_t, uint64_t

cdef class Fields:
    cdef const unsigned char[::1] data, words
    cdef unsigned char[::1] digits
    cdef uint64_t[::1] field
    cdef int64_t[::1] counts
    cdef readonly size_t lines
    cdef readonly list told
    cdef size_t pos, end, stop, next, at
    cdef bint is_large, is_negative, odd
    cdef int flaw(self, size_t kind) except -1
    cdef int enter(self) except -1
    cdef int carriage_return(self) except -1
    cdef int blanks(self) except -1
    cdef bint word(self, size_t number, size_t length) except -1
    cdef bint at_blank(self) except -1
    cdef bint hexadecimal(self, size_t at) except -1
    cdef bint decimal(self, size_t at) except -1
    cdef bint reference(self, size_t at, uint64_t none) except -1
    cdef size_t name(self) except -1
    cdef int finish(self) except -1
    cdef size_t count_fields(self) except -1
    cdef uint64_t plain_hex(self) noexcept
    cdef uint64_t plain_natural(self, unsigned char closing) noexcept
