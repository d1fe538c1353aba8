from libc.stdint cimport int64_t, uint64_t

from clew.native.cursor cimport Cursor

cdef class LineProgram(Cursor):
    cdef readonly unsigned int version, width, address_size
    cdef readonly unsigned int min_instruction, most_operations, line_range, opcode_base
    cdef readonly int64_t line_base
    cdef readonly size_t lengths, tables, program, unit_end
    cdef readonly bint cut
    cdef unsigned int default_address_size
    cdef int read_header(self, uint64_t offset) except -1
    cdef uint64_t address_mask(self) noexcept
