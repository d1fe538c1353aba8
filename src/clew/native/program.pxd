from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from clew.native.cies cimport CieRecord
from clew.native.expressionbook cimport ExpressionBook
from clew.native.rows cimport RowColumns
from clew.native.rulebook cimport Rulebook

cdef class Interpreter(RowColumns):
    cdef readonly Rulebook rules
    cdef readonly ExpressionBook expressions
    cdef int dialect
    cdef list initials
    cdef uint64_t[::1] near, far
    cdef int64_t near_mask
    cdef int32_t[::1] stack
    cdef size_t depth
    # Of the CIE in force.
    cdef object current
    cdef uint64_t code_alignment, mask
    cdef int64_t data_alignment
    cdef int32_t initial
    cdef unsigned int cie_address_size, encoding
    # Where the program stands.
    cdef public uint64_t location

    cdef int enter(self, CieRecord record, size_t index) except -1
    cdef int32_t execute(self, size_t at, size_t end, uint64_t limit, int32_t rule, bint emit) except -1
    cdef int32_t far_step(self, int32_t rule, unsigned int what, uint64_t register, int64_t value) except -1
    cdef int32_t make(self, int32_t rule, unsigned int what, uint32_t register, int64_t value) except -1
    cdef int32_t vendor(self, unsigned int opcode, int32_t rule) except -1
    cdef int64_t factored(self, uint64_t value) except? -1
    cdef int64_t factored_signed(self, int64_t value) except? -1
    cdef int emit(self, uint64_t start, int32_t rule) except -1
    cdef int32_t operate(self, unsigned int opcode, int32_t rule) except -1
    cdef int64_t expression(self) except? -1
