"""Rows beside which there is code that a strategy before the table goes by: signal trampolines, and where stacks begin.

The fast walker asks once for each row of a file, and takes the answer for all targets that have the file: the code that the
file holds is taken to be in memory unchanged, and what lies beside it to be the same in each.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from clew.arch import Machine
from clew.errors import Error
from clew.image import Image
from clew.table import Table
from clew.target.model import Module
from clew.walk.bottom import code_of_bottoms
from clew.walk.sigframes import trampolines_of
from clew.walk.surroundings import ENDBR64, Surroundings

_MOST_CODE = 1 << 22
"""Bytes of one row's code that are searched; a row of more is left to the general walker."""

_FEW = 256
"""As many bytes are looked at one by one where they cannot be read together."""

_MANY_ROWS = 48
"""Rows of a file after which its whole code is searched, once, instead of that beside each row."""

_pieces: WeakKeyDictionary[Image, list[tuple[int, memoryview]]] = WeakKeyDictionary()


def _code(module: Module) -> list[tuple[int, memoryview]]:
    """The machine code that a module's file holds, with the file's addresses."""
    image = module.image
    if image is None:
        return []
    pieces = _pieces.get(image)
    if pieces is None:
        try:
            found = ((low, image.bytes_at(low, high - low)) for low, high in image.code_ranges())
            pieces = [(low, code) for low, code in found if code is not None]
        except Error:
            pieces = []
        _pieces[image] = pieces
    return pieces


class KnownCode:
    """Tells the rows of one machine's tables for which such a strategy may apply."""

    def __init__(self, machine: Machine) -> None:
        codes = {each.code for each in trampolines_of(machine)} | set(code_of_bottoms(machine))
        self._pattern = re.compile(b"|".join(map(re.escape, sorted(codes)))) if codes else None
        self._longest = max(map(len, codes), default=0) + len(ENDBR64)
        self._asked: WeakKeyDictionary[Table, int] = WeakKeyDictionary()
        self._places: WeakKeyDictionary[Table, tuple[list[int], list[int]]] = WeakKeyDictionary()

    def beside(self, table: Table, module: Module, start: int, end: int, around: Surroundings) -> bool:
        """Whether there may be such code in or beside the row from start to end, or where its functions begin.

        A return address may be the first one behind the row; code that it is in begins before that, or ends behind it.
        """
        if self._pattern is None:
            return False
        asked = self._asked[table] = self._asked.get(table, 0) + 1
        low, high = start - self._longest, end + self._longest
        pieces = _code(module)
        if asked > _MANY_ROWS and any(first <= low and high <= first + len(code) for first, code in pieces):
            starts, ends = self._all_places(self._pattern, table, pieces)
            index = bisect_right(starts, end) - 1
            return index >= 0 and ends[index] >= start
        spans = {(low, high)}
        for function in map(table.range_at, (start, end - 1, end)):
            if function is not None:
                spans.add((function.start, function.start + self._longest))
        return any(_within(self._pattern, pieces, module, *span, around) for span in sorted(spans))

    def places(self, table: Table, module: Module) -> tuple[list[int], list[int]] | None:
        """Addresses of a file beside which such code may be: starts and ends of intervals, both included, sorted and apart.

        What its file does not hold of its code is among them. None if that is all of it.
        """
        pieces = sorted(_code(module))
        if self._pattern is None:
            return [], []
        if not pieces:
            return None
        starts, ends = self._all_places(self._pattern, table, pieces)
        edges = [(0, pieces[0][0] + self._longest)]
        for (first, code), (following, _) in pairwise(pieces):
            edges.append((max(first + len(code) - self._longest, 0), following + self._longest))
        edges.append((max(pieces[-1][0] + len(pieces[-1][1]) - self._longest, 0), (1 << 64) - 1))
        return _joined(sorted([*zip(starts, ends, strict=True), *edges]))

    def _all_places(
        self, pattern: re.Pattern[bytes], table: Table, pieces: list[tuple[int, memoryview]]
    ) -> tuple[list[int], list[int]]:
        """Where all rows are that such code may stand beside, in what a file holds: starts and ends, sorted and apart."""
        known = self._places.get(table)
        if known is None:
            found = [first + match.start() for first, code in pieces for match in pattern.finditer(code)]
            # Of matches that overlap one is found.
            reach = 2 * self._longest
            lows = np.array([max(place - reach, 0) for place in found], np.uint64)
            highs = np.array([min(place + reach, (1 << 64) - 1) for place in found], np.uint64)
            bounds = table.ranges.start, table.ranges.end
            begun = np.zeros(len(bounds[0]) + 1, np.int64)
            np.add.at(begun, np.searchsorted(bounds[0], lows), 1)
            np.add.at(begun, np.searchsorted(bounds[0], highs, "right"), -1)
            functions = np.cumsum(begun)[:-1] > 0
            # What does not begin in a piece was not searched.
            for first, _ in pieces:
                functions |= (bounds[0] < first) & (bounds[1] > first)
            starts = [*lows.tolist(), *bounds[0][functions].tolist()]
            ends = [*highs.tolist(), *bounds[1][functions].tolist()]
            known = self._places[table] = _joined(sorted(zip(starts, ends, strict=True)))
        return known


def _joined(intervals: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Starts and ends of sorted intervals, those that touch made one."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in intervals:
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def _within(
    pattern: re.Pattern[bytes],
    pieces: list[tuple[int, memoryview]],
    module: Module,
    low: int,
    high: int,
    around: Surroundings,
) -> bool:
    """Whether such code is between two addresses of a file."""
    size = high - low
    for first, code in pieces:
        if first <= low and high <= first + len(code):
            return size > _MOST_CODE or pattern.search(code, low - first, high - first) is not None
    # Not all in the file: beside its code something else may be loaded, or only memory has the code.
    base = low + module.bias & around.mask
    data = around.code(base, size) if size <= _MOST_CODE else None
    if data is None and size > _FEW:
        return True
    runs = [data] if data is not None else _readable(around, base, size)
    return any(pattern.search(run) is not None for run in runs)


def _readable(around: Surroundings, address: int, size: int) -> list[bytes]:
    """The runs of bytes that can be read in a piece of memory."""
    every = (around.code(address + index, 1) for index in range(size))
    runs = [bytearray()]
    for byte in every:
        if byte is None:
            runs.append(bytearray())
        else:
            runs[-1] += byte
    return [bytes(run) for run in runs if run]
