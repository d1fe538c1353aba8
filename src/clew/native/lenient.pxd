from libc.stdint cimport uint8_t, uint64_t

from clew.native.cursor cimport Cursor

cdef class Lenient(Cursor):
    cdef readonly uint64_t address
    cdef readonly unsigned int address_size
    cdef unsigned int flaws
    cdef uint64_t some(self, size_t size) except? -1
    cdef uint64_t leb(self, bint signed) except? -1
    cdef int pass_over(self, uint64_t count) except -1
    cdef int pointer_size(self, uint8_t encoding) except -1
    cdef uint64_t pointer(self, uint8_t encoding) except? -1
