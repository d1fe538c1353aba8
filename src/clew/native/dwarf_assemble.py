"""Scopes and rows of lines made into functions with their own lines and inlined calls.

A unit says in one place which code belongs to which function, and in another which line each instruction is of. Here they
come together: for each piece of a function the lines inside it, and the inlined calls cut to it.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import WORD
    from cython.cimports.clew.native.dwarf_files import FileBook
    from cython.cimports.clew.native.dwarf_lines import LineReader
    from cython.cimports.clew.native.dwarf_ranges import RangeReader
    from cython.cimports.clew.native.dwarf_scopes import ScopeWalker
    from cython.cimports.libc.stdint import uint16_t, uint32_t, uint64_t
else:
    from clew.native.cursor import WORD
    from clew.native.dwarf_files import FileBook
    from clew.native.dwarf_lines import LineReader
    from clew.native.dwarf_ranges import RangeReader
    from clew.native.dwarf_scopes import ScopeWalker

    uint64_t = uint32_t = uint16_t = cython.longlong

from clew.native.columns import empty, enlarged


@cython.cclass
class Assembler:
    """Takes units, one after the other, and fills the columns of a :class:`clew.symbols.SymbolMap`.

    Args:
        discriminators: whether lines keep theirs.

    Attributes:
        functions, lines, inlines, ranges: how many there are so far.
    """

    def __init__(self, discriminators=False):
        self.discriminators = discriminators
        self.functions = self.lines = self.inlines = self.ranges = 0
        self.f_address = empty(64, "u8")
        self.f_size = empty(64, "u8")
        self.f_name = empty(64, "u4")
        self.f_first_line = empty(64, "u4")
        self.f_end_line = empty(64, "u4")
        self.f_first_inline = empty(64, "u4")
        self.f_end_inline = empty(64, "u4")
        self.f_orphan = empty(64, "u1")
        self.l_address = empty(256, "u8")
        self.l_size = empty(256, "u4")
        self.l_line = empty(256, "u4")
        self.l_file = empty(256, "u4")
        self.l_discriminator = empty(256 if discriminators else 0, "u4")
        self.i_depth = empty(64, "u2")
        self.i_name = empty(64, "u4")
        self.i_file = empty(64, "u4")
        self.i_line = empty(64, "u4")
        self.i_first_range = empty(65, "u4")
        self.r_address = empty(64, "u8")
        self.r_size = empty(64, "u8")
        self.emitted = empty(64, "u4")
        self.natural = empty(0, "u4")
        self.rows = self.file_limit = 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_unit(
        self,
        walker: ScopeWalker,
        name: uint32_t[::1],
        lines: LineReader,
        rows: cython.size_t,
        files: FileBook,
        claims: RangeReader,
    ) -> cython.int:
        """Adds the functions of a unit.

        Args:
            walker: has the scopes, and their ranges.
            name: the number of each scope's name.
            lines, rows: has so many rows of lines, sorted; a row without file (all ones) ends what is before it.
            files: the unit's, all made ready that are used.
            claims: has the code that the unit says it has, nothing where it does not say.
        """
        level: uint16_t[::1] = walker.level
        nest: uint16_t[::1] = walker.nest
        call_file: uint32_t[::1] = walker.call_file
        call_line: uint32_t[::1] = walker.call_line
        first: uint32_t[::1] = walker.first_range
        start: uint64_t[::1] = walker.ranges.low
        stop: uint64_t[::1] = walker.ranges.high
        self.rows = rows
        self.row_address = lines.out_address
        self.row_line = lines.out_line
        self.row_file = lines.out_file
        self.row_discriminator = lines.out_disc
        self.file_map = files.map
        self.file_limit = files.limit
        began: cython.size_t = self.functions
        total: cython.size_t = walker.count
        i: cython.size_t
        end: cython.size_t
        piece: cython.size_t
        j: cython.size_t
        r: cython.size_t
        n: cython.size_t
        depth: cython.size_t
        a: uint64_t
        b: uint64_t
        before: cython.size_t
        for i in range(total):
            if level[i]:
                continue
            # Up to the next function that is not inside this one.
            end = i + 1
            while end < total and (level[end] or nest[end] > nest[i]):
                end += 1
            for piece in range(first[i], first[i + 1]):
                self.begin(start[piece], stop[piece], name[i], False)
                # emitted[d] is one more than the depth of the last call that was emitted at level d.
                for j in range(i + 1, end):
                    depth = level[j]
                    if depth == 0 or nest[j] != nest[i]:
                        continue
                    if depth >= cython.cast(cython.size_t, self.emitted.shape[0]):
                        self.emitted = enlarged(self.emitted, 2 * depth)
                    before = self.ranges
                    for r in range(first[j], first[j + 1]):
                        a = start[r] if start[r] > start[piece] else start[piece]
                        b = stop[r] if stop[r] < stop[piece] else stop[piece]
                        if a < b:
                            if self.ranges >= cython.cast(cython.size_t, self.r_address.shape[0]):
                                self.grow_ranges()
                            self.r_address[self.ranges] = a
                            self.r_size[self.ranges] = b - a
                            self.ranges += 1
                    # The levels in between may have nothing in this piece.
                    self.emitted[depth] = self.emitted[depth - 1] if depth > 1 else 0
                    if self.ranges == before:
                        continue
                    n = self.inlines
                    if n + 1 >= cython.cast(cython.size_t, self.i_name.shape[0]):
                        self.grow_inlines()
                    self.i_depth[n] = self.emitted[depth]
                    self.emitted[depth] += 1
                    self.i_name[n] = name[j]
                    self.i_file[n] = self.file_of(call_file[j])
                    self.i_line[n] = call_line[j]
                    self.i_first_range[n] = before
                    self.inlines = n + 1
                self.f_end_inline[self.functions - 1] = self.inlines
                self.add_lines(start[piece], stop[piece])
                self.f_end_line[self.functions - 1] = self.lines
        self.add_orphans(began, claims)
        return 0

    @cython.cfunc
    def add_orphans(self, began: cython.size_t, claims: RangeReader):
        """Adds the rows that are in no function of the unit, as functions without name: assembler's code, and padding.

        What the unit does not claim as its own is left out.
        """
        rows: cython.size_t = self.rows
        i: cython.size_t
        ends: cython.size_t = self.functions
        # Compilers mostly write functions in the order of their addresses.
        for i in range(began + 1, ends):
            if self.f_address[i] < self.f_address[i - 1]:
                order = np.argsort(np.asarray(self.f_address)[began:ends], kind="stable").astype("u4")
                self.place = order if cython.compiled else memoryview(order)
                break
        else:
            if ends - began > cython.cast(cython.size_t, self.natural.shape[0]):
                self.natural = empty(2 * (ends - began), "u4")
                for i in range(2 * (ends - began)):
                    self.natural[i] = i
            self.place = self.natural
        place: uint32_t[::1] = self.place
        count: cython.size_t = ends - began
        k: cython.size_t = 0
        at: uint64_t
        until: uint64_t
        low: uint64_t
        high: uint64_t
        covered: uint64_t = 0
        c: cython.size_t
        i = 0
        while i + 1 < rows:
            if self.row_file[i] == WORD:
                i += 1
                continue
            # A run of rows without a gap.
            at = self.row_address[i]
            i += 1
            while i + 1 < rows and self.row_file[i] != WORD:
                i += 1
            until = self.row_address[i]
            while at < until:
                # What functions cover up to here.
                while k < count and self.f_address[began + place[k]] <= at:
                    high = self.f_address[began + place[k]] + self.f_size[began + place[k]]
                    if high > covered:
                        covered = high
                    k += 1
                if covered > at:
                    at = covered
                    continue
                low = at
                high = until
                if k < count and self.f_address[began + place[k]] < high:
                    high = self.f_address[began + place[k]]
                at = high
                if not claims.count:
                    self.add_orphan(low, high)
                for c in range(claims.count):
                    if claims.low[c] < high and claims.high[c] > low:
                        self.add_orphan(
                            low if low > claims.low[c] else claims.low[c], high if high < claims.high[c] else claims.high[c]
                        )

    @cython.cfunc
    def add_orphan(self, low: uint64_t, high: uint64_t):
        """Adds a piece of code that is in no function."""
        self.begin(low, high, WORD, True)
        self.f_end_inline[self.functions - 1] = self.inlines
        self.add_lines(low, high)
        self.f_end_line[self.functions - 1] = self.lines

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def begin(self, low: uint64_t, high: uint64_t, name: uint32_t, orphan: cython.bint) -> cython.int:
        """Begins a function."""
        n: cython.size_t = self.functions
        if n >= cython.cast(cython.size_t, self.f_name.shape[0]):
            self.grow_functions()
        self.f_address[n] = low
        self.f_size[n] = high - low
        self.f_name[n] = name
        self.f_first_line[n] = self.f_end_line[n] = self.lines
        self.f_first_inline[n] = self.f_end_inline[n] = self.inlines
        self.f_orphan[n] = orphan
        self.functions = n + 1
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def row_at(self, address: uint64_t) -> cython.size_t:
        """The row at an address: the last that does not begin later, or the first of all."""
        low: cython.size_t = 0
        high: cython.size_t = self.rows
        middle: cython.size_t
        while low < high:
            middle = (low + high) // 2
            if self.row_address[middle] <= address:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low else 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def file_of(self, number: uint32_t) -> uint32_t:
        """The map's number of a file of the unit."""
        if number < self.file_limit:
            return self.file_map[number]
        return WORD

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_lines(self, low: uint64_t, high: uint64_t) -> cython.int:
        """Adds the lines of a piece of code; neighbours of the same line become one."""
        rows: cython.size_t = self.rows
        i: cython.size_t = self.row_at(low)
        n: cython.size_t = self.lines
        first: cython.size_t = n
        a: uint64_t
        b: uint64_t
        file: uint32_t
        discriminator: uint32_t = 0
        while i + 1 < rows:
            a = self.row_address[i]
            if a >= high:
                break
            b = self.row_address[i + 1]
            if a < low:
                a = low
            if b > high:
                b = high
            if a < b and self.row_file[i] != WORD:
                file = self.file_of(self.row_file[i])
                if self.discriminators:
                    discriminator = self.row_discriminator[i]
                if (
                    n > first
                    and self.l_line[n - 1] == self.row_line[i]
                    and self.l_file[n - 1] == file
                    and self.l_address[n - 1] + self.l_size[n - 1] == a
                    and b - self.l_address[n - 1] < WORD
                    and (not self.discriminators or self.l_discriminator[n - 1] == discriminator)
                ):
                    self.l_size[n - 1] += cython.cast(uint32_t, b - a)
                else:
                    if n >= cython.cast(cython.size_t, self.l_line.shape[0]):
                        self.lines = n
                        self.grow_lines()
                    self.l_address[n] = a
                    self.l_size[n] = WORD if b - a > WORD else cython.cast(uint32_t, b - a)
                    self.l_line[n] = self.row_line[i]
                    self.l_file[n] = file
                    if self.discriminators:
                        self.l_discriminator[n] = discriminator
                    n += 1
            i += 1
        self.lines = n
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_functions(self) -> cython.int:
        """Makes room for more functions."""
        room: cython.size_t = 2 * self.f_name.shape[0]
        self.f_address = enlarged(self.f_address, room)
        self.f_size = enlarged(self.f_size, room)
        self.f_name = enlarged(self.f_name, room)
        self.f_first_line = enlarged(self.f_first_line, room)
        self.f_end_line = enlarged(self.f_end_line, room)
        self.f_first_inline = enlarged(self.f_first_inline, room)
        self.f_end_inline = enlarged(self.f_end_inline, room)
        self.f_orphan = enlarged(self.f_orphan, room)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_lines(self) -> cython.int:
        """Makes room for more lines."""
        room: cython.size_t = self.l_line.shape[0] + (self.l_line.shape[0] >> 1)
        self.l_address = enlarged(self.l_address, room)
        self.l_size = enlarged(self.l_size, room)
        self.l_line = enlarged(self.l_line, room)
        self.l_file = enlarged(self.l_file, room)
        if self.discriminators:
            self.l_discriminator = enlarged(self.l_discriminator, room)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_inlines(self) -> cython.int:
        """Makes room for more inlined calls."""
        room: cython.size_t = 2 * self.i_name.shape[0]
        self.i_depth = enlarged(self.i_depth, room)
        self.i_name = enlarged(self.i_name, room)
        self.i_file = enlarged(self.i_file, room)
        self.i_line = enlarged(self.i_line, room)
        self.i_first_range = enlarged(self.i_first_range, room + 1)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_ranges(self) -> cython.int:
        """Makes room for more ranges."""
        room: cython.size_t = 2 * self.r_address.shape[0]
        self.r_address = enlarged(self.r_address, room)
        self.r_size = enlarged(self.r_size, room)
        return 0

    def function_columns(self):
        """address, size (u8), name, first_line, end_line, first_inline, end_inline (u4), orphan (u1)."""
        n = self.functions
        return (
            np.asarray(self.f_address)[:n],
            np.asarray(self.f_size)[:n],
            np.asarray(self.f_name)[:n],
            np.asarray(self.f_first_line)[:n],
            np.asarray(self.f_end_line)[:n],
            np.asarray(self.f_first_inline)[:n],
            np.asarray(self.f_end_inline)[:n],
            np.asarray(self.f_orphan)[:n],
        )

    def line_columns(self):
        """address (u8), size, line, file (u4), discriminator (u4) or None."""
        n = self.lines
        return (
            np.asarray(self.l_address)[:n],
            np.asarray(self.l_size)[:n],
            np.asarray(self.l_line)[:n],
            np.asarray(self.l_file)[:n],
            np.asarray(self.l_discriminator)[:n] if self.discriminators else None,
        )

    def inline_columns(self):
        """depth (u2), name, call_file, call_line, first_range (u4), range_address, range_size (u8)."""
        n = self.inlines
        self.i_first_range[n] = self.ranges
        return (
            np.asarray(self.i_depth)[:n],
            np.asarray(self.i_name)[:n],
            np.asarray(self.i_file)[:n],
            np.asarray(self.i_line)[:n],
            np.asarray(self.i_first_range)[: n + 1],
            np.asarray(self.r_address)[: self.ranges],
            np.asarray(self.r_size)[: self.ranges],
        )
