from libc.stdint cimport uint8_t, uint64_t

from clew.native.readelf_entries cimport EntryReader

cdef class ProgramReader(EntryReader):
    cdef object describe, pending
    cdef bint aarch64, over, idle
    cdef const unsigned char[::1] sources, operands, deeds, rules
    cdef int discover(self) except -1
    cdef int step(self) except -1
    cdef int advance(self, uint8_t byte, uint8_t code) except -1
    cdef int column(self, uint8_t code, uint8_t deed, uint64_t register) except -1
    cdef int corrupt(self, uint8_t code, uint64_t size) except -1
    cdef int tell(self, uint64_t size) except -1
    cdef int cfa(self, uint8_t code, uint8_t deed, uint64_t register) except -1
    cdef int others(self, uint8_t code, uint8_t deed) except -1
