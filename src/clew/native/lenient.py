"""A reader that always answers: what the bytes say as far as they go, as listing programs read them.

:class:`clew.native.cursor.Cursor` refuses what is cut or too large. A listing that must look like another program's
cannot: there, a number that the data cut short is made of the bytes that are left, LEB128 bits beyond 64 are dropped,
and reading goes on. Each such liberty is noted in ``flaws``, so that the listing's owner can still say that the data
is bad.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import Cursor
    from cython.cimports.libc.stdint import uint8_t, uint64_t
else:
    from clew.native.cursor import Cursor

    uint8_t = uint64_t = cython.longlong

#: Bits of ``flaws``: a LEB128 number that does not end, one that does not fit, an encoded pointer that is cut.
UNENDED = 1
OVERSIZED = 2
CUT = 4


@cython.cclass
class Lenient(Cursor):
    """A cursor whose reads never fail and never pass ``end``.

    ``address`` is where the data is loaded; pc-relative pointers stand on it. ``address_size`` is the width in bytes of
    pointers whose encoding does not state one.
    """

    def __init__(self, data, address, address_size, big):
        Cursor.__init__(self, data, 0, None, big)
        self.address = address
        self.address_size = address_size
        self.flaws = 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def some(self, size: cython.size_t) -> uint64_t:
        """An unsigned number of up to 8 bytes: ``size`` of them, or those that are left."""
        left: cython.size_t = self.end - self.pos if self.pos < self.end else 0
        return self.fixed(size if size < left else left)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def leb(self, signed: cython.bint) -> uint64_t:
        """A LEB128 number's low 64 bits (of a signed one: its two's complement)."""
        value: uint64_t = 0
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        shift: cython.uint = 0
        byte: uint8_t
        lost: uint8_t
        while self.pos < self.end:
            byte = self.data[self.pos]
            self.pos += 1
            lost = 0
            if shift < 63:
                value |= cython.cast(uint64_t, byte & 0x7F) << shift
            elif shift == 63:
                value |= cython.cast(uint64_t, byte & 1) << 63
                lost = byte & 0x7E
            else:
                lost = byte & 0x7F
            if shift >= 63 and lost != ((0x7E if shift == 63 else 0x7F) if signed and value >> 63 else 0):
                self.flaws |= OVERSIZED
            if shift <= 63:
                shift += 7
            if byte < 0x80:
                if signed and byte & 0x40 and shift < 64:
                    value |= (ones << shift) & ones
                return value
        self.flaws |= UNENDED
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def pass_over(self, count: uint64_t) -> cython.int:
        """Moves on by ``count`` bytes, or to the end."""
        if count > self.end - self.pos:
            self.pos = self.end
        else:
            self.pos += count
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def pointer_size(self, encoding: uint8_t) -> cython.int:
        """The width of a pointer encoding (LSB 5, 10.5.1); LEB128 formats count as addresses, as readelf has it."""
        form: uint8_t = encoding & 7
        if form == 2:
            return 2
        if form == 3:
            return 4
        if form == 4:
            return 8
        return self.address_size

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def pointer(self, encoding: uint8_t) -> uint64_t:
        """A pointer in ``encoding``: signed or not, absolute or pc-relative; every other base counts as absolute.

        One that is cut is 0 and takes all that is left.
        """
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        size: cython.size_t = self.pointer_size(encoding)
        at: cython.size_t = self.pos
        value: uint64_t
        if self.pos >= self.end or self.end - self.pos < size:
            self.flaws |= CUT
            self.pos = self.end
            return 0
        value = self.fixed(size)
        # Widths of 5 to 7 bytes come from odd address sizes only; readelf does not extend their sign.
        if encoding & 0x08 and size <= 4 and value >> (8 * size - 1):
            value |= (ones << (8 * size)) & ones
        if encoding & 0x70 == 0x10:
            value = (value + self.address + at) & ones
        return value
