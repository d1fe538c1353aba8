"""Scopes and rows of lines made into functions with their own lines and inlined calls.

A unit says in one place which code belongs to which function, and in another which line each instruction is of. Here they
come together: for each piece of a function the lines inside it, and the inlined calls cut to it.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import WORD
    from cython.cimports.clew.native.dwarf_assembly import Assembly
    from cython.cimports.clew.native.dwarf_files import FileBook
    from cython.cimports.clew.native.dwarf_lines import LineReader
    from cython.cimports.clew.native.dwarf_ranges import RangeReader
    from cython.cimports.clew.native.dwarf_scopes import ScopeWalker
    from cython.cimports.libc.stdint import uint16_t, uint32_t, uint64_t
else:
    from clew.native.cursor import WORD
    from clew.native.dwarf_assembly import Assembly
    from clew.native.dwarf_files import FileBook
    from clew.native.dwarf_lines import LineReader
    from clew.native.dwarf_ranges import RangeReader
    from clew.native.dwarf_scopes import ScopeWalker

    uint64_t = uint32_t = uint16_t = cython.longlong

from clew.native.columns import empty, enlarged


@cython.cclass
class Assembler(Assembly):
    """Takes units, one after the other, and fills the columns of a :class:`clew.symbols.SymbolMap`.

    Args:
        discriminators, most: as in :class:`Assembly`.

    Attributes:
        functions, lines, inlines, ranges: how many there are so far.
        exceeded: whether something was left out of the unit that was added last, because it was far too much.
    """

    def __init__(self, discriminators=False, most=0):
        Assembly.__init__(self, discriminators, most)
        self.emitted = empty(64, "u4")
        self.natural = empty(0, "u4")
        self.rows = self.file_limit = 0
        # Hostile files can have functions of many pieces with many inlined calls, and many functions in one place.
        self.visits = 1 << 26
        self.output = 1 << 18
        self.exceeded = False

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
            claims: has the code that the unit says it has; None where it does not say. They are put in order.
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
        self.visits += 64 * (walker.count + walker.ranges.count)
        self.output += 8 * (walker.count + walker.ranges.count) + 4 * rows
        self.exceeded = False
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
                self.visits -= end - i + first[end] - first[i]
                # emitted[d] is one more than the depth of the last call that was emitted at level d.
                for j in range(i + 1, end):
                    if self.visits < 0 or self.output < 0:
                        self.exceeded = True
                        break
                    depth = level[j]
                    if depth == 0 or nest[j] != nest[i]:
                        # What belongs to a function inside this one.
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
                            self.output -= 1
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
        c: cython.size_t = 0
        d: cython.size_t
        if claims is not None:
            put_in_order(claims)
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
                if claims is None:
                    self.add_orphan(low, high)
                    continue
                while c < claims.count and claims.high[c] <= low:
                    c += 1
                d = c
                while d < claims.count and claims.low[d] < high:
                    self.add_orphan(
                        low if low > claims.low[d] else claims.low[d], high if high < claims.high[d] else claims.high[d]
                    )
                    d += 1

    @cython.cfunc
    def add_orphan(self, low: uint64_t, high: uint64_t):
        """Adds a piece of code that is in no function."""
        self.begin(low, high, WORD, True)
        self.f_end_inline[self.functions - 1] = self.inlines
        self.add_lines(low, high)
        self.f_end_line[self.functions - 1] = self.lines

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
            self.output -= 1
            if self.output < 0:
                self.exceeded = True
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
def put_in_order(claims: RangeReader):
    """Sorts ranges, and makes one of those that overlap."""
    i: cython.size_t
    for i in range(1, claims.count):
        if claims.low[i] < claims.high[i - 1]:
            break
    else:
        return
    low, high = np.asarray(claims.low)[: claims.count], np.asarray(claims.high)[: claims.count]
    order = np.argsort(low, kind="stable")
    starts, ends = low[order], np.maximum.accumulate(high[order])
    first = np.ones(len(starts), bool)
    first[1:] = starts[1:] > ends[: len(ends) - 1]
    last = np.append(np.flatnonzero(first)[1:], len(starts)) - 1
    claims.count = len(last)
    low[: claims.count], high[: claims.count] = starts[first], ends[last]
