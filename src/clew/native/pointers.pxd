from libc.stdint cimport uint8_t, uint64_t

from clew.native.cursor cimport Cursor

cdef unsigned int OMIT

cdef class Pointers(Cursor):
    cdef readonly uint64_t address
    cdef readonly size_t address_size
    cdef uint64_t text_base, data_base, function_base
    cdef bint has_text, has_data
    cdef uint64_t encoded(self, uint8_t encoding, size_t size) except? -1
