from libc.stdint cimport int32_t, int64_t, uint32_t

cdef class ExpressionBook:
    cdef const unsigned char[::1] data
    cdef readonly size_t count
    cdef uint32_t[::1] at, size
    cdef int32_t[::1] slots
    cdef int64_t number(self, size_t at, size_t size) except -1
