from libc.stdint cimport uint64_t

from clew.native.pointers cimport Pointers

cdef class Census(Pointers):
    cdef readonly uint64_t[::1] counts
    cdef readonly size_t broken
    cdef int program(self, size_t at, size_t end, unsigned int encoding, size_t address_size) except -1
    cdef int uleb_any(self) except -1
