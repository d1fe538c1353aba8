from libc.stdint cimport uint8_t, uint64_t

from clew.native.lenient cimport Lenient

cdef class Cie:
    cdef size_t at
    cdef bint ahead, sized
    cdef size_t columns
    cdef uint64_t cfa_register, cfa_offset, return_address
    cdef uint64_t code_factor, data_factor
    cdef uint8_t encoding
    cdef size_t address_size, segment_size
    cdef object registers, offsets, kinds

cdef class CieReader(Lenient):
    cdef readonly list problems
    cdef bint eh
    cdef size_t at, augmentation, augmentation_end, extra_at, extra
    cdef unsigned int version
    cdef int note(self, str text) except -1
    cdef uint64_t masked(self, uint64_t value, size_t size) except? -1
    cdef bint names_cie(self, uint64_t ident, size_t width) except -1
    cdef read_cie(self, size_t at)
    cdef bint read_sizes(self, Cie cie) except -1
    cdef uint64_t factor(self) except? -1
    cdef bint read_augmentation(self, Cie cie) except -1
