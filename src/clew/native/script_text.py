"""The text of samples as ``perf script`` prints it: the line of each different frame is made once, and copied from there."""

import cython

if cython.compiled:
    from cython.cimports.clew.native.textbuffer import TextBuffer
    from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint32_t, uint64_t
else:
    from clew.native.textbuffer import TextBuffer

    int32_t = int64_t = uint8_t = uint32_t = uint64_t = cython.longlong

import sys
from array import array

from clew.native.columns import enlarged, zeros

#: Text is handed over when so much of it has gathered.
_CHUNK = cython.declare(cython.size_t, 1 << 20)

#: What a sample's text has, besides its thread and its event.
CPU, TIME, PERIOD, IP, NANOSECONDS = 1, 2, 4, 8, 16
_CPU = cython.declare(cython.int, 1)
_TIME = cython.declare(cython.int, 2)
_PERIOD = cython.declare(cython.int, 4)
_IP = cython.declare(cython.int, 8)
_NANOSECONDS = cython.declare(cython.int, 16)

#: What a frame's text has, besides its address.
SYMBOL, OFFSET, MODULE = 1, 2, 4
_SYMBOL = cython.declare(cython.int, 1)
_OFFSET = cython.declare(cython.int, 2)
_MODULE = cython.declare(cython.int, 4)

_TAB = cython.declare(cython.uchar, 0x09)
_NEWLINE = cython.declare(cython.uchar, 0x0A)
_SPACE = cython.declare(cython.uchar, 0x20)
_OPEN = cython.declare(cython.uchar, 0x28)
_CLOSE = cython.declare(cython.uchar, 0x29)
_PLUS = cython.declare(cython.uchar, 0x2B)
_POINT = cython.declare(cython.uchar, 0x2E)
_ZERO = cython.declare(cython.uchar, 0x30)
_COLON = cython.declare(cython.uchar, 0x3A)
_LEFT = cython.declare(cython.uchar, 0x5B)
_RIGHT = cython.declare(cython.uchar, 0x5D)
_X = cython.declare(cython.uchar, 0x78)
_SECOND = cython.declare(uint64_t, 1_000_000_000)


#: Whether lines are copied by words, whose first byte is the lowest: not where Python's whole numbers would have to do it.
_WORDS = cython.declare(cython.bint, cython.compiled and sys.byteorder == "little")


def _words(store):
    """A buffer as words of eight bytes, but for what is left at its end."""
    return memoryview(store)[: len(store) & -8].cast("Q")


def _cuts(texts):
    """Texts as one, and where each begins, with the end of the last behind."""
    bounds = array("q", [0])
    end = 0
    for text in texts:
        end += len(text)
        bounds.append(end)
    return b"".join(texts) or b" ", bounds


