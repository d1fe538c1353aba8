"""Look-up in columns, against a plain search through all of them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clew.native.symbol_index import SymbolIndex
from clew.symbols.symbol_map import Functions, Inlines, Lines

Call = tuple[int, list[tuple[int, int]]]
Piece = tuple[int, int, int, int]


def index_of(pieces: list[Piece], calls: list[Call], lines: list[tuple[int, int]]) -> SymbolIndex:
    """An index of functions (address, size, first and end of their calls), calls (depth, ranges), and lines of all of them."""
    ranges = [each for _, part in calls for each in part]
    bounds = np.cumsum([0, *(len(part) for _, part in calls)])

    def column(values: list[int], kind: str) -> npt.NDArray[Any]:
        return np.array(values, kind)

    many = len(pieces)
    none = np.zeros(many, np.uint32)
    functions = Functions(
        column([piece[0] for piece in pieces], "u8"),
        column([piece[1] for piece in pieces], "u8"),
        none,
        none,
        np.zeros(many, np.uint8),
        none,
        np.full(many, len(lines), np.uint32),
        column([piece[2] for piece in pieces], "u4"),
        column([piece[3] for piece in pieces], "u4"),
    )
    nothing = np.zeros(len(lines), np.uint32)
    known = Lines(column([at for at, _ in lines], "u8"), column([size for _, size in lines], "u4"), nothing, nothing)
    nothing = np.zeros(len(calls), np.uint32)
    inlines = Inlines(
        column([depth for depth, _ in calls], "u2"),
        nothing,
        nothing,
        nothing,
        bounds.astype(np.uint32),
        column([at for at, _ in ranges], "u8"),
        column([size for _, size in ranges], "u8"),
    )
    return SymbolIndex(functions, known, inlines)


def found(pieces: list[Piece], calls: list[Call], lines: list[tuple[int, int]], address: int) -> tuple[int, int, int]:
    """What :meth:`SymbolIndex.find` should say."""
    for number, (start, size, first, end) in enumerate(pieces):
        if start <= address < start + size:
            inside = [
                (at, depth, call)
                for call, (depth, ranges) in enumerate(calls[first:end], first)
                for at, length in ranges
                if at <= address < at + length
            ]
            line = [place for place, (at, length) in enumerate(lines) if at <= address < at + length]
            return number, line[-1] if line else -1, max(inside)[2] if inside else -1
    return -1, -1, -1


def nested(random: Random, calls: list[Call], pieces: list[tuple[int, int]], depth: int) -> None:
    """Adds calls of which each is inside the one around it."""
    for _ in range(random.randrange(3)):
        chosen = []
        for at, size in pieces:
            if size > 1 and random.random() < 0.7:
                begin = at + random.randrange(size // 2)
                chosen.append((begin, random.randrange(1, at + size - begin + 1)))
        if chosen:
            calls.append((depth, chosen))
            if depth < 4:
                nested(random, calls, chosen, depth + 1)


@pytest.mark.parametrize("seed", range(40))
def test_against_a_plain_search(seed: int) -> None:
    random = Random(seed)
    pieces: list[Piece] = []
    calls: list[Call] = []
    lines: list[tuple[int, int]] = []
    at = 0x1000
    for _ in range(random.randrange(1, 8)):
        at += random.choice((0, 0, 5))
        size = random.randrange(1, 60)
        first = len(calls)
        nested(random, calls, [(at, size)], 0)
        if random.random() < 0.3 and size > 6:
            # Cut in two by another function, which has calls of its own; both parts have all calls.
            inner = at + size // 3, size // 3
            end = len(calls)
            nested(random, calls, [inner], 0)
            pieces += [
                (at, inner[0] - at, first, end),
                (*inner, end, len(calls)),
                (inner[0] + inner[1], at + size - inner[0] - inner[1], first, end),
            ]
        else:
            pieces.append((at, size, first, len(calls)))
        if random.random() < 0.2:
            # Calls of a function whose place another took: they are nobody's.
            nested(random, calls, [(at, size)], 0)
        lines += [(place, random.randrange(1, 3)) for place in range(at, at + size, 3)]
        at += size
    index = index_of(pieces, calls, lines)
    addresses = np.arange(0xFF0, at + 10, dtype=np.uint64)
    expected = [found(pieces, calls, lines, address) for address in addresses.tolist()]
    # Of ranges that begin at one place in calls of one depth it is not said which is inside.
    got = [index.find(address) for address in addresses.tolist()]
    for one, other in zip(got, expected, strict=True):
        assert one[:2] == other[:2]
        if one[2] != other[2]:
            assert one[2] >= 0
            assert calls[one[2]][0] == calls[other[2]][0]
    many = index.find_many(addresses)
    assert list(zip(*(column.tolist() for column in many), strict=True)) == got


def test_callers() -> None:
    depths = [0, 1, 2, 1, 0, 2, 0, 1]
    calls: list[Call] = [(depth, [(0x1000 + 8 * place, 8)]) for place, depth in enumerate(depths)]
    index = index_of([(0x1000, 48, 0, 6), (0x1030, 16, 6, 8)], calls, [])
    # A call that is two deeper than the one before it has nobody around it.
    assert index.callers().tolist() == [-1, 0, 1, 0, -1, 3, -1, 6]


def test_nothing_at_all() -> None:
    index = index_of([], [], [])
    assert index.find(0) == index.find((1 << 64) - 1) == (-1, -1, -1)
    assert index.callers().tolist() == []
