"""The fields of a line of text: blanks, words, numbers in either base, and what is wrong with them.

The records of Breakpad symbol files are read with it (:mod:`clew.native.breakpad_records`).
"""

import cython

if cython.compiled:
    from cython.cimports.libc.stdint import uint64_t
else:
    uint64_t = cython.longlong

from clew.native.columns import full, zeros

NO_NUMBER = 0xFFFFFFFF

#: Flaws. Their numbers are the places of their sentences in clew.read.breakpad.records.
(
    UNKNOWN,
    MALFORMED,
    LARGE,
    ORPHAN_LINE,
    ORPHAN_INLINE,
    NEGATIVE,
    EXTRA,
    EMPTY,
    UNNAMED,
    SECOND_MODULE,
    LATE_MODULE,
    CARRIAGE_RETURN,
    NO_NEWLINE,
) = range(13)
FLAWS = 13
#: How many flaws of one kind are told with their lines; the others are counted.
MOST_TOLD = 16

#: The numbers of a record that are kept; an INLINE record has ranges besides.
_FIELDS = 10

_SPACE = cython.declare(cython.uchar, 0x20)
_TAB = cython.declare(cython.uchar, 0x09)
_NEWLINE = cython.declare(cython.uchar, 0x0A)
_RETURN = cython.declare(cython.uchar, 0x0D)
_MINUS = cython.declare(cython.uchar, 0x2D)
_LIMIT = cython.declare(uint64_t, 0xFFFFFFFF)


def _digits():
    """For each byte the value of the digit that it is, in either case; 255 for what is none."""
    table = full(256, 255, "u1")
    for value in range(16):
        table[value + (48 if value < 10 else 87)] = value
        if value > 9:
            table[value + 55] = value
    return table


