"""The tables by which an address finds its body: pages of 256 bytes, and the low bytes of the addresses at which rows begin.

.. code-block:: text

    pages    u32   for each page of a segment, and the one behind: how many rows begin before it
    lows     u8    for each row, the low byte of its start
    targets  u16   for each row, the body; before them one for what is before the first row

A segment is a stretch of pages in most of which a row begins. Where none does for long, there is another segment behind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.write.compiled.planning import Plan

PAGE_BITS = 8

#: Pages without a row that a segment may bridge, unless the index would become large for the rows that there are.
_BRIDGE = 4096

#: What a segment may have, so that a distance in it fits into four bytes with a sign.
_MOST_PAGES = 1 << 22


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of pages.

    Attributes:
        start, end: its addresses.
        place: bytes from the start of the data to those of its pages.
        after: the number of the body from its end to the next segment.
    """

    start: int
    end: int
    place: int
    after: int


@dataclass(frozen=True, slots=True)
class Pages:
    """The tables.

    Attributes:
        segments: sorted, apart.
        pages (u4), lows (u1): see above. The lows have sixteen bytes more than there are rows, for vector loads.
    """

    segments: tuple[Segment, ...]
    pages: npt.NDArray[np.uint32]
    lows: npt.NDArray[np.uint8]


def pages_of(plan: Plan) -> Pages:
    """The tables of a plan."""
    start = plan.start
    lows = np.zeros(len(start) + 16, np.uint8)
    lows[: len(start)] = (start & np.uint64((1 << PAGE_BITS) - 1)).astype(np.uint8)
    occupied = np.unique(start >> np.uint64(PAGE_BITS))
    segments: list[Segment] = []
    parts: list[npt.NDArray[np.uint32]] = []
    place = 0
    for first, last in _stretches(occupied, len(start)):
        count = last - first + 1
        inner = (np.arange(1, count, dtype=np.uint64) + np.uint64(first)) << np.uint64(PAGE_BITS)
        before = int(np.searchsorted(start, np.uint64(first << PAGE_BITS), "left"))
        # The page behind the last may begin at 2^64.
        behind = int(np.searchsorted(start, np.uint64(((last + 1) << PAGE_BITS) - 1), "right"))
        ranks = np.concatenate(([before], np.searchsorted(start, inner, "left"), [behind])).astype(np.uint32)
        parts.append(ranks)
        after = int(plan.body[behind - 1])
        segments.append(Segment(first << PAGE_BITS, (last + 1) << PAGE_BITS, place, after))
        place += ranks.nbytes
    return Pages(tuple(segments), np.concatenate(parts) if parts else np.zeros(0, np.uint32), lows)


def _stretches(occupied: npt.NDArray[np.uint64], rows: int) -> list[tuple[int, int]]:
    """First and last page of each segment. An index has at most a few entries for each row, wherever the rows are."""
    if not len(occupied):
        return []
    gaps = occupied[1:] - occupied[:-1]
    bridge = _BRIDGE
    while bridge > 1 and int(gaps[gaps <= bridge].sum()) > 16 * rows + (1 << 16):
        bridge //= 2
    found: list[tuple[int, int]] = []
    cuts = np.flatnonzero(gaps > bridge)
    for low, high in zip(np.append(0, cuts + 1).tolist(), np.append(cuts, len(occupied) - 1).tolist(), strict=True):
        first, last = int(occupied[low]), int(occupied[high])
        while last - first >= _MOST_PAGES:
            # In the middle of what is there, at a page in which a row begins.
            place = int(np.searchsorted(occupied, np.uint64(first + _MOST_PAGES), "left"))
            found.append((first, int(occupied[place - 1])))
            first = int(occupied[place])
        found.append((first, last))
    return found