@cython.final
@cython.cclass
class FrameLines(TextBuffer):
    """The lines of frames, by number. The text of number ``n`` is what was appended as the n-th.

    Args:
        what: ``SYMBOL``, ``OFFSET`` and ``MODULE``, together.
    """

    def __init__(self, what):
        TextBuffer.__init__(self, [])
        self.what = what
        self.begins, self.ends = zeros(1024, "u8"), zeros(1024, "u8")
        self.count = 0

    def __len__(self):
        return self.count

    def add(
        self,
        alone: cython.const[uint8_t][::1],
        address: cython.const[uint64_t][::1],
        symbol: cython.const[int64_t][::1],
        offset: cython.const[uint64_t][::1],
        module: cython.const[int64_t][::1],
        symbols,
        modules,
    ):
        """Makes the lines of more frames.

        Args:
            alone: whether the frame is not one of a call chain: it then stands in the line of the sample.
            address: as it is shown.
            symbol, offset: an index in ``symbols``, or -1, and how far behind it.
            module: an index in ``modules``.
            symbols, modules: names, as bytes.
        """
        if not cython.compiled:
            columns = (alone, address, symbol, offset, module)
            alone, address, symbol, offset, module = map(memoryview, columns)
        names: cython.const[cython.uchar][::1]
        name_cuts: cython.const[cython.longlong][::1]
        files: cython.const[cython.uchar][::1]
        file_cuts: cython.const[cython.longlong][::1]
        names, name_cuts = _cuts(symbols)
        files, file_cuts = _cuts(modules)
        if not cython.compiled:
            names, name_cuts, files, file_cuts = map(memoryview, (names, name_cuts, files, file_cuts))
        i: cython.size_t
        number: cython.size_t
        self.room(address.shape[0])
        for i in range(cython.cast(cython.size_t, address.shape[0])):
            if not alone[i]:
                self.byte(_TAB)
            self.padded_hex(address[i])
            if self.what & _SYMBOL:
                self.byte(_SPACE)
                if symbol[i] >= 0:
                    number = symbol[i]
                    self.copy(names, name_cuts[number], name_cuts[number + 1])
                    if self.what & _OFFSET:
                        self.byte(_PLUS)
                        self.byte(_ZERO)
                        self.byte(_X)
                        self.hex(offset[i], 1)
                else:
                    self.unknown()
            if self.what & _MODULE:
                number = module[i]
                self.byte(_SPACE)
                self.byte(_OPEN)
                self.copy(files, file_cuts[number], file_cuts[number + 1])
                self.byte(_CLOSE)
            self.byte(_NEWLINE)
            self.ends[self.count] = self.pos
            # Each line begins at a word: they are copied by words.
            while self.pos & 7:
                self.byte(0)
            self.count += 1
            self.begins[self.count] = self.pos

    def forget(self):
        """Forgets all lines: numbers begin anew."""
        self.pos = self.count = 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def room(self, more: cython.size_t) -> cython.int:
        """Makes room for the bounds of so many lines more."""
        have: cython.size_t = self.begins.shape[0]
        if self.count + more + 1 > have:
            self.begins = enlarged(self.begins, 2 * have + more + 1)
            self.ends = enlarged(self.ends, 2 * have + more + 1)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def padded_hex(self, value: uint64_t) -> cython.int:
        """A hexadecimal number in sixteen places, spaces before it."""
        digits: cython.size_t = 1
        while digits < 16 and value >> (4 * digits):
            digits += 1
        k: cython.size_t
        for k in range(16 - digits):
            self.byte(_SPACE)
        return self.hex(value, digits)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def unknown(self) -> cython.int:
        """What stands for a name that nobody knows."""
        self.byte(_LEFT)
        self.append(b"unknown")
        return self.byte(_RIGHT)


