"""Text made by the megabyte: a growing buffer of bytes, and the few number formats that listings need.

Text that is used over and over (phrases, register names) is handed in once, as numbered *words*; writing one is a
copy. The owner calls :meth:`TextBuffer.take` whenever enough has gathered, so memory stays bounded however long the
listing is.
"""

from array import array
from itertools import accumulate

import cython

if cython.compiled:
    from cython.cimports.libc.stdint import int64_t, uint64_t
else:
    int64_t = uint64_t = cython.longlong

_SPACE = cython.declare(cython.uchar, 0x20)
_PLUS = cython.declare(cython.uchar, 0x2B)
_MINUS = cython.declare(cython.uchar, 0x2D)
_ZERO = cython.declare(cython.uchar, 0x30)
#: Added to a digit's value from ten on: "a" for ten.
_LETTER = cython.declare(cython.uchar, 0x57)


@cython.cclass
class TextBuffer:
    """A buffer that text is appended to.

    Args:
        words: the numbered words, as bytes; their numbers are their places in the list.
        capacity: bytes to begin with; the buffer doubles when something does not fit.
    """

    def __init__(self, words, capacity=1 << 16):
        self.store = bytearray(max(capacity, 64))
        self.data = self.store
        self.size = len(self.store)
        self.pos = 0
        self.words = b"".join(words) or b" "
        self.bounds = array("q", accumulate((len(word) for word in words), initial=0))

    def take(self):
        """The text so far, as bytes; the buffer is empty afterwards."""
        text = bytes(memoryview(self.store)[: self.pos])
        self.pos = 0
        return text

    def append(self, text):
        """Appends any bytes; for the rare, long or foreign: words are faster."""
        self.reserve(len(text))
        self.store[self.pos : self.pos + len(text)] = text
        self.pos += len(text)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve(self, count: cython.size_t) -> cython.int:
        """Makes room for ``count`` more bytes."""
        if self.size - self.pos < count:
            self.store = self.store + bytes(self.size + count)
            self.data = self.store
            self.size = len(self.store)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def byte(self, value: cython.uchar) -> cython.int:
        """One byte."""
        if self.pos >= self.size:
            self.reserve(1)
        self.data[self.pos] = value
        self.pos += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def word(self, number: cython.size_t) -> cython.int:
        """The numbered word."""
        at: cython.size_t = self.bounds[number]
        end: cython.size_t = self.bounds[number + 1]
        pos: cython.size_t
        if self.size - self.pos < end - at:
            self.reserve(end - at)
        pos = self.pos
        while at < end:
            self.data[pos] = self.words[at]
            pos += 1
            at += 1
        self.pos = pos
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def copy(self, source: cython.const[cython.uchar][::1], at: cython.size_t, end: cython.size_t) -> cython.int:
        """The bytes of ``source`` from ``at`` to ``end``."""
        pos: cython.size_t
        if self.size - self.pos < end - at:
            self.reserve(end - at)
        pos = self.pos
        while at < end:
            self.data[pos] = source[at]
            pos += 1
            at += 1
        self.pos = pos
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def hex(self, value: uint64_t, digits: cython.size_t) -> cython.int:
        """Hexadecimal in lower case, at least ``digits`` of them, more where the value needs more."""
        pos: cython.size_t
        nibble: cython.uchar
        while digits < 16 and value >> (4 * digits):
            digits += 1
        if self.size - self.pos < digits:
            self.reserve(digits)
        pos = self.pos + digits
        self.pos = pos
        while digits:
            digits -= 1
            pos -= 1
            nibble = value & 0xF
            self.data[pos] = nibble + (_ZERO if nibble < 10 else _LETTER)
            value >>= 4
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def natural(self, value: uint64_t) -> cython.int:
        """Decimal digits."""
        digits: cython.size_t = 1
        rest: uint64_t = value
        pos: cython.size_t
        while rest >= 10:
            rest //= 10
            digits += 1
        if self.size - self.pos < digits:
            self.reserve(digits)
        pos = self.pos + digits
        self.pos = pos
        while digits:
            digits -= 1
            pos -= 1
            rest = value // 10
            self.data[pos] = _ZERO + cython.cast(cython.uchar, value - rest * 10)
            value = rest
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def integer(self, value: int64_t, plus: cython.bint) -> cython.int:
        """A signed decimal; with ``plus``, a number that is not negative gets its sign too."""
        if value < 0:
            self.byte(_MINUS)
            # One less on the way: the smallest number has no positive twin in 64 bits.
            return self.natural(cython.cast(uint64_t, -(value + 1)) + 1)
        if plus:
            self.byte(_PLUS)
        return self.natural(cython.cast(uint64_t, value))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def pad(self, start: cython.size_t, width: cython.size_t) -> cython.int:
        """Spaces until the text since position ``start`` is ``width`` long, then one more that ends the column."""
        if self.size - self.pos <= width:
            self.reserve(width + 1)
        while self.pos - start < width:
            self.data[self.pos] = _SPACE
            self.pos += 1
        self.data[self.pos] = _SPACE
        self.pos += 1
        return 0
