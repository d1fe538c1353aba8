from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef class CfiLines:
    cdef const unsigned char[::1] data
    cdef unsigned char[::1] digits
    cdef size_t end, count, text_count, pos
    cdef readonly size_t line
    cdef uint8_t[::1] kind
    cdef uint64_t[::1] address, size, text_at
    cdef uint32_t[::1] text, text_line, text_size
    cdef int32_t[::1] slots
    cdef bint odd
    cdef int one(self, size_t at, size_t stop) except -1
    cdef size_t hexadecimal(self, size_t at, size_t stop) except 0
    cdef bint stands(self, size_t at, size_t stop, size_t word, size_t length) except -1
    cdef uint32_t intern(self, size_t at, size_t size) except? 0xFFFFFFFF
    cdef int grow(self) except -1

cdef class CfiSteps:
    cdef uint64_t[::1] keys
    cdef int32_t[::1] states
    cdef uint8_t[::1] marks
    cdef size_t count
    cdef int put(self, uint64_t key, int32_t state, bint flawed) except -1
