from libc.stdint cimport uint32_t, uint64_t

from clew.native.dwarf_line_machine cimport LineMachine

cdef class LineReader(LineMachine):
    cdef bint merge
    cdef size_t out_room
    cdef uint64_t[::1] out_address
    cdef uint32_t[::1] out_line, out_file, out_disc
