"""Runs line number programs (DWARF 5, 6.2; versions 2 to 5) into columns: which line of which file an address came from.

A program makes sequences: rows of ascending addresses that an end row closes. Here a row ends where the next one begins,
and an end is a row too, whose file is :data:`NO_FILE`. What a program says more than once, or not in order, is settled so;
binutils' addr2line (2.40) and llvm-symbolizer (14) do the same unless it says otherwise:

* Of rows of a sequence with one address, the last counts. One at the address of the end says nothing.
* Of sequences that overlap in part, the one that starts first keeps its range; the rest of the other goes on behind it.
* One inside another counts for nothing, and of equal starts the longer one counts. So does binutils; LLVM answers with the
  inner one, and loses the addresses before it.
* Of equal ranges the sequence that stands first counts, as in LLVM; in binutils the last.
* A sequence that starts outside of the file's code is of code that the linker discarded, and left out.
* Rows whose address goes backwards are sorted, as binutils does it, and those at or beyond the end of their sequence left out.
* A sequence without an end, in a program that is cut, ends where its last row would begin: how far that goes nobody knows.
"""

from collections import namedtuple

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.dwarf_line_machine import DONE, LineMachine
    from cython.cimports.libc.stdint import uint32_t, uint64_t
else:
    from clew.native.dwarf_line_machine import DONE, LineMachine

    uint32_t = uint64_t = cython.longlong

from clew.errors import Problem
from clew.native.columns import empty
from clew.native.cursor import Malformed

#: The file of a row that ends a sequence: from its address on nothing is known.
NO_FILE = 0xFFFFFFFF

SECTION = ".debug_line"

LineRows = namedtuple("LineRows", "address line file discriminator problems defined end")


