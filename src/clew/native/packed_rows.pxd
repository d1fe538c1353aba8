from libc.stdint cimport uint16_t, uint32_t, uint64_t

cdef class RowPacker:
    cdef const uint64_t[::1] start
    cdef const uint32_t[::1] rule, number
    cdef uint32_t[::1] page, row
    cdef uint16_t[::1] bucket
    cdef list escape
    cdef size_t page_count, bucket_count, row_count
    cdef Py_ssize_t pack_page(self, size_t row, uint64_t address, uint64_t size) except -1
    cdef Py_ssize_t add(self, uint32_t at, uint32_t number) except -1
