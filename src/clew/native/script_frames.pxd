from clew.native.cursor cimport Cursor
from libc.stdint cimport uint32_t, uint64_t

cdef class FrameNumbers(Cursor):
    cdef uint64_t odd
    cdef size_t count, used
    cdef int bits
    cdef uint32_t[::1] slots, spaces, numbers
    cdef uint64_t[::1] addresses
    cdef uint32_t mode_space(self, int mode, uint32_t space) noexcept
    cdef int chain(self, size_t count, uint32_t space, size_t most) except -1
    cdef int reserve(self, size_t more) except -1
    cdef int add(self, uint32_t space, uint64_t address) except -1
    cdef int grow(self) except -1
