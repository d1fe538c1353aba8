from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef class StepBook:
    cdef readonly size_t count, cell_count
    # FIELDS numbers a step: what an application needs stands side by side.
    cdef int64_t[::1] field
    cdef uint64_t[::1] named
    # One element a cell: a register's rule within a step.
    cdef uint8_t[::1] cell_slot, cell_kind
    cdef int64_t[::1] cell_value
    # The same for steps that only load whole words: the slot, and above it the offset from the CFA in words.
    cdef int64_t[::1] cell_load
