from libc.stdint cimport uint8_t, uint32_t, uint64_t

from clew.native.dwarf_line_program cimport LineProgram

cdef class LineTables(LineProgram):
    cdef readonly object error
    cdef size_t count, room, first_file
    cdef uint8_t[::1] kind
    cdef uint64_t[::1] number
    cdef uint32_t[::1] directory

    cdef int keep(self, uint8_t kind, uint64_t number, uint64_t directory) except -1
    cdef int skip_string(self) except -1
    cdef int read_names(self, bint directories) except -1
    cdef int read_entries(self) except -1
    cdef uint64_t field(self, uint64_t form) except? -1
