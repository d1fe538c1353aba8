from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from clew.native.cursor cimport Cursor

cdef class RangeReader:
    cdef Cursor ranges, rnglists, addresses
    cdef const uint64_t[::1] code_start, code_end
    cdef uint64_t[::1] low, high
    cdef readonly size_t count
    cdef size_t recent
    cdef public int64_t budget
    cdef public int address_size, offset_size
    cdef public uint64_t base, addr_base, rnglists_base, ranges_base
    cdef uint64_t address(self, uint64_t index) except? -1
    cdef Py_ssize_t code_at(self, uint64_t address) except -2
    cdef int add(self, uint64_t low, uint64_t high) except -1
    cdef int grow(self, size_t count) except -1
    cdef int spend(self) except -1
    cdef int read_list(self, uint64_t form, uint64_t value, int version) except -1
    cdef int read_ranges(self, uint64_t offset) except -1
    cdef int read_rnglist(self, uint64_t offset) except -1
    cdef uint64_t rnglist_offset(self, uint64_t index) except? -1
