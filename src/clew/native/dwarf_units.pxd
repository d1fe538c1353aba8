from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from clew.native.dwarf_abbrevs cimport AbbrevBook
from clew.native.dwarf_forms cimport FormCursor

cdef class UnitTable:
    cdef readonly object info
    cdef readonly AbbrevBook abbrevs
    cdef readonly bint big
    cdef readonly size_t count
    cdef public list problems
    cdef uint32_t[::1] tables
    cdef uint64_t[::1] start, die, end, abbrev_offset, dwo_id, root
    cdef uint8_t[::1] version, offset_size, address_size, kind
    cdef uint32_t[::1] root_form
    cdef Py_ssize_t recent
    cdef read(self, FormCursor cursor)
    cdef read_root(self, size_t unit, FormCursor cursor)
    cdef Py_ssize_t find(self, uint64_t offset) except -2
    cdef uint32_t table(self, size_t unit) except? -1
    cpdef uint64_t behind_header(self, size_t unit) noexcept
    cdef int place(self, FormCursor cursor, size_t unit, uint64_t offset) except -1
    cdef FormCursor cursor(self)
