from libc.stdint cimport int64_t, uint32_t, uint64_t

from clew.native.cursor cimport Cursor
from clew.native.dwarf_forms cimport FormCursor
from clew.native.dwarf_units cimport UnitTable

cdef class NameFinder:
    cdef readonly UnitTable units
    cdef FormCursor cursor
    cdef object strings, line_strings
    cdef const unsigned char[::1] string_bytes, line_string_bytes, info_bytes
    cdef Cursor offsets
    cdef public NameFinder supplement
    cdef uint64_t[::1] offsets_base
    cdef readonly list names, problems
    cdef NameFinder together
    cdef dict known, numbers
    cdef int64_t budget
    cdef text(self, size_t unit, uint64_t form, uint64_t value)
    cdef cut(self, object section, const unsigned char[::1] data, uint64_t at)
    cdef look(self, uint64_t die, int hops)
    cdef uint32_t number_of(self, uint64_t die) except? -1
    cdef int spend(self, size_t count) except -1
