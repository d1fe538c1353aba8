from libc.stdint cimport int64_t, uint64_t

cdef class TextBuffer:
    cdef readonly object store
    cdef unsigned char[::1] data
    cdef size_t size
    cdef readonly size_t pos
    cdef const unsigned char[::1] words
    cdef const long long[::1] bounds
    cdef int reserve(self, size_t count) except -1
    cdef int byte(self, unsigned char value) except -1
    cdef int word(self, size_t number) except -1
    cdef int copy(self, const unsigned char[::1] source, size_t at, size_t end) except -1
    cdef int hex(self, uint64_t value, size_t digits) except -1
    cdef int natural(self, uint64_t value) except -1
    cdef int integer(self, int64_t value, bint plus) except -1
    cdef int pad(self, size_t start, size_t width) except -1
