from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef class SampleColumns:
    cdef size_t used
    cdef uint64_t[::1] pcs
    cdef int32_t[::1] modules
    cdef uint32_t[::1] first, size
    cdef uint8_t[::1] reason, in_call
    cdef int reserve(self, size_t more) except -1
