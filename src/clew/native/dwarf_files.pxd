from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from clew.native.dwarf_line_tables cimport LineTables

cdef class FileBook:
    cdef readonly LineTables tables
    cdef object strings, line_strings, supplementary, offsets
    cdef readonly list files
    cdef dict numbers, known
    cdef uint32_t[::1] map
    cdef uint32_t[::1] stamp
    cdef uint32_t turn
    cdef readonly size_t limit
    cdef object directory, name
    cdef uint64_t offsets_base
    cdef int64_t budget
    cdef tuple defined
    cdef begin(self, uint64_t offset, object directory, object name, uint64_t offsets_base, tuple defined)
    cdef int use(self, uint32_t number) except -1
    cdef uint32_t number_of(self, uint32_t number) except? -1
    cdef object text(self, uint8_t kind, uint64_t number)
