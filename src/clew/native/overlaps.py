"""Rows of overlapping FDEs made into rows of a table.

The rule: of the FDEs around an address the one that starts last counts, of equal starts the one that stands last in the
section; where it ends, the one around it goes on. Inner ranges thus win, as they do for who searches a sorted table by its
starts, and nothing that only the outer one knows is lost.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import uint32_t, uint64_t
else:
    uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty


@cython.final
@cython.cclass
class Overlay:
    """Takes sorted ranges with their rows apart where they overlap.

    Args:
        start, stop (u8): the ranges, sorted by start, the ones that count last among equals.
        first (u4): index of each range's first row.
        row_start (u8), row_rule (u4), row_args (u4): the rows of all ranges, gaps between them included.
    """

    def __init__(self, start, stop, first, row_start, row_rule, row_args):
        count = len(start)
        columns = (start, stop, first, row_start, row_rule, row_args)
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.start, self.stop, self.first, self.row_start, self.row_rule, self.row_args = columns
        # Each range may add a row where it goes on and a gap where it ends.
        room = len(row_start) + 2 * count + 2
        self.out_start = empty(room, "u8")
        self.out_rule = empty(room, "u4")
        self.out_args = empty(room, "u4")
        self.next_row = empty(count, "u4")
        self.open = empty(count, "u4")
        self.count = 0

    def run(self):
        """The rows that count: starts (u8), rule numbers and argument sizes (u4)."""
        total: cython.size_t = self.start.shape[0]
        at: uint64_t = 0
        depth: cython.size_t = 0
        i: cython.size_t
        for i in range(total):
            # What is open goes on up to here.
            while depth and self.stop[self.open[depth - 1]] <= self.start[i]:
                at = self.show(self.open[depth - 1], at, self.stop[self.open[depth - 1]])
                depth -= 1
            if depth:
                self.show(self.open[depth - 1], at, self.start[i])
            elif i and at < self.start[i]:
                self.put(at, 0, 0)
            self.next_row[i] = self.first[i]
            self.open[depth] = i
            depth += 1
            at = self.start[i]
        while depth:
            depth -= 1
            at = self.show(self.open[depth], at, self.stop[self.open[depth]])
        self.put(at, 0, 0)
        n = self.count
        return np.asarray(self.out_start)[:n], np.asarray(self.out_rule)[:n], np.asarray(self.out_args)[:n]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def show(self, which: cython.size_t, low: uint64_t, high: uint64_t) -> uint64_t:
        """Puts the rows of a range that hold from ``low`` up to ``high``; answers with where the next begin."""
        if high <= low:
            return low
        row: cython.size_t = self.next_row[which]
        limit: cython.size_t = self.row_start.shape[0]
        if which + 1 < cython.cast(cython.size_t, self.first.shape[0]):
            limit = self.first[which + 1]
        while row + 1 < limit and self.row_start[row + 1] <= low:
            row += 1
        self.put(low, self.row_rule[row], self.row_args[row])
        while row + 1 < limit and self.row_start[row + 1] < high:
            row += 1
            self.put(self.row_start[row], self.row_rule[row], self.row_args[row])
        self.next_row[which] = row
        return high

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def put(self, start: uint64_t, rule: uint32_t, args: uint32_t) -> cython.int:
        """Adds a row; one of no length gives way to the next."""
        if self.count and self.out_start[self.count - 1] == start:
            self.count -= 1
        self.out_start[self.count] = start
        self.out_rule[self.count] = rule
        self.out_args[self.count] = args
        self.count += 1
        return 0
