"""A table function by function: what people and JSON get to see."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from clew.table import Range, Ranges, Table

#: The name of the function that holds an address, and how far into it the address is; or None.
Namer = Callable[[int], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class Function:
    """One function of a table.

    Attributes:
        range: its addresses, and where its FDE is.
        name: its symbol; None where there is none.
        offset: how far into that symbol the range begins.
        start, rule, args_size: the rows that hold in the range, one element each: where it begins, the number of its rule, and
            the bytes of arguments on the stack. A row ends where the next begins, the last with the range.
    """

    range: Range
    name: str | None
    offset: int
    start: list[int]
    rule: list[int]
    args_size: list[int]


def functions(table: Table, name_of: Namer, within: Sequence[tuple[int, int]] | None = None) -> Iterator[Function]:
    """The functions of a table, in the order of their addresses.

    One that counts nowhere, because others lie upon it, is left out: a function that ``.eh_frame`` and ``.debug_frame`` both
    describe comes once. Where others lie upon part of one, their rows are among its.

    Args:
        within: only functions that count somewhere in these ``(start, end)`` addresses.
    """
    ranges = table.ranges
    owner, start, end = _owned(ranges)
    if within is not None:
        chosen = np.zeros(len(owner), bool)
        for low, high in within:
            chosen |= (start < np.uint64(high)) & (end > np.uint64(low))
        owner = owner[chosen]
    first = np.searchsorted(table.start, ranges.start, "right") - 1
    last = np.searchsorted(table.start, ranges.end, "left")
    for number in np.unique(owner).tolist():
        this = ranges[number]
        rows = slice(max(int(first[number]), 0), int(last[number]))
        begin = table.start[rows].tolist()
        # Where a neighbour's last rule is this one's first, the row may begin there.
        begin[:1] = [this.start]
        found = name_of(this.start)
        yield Function(
            this,
            None if found is None else found[0],
            0 if found is None else found[1],
            begin,
            table.rule[rows].tolist(),
            [0] * len(begin) if table.args_size is None else table.args_size[rows].tolist(),
        )


_Owned = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]


def _owned(ranges: Ranges) -> _Owned:
    """Which range counts where: its number, and the addresses from which and up to which it does, in address order.

    As :func:`clew.table.merge` and the section's own reader have it: the first source counts, and in it the range that
    starts last; where it ends, the one around it goes on.
    """
    start, end = ranges.start, ranges.end
    if not (np.maximum.accumulate(end)[:-1] > start[1:]).any():
        return np.arange(len(ranges)), start, end
    pieces: list[tuple[int, int, int]] = []
    # The best of those around the address comes first: lowest source, then highest number, for they are sorted by start.
    around: list[tuple[int, int]] = []
    source = ranges.columns.source.tolist()
    starts, ends = start.tolist(), end.tolist()
    turn = 0
    for here, there in pairwise(np.unique(np.concatenate((start, end))).tolist()):
        while turn < len(starts) and starts[turn] == here:
            heapq.heappush(around, (source[turn], -turn))
            turn += 1
        while around and ends[-around[0][1]] <= here:
            heapq.heappop(around)
        if around:
            best = -around[0][1]
            if pieces and pieces[-1][0] == best and pieces[-1][2] == here:
                pieces[-1] = best, pieces[-1][1], there
            else:
                pieces.append((best, here, there))
    numbers, low, high = zip(*pieces, strict=True)
    return np.array(numbers, np.int64), np.array(low, np.uint64), np.array(high, np.uint64)
