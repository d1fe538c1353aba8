from libc.stdint cimport int64_t, uint32_t, uint64_t

from clew.native.dwarf_assembly cimport Assembly
from clew.native.dwarf_files cimport FileBook
from clew.native.dwarf_lines cimport LineReader
from clew.native.dwarf_ranges cimport RangeReader
from clew.native.dwarf_scopes cimport ScopeWalker

cdef class Assembler(Assembly):
    cdef readonly bint exceeded
    cdef int64_t visits, output
    cdef size_t rows, file_limit
    cdef uint64_t[::1] row_address
    cdef uint32_t[::1] row_line, row_file, row_discriminator, file_map
    cdef uint32_t[::1] emitted, natural, place
    cdef int add_unit(self, ScopeWalker walker, uint32_t[::1] name, LineReader lines, size_t rows, FileBook files, RangeReader claims) except -1
    cdef size_t row_at(self, uint64_t address) noexcept
    cdef int add_lines(self, uint64_t low, uint64_t high) except -1
    cdef uint32_t file_of(self, uint32_t number) noexcept
    cdef add_orphans(self, size_t began, RangeReader claims)
    cdef add_orphan(self, uint64_t low, uint64_t high)

cdef put_in_order(RangeReader claims)
