"""Inlined calls cut to what they are inside of, so that each lies in the code of the call around it."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import uint8_t, uint16_t, uint32_t, uint64_t
else:
    uint8_t = uint16_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty, zeros

#: What was found of a call: it lies inside whole, in part, not at all, or there is no call around it at its depth.
WHOLE, PART, OUTSIDE, UNNESTED = range(4)


@cython.final
@cython.cclass
class Nests:
    """Cuts the inlined calls of functions.

    Args:
        depth (u2), first_range (u4, one more): the calls, in preorder.
        address, last (u8): the first and last bytes of their ranges, by address within a call.
    """

    def __init__(self, depth, first_range, address, last):
        columns = (depth, first_range, address, last)
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.depth, self.first_range, self.address, self.last = columns
        self.found = zeros(len(depth), "u1")
        self.count = self.range_count = 0

    def cut(self, first, end, low, high):
        """Cuts the calls of functions, each a run of calls and the code that it has.

        A range is cut to the first range of the call around it that it meets, and to those that follow without a gap. It is cut
        where an earlier range of its own call ends. A call that keeps no range is left out, and so are those inside it.

        Args:
            first, end (u4): a function's calls. low, high (u8): the first and last byte of its code.

        Returns:
            first, end (u4): of each function's calls among those that are left;
            which (u4): which call each of them was; first_range (u4, one more); address, last (u8).
        """
        columns = (first, end, low, high)
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.w_first, self.w_end, self.w_low, self.w_high = columns
        calls = ranges = 0
        bounds = np.asarray(self.first_range).astype(np.int64)
        if len(first):
            begins, ends = np.asarray(first), np.asarray(end)
            calls = int((ends.astype(np.int64) - begins).sum())
            ranges = int((bounds[ends] - bounds[begins]).sum())
        self.out_first, self.out_end = empty(len(first), "u4"), empty(len(first), "u4")
        self.which, self.out_range = empty(calls, "u4"), empty(calls + 1, "u4")
        self.out_address, self.out_last, self.reach = (empty(ranges, "u8") for _ in range(3))
        self.level_first, self.level_end = empty(0x10001, "u4"), empty(0x10001, "u4")
        self.level_top, self.level_owner = empty(0x10001, "u8"), zeros(0x10001, "u4")
        self.shuffled = zeros(len(first), "u1")
        self.count = self.range_count = 0
        self.run()
        self.out_range[self.count] = self.range_count
        n, r = self.count, self.range_count
        return (
            np.asarray(self.out_first),
            np.asarray(self.out_end),
            np.asarray(self.which)[:n],
            np.asarray(self.out_range)[: n + 1],
            np.asarray(self.out_address)[:r],
            np.asarray(self.out_last)[:r],
        )

    def unsorted(self):
        """1 for each function (u1) of the last cut in which calls of one depth are not one behind the other."""
        return np.asarray(self.shuffled)

    def flaws(self):
        """What was found of each call (u1) by the last cut."""
        return np.asarray(self.found)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run(self) -> cython.int:
        i: cython.size_t
        k: cython.size_t
        depth: cython.size_t
        levels: cython.size_t
        for i in range(self.w_first.shape[0]):
            self.out_first[i] = self.count
            levels = 0
            for k in range(self.w_first[i], self.w_end[i]):
                depth = self.depth[k]
                if depth > levels:
                    self.found[k] = UNNESTED
                    continue
                levels = depth
                if self.call(i, k, depth):
                    levels = depth + 1
            self.out_end[i] = self.count
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def search(self, low: cython.size_t, high: cython.size_t, address: uint64_t) -> cython.size_t:
        """The first of these ranges of a call that does not end before the address, or ``high``."""
        middle: cython.size_t
        while low < high:
            middle = (low + high) >> 1
            if self.out_last[middle] < address:
                low = middle + 1
            else:
                high = middle
        return low

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def call(self, window: cython.size_t, k: cython.size_t, depth: cython.size_t) -> cython.bint:
        """Cuts one call; False when nothing of it is left."""
        begin: cython.size_t = self.range_count
        at: cython.size_t = begin
        r: cython.size_t
        first: uint64_t
        last: uint64_t
        limit: uint64_t
        cut: cython.bint = False
        outer: cython.size_t = 0
        outer_end: cython.size_t = 0
        if depth:
            outer = self.level_first[depth - 1]
            outer_end = self.level_end[depth - 1]
        for r in range(self.first_range[k], self.first_range[k + 1]):
            first = self.address[r]
            last = self.last[r]
            if at > begin and first <= self.out_last[at - 1]:
                if last <= self.out_last[at - 1]:
                    cut = True
                    continue
                cut = True
                first = self.out_last[at - 1] + 1
            if depth:
                outer = self.search(outer, outer_end, first)
                if outer == outer_end or self.out_address[outer] > last:
                    cut = True
                    continue
                if first < self.out_address[outer]:
                    first = self.out_address[outer]
                    cut = True
                limit = self.reach[outer]
            else:
                if last < self.w_low[window] or first > self.w_high[window]:
                    cut = True
                    continue
                if first < self.w_low[window]:
                    first = self.w_low[window]
                    cut = True
                limit = self.w_high[window]
            if last > limit:
                last = limit
                cut = True
            if self.level_owner[depth] == window + 1 and first <= self.level_top[depth]:
                self.shuffled[window] = 1
            else:
                self.level_owner[depth] = window + 1
                self.level_top[depth] = last
            self.out_address[at] = first
            self.out_last[at] = last
            at += 1
        if at == begin:
            self.found[k] = OUTSIDE
            return False
        self.found[k] = PART if cut else WHOLE
        self.which[self.count] = k
        self.out_range[self.count] = begin
        self.count += 1
        self.range_count = at
        self.level_first[depth] = begin
        self.level_end[depth] = at
        # How far each range and those that follow it without a gap reach.
        r = at
        while r > begin:
            r -= 1
            self.reach[r] = self.out_last[r]
            if r + 1 < at and self.out_address[r + 1] - 1 == self.out_last[r]:
                self.reach[r] = self.reach[r + 1]
        return True
