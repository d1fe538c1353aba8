from libc.stdint cimport int32_t, uint64_t

cdef class StepTable:
    cdef readonly object owner
    cdef const uint64_t[::1] start
    cdef int32_t[::1] step
    cdef uint64_t[::1] recent
    cdef Py_ssize_t row(self, uint64_t address) except -2
