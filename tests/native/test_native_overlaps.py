"""Rows of overlapping ranges, against a walk over every address."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clew.native.overlaps import Overlay

Ranges = list[tuple[int, int, list[int]]]


def overlaid(ranges: Ranges) -> list[tuple[int, int, int]]:
    """(start, rule, args) rows of ranges given as (start, stop, starts of further rows). Rules are 1, 2, 3 … in order."""
    start, rule, args, first = [], [], [], []
    number, reach = 0, 0
    for index, (low, high, more) in enumerate(ranges):
        # As the tabulator gives them: the gaps before a range stand among the rows of the one before.
        if index and low > reach:
            start.append(reach)
            rule.append(0)
            args.append(0)
        first.append(len(start))
        for at in (low, *more):
            number += 1
            start.append(at)
            rule.append(number)
            args.append(number * 7)
        reach = max(reach, high)
    start.append(reach)
    rule.append(0)
    args.append(0)
    columns = Overlay(
        np.array([low for low, _, _ in ranges], np.uint64),
        np.array([high for _, high, _ in ranges], np.uint64),
        np.array(first, np.uint32),
        np.array(start, np.uint64),
        np.array(rule, np.uint32),
        np.array(args, np.uint32),
    ).run()
    return list(zip(*(column.tolist() for column in columns), strict=True))


def at_each_address(ranges: Ranges, end: int) -> list[int]:
    """The rule at each address, by the documented rule and nothing else."""
    numbers = iter(range(1, 1 << 20))
    rows = [[(at, next(numbers)) for at in (low, *more)] for low, _, more in ranges]
    out = []
    for address in range(end):
        around = [index for index, (low, high, _) in enumerate(ranges) if low <= address < high]
        # Sorted by start, the one that counts among equals last: so the last one around it.
        out.append([number for at, number in rows[around[-1]] if at <= address][-1] if around else 0)
    return out


def test_no_overlap() -> None:
    assert overlaid([(0, 4, []), (4, 8, [6]), (10, 12, [])]) == [
        (0, 1, 7),
        (4, 2, 14),
        (6, 3, 21),
        (8, 0, 0),
        (10, 4, 28),
        (12, 0, 0),
    ]


def test_the_inner_one_counts_and_the_outer_goes_on() -> None:
    assert [row[:2] for row in overlaid([(0, 20, [10, 15]), (5, 12, [])])] == [
        (0, 1),
        (5, 4),
        (12, 2),
        (15, 3),
        (20, 0),
    ]


def test_staggered() -> None:
    assert [row[:2] for row in overlaid([(0, 10, []), (5, 15, [])])] == [(0, 1), (5, 2), (15, 0)]


def test_of_equal_starts_the_last_counts() -> None:
    assert [row[:2] for row in overlaid([(0, 10, [4]), (0, 6, [])])] == [(0, 3), (6, 2), (10, 0)]


def test_at_the_end_of_the_address_space() -> None:
    top = (1 << 64) - 1
    assert [row[:2] for row in overlaid([(top - 10, top, []), (top - 5, top - 2, [])])] == [
        (top - 10, 1),
        (top - 5, 2),
        (top - 2, 1),
        (top, 0),
    ]


@st.composite
def some_ranges(draw: st.DrawFn) -> Ranges:
    ranges: Ranges = []
    for _ in range(draw(st.integers(1, 7))):
        low = draw(st.integers(0, 40))
        high = low + draw(st.integers(1, 20))
        more = sorted(draw(st.sets(st.integers(low + 1, high - 1), max_size=3))) if high - low > 1 else []
        ranges.append((low, high, more))
    return sorted(ranges, key=lambda range_: range_[0])


@given(some_ranges())
def test_against_every_address(ranges: Ranges) -> None:
    rows = overlaid(ranges)
    starts = [start for start, _, _ in rows]
    assert starts == sorted(set(starts)), "sorted, and none of them empty"
    assert all(args == 7 * rule for _, rule, args in rows)
    end = max(high for _, high, _ in ranges) + 3
    found = [next((rule for start, rule, _ in reversed(rows) if start <= address), 0) for address in range(end)]
    assert found == at_each_address(ranges, end)
