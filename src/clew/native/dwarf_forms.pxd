from libc.stdint cimport int64_t, uint32_t, uint64_t

from clew.native.cursor cimport Cursor

cdef int LEB, STRING, BLOCK1, BLOCK2, BLOCK4, BLOCK_LEB, INDIRECT

cdef int form_size(uint32_t form, int address_size, int offset_size, int version) except -100 nogil

cdef class FormCursor(Cursor):
    cdef public int address_size, offset_size, version
    cdef public uint32_t form
    cdef uint64_t value(self, uint32_t form, int64_t constant) except? -1 nogil
    cdef int pass_over(self, uint32_t form) except -1 nogil
    cdef int pass_kind(self, int size) except -1 nogil
