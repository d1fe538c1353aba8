from clew.native.readelf_program cimport ProgramReader

cdef class FrameText(ProgramReader):
    cdef bint inside
    cdef int go_on(self) except -1
    cdef int run(self) except -1
    cdef bint leave_cie(self) except -1
