"""``STACK CFI`` records split into columns, and what is in force after each of them.

There are few different rules in many records, so each different text gets a number, and each step from one state (all
that is in force) by one text is worked out once, in Python. Lines that are not of the plain form are left to Python, too.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import int32_t, uint8_t, uint32_t, uint64_t
else:
    int32_t = uint8_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty, enlarged, full, zeros

#: Kinds of lines: with INIT, without, and those that only Python reads.
INIT, CHANGE, ODD = range(3)
_INIT = cython.declare(cython.uchar, 0)
_CHANGE = cython.declare(cython.uchar, 1)
_ODD = cython.declare(cython.uchar, 2)

_WORDS = b"STACK CFI INIT "
_STACK_CFI = cython.declare(cython.size_t, 10)
_INIT_LENGTH = cython.declare(cython.size_t, 5)
_words = cython.declare(object, _WORDS)

_NEWLINE = cython.declare(cython.uchar, 0x0A)
_SPACE = cython.declare(cython.uchar, 0x20)
_LETTER = cython.declare(cython.uchar, 0x53)
_WORD = cython.declare(uint64_t, 0xFFFFFFFF)

#: How far a look-up in a table of slots goes before it gives up.
_PROBES = cython.declare(cython.size_t, 64)


def _digits():
    """For each byte the value of the hexadecimal digit that it is; 255 for what is none."""
    table = full(256, 255, "u1")
    for value in range(16):
        table[value + (48 if value < 10 else 87)] = value
        if value > 9:
            table[value + 55] = value
    return table


@cython.final
@cython.cclass
class CfiLines:
    """Splits text into records.

    Args:
        data: the text.
        line: the number of its first line.
    """

    def __init__(self, data, line):
        self.data = data
        self.end = len(data)
        self.digits = _digits()
        self.line = line
        self.pos = self.count = self.text_count = 0
        self.odd = False
        self.kind = empty(256, "u1")
        self.address, self.size = empty(256, "u8"), empty(256, "u8")
        self.text, self.text_line = empty(256, "u4"), empty(256, "u4")
        self.text_at, self.text_size = empty(64, "u8"), empty(64, "u4")
        self.slots = zeros(256, "i4")

    def run(self):
        """Reads all lines.

        Returns:
            kind (u1), address, size (u8; of an ``INIT``), number of the rules' text and number of the line (u4), one element a
            line. Of an odd line the address is where it begins, and the size where it ends.
        """
        stop: cython.size_t
        at: cython.size_t
        while self.pos < self.end:
            at = stop = self.pos
            while stop < self.end and self.data[stop] != _NEWLINE:
                stop += 1
            self.pos = stop + 1
            # What begins with other letters, and not with a blank, is of other kinds.
            if stop > at and (self.data[at] == _LETTER or self.data[at] <= _SPACE):
                self.one(at, stop)
            self.line += 1
        n = self.count
        return (
            np.asarray(self.kind)[:n],
            np.asarray(self.address)[:n],
            np.asarray(self.size)[:n],
            np.asarray(self.text)[:n],
            np.asarray(self.text_line)[:n],
        )

    def texts(self):
        """The different texts of rules, by number."""
        data = memoryview(self.data)
        out = []
        for number in range(self.text_count):
            at = int(self.text_at[number])
            out.append(bytes(data[at : at + int(self.text_size[number])]))
        return out

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def one(self, at: cython.size_t, stop: cython.size_t) -> cython.int:
        """Reads one line."""
        n: cython.size_t = self.count
        begin: cython.size_t = at
        close: cython.size_t = stop
        kind: cython.uchar = _CHANGE
        if n == cython.cast(cython.size_t, self.kind.shape[0]):
            self.grow()
        self.odd = False
        self.size[n] = 0
        self.text[n] = 0
        self.text_line[n] = self.line & _WORD
        while close > at and self.data[close - 1] <= _SPACE:
            close -= 1
        if self.stands(at, close, 0, _STACK_CFI):
            at += _STACK_CFI
            if self.stands(at, close, _STACK_CFI, _INIT_LENGTH):
                kind = _INIT
                at = self.hexadecimal(at + _INIT_LENGTH, close)
                self.address[n] = self.size[n]
            else:
                self.size[n] = 0
            at = self.hexadecimal(at, close)
            if kind == _CHANGE:
                self.address[n] = self.size[n]
                self.size[n] = 0
            if not self.odd and at < close and self.data[at] > _SPACE:
                self.text[n] = self.intern(at, close - at)
            else:
                self.odd = True
        else:
            self.odd = True
        if self.odd:
            kind = _ODD
            self.address[n] = begin
            self.size[n] = stop
        self.kind[n] = kind
        self.count = n + 1
        return 0

    @cython.cfunc
    @cython.exceptval(0, check=False)
    def hexadecimal(self, at: cython.size_t, stop: cython.size_t) -> cython.size_t:
        """Reads a number of up to 16 digits and the one space behind it, into the size at hand; answers what comes next."""
        value: uint64_t = 0
        digit: cython.uchar
        begin: cython.size_t = at
        while at < stop:
            digit = self.digits[self.data[at]]
            if digit > 15:
                break
            if at - begin == 16:
                self.odd = True
                break
            value = value << 4 | digit
            at += 1
        if at == begin or at >= stop or self.data[at] != _SPACE:
            self.odd = True
        self.size[self.count] = value
        return at + 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def stands(self, at: cython.size_t, stop: cython.size_t, word: cython.size_t, length: cython.size_t) -> cython.bint:
        """Whether these letters of ``_WORDS`` stand here."""
        i: cython.size_t
        words: bytes = _words
        if at > stop or stop - at < length:
            return False
        for i in range(length):
            if self.data[at + i] != words[word + i]:
                return False
        return True

    @cython.cfunc
    @cython.exceptval(0xFFFFFFFF, check=True)
    def intern(self, at: cython.size_t, size: cython.size_t) -> uint32_t:
        """The number of a text. Equal texts have equal numbers, but for those that are made to collide: those may have two."""
        i: cython.size_t
        mix: uint64_t = size & _WORD
        for i in range(size):
            mix = (mix ^ self.data[at + i]) * 16777619 & _WORD
        mix ^= mix >> 15
        mask: cython.size_t = self.slots.shape[0] - 1
        slot: cython.size_t = mix & mask
        probes: cython.size_t = 0
        known: cython.size_t
        there: cython.size_t
        while self.slots[slot] and probes < _PROBES:
            known = self.slots[slot] - 1
            if self.text_size[known] == size:
                there = self.text_at[known]
                i = 0
                while i < size and self.data[there + i] == self.data[at + i]:
                    i += 1
                if i == size:
                    return known & _WORD
            slot = (slot + 1) & mask
            probes += 1
        known = self.text_count
        if known == cython.cast(cython.size_t, self.text_at.shape[0]):
            self.text_at = enlarged(self.text_at, 2 * known)
            self.text_size = enlarged(self.text_size, 2 * known)
        self.text_at[known] = at
        self.text_size[known] = size & _WORD
        self.text_count = known + 1
        if probes < _PROBES:
            self.slots[slot] = known + 1
        if 2 * self.text_count > mask:
            self.widen()
        return known & _WORD

    def widen(self):
        """Doubles the table of slots."""
        old = [int(slot) for slot in self.slots if slot]
        # Texts in the order of their numbers find their places again as if they came anew.
        size: cython.size_t = 2 * self.slots.shape[0]
        at: cython.size_t
        i: cython.size_t
        mix: uint64_t
        probes: cython.size_t
        number: cython.size_t
        slot: cython.size_t
        self.slots = zeros(size, "i4")
        for number in sorted(old):
            at = self.text_at[number - 1]
            mix = self.text_size[number - 1]
            for i in range(self.text_size[number - 1]):
                mix = (mix ^ self.data[at + i]) * 16777619 & _WORD
            mix ^= mix >> 15
            slot = mix & (size - 1)
            probes = 0
            while self.slots[slot] and probes < _PROBES:
                slot = (slot + 1) & (size - 1)
                probes += 1
            if probes < _PROBES:
                self.slots[slot] = number

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        """Makes room for as many lines again."""
        room: cython.size_t = 2 * self.kind.shape[0]
        self.kind = enlarged(self.kind, room)
        self.address, self.size = enlarged(self.address, room), enlarged(self.size, room)
        self.text, self.text_line = enlarged(self.text, room), enlarged(self.text_line, room)
        return 0


@cython.final
@cython.cclass
class CfiSteps:
    """Follows records from state to state."""

    def __init__(self):
        self.count = 0
        self.keys = empty(1024, "u8")
        self.states = zeros(1024, "i4")
        self.marks = empty(1024, "u1")

    def run(self, block, text, follow):
        """Follows all records.

        Args:
            block (i8): the block that each record belongs to; state 0 is before the first of each.
            text (i8): the number of its rules.
            follow: a function from the state before (above bit 32) and the text to the state after and whether something is
                wrong there. It is asked once for each such step, or a little more often.

        Returns:
            the state after each record (i4), and the numbers of the records that have something wrong.
        """
        blocks = np.ascontiguousarray(block, "i8")
        numbers = np.ascontiguousarray(text, "i8")
        made = empty(len(blocks), "i4")
        wrong = []
        if not cython.compiled:
            blocks, numbers = memoryview(blocks), memoryview(numbers)
        blocks_: cython.const[cython.longlong][::1] = blocks
        texts_: cython.const[cython.longlong][::1] = numbers
        made_: cython.int[::1] = made
        i: cython.size_t
        slot: cython.size_t
        probes: cython.size_t
        mask: cython.size_t
        key: uint64_t
        state: int32_t = 0
        flawed: cython.bint
        for i in range(len(blocks)):
            if i == 0 or blocks_[i] != blocks_[i - 1]:
                state = 0
            key = cython.cast(uint64_t, state) << 32 | cython.cast(uint64_t, texts_[i])
            mask = self.keys.shape[0] - 1
            slot = _slot(key) & mask
            probes = 0
            while self.states[slot] and self.keys[slot] != key and probes < _PROBES:
                slot = (slot + 1) & mask
                probes += 1
            if self.states[slot] and self.keys[slot] == key:
                state = self.states[slot] - 1
                flawed = self.marks[slot]
            else:
                state, flawed = follow(int(key))
                self.put(key, state, flawed)
            if flawed:
                wrong.append(int(i))
            made_[i] = state
        return np.asarray(made), wrong

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, key: uint64_t, state: int32_t, flawed: cython.bint) -> cython.int:
        """Keeps a step."""
        i: cython.size_t
        size: cython.size_t
        slot: cython.size_t
        probes: cython.size_t = 0
        keys: uint64_t[::1]
        states: int32_t[::1]
        marks: uint8_t[::1]
        if 2 * self.count >= cython.cast(cython.size_t, self.keys.shape[0]):
            keys = self.keys
            states = self.states
            marks = self.marks
            size = 2 * keys.shape[0]
            self.keys = empty(size, "u8")
            self.states = zeros(size, "i4")
            self.marks = empty(size, "u1")
            self.count = 0
            for i in range(size // 2):
                if states[i]:
                    self.put(keys[i], states[i] - 1, marks[i])
        slot = _slot(key) & (self.keys.shape[0] - 1)
        while self.states[slot] and probes < _PROBES:
            slot = (slot + 1) & (self.keys.shape[0] - 1)
            probes += 1
        if probes < _PROBES:
            self.keys[slot] = key
            self.states[slot] = state + 1
            self.marks[slot] = flawed
            self.count += 1
        return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _slot(key: uint64_t) -> cython.size_t:
    """Where the search for a step begins, the same compiled and not."""
    mix: uint64_t = ((key >> 32) * 2654435761 + (key & _WORD) * 40503) & _WORD
    return mix ^ mix >> 13
