from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from clew.native.program cimport Interpreter

cdef class Tabulator(Interpreter):
    cdef uint32_t[::1] first_row
    cdef readonly list failed
    cdef bint any_rows
    cdef bint in_order, note_first
    cdef size_t count
    cdef readonly bint overlaps
    cdef readonly list problems
    cdef readonly size_t problem_count
    cdef list cies
    cdef size_t turn, mark
    cdef uint64_t reach
    cdef uint32_t[::1] offset, finish, program
    cdef const int64_t[::1] order
    cdef int32_t[::1] cie
    cdef uint64_t[::1] start, stop
    cdef int run_on(self) except -1
