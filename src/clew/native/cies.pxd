from libc.stdint cimport int64_t, uint64_t

from clew.native.pointers cimport Pointers

cdef class CieRecord:
    cdef readonly size_t offset, end, program
    cdef readonly unsigned int address_size, segment_size, version
    cdef readonly unsigned int fde_encoding, lsda_encoding, personality_encoding
    cdef readonly bint sized, signal, key_b, tagged, opaque
    cdef bint usual
    cdef readonly uint64_t code_alignment, personality
    cdef readonly int64_t data_alignment
    cdef readonly unsigned int return_address
    cdef readonly bytes augmentation, augmentation_data
    cdef readonly object error

cdef class CieReader(Pointers):
    pass
