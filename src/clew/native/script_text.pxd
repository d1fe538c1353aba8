from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from clew.native.textbuffer cimport TextBuffer

cdef class FrameLines(TextBuffer):
    cdef int what
    cdef uint64_t[::1] begins, ends
    cdef size_t count
    cdef int room(self, size_t more) except -1
    cdef int padded_hex(self, uint64_t value) except -1
    cdef int unknown(self) except -1

cdef class SampleText(TextBuffer):
    cdef FrameLines lines
    cdef object words_of, lines_of
    cdef uint64_t[::1] own_words, line_words
    cdef int what
    cdef size_t at, stop
    cdef const int64_t[::1] order
    cdef const int32_t[::1] cpu
    cdef const uint64_t[::1] time, period, first, last
    cdef const uint8_t[::1] alone
    cdef const uint32_t[::1] numbers, head
    cdef const uint16_t[::1] event
    cdef const unsigned char[::1] heads, events
    cdef const long long[::1] head_cuts, event_cuts
    cdef int fill(self) except -1
    cdef int frames(self, size_t first, size_t end) except -1
    cdef int line(self, size_t number) except -1
    cdef int padded(self, uint64_t value, size_t width) except -1
    cdef int processor(self, int32_t number) except -1
    cdef int seconds(self, uint64_t time) except -1
