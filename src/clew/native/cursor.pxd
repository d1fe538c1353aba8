from libc.stdint cimport int64_t, uint64_t

cdef uint64_t ONES, WORD, SPREAD

cdef int64_t as_signed(uint64_t value) noexcept nogil

cdef class Cursor:
    cdef const unsigned char[::1] data
    cdef public size_t pos
    cdef public size_t end
    cdef public bint big
    cdef uint64_t fixed(self, size_t size) except? -1 nogil
    cdef int64_t fixed_signed(self, size_t size) except? -1 nogil
    cdef uint64_t uleb(self) except? -1 nogil
    cdef int64_t sleb(self) except? -1 nogil
    cdef int skip(self, uint64_t count) except -1 nogil
