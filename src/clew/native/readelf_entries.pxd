from libc.stdint cimport uint8_t, uint64_t

from clew.native.readelf_cies cimport Cie, CieReader
from clew.native.readelf_rows cimport Rows
from clew.native.textbuffer cimport TextBuffer

cdef class EntryReader(CieReader):
    cdef TextBuffer out
    cdef Rows rows
    cdef dict seen, ahead
    cdef Cie cie
    cdef bint raw, is_cie
    cdef size_t file_address_size, section_size, pointer_width, effort
    cdef uint64_t length, code_factor, data_factor, location
    cdef uint8_t encoding
    cdef bint enter(self) except -1
    cdef bint enter_cie(self, uint64_t ident, size_t width) except -1
    cdef bint enter_fde(self, uint64_t ident, size_t width) except -1
    cdef uint64_t least_column(self, uint64_t register) except? -1
    cdef int adopt(self, Cie cie) except -1
    cdef bint find(self, uint64_t cie_at) except -1
    cdef bint look_ahead(self, size_t at) except -1
    cdef int head(self, uint64_t ident, size_t width, size_t size) except -1
    cdef int cie_line(self, Cie cie) except -1
    cdef int fde_line(self, Cie cie, uint64_t segment, uint64_t size) except -1
    cdef int extra_text(self) except -1
