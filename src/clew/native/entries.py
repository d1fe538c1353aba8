"""The entries of a call frame information section: CIEs and FDEs, found and their headers read (DWARF 5, 6.4.1; LSB 5, 10.6).

One pass over the section. CIEs become :class:`CieRecord` objects, for there are few; FDEs become columns of numbers, for
there may be a hundred thousand. An entry that cannot be read is a problem (offset, message) and costs nothing but itself;
a length that runs past the section's end ends the pass, since nothing behind it can be found again.
"""

import sys

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cies import CieReader, CieRecord
    from cython.cimports.clew.native.cursor import ONES, WORD
    from cython.cimports.clew.native.pointers import OMIT
    from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint32_t, uint64_t
else:
    from clew.native.cies import CieReader, CieRecord
    from clew.native.cursor import ONES, WORD
    from clew.native.pointers import OMIT

    int64_t = uint8_t = uint32_t = uint64_t = int32_t = cython.longlong

from clew.native.columns import together, zeros
from clew.native.cursor import Malformed, Truncated

#: Problems kept with their text; beyond these only the count goes on, so that hostile input cannot fill the memory.
MOST_PROBLEMS = 1000

_NO_CIE = "the CIE pointer does not lead to a CIE"


@cython.final
@cython.cclass
class Entries(CieReader):
    """All entries of one section.

    Args:
        data: the section's bytes.
        address: the address that the section is loaded at; pc-relative pointers stand on it.
        eh: whether it is ``.eh_frame`` (else ``.debug_frame``): how CIEs and terminators are told.
        big: big-endian.
        address_size: of the file's class, for CIEs that do not state their own.
        text_base, data_base: what ``DW_EH_PE_textrel`` and ``DW_EH_PE_datarel`` are relative to, or None.

    After construction ``columns`` is a tuple of arrays, one element an FDE, in file order: offset, end and program (u4,
    section offsets), cie (i4, index into ``cies``), start, stop, lsda (u8, addresses; ``stop`` is exclusive). ``rising``
    says that no start is less than the one before, ``least`` and ``most`` are the first and last of them by value, and
    ``empty`` counts the FDEs whose range is empty; ``program_bytes`` is the size of all their programs.
    """

    def __init__(self, data, address, eh, big, address_size, text_base=None, data_base=None):
        if len(data) >= 1 << 32:
            raise Malformed("call frame information of 4 GiB or more is not supported")
        CieReader.__init__(self, data, address, big, address_size, text_base, data_base)
        self.eh = eh
        # The same bytes four at a time, for numbers that stand at a multiple of four, as nearly all do.
        words = np.frombuffer(data, "u4", len(data) // 4)
        self.words = words if cython.compiled else memoryview(words)
        self.by_word = words.flags.aligned and sys.byteorder == ("big" if big else "little")
        self.cies = []
        self.cie_at = {}
        self.problems = []
        self.problem_count = 0
        self.terminators = []
        self.count = self.at = self.after = self.cie_bytes = 0
        self.cie_index = -1
        self.rising = True
        self.empty = self.program_bytes = 0
        self.least = ONES
        self.most = 0
        self.room = self.count_entries()
        columns = together(self.room, ("u4", "u4", "u4", "i4", "u8", "u8"))
        self.offset, self.finish, self.program, self.cie, self.start, self.stop = columns
        self.any_lsda = False
        self.walk()
        columns.append(self.lsda if self.any_lsda else zeros(self.count, "u8"))
        self.columns = tuple(np.asarray(column)[: self.count] for column in columns)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def count_entries(self) -> cython.size_t:
        """How many entries there are, at the most."""
        size: cython.size_t = len(self.data)
        at: cython.size_t = 0
        count: cython.size_t = 0
        length: uint64_t
        while size - at >= 4:
            length = _four(self, at)
            at += 4
            if length == 0:
                continue
            if length == WORD:
                if size - at < 8:
                    break
                self.pos = at
                self.end = size
                length = self.fixed(8)
                at += 8
            count += 1
            if length > size - at:
                break
            at += length
        return count

    def report(self, offset, message):
        """Keeps a problem, or only counts it when there are too many."""
        self.problem_count += 1
        if self.problem_count <= MOST_PROBLEMS:
            self.problems.append((offset, message))

    def bases(self):
        """What text- and data-relative pointers are relative to, or None."""
        return (self.text_base if self.has_text else None, self.data_base if self.has_data else None)

    def walk(self):
        """Reads all entries, in file order; one that cannot be read is reported and passed over."""
        size: cython.size_t = len(self.data)
        while self.at < size:
            try:
                self.walk_on()
            except Malformed as error:
                self.report(self.at, str(error))
                self.at = self.after

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def walk_on(self) -> cython.int:
        """Reads entries from ``at`` on, up to the end or the first that cannot be read; ``after`` is where that one ends."""
        size: cython.size_t = len(self.data)
        field: cython.size_t
        width: cython.size_t
        length: uint64_t
        ident: uint64_t
        last: cython.size_t = size
        record: CieRecord = None
        while self.at < size:
            self.after = size
            self.pos = self.at
            self.end = size
            if size - self.at < 4:
                raise Truncated("the section ends inside an entry's length")
            length = _four(self, self.at)
            self.pos = self.at + 4
            width = 4
            if length == 0:
                self.terminate()
                continue
            if length == WORD:
                if size - self.pos < 8:
                    raise Truncated("the section ends inside an entry's 64-bit length")
                length = self.fixed(8)
                width = 8
            field = self.pos
            if length > size - field:
                raise Truncated("the entry's length runs past the end of the section")
            self.after = self.end = field + length
            if length < width:
                raise Truncated("the entry is too short for its CIE pointer")
            if width == 4:
                ident = _four(self, field)
                self.pos = field + 4
            else:
                ident = self.fixed(8)
            if self.is_cie(ident, width):
                if self.at not in self.cie_at:
                    self.cie_at[self.at] = self.read_cie(self.at)
            else:
                if self.eh:
                    # Relative to the field itself, backwards; a CIE behind its FDE makes it negative.
                    if width == 4 and ident >> 31:
                        ident |= ONES << 32
                    ident = (field - ident) & ONES
                if ident != last or record is None:
                    if ident >= size:
                        raise Malformed(_NO_CIE)
                    last = ident
                    self.cie_index = self.find_cie(last)
                    if self.cie_index < 0:
                        last = size
                        raise Malformed(_NO_CIE)
                    record = self.cies[self.cie_index]
                    self.pos = field + width
                    self.end = self.after
                self.read_fde(record)
            self.at = self.after
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def is_cie(self, ident: uint64_t, width: cython.size_t) -> cython.bint:
        """Whether the field after the length marks a CIE: 0 in ``.eh_frame``, all ones in ``.debug_frame``."""
        if self.eh:
            return ident == 0
        return ident == ONES >> (64 - 8 * width)

    def terminate(self):
        """Passes over a terminator, and over the zeros that follow it, as one."""
        size: cython.size_t = len(self.data)
        start: cython.size_t = self.at
        while size - self.pos >= 4 and self.fixed(4) == 0:
            self.at = self.pos
        self.at = max(self.at, start + 4)
        self.terminators.append((start, self.at))

    def find_cie(self, at: cython.size_t) -> cython.Py_ssize_t:
        """The index of the CIE at an offset, reading it first where it stands behind its FDE; -1 where there is none."""
        known = self.cie_at.get(at)
        if known is not None:
            return known
        size: cython.size_t = len(self.data)
        width: cython.size_t = 4
        self.pos = at
        self.end = size
        index: cython.Py_ssize_t = -1
        try:
            length: uint64_t = self.fixed(4)
            if length == WORD:
                width = 8
                length = self.fixed(8)
            if length <= size - self.pos and length >= width:
                self.end = self.pos + length
                if self.is_cie(self.fixed(width), width):
                    index = self.read_cie(at)
        except Truncated:
            index = -1
        self.cie_at[at] = index
        return index

    def read_cie(self, at: cython.size_t) -> cython.Py_ssize_t:
        """Reads the CIE whose entry starts at ``at`` and whose header was read; the window is the entry's."""
        record: CieRecord = CieRecord(at, self.end, self.address_size)
        self.cie_bytes += self.end - at
        try:
            # Pointers may lead into the middle of entries; without a bound, each could bring a copy of the section to read.
            if self.cie_bytes > cython.cast(cython.size_t, len(self.data)):
                raise Malformed("CIEs overlap")
            self.read_cie_fields(record)
        except Malformed as error:
            record.error = str(error)
            self.report(at, f"this CIE cannot be used: {error}")
        self.cies.append(record)
        return len(self.cies) - 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_fde(self, record: CieRecord) -> cython.int:
        """Reads the FDE whose fields after the CIE pointer begin here; the window is the entry's."""
        size: cython.size_t = record.address_size
        encoding: uint8_t = record.fde_encoding
        program: cython.size_t = self.after
        start: uint64_t
        length: uint64_t
        lsda: uint64_t = 0
        if record.usual and self.pos + 8 < self.after and self.data[self.pos + 8] == 0:
            # What compilers write on nearly every machine: two numbers of four bytes and no augmentation data.
            start = _four(self, self.pos)
            length = _four(self, self.pos + 4)
            if start >> 31:
                start |= ONES << 32
            start = (start + self.address + self.pos) & ONES
            # A null pointer stays null: that and what wraps around is for the careful way.
            if start != self.address + self.pos and length <= ONES - start:
                return self.keep(start, start + length, 0, self.pos + 9)
        if record.error is not None and not record.opaque:
            raise Malformed("its CIE cannot be used")
        if record.segment_size:
            self.skip(record.segment_size)
        if encoding == OMIT or encoding & 0x80:
            raise Malformed(f"the pointer encoding {encoding:#x} cannot say where a function starts")
        self.function_base = 0
        start = self.encoded(encoding, size)
        # The range is a length: the format of the encoding, never its base (LSB 5, 10.6.1.2).
        length = self.encoded(encoding & 0x07, size)
        if length > (ONES >> (64 - 8 * size)) - start:
            raise Malformed("its range runs past the end of the address space")
        if record.sized:
            length_of_augmentation: uint64_t = self.uleb()
            if length_of_augmentation > self.after - self.pos:
                raise Truncated("its augmentation data run past its end")
            program = self.pos + length_of_augmentation
            if record.lsda_encoding != OMIT and length_of_augmentation:
                self.end = program
                self.function_base = start
                lsda = self.encoded(record.lsda_encoding & 0x7F, size)
        elif not record.opaque:
            program = self.pos
        return self.keep(start, start + length, lsda, program)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def keep(self, start: uint64_t, stop: uint64_t, lsda: uint64_t, program: cython.size_t) -> cython.int:
        """Adds an FDE to the columns."""
        i: cython.size_t = self.count
        self.offset[i] = self.at
        self.finish[i] = self.after
        self.program[i] = program
        self.program_bytes += self.after - program
        self.cie[i] = self.cie_index
        self.start[i] = start
        self.stop[i] = stop
        if start < self.most:
            self.rising = False
        else:
            self.most = start
        if start < self.least:
            self.least = start
        if start == stop:
            self.empty += 1
        if lsda:
            if not self.any_lsda:
                self.any_lsda = True
                self.lsda = zeros(self.room, "u8")
            self.lsda[i] = lsda
        self.count = i + 1
        return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _four(entries: Entries, at: cython.size_t) -> uint64_t:
    """The number of four bytes at an offset, which the caller knows to be inside the section."""
    if entries.by_word and at & 3 == 0:
        return entries.words[at >> 2]
    if entries.big:
        return (
            cython.cast(uint64_t, entries.data[at]) << 24
            | cython.cast(uint64_t, entries.data[at + 1]) << 16
            | cython.cast(uint64_t, entries.data[at + 2]) << 8
            | entries.data[at + 3]
        )
    return (
        cython.cast(uint64_t, entries.data[at + 3]) << 24
        | cython.cast(uint64_t, entries.data[at + 2]) << 16
        | cython.cast(uint64_t, entries.data[at + 1]) << 8
        | entries.data[at]
    )
