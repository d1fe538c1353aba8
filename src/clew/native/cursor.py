"""A bounds-checked reader of bytes: fixed-width numbers of either byte order and LEB128.

Every reader of the compiled core stands on it. Reads past ``end`` raise :class:`Truncated`; nothing is read beyond it.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.stdint import int64_t, uint64_t
else:
    int64_t = cython.longlong
    uint64_t = cython.ulonglong

COMPILED = bool(cython.compiled)

#: All 64 bits set. A C variable once compiled: Cython would make a Python object of the literal at each use.
ONES = 0xFFFFFFFFFFFFFFFF
#: 32 bits set; as a length it announces a 64-bit length (DWARF 5, 7.4).
WORD = 0xFFFFFFFF
#: 2^60 over the golden ratio, odd: the multiplier of the core's hashes (Knuth, 6.4).
SPREAD = 0x9E3779B97F4A7C1


class Malformed(Exception):
    """What was read makes no sense. Internal to the core: callers turn it into a clew.Problem or a clew.Error."""


class Truncated(Malformed):
    """The bytes end before the thing that they should hold."""


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def as_signed(value: uint64_t) -> int64_t:
    """The 64-bit two's-complement reading of an unsigned number, the same compiled and not."""
    if value >> 63:
        return -1 - cython.cast(int64_t, ONES - value)
    return cython.cast(int64_t, value)


@cython.cclass
class Cursor:
    """A position in read-only bytes, with the end that it may not pass.

    Args:
        data: the bytes (any contiguous buffer).
        pos, end: half-open window to read, ``0 <= pos <= end <= len(data)``.
        big: whether numbers are big-endian.
    """

    def __init__(self, data, pos=0, end=None, big=False):
        self.data = data
        limit = len(data)
        self.end = limit if end is None else min(end, limit)
        self.pos = pos
        self.big = big

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=True)
    def fixed(self, size: cython.size_t) -> uint64_t:
        """An unsigned number of 0 to 8 bytes."""
        value: uint64_t = 0
        i: cython.size_t
        if self.pos > self.end or self.end - self.pos < size or size > 8:
            raise Truncated("the data ends inside a number")
        if size == 4 and not self.big:
            value = (
                cython.cast(uint64_t, self.data[self.pos])
                | cython.cast(uint64_t, self.data[self.pos + 1]) << 8
                | cython.cast(uint64_t, self.data[self.pos + 2]) << 16
                | cython.cast(uint64_t, self.data[self.pos + 3]) << 24
            )
        elif self.big:
            for i in range(size):
                value = value << 8 | self.data[self.pos + i]
        else:
            for i in range(size):
                value |= cython.cast(uint64_t, self.data[self.pos + i]) << (8 * i)
        self.pos += size
        return value

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=True)
    def fixed_signed(self, size: cython.size_t) -> int64_t:
        """A two's-complement number of 1 to 8 bytes."""
        value: uint64_t = self.fixed(size)
        if 0 < size < 8 and value >> (8 * size - 1):
            value |= (ONES << (8 * size)) & ONES
        return as_signed(value)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=True)
    def uleb(self) -> uint64_t:
        """An unsigned LEB128 number (DWARF 5, 7.6). Bits beyond 64 are an error unless they are zero."""
        value: uint64_t = 0
        shift: cython.uint = 0
        byte: cython.uchar
        while True:
            if self.pos >= self.end:
                raise Truncated("the data ends inside a LEB128 number")
            byte = self.data[self.pos]
            self.pos += 1
            if shift < 63 or (shift == 63 and byte & 0x7E == 0):
                value |= cython.cast(uint64_t, byte & 0x7F) << shift
            elif byte & 0x7F:
                raise Malformed("a LEB128 number exceeds 64 bits")
            if byte < 0x80:
                return value
            if shift < 256:
                shift += 7

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=True)
    def sleb(self) -> int64_t:
        """A signed LEB128 number (DWARF 5, 7.6). Bits beyond 64 are an error unless they repeat the sign."""
        value: uint64_t = 0
        shift: cython.uint = 0
        byte: cython.uchar
        sign: cython.uchar
        while True:
            if self.pos >= self.end:
                raise Truncated("the data ends inside a LEB128 number")
            byte = self.data[self.pos]
            self.pos += 1
            if shift < 63:
                value |= cython.cast(uint64_t, byte & 0x7F) << shift
            else:
                sign = 0x7F if (byte & 1 if shift == 63 else value >> 63) else 0
                if byte & 0x7F != sign:
                    raise Malformed("a LEB128 number exceeds 64 bits")
                if shift == 63:
                    value |= cython.cast(uint64_t, byte & 1) << 63
            if byte < 0x80:
                if shift < 57 and byte & 0x40:
                    value |= (ONES << (shift + 7)) & ONES
                return as_signed(value)
            if shift < 256:
                shift += 7

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def skip(self, count: uint64_t) -> cython.int:
        """Moves on without reading."""
        if self.pos > self.end or count > self.end - self.pos:
            raise Truncated("the data ends before a length that it states")
        self.pos += count
        return 0

    def read_fixed(self, size: cython.size_t):
        """:meth:`fixed` for Python callers."""
        return self.fixed(size)

    def read_uleb(self):
        """:meth:`uleb` for Python callers."""
        return self.uleb()

    def read_sleb(self):
        """:meth:`sleb` for Python callers."""
        return self.sleb()
