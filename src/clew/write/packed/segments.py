"""The stretches of code that a packed table has an index for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from clew.errors import FormatError
from clew.image import Image
from clew.read.packed.layout import MOST_SEGMENTS, PAGE_BITS
from clew.table import Table

_GAP = 1 << PAGE_BITS
"""Bytes without a row from which on another segment costs less than the index of what lies between."""

_ROOM = 1 << 26
"""Bytes of code for which the file's size is not asked: their index has half a megabyte."""

_EXECUTABLE = 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of code: its address and size in bytes, and the indices of its first and last row in the table."""

    address: int
    size: int
    first: int
    last: int


def stretches(table: Table, image: Image | None) -> list[Stretch]:
    """Where the table says anything, in the file's code: at most :data:`MOST_SEGMENTS` pieces, sorted.

    Raises:
        FormatError: the rows are spread over far more addresses than the file has bytes. Its index would be large, and no
            code can be there.
    """
    if not len(table):
        return []
    pieces: list[Stretch] = []
    silent = np.flatnonzero(table.rule[:-1] == 0)
    wide = silent[(table.start[silent + 1] - table.start[silent]) >= _GAP]
    for low, high in _code(table, image):
        pieces += _pieces(table, wide, low, high)
    pieces = _joined(pieces)
    total = sum(piece.size for piece in pieces)
    if total > _ROOM and image is not None and total > 16 * image.source.size:
        raise FormatError(
            f"the unwind table is spread over {total:,} bytes of addresses, and the file has {image.source.size:,}",
            file=image.name,
            hint="no packed table is made of it: its index would be larger than the code",
        )
    return pieces


def _code(table: Table, image: Image | None) -> list[tuple[int, int]]:
    """The addresses that can be executed, as disjoint pairs; all that the table has where the file does not say."""
    bounds = (int(table.start[0]), int(table.start[-1]))
    segments = [] if image is None else [each for each in image.segments if each.type == 1 and each.flags & _EXECUTABLE]
    if not segments:
        return [bounds]
    found: list[tuple[int, int]] = []
    for low, high in sorted((each.address, each.address + each.memory_size) for each in segments):
        low, high = max(low, bounds[0], found[-1][1] if found else 0), min(high, bounds[1])
        if low < high:
            found.append((low, high))
    return found


def _pieces(table: Table, wide: np.ndarray[tuple[int], np.dtype[np.int64]], low: int, high: int) -> list[Stretch]:
    """The pieces between two addresses: without what is silent at either end, cut where it is silent for long."""
    start, rule = table.start, table.rule
    first = max(int(np.searchsorted(start, np.uint64(low), "right")) - 1, 0)
    last = int(np.searchsorted(start, np.uint64(high), "left")) - 1
    cuts = wide[np.searchsorted(wide, first, "left") : np.searchsorted(wide, last, "right")].tolist()
    found: list[Stretch] = []
    for begin, end in zip([first, *(cut + 1 for cut in cuts)], [*(cut - 1 for cut in cuts), last], strict=True):
        if begin <= end and not rule[begin]:
            begin += 1
        if begin <= end and not rule[end]:
            end -= 1
        if begin > end:
            continue
        address = max(int(start[begin]), low)
        stop = min(int(start[end + 1]), high)
        if address < stop:
            found.append(Stretch(address, stop - address, begin, end))
    return found


def _joined(pieces: list[Stretch]) -> list[Stretch]:
    """The pieces with the narrowest gaps between them closed, so that no more are left than a table may have."""
    if len(pieces) <= MOST_SEGMENTS:
        return pieces
    gaps = [after.address - before.address - before.size for before, after in pairwise(pieces)]
    kept = set(sorted(range(len(gaps)), key=gaps.__getitem__)[-(MOST_SEGMENTS - 1) :])
    found = [pieces[0]]
    for index, piece in enumerate(pieces[1:]):
        if index in kept:
            found.append(piece)
        else:
            before = found[-1]
            found[-1] = Stretch(before.address, piece.address + piece.size - before.address, before.first, piece.last)
    return found
