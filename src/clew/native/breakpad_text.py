"""The text of ``FUNC``, ``INLINE``, line and ``PUBLIC`` records of a Breakpad symbol file, from columns."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.textbuffer import TextBuffer
    from cython.cimports.libc.stdint import uint8_t, uint16_t, uint32_t, uint64_t
else:
    from clew.native.textbuffer import TextBuffer

    uint8_t = uint16_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import zeros

#: Text is handed over when so much of it has gathered.
_CHUNK = cython.declare(cython.size_t, 1 << 20)
_ONES = cython.declare(uint64_t, 0xFFFFFFFFFFFFFFFF)
_SPACE = cython.declare(cython.uchar, 0x20)
_NEWLINE = cython.declare(cython.uchar, 0x0A)
_ZERO = cython.declare(cython.uchar, 0x30)
#: Added to a digit's value from ten on: "a" for ten.
_LETTER = cython.declare(cython.uchar, 0x57)

_WORDS = [b"FUNC ", b"PUBLIC ", b"INLINE ", b"m "]
_FUNC = cython.declare(cython.size_t, 0)
_PUBLIC = cython.declare(cython.size_t, 1)
_INLINE = cython.declare(cython.size_t, 2)
_MULTIPLE = cython.declare(cython.size_t, 3)

#: The longest line record: two numbers of 16 and 8 hexadecimal digits, two of ten, and four bytes between and behind.
_LONGEST = cython.declare(cython.size_t, 48)


def _views(columns):
    return columns if cython.compiled else [memoryview(np.ascontiguousarray(column)) for column in columns]


@cython.final
@cython.cclass
class SymbolText(TextBuffer):
    """Writes the functions of a map.

    Args:
        functions: address, size (u8), parameter_size (u4), multiple (u1), first_line, end_line, first_inline, end_inline (u4).
        lines: address (u8), size, line, file (u4).
        inlines: depth (u2), name, call_file, call_line, first_range (u4), range_address, range_size (u8).
        files, names: how many there are of each.
    """

    def __init__(self, functions, lines, inlines, files, names):
        TextBuffer.__init__(self, _WORDS, 2 * (1 << 20))
        self.f_address, self.f_size, self.f_parameter, self.f_multiple = _views(functions[:4])
        self.f_line, self.f_end_line, self.f_inline, self.f_end_inline = _views(functions[4:])
        self.l_address, self.l_size, self.l_line, self.l_file = _views(lines)
        self.i_depth, self.i_name, self.i_file, self.i_line, self.i_range = _views(inlines[:5])
        self.r_address, self.r_size = _views(inlines[5:])
        # What is no index of a file or name has the number behind all others.
        self.file_number = zeros(files + 1, "u4")
        self.name_number = zeros(names + 1, "u4")
        self.at = self.stop = self.line_at = self.inline_at = 0
        self.inside = False

    def used(self):
        """Which files and names of inlined calls the text mentions: u4, not 0 where it does; the last one is none of them."""
        self.mark()
        return np.asarray(self.file_number).copy(), np.asarray(self.name_number).copy()

    def number(self, files, names):
        """Sets the number (u4) of each file and of each name of an inlined call."""
        self.file_number, self.name_number = _views([files, names])

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def mark(self) -> cython.int:
        i: cython.size_t
        k: cython.size_t
        file: uint32_t
        none: uint32_t = self.file_number.shape[0] - 1
        no_name: uint32_t = self.name_number.shape[0] - 1
        for i in range(self.f_address.shape[0]):
            if not self.f_size[i]:
                continue
            self.frame(i)
            for k in range(self.f_line[i], self.f_end_line[i]):
                if self.part(self.l_address[k], self.l_size[k]):
                    file = self.l_file[k]
                    self.file_number[file if file < none else none] = 1
            for k in range(self.f_inline[i], self.f_end_inline[i]):
                file = self.i_file[k]
                self.file_number[file if file < none else none] = 1
                file = self.i_name[k]
                self.name_number[file if file < no_name else no_name] = 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def frame(self, i: cython.size_t) -> cython.int:
        """Takes the first and last byte of a function. What goes on beyond the last address is cut there."""
        self.low = self.f_address[i]
        self.high = self.low + (self.f_size[i] - 1) if self.f_size[i] - 1 <= _ONES - self.low else _ONES
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def part(self, address: uint64_t, size: uint64_t) -> cython.bint:
        """Cuts a range to the function at hand, as ``from_`` and ``upto``; False when nothing is left."""
        last: uint64_t
        if size == 0 or address > self.high:
            return False
        last = address + (size - 1) if size - 1 <= _ONES - address else _ONES
        if last < self.low:
            return False
        self.from_ = address if address > self.low else self.low
        self.upto = last if last < self.high else self.high
        return True

    def begin(self, first, end, names, bounds):
        """Goes to the functions from ``first`` to before ``end``, whose names are pieces of ``names``, cut at ``bounds`` (i8)."""
        self.at, self.stop, self.first = first, end, first
        self.given = names
        self.cuts = bounds if cython.compiled else memoryview(bounds)
        self.inside = False

    def more(self):
        """The next piece of their text, about a mebibyte; empty when there is no more."""
        while self.pos < _CHUNK and self.at < self.stop:
            if not self.inside:
                self.head()
            self.tail()
        return self.take()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def head(self) -> cython.int:
        """The FUNC record."""
        i: cython.size_t = self.at
        self.line_at = self.f_line[i]
        self.inline_at = self.f_inline[i]
        self.inside = True
        self.levels = 0
        if not self.f_size[i]:
            # Nowhere, so there is nothing to be said of it.
            self.line_at = self.f_end_line[i]
            self.inline_at = self.f_end_inline[i]
            return 0
        self.frame(i)
        self.word(_FUNC)
        if self.f_multiple[i]:
            self.word(_MULTIPLE)
        self.hex(self.low, 1)
        self.byte(_SPACE)
        self.hex(self.high - self.low + 1, 1)
        self.byte(_SPACE)
        self.hex(self.f_parameter[i], 1)
        return self.name(i)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def name(self, i: cython.size_t) -> cython.int:
        """A blank, the given name and the end of the line."""
        self.byte(_SPACE)
        self.copy(self.given, self.cuts[i - self.first], self.cuts[i - self.first + 1])
        return self.byte(_NEWLINE)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def tail(self) -> cython.int:
        """Inlined calls and lines, until there are no more of them or the piece is full."""
        none: cython.size_t = self.file_number.shape[0] - 1
        file: cython.size_t
        k: cython.size_t = self.line_at
        end: cython.size_t = self.f_end_line[self.at]
        data: cython.uchar[::1]
        while self.inline_at < self.f_end_inline[self.at]:
            if self.pos >= _CHUNK:
                return 0
            self.inline(self.inline_at)
            self.inline_at += 1
        # The buffer is twice as long as a piece, so it does not have to grow here.
        data = self.data
        while k < end and self.pos < _CHUNK:
            if self.part(self.l_address[k], self.l_size[k]):
                file = self.l_file[k]
                self.line(
                    data,
                    self.from_,
                    self.upto - self.from_ + 1,
                    self.l_line[k],
                    self.file_number[file if file < none else none],
                )
            k += 1
        self.line_at = k
        if k >= end:
            self.inside = False
            self.at += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def line(
        self, data: cython.uchar[::1], address: uint64_t, size: uint64_t, number: uint32_t, file: uint32_t
    ) -> cython.int:
        """A line record, from its end to its beginning: so no number has to be measured first."""
        pos: cython.size_t
        start: cython.size_t
        to: cython.size_t
        value: uint32_t
        rest: uint32_t
        nibble: cython.uchar
        # Written where it cannot reach what is there, then moved down.
        pos = self.pos + 2 * _LONGEST
        start = pos
        pos -= 1
        data[pos] = _NEWLINE
        value = file
        while True:
            rest = value // 10
            pos -= 1
            data[pos] = _ZERO + cython.cast(cython.uchar, value - rest * 10)
            value = rest
            if not value:
                break
        pos -= 1
        data[pos] = _SPACE
        value = number
        while True:
            rest = value // 10
            pos -= 1
            data[pos] = _ZERO + cython.cast(cython.uchar, value - rest * 10)
            value = rest
            if not value:
                break
        pos -= 1
        data[pos] = _SPACE
        while True:
            nibble = size & 0xF
            pos -= 1
            data[pos] = nibble + (_ZERO if nibble < 10 else _LETTER)
            size >>= 4
            if not size:
                break
        pos -= 1
        data[pos] = _SPACE
        while True:
            nibble = address & 0xF
            pos -= 1
            data[pos] = nibble + (_ZERO if nibble < 10 else _LETTER)
            address >>= 4
            if not address:
                break
        to = self.pos
        while pos < start:
            data[to] = data[pos]
            to += 1
            pos += 1
        self.pos = to
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def inline(self, k: cython.size_t) -> cython.int:
        """An INLINE record; none where no code is left of it, or of what is around it."""
        depth: cython.size_t = self.i_depth[k]
        name: cython.size_t = self.i_name[k]
        file: cython.size_t = self.i_file[k]
        r: cython.size_t
        none: cython.size_t = self.file_number.shape[0] - 1
        some: cython.bint = False
        if depth > self.levels:
            return 0
        self.levels = depth
        for r in range(self.i_range[k], self.i_range[k + 1]):
            if not self.part(self.r_address[r], self.r_size[r]):
                continue
            if not some:
                some = True
                self.levels = depth + 1
                self.word(_INLINE)
                self.natural(depth)
                self.byte(_SPACE)
                self.natural(self.i_line[k])
                self.byte(_SPACE)
                self.natural(self.file_number[file if file < none else none])
                self.byte(_SPACE)
                none = self.name_number.shape[0] - 1
                self.natural(self.name_number[name if name < none else none])
            self.byte(_SPACE)
            self.hex(self.from_, 1)
            self.byte(_SPACE)
            self.hex(self.upto - self.from_ + 1, 1)
        if some:
            self.byte(_NEWLINE)
        return 0

    def publics(self, address, parameter, multiple, names, bounds):
        """The text of PUBLIC records: their addresses (u8), parameter sizes (u4), marks (u1) and names."""
        self.p_address, self.p_parameter, self.p_multiple = _views([address, parameter, multiple])
        self.begin(0, len(address), names, bounds)
        self.public()
        return self.take()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def public(self) -> cython.int:
        i: cython.size_t
        for i in range(self.p_address.shape[0]):
            self.word(_PUBLIC)
            if self.p_multiple[i]:
                self.word(_MULTIPLE)
            self.hex(self.p_address[i], 1)
            self.byte(_SPACE)
            self.hex(self.p_parameter[i], 1)
            self.name(i)
        self.at = self.stop
        return 0
