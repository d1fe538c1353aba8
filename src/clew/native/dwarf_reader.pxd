from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from clew.native.dwarf_assemble cimport Assembler
from clew.native.dwarf_files cimport FileBook
from clew.native.dwarf_lines cimport LineReader
from clew.native.dwarf_names cimport NameFinder
from clew.native.dwarf_ranges cimport RangeReader
from clew.native.dwarf_scopes cimport ScopeWalker
from clew.native.dwarf_units cimport UnitTable

cdef class UnitReader:
    cdef readonly UnitTable units
    cdef readonly ScopeWalker walker
    cdef readonly NameFinder names
    cdef readonly LineReader lines
    cdef readonly FileBook files
    cdef readonly RangeReader claims
    cdef readonly list problems
    cdef public dict address_ranges
    cdef set kept
    cdef uint8_t[::1] paid, claimed
    cdef int64_t line_budget
    cdef uint32_t[::1] numbers
    cdef uint64_t root(self, size_t unit, size_t attribute, uint64_t default) noexcept
    cdef bint has(self, size_t unit, size_t attribute) noexcept
    cdef object text(self, NameFinder names, size_t unit, size_t attribute)
    cdef uint64_t address(self, size_t unit, size_t attribute) except? -1
    cpdef put_together(self, size_t unit, ScopeWalker walker, NameFinder names, size_t part, Assembler assembler, object section=*)
