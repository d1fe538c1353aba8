from libc.stdint cimport int64_t, uint64_t

from clew.native.readelf_columns cimport Columns
from clew.native.textbuffer cimport TextBuffer

cdef int64_t low32(uint64_t value) noexcept

cdef class Rows(Columns):
    cdef TextBuffer out
    cdef object rare_name
    cdef size_t names_at
    cdef int name(self, uint64_t register) except -1
    cdef int number_and_name(self, uint64_t register) except -1
    cdef int odd_name(self, uint64_t register, bint both) except -1
    cdef int title(self, size_t size) except -1
    cdef int row(self, uint64_t location, size_t size) except -1
