"""Ranges that are flattened and cut, against a reading address by address."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.native.intervals import Intervals, Lists

SPACE = 24
TOP = (1 << 64) - SPACE
Range = tuple[int, int, int]

ranges = st.lists(st.tuples(st.integers(0, 2), st.integers(0, SPACE - 1), st.integers(0, SPACE - 1)), max_size=8)


def made(items: list[Range]) -> list[Range]:
    """Groups, first and last bytes, at the end of all addresses, sorted."""
    return sorted((group, TOP + min(a, b), TOP + max(a, b)) for group, a, b in items)


def intervals(items: list[Range]) -> Intervals:
    columns = list(zip(*items, strict=True)) or [(), (), ()]
    return Intervals(np.array(columns[0], np.uint32), *(np.array(column, np.uint64) for column in columns[1:]))


def flat(items: list[Range]) -> list[tuple[int, int, int]]:
    return [(int(which), int(first), int(last)) for which, first, last in zip(*intervals(items).flat(), strict=True)]


@settings(max_examples=150, deadline=None)
@given(ranges)
def test_flat(items: list[Range]) -> None:
    items = made(items)
    found = flat(items)
    assert len(found) <= 2 * len(items)
    for group in range(3):
        for address in range(TOP, TOP + SPACE):
            around = [i for i, (g, first, last) in enumerate(items) if g == group and first <= address <= last]
            there = [which for which, first, last in found if items[which][0] == group and first <= address <= last]
            assert there == around[-1:]


@settings(max_examples=150, deadline=None)
@given(ranges, ranges)
def test_cut(items: list[Range], others: list[Range]) -> None:
    def apart(given: list[Range]) -> list[Range]:
        given = made(given)
        return [(given[which][0], first, last) for which, first, last in flat(given)]

    items, others = apart(items), apart(others)
    columns = list(zip(*others, strict=True)) or [(), (), ()]
    result = intervals(items).cut(
        np.array(columns[0], np.uint32), *(np.array(column, np.uint64) for column in columns[1:])
    )
    found = [tuple(map(int, row)) for row in zip(*result, strict=True)]
    for group in range(3):
        for address in range(TOP, TOP + SPACE):
            expected = [
                (k, i)
                for k, (g, first, last) in enumerate(others)
                for i, (h, low, high) in enumerate(items)
                if g == h == group and first <= address <= last and low <= address <= high
            ]
            assert [
                (k, i) for k, i, first, last in found if others[k][0] == group and first <= address <= last
            ] == expected


def test_untidy_lists() -> None:
    lists = [
        [(0, 4), (4, 4)],
        [(4, 4), (0, 4)],
        [(0, 5), (4, 4)],
        [(0, 17)],
        [(16, 1)],
        [(0, 0)],
        [],
        [(15, 1)],
    ]
    address = np.array([a for each in lists for a, _ in each], np.uint64)
    size = np.array([s for each in lists for _, s in each], np.uint32)
    end = np.cumsum([len(each) for each in lists]).astype(np.uint32)
    first = np.append(0, end[:-1]).astype(np.uint32)
    low, high = np.zeros(len(lists), np.uint64), np.full(len(lists), 15, np.uint64)
    assert Lists(first, end, low, high, address, size).untidy().tolist() == [0, 1, 1, 1, 1, 1, 0, 0]
