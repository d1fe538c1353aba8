from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from clew.native.modulemap cimport ModuleMap
from clew.native.stepbook cimport StepBook
from clew.native.steptable cimport StepTable

cdef class Stepper:
    cdef readonly object memory
    cdef StepBook book
    # The machine, as Facts say it.
    cdef uint64_t mask, address_mask, code_mask, keep
    cdef size_t word
    cdef bint big, plain, loads_only, sp_is_cfa, strip_always
    cdef size_t sp, pc_slot, slots
    # The frame.
    cdef readonly uint64_t pc, known
    cdef readonly bint interrupted
    cdef bint restarted
    cdef uint64_t[::1] value, fresh
    cdef public uint64_t highest
    cdef public int64_t work
    # What is known to be readable.
    cdef const uint8_t[::1] bytes
    cdef const uint64_t[::1] words
    cdef uint64_t window, window_size
    cdef bint copied
    cdef size_t window_offset
    cdef uint64_t loaded
    # The frames that were left.
    cdef readonly size_t count
    cdef size_t room
    cdef bint with_registers
    cdef size_t width
    cdef uint64_t[::1] out

    cdef int go(self, ModuleMap modules, size_t limit) except -1
    cdef int take(self, uint64_t stack, size_t stack_offset, size_t stack_size, size_t registers_offset, const uint8_t[::1] slots) except -1
    cdef bint behind_copy(self, uint64_t address) noexcept
    cdef int step(self, ModuleMap modules, size_t module, StepTable table, size_t row, size_t number) except -1
    cdef bint load_step(self, size_t module, size_t row, size_t number, uint64_t cfa, int64_t cost) except -1
    cdef int note(self, size_t module, size_t row, uint64_t cfa) except -1
    cdef bint load(self, uint64_t address) except -1
    cdef bint refill(self, uint64_t address) except -1
