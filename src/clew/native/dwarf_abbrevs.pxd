from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from clew.native.cursor cimport Cursor

cdef class AbbrevTable:
    cdef dict sparse
    cdef uint32_t[::1] direct
    cdef readonly size_t count
    cdef uint32_t[::1] tag
    cdef uint8_t[::1] children, role, sibling
    cdef uint32_t[::1] first, first_step
    cdef uint32_t[::1] name, form
    cdef int64_t[::1] constant
    cdef int32_t[::1] step
    cdef size_t specs, steps
    cdef read(self, Cursor cursor, int address_size, int offset_size, int version)
    cdef int grow(self, size_t count) except -1
    cdef int grow_specs(self, size_t count) except -1
    cdef int add_step(self, int32_t step) except -1
    cdef Py_ssize_t find(self, uint64_t code) except -2
