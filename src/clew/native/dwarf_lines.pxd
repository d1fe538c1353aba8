from libc.stdint cimport uint32_t, uint64_t

from clew.native.dwarf_line_machine cimport LineMachine

cdef class LineReader(LineMachine):
    cdef bint merge
    cdef size_t scratch_room
    cdef list scratch
    # The rows that count: in the columns of the machine, or in those of scratch.
    cdef uint64_t[::1] out_address
    cdef uint32_t[::1] out_line, out_file, out_disc, order
    cdef size_t read_rows(self, uint64_t offset, int address_size, list problems) except? -1
