from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from clew.native.dwarf_files cimport FileBook
from clew.native.dwarf_lines cimport LineReader
from clew.native.dwarf_ranges cimport RangeReader
from clew.native.dwarf_scopes cimport ScopeWalker

cdef class Assembler:
    cdef readonly size_t functions, lines, inlines, ranges
    cdef uint64_t[::1] f_address, f_size
    cdef uint32_t[::1] f_name, f_first_line, f_end_line, f_first_inline, f_end_inline
    cdef uint8_t[::1] f_orphan
    cdef uint64_t[::1] l_address
    cdef uint32_t[::1] l_size, l_line, l_file, l_discriminator
    cdef bint discriminators
    cdef uint16_t[::1] i_depth
    cdef uint32_t[::1] i_name, i_file, i_line, i_first_range
    cdef uint64_t[::1] r_address, r_size
    cdef size_t rows, file_limit
    cdef uint64_t[::1] row_address
    cdef uint32_t[::1] row_line, row_file, row_discriminator, file_map
    cdef uint32_t[::1] emitted, natural, place
    cdef int add_unit(self, ScopeWalker walker, uint32_t[::1] name, LineReader lines, size_t rows, FileBook files, RangeReader claims) except -1
    cdef int grow_functions(self) except -1
    cdef int grow_lines(self) except -1
    cdef int grow_inlines(self) except -1
    cdef int grow_ranges(self) except -1
    cdef size_t row_at(self, uint64_t address) noexcept
    cdef int add_lines(self, uint64_t low, uint64_t high) except -1
    cdef uint32_t file_of(self, uint32_t number) noexcept
    cdef add_orphans(self, size_t began, RangeReader claims)
    cdef add_orphan(self, uint64_t low, uint64_t high)
    cdef int begin(self, uint64_t low, uint64_t high, uint32_t name, bint orphan) except -1
