from libc.stdint cimport int32_t, uint32_t, uint64_t

from clew.native.pointers cimport Pointers

cdef class RowColumns(Pointers):
    cdef public uint32_t args_size
    cdef size_t row_count, row_room, easy_rows
    cdef uint64_t[::1] row_start
    cdef uint32_t[::1] row_rule, row_args
    cdef bint any_args
    cdef uint32_t[::1] number_of, numbered
    cdef size_t number_count

    cdef int prepare_row(self) except -1
    cdef uint32_t give_number(self, int32_t rule) except 0
