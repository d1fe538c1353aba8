"""Ranges of addresses, many at a time: made to overlap nowhere, and cut to others.

Ranges come in groups (those of a function together) and say their first and *last* byte: the end of what reaches to the
last address of all would not be a number of 64 bits.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
else:
    uint8_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty, zeros


@cython.final
@cython.cclass
class Intervals:
    """Ranges, sorted by group and then by their first byte.

    Args:
        group (u4), first (u8), last (u8): one element a range; ``first <= last``.
    """

    def __init__(self, group, first, last):
        columns = (group, first, last)
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.group, self.first, self.last = columns
        self.count = 0

    def room(self, count):
        """Columns for so many results."""
        self.count = 0
        self.r_other, self.r_which = empty(count, "u4"), empty(count, "u4")
        self.r_first, self.r_last = empty(count, "u8"), empty(count, "u8")

    def results(self, other):
        """The results: which ranges they are parts of, their first and last bytes; before them, if asked, which others."""
        n = self.count
        columns = [self.r_other] if other else []
        columns += [self.r_which, self.r_first, self.r_last]
        return tuple([np.asarray(column)[:n] for column in columns])

    def flat(self):
        """The parts that count where ranges of a group overlap: of the range that stands last, as long as it lasts.

        As they are sorted, that is the one that begins last. Where it ends, the one around it goes on.

        Returns:
            which (u4), first (u8), last (u8), by group and address: at most twice as many as there are ranges.
        """
        total: cython.size_t = self.first.shape[0]
        depth: cython.size_t = 0
        at: uint64_t = 0
        top: uint64_t
        i: cython.size_t
        self.room(2 * total)
        self.open = empty(total, "u4")
        for i in range(total):
            if depth and self.group[self.open[0]] != self.group[i]:
                self.close(depth, at)
                depth = 0
            while depth and self.last[self.open[depth - 1]] < self.first[i]:
                top = self.last[self.open[depth - 1]]
                if top >= at:
                    self.put(0, self.open[depth - 1], at, top)
                    at = top + 1
                depth -= 1
            if depth and at < self.first[i]:
                self.put(0, self.open[depth - 1], at, self.first[i] - 1)
            self.open[depth] = i
            depth += 1
            at = self.first[i]
        if depth:
            self.close(depth, at)
        return self.results(False)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def close(self, depth: cython.size_t, at: uint64_t) -> cython.int:
        """Puts what is left of those that are open, at the end of a group."""
        top: uint64_t
        while depth:
            depth -= 1
            top = self.last[self.open[depth]]
            if top >= at:
                self.put(0, self.open[depth], at, top)
                if top == 0xFFFFFFFFFFFFFFFF:
                    return 0
                at = top + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, other: cython.size_t, which: cython.size_t, first: uint64_t, last: uint64_t) -> cython.int:
        """One more result."""
        at: cython.size_t = self.count
        self.r_other[at] = other
        self.r_which[at] = which
        self.r_first[at] = first
        self.r_last[at] = last
        self.count = at + 1
        return 0

    def cut(self, group, first, last):
        """The parts of these ranges that lie in others, which are sorted alike. Neither may overlap among themselves.

        Returns:
            other (u4), which (u4), first (u8), last (u8), by group and address.
        """
        columns = (group, first, last)
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.o_group, self.o_first, self.o_last = columns
        self.cut_all()
        return self.results(True)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def cut_all(self) -> cython.int:
        i: cython.size_t = 0
        k: cython.size_t = 0
        total: cython.size_t = self.first.shape[0]
        others: cython.size_t = self.o_first.shape[0]
        self.room(total + others)
        while i < total and k < others:
            if self.group[i] < self.o_group[k]:
                i += 1
            elif self.group[i] > self.o_group[k]:
                k += 1
            elif self.last[i] < self.o_first[k]:
                i += 1
            elif self.o_last[k] < self.first[i]:
                k += 1
            else:
                self.put(
                    k,
                    i,
                    self.first[i] if self.first[i] > self.o_first[k] else self.o_first[k],
                    self.last[i] if self.last[i] < self.o_last[k] else self.o_last[k],
                )
                if self.last[i] < self.o_last[k]:
                    i += 1
                else:
                    k += 1
        return 0


@cython.final
@cython.cclass
class Lists:
    """Finds the lists of ranges that are not what they should be: by address, apart from each other, inside their frame.

    Args:
        first, end (u4): the elements of each list.
        low, high (u8): the first and last byte of what it should lie in.
        address (u8), size (u4): the elements.
    """

    def __init__(self, first, end, low, high, address, size):
        columns = (first, end, low, high, address, size)
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.first, self.end, self.low, self.high, self.address, self.size = columns
        self.bad = zeros(len(first), "u1")

    def untidy(self):
        """1 for each list that is not (u1)."""
        self.look()
        return np.asarray(self.bad)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def look(self) -> cython.int:
        i: cython.size_t
        k: cython.size_t
        low: uint64_t
        for i in range(self.first.shape[0]):
            low = self.low[i]
            for k in range(self.first[i], self.end[i]):
                if (
                    self.address[k] < low
                    or self.address[k] > self.high[i]
                    or self.size[k] == 0
                    or self.size[k] - 1 > self.high[i] - self.address[k]
                ):
                    self.bad[i] = 1
                    break
                low = self.address[k] + self.size[k]
                if low == 0 and k + 1 < self.end[i]:
                    self.bad[i] = 1
                    break
        return 0