@cython.final
@cython.cclass
class LineReader(LineMachine):
    """Reads the line programs of one section, one after another; what it grows is reused from one to the next.

    One reader serves one thread; it lets others run while it decodes.

    Args:
        data: the bytes of ``.debug_line``.
        big: whether numbers are big-endian.
        code_start, code_end: the file's code, as sorted ranges (u8); None: every address is code.
        discriminators: whether rows have DWARF's discriminators.
        merge: whether a row that says the same as the one before it is left out.
    """

    def __init__(self, data, big=False, code_start=None, code_end=None, discriminators=False, merge=False):
        LineMachine.__init__(self, data, big, code_start, code_end, discriminators)
        self.merge = merge
        self.scratch_room = 0
        self.order = empty(16, "u4")
        self.out_address, self.out_line, self.out_file, self.out_disc = [
            empty(0, code) for code in ("u8", "u4", "u4", "u4")
        ]

    def read(self, offset, address_size=8):
        """The rows of the program at an offset of the section.

        Args:
            address_size: of the unit that it belongs to, bytes; from version 5 on the program says it itself.

        Returns:
            a LineRows: ``address`` (u8) strictly ascending, ``line``, ``file`` (u4; the number as the program has it),
            ``discriminator`` (u4, None where it was not asked for), ``problems`` (a list of clew.Problem), ``defined`` (the
            offsets of files that the program itself defines, ``DW_LNE_define_file``), ``end`` (the offset behind the
            program; the end of the section where that is not known). Never raises for what the section holds: where a
            program makes no sense, the rows up to there are kept.
        """
        problems = []
        # What cannot be an offset is one beyond the section.
        at = offset if 0 <= offset < len(self.data) else len(self.data)
        n = self.read_rows(at, address_size if 0 < address_size <= 8 else 8, problems)
        return LineRows(
            np.array(self.out_address[:n], "u8"),
            np.array(self.out_line[:n], "u4"),
            np.array(self.out_file[:n], "u4"),
            np.array(self.out_disc[:n], "u4") if self.discriminators else None,
            problems,
            tuple(self.defined),
            self.unit_end or len(self.data),
        )

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def read_rows(self, offset: uint64_t, address_size: cython.int, problems: list) -> cython.size_t:
        """The same for the core: how many rows there are in ``out_address``, ``out_line``, ``out_file`` and ``out_disc``."""
        self.reset()
        self.defined = []
        self.count = 0
        at = offset
        # What no machine has is hostile, and decides nothing: the operand's own length says how long an address is.
        self.default_address_size = address_size if 0 < address_size <= 8 else 8
        try:
            self.read_header(offset)
            if self.cut:
                problems.append(Problem("the line program runs past the end of the section", SECTION, offset))
            self.begin()
            at = None
            while True:
                with cython.nogil:
                    status: cython.int = self.run()
                if status == DONE:
                    break
                self.make_room()
        except Malformed as error:
            problems.append(Problem(str(error), SECTION, self.at if at is None else at))
        if self.count:
            self.settle(problems, offset)
        return self.result()

    def settle(self, problems, offset):
        """Closes a sequence that has no end, and sorts what is not sorted."""
        if self.count > self.start:
            if not problems:
                problems.append(Problem("the last sequence of the line program has no end", SECTION, offset))
            self.end_sequence(self.row_address[self.count - 1])
        if self.backwards:
            message = f"addresses go backwards in {self.backwards} sequences of the line program"
            problems.append(Problem(message, SECTION, offset, lost=False))
            self.put_in_order()

    def put_in_order(self):
        """Sorts the rows of sequences in which addresses go backwards; what is at or behind the end of its sequence goes."""
        total = self.count
        sequences = self.sequences
        columns = [np.asarray(self.row_address), np.asarray(self.row_line), np.asarray(self.row_file)]
        if self.discriminators:
            columns.append(np.asarray(self.row_disc))
        address = columns[0]
        first, last = np.asarray(self.first)[:sequences], np.asarray(self.last)[:sequences]
        low, high = np.asarray(self.low)[:sequences], np.asarray(self.high)[:sequences]
        owner = np.repeat(np.arange(sequences), last - first)
        inside = address[:total] < high[owner]
        inside[last - 1] = True
        order = np.lexsort((address[:total], owner))
        order = order[inside[order]]
        # Of equals the last stays, as the sort is stable.
        stays = np.ones(len(order), bool)
        stays[: len(order) - 1] = (np.diff(owner[order]) != 0) | (np.diff(address[order]) != 0)
        order = order[stays]
        for column in columns:
            column[: len(order)] = column[order]
        self.count = len(order)
        counts = np.bincount(owner[order], minlength=sequences)
        last[:] = np.cumsum(counts)
        first[:] = last - counts
        low[:] = address[first]

    def result(self):
        """Puts the rows that count together; how many they are."""
        # In the order of the program they are put together where they stand; in another they need room of their own.
        self.out_address, self.out_line, self.out_file = self.row_address, self.row_line, self.row_file
        self.out_disc = self.row_disc
        return self.put_together(self.by_start()) if self.count else 0

    def make_scratch(self):
        """Room of their own for the rows that count, in columns that are used again."""
        if self.scratch_room < self.count:
            room = self.scratch_room = self.row_room
            self.scratch = [empty(room, "u8"), empty(room, "u4"), empty(room, "u4"), empty(room, "u4")]
        self.out_address, self.out_line, self.out_file, self.out_disc = self.scratch

    def by_start(self):
        """The sequences in the order in which they count: by start, the longer first, the earlier first."""
        n: cython.size_t = self.sequences
        i: cython.size_t
        if n > cython.cast(cython.size_t, self.order.shape[0]):
            self.order = empty(2 * n, "u4")
        for i in range(n):
            if i and self.low[i] < self.high[i - 1]:
                break
            self.order[i] = i
        else:
            return self.order[:n]
        self.make_scratch()
        order = np.lexsort((~np.asarray(self.high)[:n], np.asarray(self.low)[:n])).astype("u4")
        return order if cython.compiled else memoryview(order)

    def put_together(self, order: uint32_t[::1]) -> cython.size_t:
        """Copies the rows that count, sequence after sequence, and says how many they are."""
        i: cython.size_t
        row: cython.size_t
        last: cython.size_t
        out: cython.size_t = 0
        which: cython.size_t
        address: uint64_t
        covered: uint64_t = 0
        for i in range(cython.cast(cython.size_t, order.shape[0])):
            which = order[i]
            row = self.first[which]
            last = self.last[which]
            # One without rows, or that others cover.
            if last - row < 2 or (out and self.high[which] <= covered):
                continue
            address = self.row_address[row]
            if out and address <= covered:
                # It goes on where the one before it ends, whose end is no gap then.
                while self.row_address[row + 1] <= covered:
                    row += 1
                address = covered
                out -= 1
            while row < last:
                if (
                    not self.merge
                    or out == 0
                    or self.row_line[row] != self.out_line[out - 1]
                    or self.row_file[row] != self.out_file[out - 1]
                    or (self.discriminators and self.row_disc[row] != self.out_disc[out - 1])
                ):
                    self.out_address[out] = address
                    self.out_line[out] = self.row_line[row]
                    self.out_file[out] = self.row_file[row]
                    if self.discriminators:
                        self.out_disc[out] = self.row_disc[row]
                    out += 1
                row += 1
                if row < last:
                    address = self.row_address[row]
            covered = self.high[which]
        return out