@cython.cclass
class Fields:
    """A position in text, and the line that is being read.

    Args:
        data: the bytes.
        words: the words that :meth:`word` looks for, one after the other.

    Attributes:
        lines: how many lines of text there were so far.
        told: the first flaws of each kind, as (flaw, number of the line); ``counts`` counts all of them, by flaw.
    """

    def __init__(self, data, words):
        self.data = data
        self.words = words
        self.end = len(data)
        self.digits = _digits()
        self.field = zeros(_FIELDS, "u8")
        self.pos = self.stop = self.next = self.at = self.lines = 0
        self.is_large = self.is_negative = self.odd = False
        self.counts = zeros(FLAWS, "i8")
        self.told = []

    def flaw_counts(self):
        """How often each flaw was met."""
        return [int(count) for count in self.counts]

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def flaw(self, kind: cython.size_t) -> cython.int:
        """Notes a flaw of the record at hand."""
        self.counts[kind] += 1
        if self.counts[kind] <= MOST_TOLD:
            self.told.append((kind, self.lines))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter(self) -> cython.int:
        """Finds the end of the line that begins at ``pos``, and skips the blanks before its first field."""
        stop: cython.size_t = self.pos
        while stop < self.end and self.data[stop] != _NEWLINE:
            stop += 1
        self.next = stop + 1 if stop < self.end else stop
        if stop > self.pos and self.data[stop - 1] == _RETURN:
            self.carriage_return()
            while stop > self.pos and self.data[stop - 1] == _RETURN:
                stop -= 1
        self.stop = stop
        self.is_large = self.is_negative = False
        self.blanks()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def carriage_return(self) -> cython.int:
        """Tells, once, that lines end as on Windows."""
        if not self.counts[CARRIAGE_RETURN]:
            self.flaw(CARRIAGE_RETURN)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def blanks(self) -> cython.int:
        """Skips blanks."""
        while self.pos < self.stop and (self.data[self.pos] == _SPACE or self.data[self.pos] == _TAB):
            self.pos += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def word(self, number: cython.size_t, length: cython.size_t) -> cython.bint:
        """Whether this word stands here, whole; it is then skipped."""
        i: cython.size_t
        if self.stop - self.pos < length or self.data[self.pos] != self.words[number]:
            return False
        for i in range(length):
            if self.data[self.pos + i] != self.words[number + i]:
                return False
        if self.pos + length < self.stop:
            i = self.data[self.pos + length]
            if i != _SPACE and i != _TAB:
                return False
        self.pos += length
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def at_blank(self) -> cython.bint:
        """Whether the field ends here."""
        return self.pos >= self.stop or self.data[self.pos] == _SPACE or self.data[self.pos] == _TAB

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def hexadecimal(self, at: cython.size_t) -> cython.bint:
        """Reads a number as field ``at``; False where there is none. What exceeds 64 bits sets ``is_large``."""
        value: uint64_t = 0
        digit: cython.uchar
        start: cython.size_t
        self.blanks()
        start = self.pos
        while self.pos < self.stop:
            digit = self.digits[self.data[self.pos]]
            if digit > 15:
                break
            if value >> 60:
                self.is_large = True
            else:
                value = value << 4 | digit
            self.pos += 1
        self.field[at] = value
        return self.pos > start and self.at_blank()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def decimal(self, at: cython.size_t) -> cython.bint:
        """Likewise in decimal, for 32 bits. A minus sign sets ``is_negative``."""
        value: uint64_t = 0
        digit: cython.uchar
        start: cython.size_t
        self.blanks()
        if self.pos < self.stop and self.data[self.pos] == _MINUS:
            self.is_negative = True
            self.pos += 1
        start = self.pos
        while self.pos < self.stop:
            digit = self.digits[self.data[self.pos]]
            if digit > 9:
                break
            if value > _LIMIT:
                self.is_large = True
            else:
                value = 10 * value + digit
            self.pos += 1
        if value > _LIMIT:
            self.is_large = True
        self.field[at] = value
        return self.pos > start and self.at_blank()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reference(self, at: cython.size_t, none: uint64_t) -> cython.bint:
        """A line or the number of a file: what is negative or too large becomes ``none``, and is told."""
        large: cython.bint = self.is_large
        self.is_large = self.is_negative = False
        if not self.decimal(at):
            return False
        if self.is_negative:
            self.flaw(NEGATIVE)
            self.field[at] = none
        elif self.is_large or (none and self.field[at] == none):
            self.flaw(LARGE)
            self.field[at] = none
        self.is_large = large
        self.is_negative = False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def name(self) -> cython.size_t:
        """Goes to where the rest of the line begins, after one blank; answers with its length."""
        if self.pos < self.stop:
            self.pos += 1
        if self.stop - self.pos > _LIMIT:
            self.stop = self.pos + _LIMIT
        return self.stop - self.pos

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def finish(self) -> cython.int:
        """Tells of what stands behind a record's last field."""
        self.blanks()
        if self.pos < self.stop:
            self.flaw(EXTRA)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def count_fields(self) -> cython.size_t:
        """How many fields there are up to the end of the line."""
        count: cython.size_t = 0
        blank: cython.bint = True
        at: cython.size_t
        for at in range(self.pos, self.stop):
            if self.data[at] == _SPACE or self.data[at] == _TAB:
                blank = True
            elif blank:
                blank = False
                count += 1
        return count

    @cython.cfunc
    @cython.exceptval(check=False)
    def plain_hex(self) -> uint64_t:
        """A number at ``at`` in hexadecimal with one blank behind it; ``odd`` is set when it is anything else."""
        value: uint64_t = 0
        digit: cython.uchar
        at: cython.size_t = self.at
        while at < self.end:
            digit = self.digits[self.data[at]]
            if digit > 15:
                break
            if value >> 60:
                self.odd = True
                return 0
            value = value << 4 | digit
            at += 1
        if at == self.at or at >= self.end or self.data[at] != _SPACE:
            self.odd = True
        self.at = at + 1
        return value

    @cython.cfunc
    @cython.exceptval(check=False)
    def plain_natural(self, closing: cython.uchar) -> uint64_t:
        """Likewise in decimal, of 32 bits, with the byte ``closing`` behind it, or at the end of the text."""
        value: uint64_t = 0
        digit: cython.uchar
        at: cython.size_t = self.at
        while at < self.end:
            digit = self.digits[self.data[at]]
            if digit > 9:
                break
            value = 10 * value + digit
            if value > _LIMIT:
                self.odd = True
                return 0
            at += 1
        if at == self.at:
            self.odd = True
        elif at < self.end and self.data[at] != closing:
            if closing == _NEWLINE and self.data[at] == _RETURN and self.end - at > 1 and self.data[at + 1] == _NEWLINE:
                self.carriage_return()
                at += 1
            else:
                self.odd = True
        self.at = at + 1
        return value
