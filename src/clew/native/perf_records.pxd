from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from clew.native.cursor cimport Cursor

cdef class Splitter(Cursor):
    cdef const uint64_t[::1] events, ids
    cdef const uint32_t[::1] owners
    cdef uint8_t[::1] action
    cdef uint32_t[::1] trailer, time_back
    cdef uint64_t[::1] s_offset, s_time, s_period, s_ip, s_chain, s_pc, s_sp, s_registers, s_stack
    cdef uint64_t[::1] r_offset, r_end, r_time
    cdef uint32_t[::1] s_count, s_size, r_kind
    cdef int32_t[::1] s_pid, s_tid, s_cpu
    cdef uint16_t[::1] s_misc, s_event, r_misc
    cdef uint8_t[::1] s_abi
    cdef size_t event_count, room, sample_room, record_room, id_at, id_back, following, stop_at
    cdef bint samples
    cdef list sample_columns, record_columns
    cdef readonly size_t at, sample_count, record_count, problem_count, unknown
    cdef readonly list problems
    cdef int split_on(self) except -1
    cdef int64_t owner(self, uint64_t value) except? -1
    cdef int record(self, uint64_t kind, uint64_t misc) except -1
    cdef int skip_words(self, uint64_t count) except -1
    cdef int sample(self, uint64_t misc) except -1
    cdef uint64_t register(self, size_t start, uint64_t index) except? -1
