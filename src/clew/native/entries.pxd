from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from clew.native.cies cimport CieReader, CieRecord

cdef class Entries(CieReader):
    cdef readonly bint eh
    cdef readonly list cies
    cdef readonly list problems
    cdef readonly size_t problem_count
    cdef readonly list terminators
    cdef dict cie_at
    cdef readonly size_t count
    cdef readonly bint rising
    cdef readonly size_t empty, program_bytes
    cdef readonly uint64_t least, most
    cdef const uint32_t[::1] words
    cdef bint by_word
    cdef bint any_lsda
    cdef size_t room, at, after, cie_bytes
    cdef Py_ssize_t cie_index
    cdef readonly object columns
    cdef uint32_t[::1] offset, finish, program
    cdef int32_t[::1] cie
    cdef uint64_t[::1] start, stop, lsda
    cdef int keep(self, uint64_t start, uint64_t stop, uint64_t lsda, size_t program) except -1
    cdef int read_fde(self, CieRecord record) except -1
    cdef size_t count_entries(self) except? -1
    cdef int walk_on(self) except -1
    cdef bint is_cie(self, uint64_t ident, size_t width) noexcept
