from libc.stdint cimport uint8_t, uint64_t

from clew.native.steptable cimport StepTable

cdef class ModuleMap:
    cdef readonly object owner
    cdef const uint64_t[::1] start, end, bias
    cdef list tables
    cdef Py_ssize_t recent
    cdef StepTable recent_table
    cdef bint disjoint
    cdef uint8_t[::1] asked
    cdef Py_ssize_t at(self, uint64_t address) except -2
