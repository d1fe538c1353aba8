from clew.native.breakpad_columns cimport Columns

cdef class Scanner(Columns):
    cdef bint inside, has_module
    cdef size_t last_line
    cdef bint plain_line(self) except -1
    cdef int anchor(self, size_t count) except -1
    cdef int record(self) except -1
    cdef int line(self) except -1
    cdef int symbol(self, size_t kind) except -1
    cdef int without_code(self) except -1
    cdef int named(self, size_t kind) except -1
    cdef int inline(self) except -1
    cdef int stack(self, size_t begin) except -1
    cdef int win(self) except -1
