from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from clew.native.dwarf_abbrevs cimport AbbrevBook
from clew.native.dwarf_forms cimport FormCursor
from clew.native.dwarf_ranges cimport RangeReader
from clew.native.dwarf_units cimport UnitTable

cdef class ScopeWalker:
    cdef readonly UnitTable units
    cdef FormCursor cursor
    cdef readonly RangeReader ranges
    cdef readonly size_t count
    cdef readonly list problems
    cdef uint64_t[::1] name_die
    cdef uint16_t[::1] level
    cdef uint32_t[::1] call_file, call_line, first_range
    cdef int32_t[::1] context
    cdef uint16_t[::1] around, nest
    cdef uint64_t unit_start
    cdef bint has_low, has_high, high_is_size, has_ranges
    cdef int pass_over(self, FormCursor cursor, AbbrevBook abbrevs, size_t found, bint leap) except -1
    cdef int32_t read_scope(self, FormCursor cursor, AbbrevBook abbrevs, size_t found, uint64_t entry, int32_t level) except -2
    cdef uint64_t reference(self, uint64_t form, uint64_t value, uint64_t end) noexcept
    cdef uint64_t address(self, uint32_t form, uint64_t value) except? -1
    cdef int sibling_size(self, AbbrevBook abbrevs, size_t found) except -1
    cdef int grow(self) except -1
    cdef int walk_tree(self, FormCursor cursor, uint32_t table) except -1

cdef bint is_index(uint32_t form) noexcept
