from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef class StepBook:
    cdef readonly size_t count, cell_count
    # One element a step.
    cdef uint8_t[::1] cfa_slot, return_slot, flags, plt
    cdef int64_t[::1] cfa_value
    cdef uint64_t[::1] named
    cdef uint32_t[::1] first, size
    # One element a cell: a register's rule within a step.
    cdef uint8_t[::1] cell_slot, cell_kind
    cdef int64_t[::1] cell_value
