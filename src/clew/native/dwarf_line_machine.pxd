from libc.stdint cimport int64_t, uint32_t, uint64_t

from clew.native.dwarf_line_program cimport LineProgram

cdef int DONE, FULL

cdef class LineMachine(LineProgram):
    cdef bint any_code, discriminators, unsorted
    cdef const uint64_t[::1] code_start, code_end
    # What special opcodes do, and with which numbers of the header.
    cdef uint64_t[::1] advances
    cdef uint32_t[::1] line_deltas
    cdef unsigned int steps_for
    # The registers of the machine, the opcode that is run, and where the sequence began.
    cdef uint64_t address, operation, mask
    cdef uint32_t line, file, discriminator
    cdef size_t at, start
    cdef list defined
    # Rows, and of each sequence its rows and addresses.
    cdef size_t count, row_room, sequences, sequence_room, backwards
    cdef uint64_t[::1] row_address, low, high
    cdef uint32_t[::1] row_line, row_file, row_disc, first, last

    cdef int begin(self) except -1
    cdef int tabulate(self) except -1
    cdef void restart(self) noexcept nogil
    cdef int run(self) except -1 nogil
    cdef uint64_t special(self, unsigned int opcode) except? -1 nogil
    cdef uint64_t advanced(self, uint64_t address, uint64_t operations) noexcept nogil
    cdef int standard(self, unsigned int opcode) except -1 nogil
    cdef int extended(self) except -1 nogil
    cdef int define(self, size_t offset) except -1 with gil
    cdef int end_sequence(self, uint64_t address) except -1 nogil
    cdef int is_code(self, uint64_t address) except -1 nogil
