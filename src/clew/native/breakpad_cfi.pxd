from libc.stdint cimport uint32_t, uint64_t

from clew.native.textbuffer cimport TextBuffer

cdef class CfiRecords:
    cdef TextBuffer out
    cdef const uint64_t[::1] address, size
    cdef const uint32_t[::1] word
    cdef size_t count, turn