@cython.final
@cython.cclass
class SampleText(TextBuffer):
    """Writes samples.

    Args:
        lines: of their frames.
        what: ``CPU``, ``TIME``, ``PERIOD``, ``IP``, ``NANOSECONDS``, together.
    """

    def __init__(self, lines: FrameLines, what):
        TextBuffer.__init__(self, [], 1 << 21)
        self.lines = lines
        self.what = what
        self.words_of = self.lines_of = None
        self.at = self.stop = 0

    def begin(
        self,
        order: cython.const[int64_t][::1],
        head,
        heads,
        event,
        events,
        cpu: cython.const[int32_t][::1],
        time: cython.const[uint64_t][::1],
        period: cython.const[uint64_t][::1],
        alone: cython.const[uint8_t][::1],
        first: cython.const[uint64_t][::1],
        end: cython.const[uint64_t][::1],
        numbers: cython.const[uint32_t][::1],
    ):
        """Goes to some samples.

        Args:
            order: which of them to write, and in which order.
            head (u4), heads: each sample's index in ``heads``, which say what stands first: the thread.
            event (u2), events: likewise, what stands before the frames.
            cpu, time, period: of each.
            alone: whether its one frame stands in its line.
            first, end, numbers: its frames.
        """
        if not cython.compiled:
            columns = (order, cpu, time, period, alone, first, end, numbers)
            order, cpu, time, period, alone, first, end, numbers = map(memoryview, columns)
            head, event = memoryview(head), memoryview(event)
        self.order, self.cpu, self.time, self.period = order, cpu, time, period
        self.alone, self.first, self.last, self.numbers = alone, first, end, numbers
        self.head, self.event = head, event
        self.heads, self.head_cuts = _cuts(heads)
        self.events, self.event_cuts = _cuts(events)
        if not cython.compiled:
            self.heads, self.events = memoryview(self.heads), memoryview(self.events)
        self.at, self.stop = 0, len(order)

    def more(self):
        """The next piece of their text, about a mebibyte, valid until the next call; empty when there is no more."""
        self.pos = 0
        self.fill()
        return memoryview(self.store)[: self.pos]

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def fill(self) -> cython.int:
        i: cython.size_t
        number: cython.size_t
        while self.at < self.stop and self.pos < _CHUNK:
            i = self.order[self.at]
            self.at += 1
            number = self.head[i]
            self.copy(self.heads, self.head_cuts[number], self.head_cuts[number + 1])
            if self.what & _CPU:
                self.processor(self.cpu[i])
            if self.what & _TIME:
                self.seconds(self.time[i])
            if self.what & _PERIOD:
                self.padded(self.period[i], 10)
                self.byte(_SPACE)
            number = self.event[i]
            self.copy(self.events, self.event_cuts[number], self.event_cuts[number + 1])
            if self.what & _IP:
                self.byte(_SPACE if self.alone[i] else _NEWLINE)
                self.frames(self.first[i], self.last[i])
            if not self.alone[i] or not self.what & _IP:
                self.byte(_NEWLINE)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def frames(self, first: cython.size_t, end: cython.size_t) -> cython.int:
        """The lines of a sample's frames."""
        k: cython.size_t
        number: cython.size_t
        if not _WORDS:
            for k in range(first, end):
                number = self.numbers[k]
                self.copy(self.lines.data, self.lines.begins[number], self.lines.ends[number])
            return 0
        size: cython.size_t = 0
        for k in range(first, end):
            number = self.numbers[k]
            size += cython.cast(cython.size_t, self.lines.ends[number] - self.lines.begins[number])
        if self.size - self.pos < size + 16:
            self.reserve(size + 16)
        if self.words_of is not self.store or self.lines_of is not self.lines.store:
            self.words_of, self.lines_of = self.store, self.lines.store
            self.own_words = _words(self.store)
            self.line_words = _words(self.lines.store)
        for k in range(first, end):
            self.line(self.numbers[k])
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def line(self, number: cython.size_t) -> cython.int:
        """A frame's line, by words: what stands in the last one behind the line is written over by what follows."""
        begin: uint64_t = self.lines.begins[number]
        end: uint64_t = self.lines.ends[number]
        at: cython.size_t = begin >> 3
        last: cython.size_t = (end + 7) >> 3
        to: cython.size_t = self.pos >> 3
        shift: uint64_t = 8 * (self.pos & 7)
        word: uint64_t
        if shift:
            carry: uint64_t = self.own_words[to] << (64 - shift) >> (64 - shift)
            while at < last:
                word = self.line_words[at]
                self.own_words[to] = carry | word << shift
                carry = word >> (64 - shift)
                at += 1
                to += 1
            self.own_words[to] = carry
        else:
            while at < last:
                self.own_words[to] = self.line_words[at]
                at += 1
                to += 1
        self.pos += cython.cast(cython.size_t, end - begin)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def padded(self, value: uint64_t, width: cython.size_t) -> cython.int:
        """A decimal number in so many places, spaces before it."""
        digits: cython.size_t = 1
        rest: uint64_t = value
        while rest >= 10:
            rest //= 10
            digits += 1
        while digits < width:
            self.byte(_SPACE)
            digits += 1
        return self.natural(value)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def processor(self, number: int32_t) -> cython.int:
        """``[003] ``: a processor's number, zeros before it."""
        rest: int64_t = number
        self.byte(_LEFT)
        if 0 <= rest < 100:
            self.byte(_ZERO)
            if rest < 10:
                self.byte(_ZERO)
        elif -10 < rest < 0:
            # What C's %03d makes of -1: the sign counts.
            self.byte(0x2D)
            self.byte(_ZERO)
            rest = -rest
        self.integer(rest, False)
        self.byte(_RIGHT)
        return self.byte(_SPACE)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def seconds(self, time: uint64_t) -> cython.int:
        """A time of nanoseconds as seconds, in at least twelve places; with nanoseconds, the seconds in at least five."""
        rest: uint64_t = time % _SECOND
        scale: uint64_t = 100_000_000
        digits: cython.int = 9
        if not self.what & _NANOSECONDS:
            rest //= 1000
            scale = 100_000
            digits = 6
        self.padded(time // _SECOND, 5)
        self.byte(_POINT)
        k: cython.int
        for k in range(digits):
            self.byte(_ZERO + cython.cast(cython.uchar, rest // scale % 10))
            scale //= 10
        self.byte(_COLON)
        return self.byte(_SPACE)
