from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef class Rulebook:
    cdef readonly size_t count, cell_count
    cdef readonly size_t budget, stamina
    cdef size_t work
    cdef size_t draft_count
    # One element a rule.
    cdef uint8_t[::1] cfa_kind
    cdef uint32_t[::1] cfa_register, context, hash, first, size
    cdef int64_t[::1] cfa_value
    # One element a cell: a register's rule within a rule, sorted by register.
    cdef uint32_t[::1] cell_register
    cdef uint8_t[::1] cell_kind
    cdef int64_t[::1] cell_value
    cdef int32_t[::1] slots
    # The rule being put together.
    cdef uint32_t[::1] draft_register
    cdef uint8_t[::1] draft_kind
    cdef int64_t[::1] draft_value
    cdef uint8_t draft_cfa_kind
    cdef uint32_t draft_cfa_register, draft_context
    cdef int64_t draft_cfa_value

    cdef int32_t intern(self) except -2
    cdef bint same(self, size_t rule) except -1
    cdef int load(self, size_t rule) except -1
    cdef int put(self, uint32_t register, uint8_t kind, int64_t value) except -1
    cdef int grow(self) except -1
    cdef int32_t with_cfa(self, size_t rule, uint8_t kind, uint32_t register, int64_t value) except -2
    cdef int32_t with_register(self, size_t rule, uint32_t register, uint8_t kind, int64_t value) except -2
    cdef int32_t with_restored(self, size_t rule, size_t initial, uint32_t register) except -2
    cdef int32_t with_context(self, size_t rule, uint32_t context) except -2
    cdef int32_t with_window(self, size_t rule, int64_t word) except -2
