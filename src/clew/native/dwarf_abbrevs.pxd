from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from clew.native.cursor cimport Cursor
from clew.native.dwarf_forms cimport FormCursor

cdef class AbbrevBook:
    cdef readonly object data
    cdef uint16_t[::1] tag, name, form
    cdef uint8_t[::1] children, role, sibling
    cdef uint32_t[::1] first, first_step
    cdef dict constants
    cdef int32_t[::1] step
    cdef uint32_t[::1] base, size
    cdef uint8_t[::1] is_dense
    cdef list sparse
    cdef dict known
    cdef size_t count, specs, steps, tables
    cdef int64_t budget
    cdef uint32_t table(self, uint64_t offset, int address_size, int offset_size, int version) except? -1
    cdef uint32_t read(self, Cursor cursor, int address_size, int offset_size, int version) except? -1
    cdef int grow(self, size_t count) except -1
    cdef int grow_specs(self, size_t count) except -1
    cdef int add_step(self, int32_t step) except -1
    cdef uint64_t value(self, FormCursor cursor, size_t spec) except? -1
    cdef Py_ssize_t find(self, uint32_t table, uint64_t code) except -2
