from libc.stdint cimport int64_t, uint8_t, uint64_t

from clew.native.readelf_cies cimport Cie

cdef class Columns:
    cdef size_t known, allowance, kept
    cdef bint bare, own, titled, cfa_expression
    cdef size_t columns, widest, count, cie_count
    cdef uint64_t cfa_register, cfa_offset, return_address
    cdef unsigned char[::1] kind, cie_kind
    cdef long long[::1] offset, cie_offset, shown, cie_shown
    cdef long long[::1] marks, changes, copies
    cdef size_t marks_size, changes_size, copies_size
    cdef int put(self, size_t register, uint8_t kind, long long offset) except -1
    cdef int change(self, size_t register, uint8_t kind, long long offset) except -1
    cdef int exchange(self, size_t at) except -1
    cdef int drop(self) except -1
    cdef bint widen(self, size_t register) except -1
    cdef int start(self, Cie cie) except -1
    cdef bint keep(self, Cie cie) except -1
    cdef int load(self, Cie cie) except -1
    cdef int discover(self, size_t register) except -1
    cdef int set(self, size_t register, uint8_t kind, uint64_t value) except -1
    cdef int restore(self, size_t register) except -1
    cdef int remember(self) except -1
    cdef bint recall(self) except -1
    cdef bint settle(self) except -1
    cdef bint copy(self, size_t mark) except -1
    cdef bint recall_copy(self) except -1
    cdef int shift(self, size_t start, size_t to) except -1
