"""Tables: look-ups at every boundary, rows, normal form, and tables of several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import Problem
from clew.table import (
    NO_INFORMATION,
    InvalidExpression,
    IsExpression,
    RangeColumns,
    Ranges,
    RegisterPlus,
    Row,
    Rule,
    Table,
    merge,
    no_ranges,
    table_of,
)

TOP = (1 << 64) - 1
Rows = list[tuple[int, int, Rule]]


def rule(offset: int) -> Rule:
    return Rule(RegisterPlus(7, offset))


def offset_at(table: Table, address: int) -> int | None:
    row = table.lookup(address)
    if row is None:
        return None
    assert isinstance(row.rule.cfa, RegisterPlus)
    return row.rule.cfa.offset


def with_ranges(table: Table, ranges: list[tuple[int, int, int]], source: str = ".eh_frame") -> Table:
    """The table with (start, end, lsda) ranges."""
    ranges = sorted(ranges, key=lambda range_: range_[0])
    start, end, lsda = (np.array([range_[n] for range_ in ranges], np.uint64) for n in range(3))
    count = len(ranges)
    columns = RangeColumns(
        start, end, np.arange(count, dtype=np.uint32), lsda, np.zeros(count, np.int32), np.zeros(count, np.uint8)
    )
    return replace(table, ranges=Ranges(columns, (source,), [0x9000 if source == ".eh_frame" else 0]))


TABLE = table_of("x86-64", [(0x1000, 0x1010, rule(8)), (0x1010, 0x1020, rule(16)), (0x1030, 0x1040, rule(8))])


@pytest.mark.parametrize(
    ("address", "offset"),
    [
        (0, None),
        (0xFFF, None),
        (0x1000, 8),
        (0x100F, 8),
        (0x1010, 16),
        (0x101F, 16),
        (0x1020, None),
        (0x102F, None),
        (0x1030, 8),
        (0x103F, 8),
        (0x1040, None),
        (TOP, None),
        (-1, None),
        (1 << 64, None),
        (1 << 100, None),
    ],
)
def test_look_ups(address: int, offset: int | None) -> None:
    assert offset_at(TABLE, address) == offset


def test_rows() -> None:
    assert [(row.start, row.end) for row in TABLE] == [(0x1000, 0x1010), (0x1010, 0x1020), (0x1030, 0x1040)]
    assert [row.start for row in TABLE.rows(gaps=True)] == [0x1000, 0x1010, 0x1020, 0x1030, 0x1040]
    assert len(TABLE) == 5
    assert TABLE.row_count == 3


@pytest.mark.parametrize(
    ("start", "end", "starts"),
    [
        (0, None, [0x1000, 0x1010, 0x1030]),
        (0x1008, None, [0x1000, 0x1010, 0x1030]),
        (0x1010, 0x1030, [0x1010]),
        (0x1010, 0x1031, [0x1010, 0x1030]),
        (0x100F, 0x1010, [0x1000]),
        (0x1020, 0x1030, []),
        (0x1040, None, []),
        (0, 0, []),
        (0, 0x1000, []),
        (0, 0x1001, [0x1000]),
        (0, 1 << 64, [0x1000, 0x1010, 0x1030]),
        (0, 1 << 80, [0x1000, 0x1010, 0x1030]),
        (0, -1, []),
        (-5, TOP, [0x1000, 0x1010, 0x1030]),
    ],
)
def test_rows_of_a_part(start: int, end: int | None, starts: list[int]) -> None:
    assert [row.start for row in TABLE.rows(start, end)] == starts


def test_rows_by_number() -> None:
    assert TABLE.row(0) == Row(0x1000, 0x1010, rule(8))
    assert TABLE.row(-1) == Row(0x1040, 0x1040, NO_INFORMATION)
    assert TABLE.row(-5) == TABLE.row(0)
    for index in (5, -6):
        with pytest.raises(IndexError):
            TABLE.row(index)


def test_an_empty_table() -> None:
    table = table_of("x86-64", [])
    assert (len(table), table.row_count, list(table), table.index(0)) == (0, 0, [], -1)
    assert table.lookup(0) is table.lookup(TOP) is table.range_at(0) is None
    normal = table.normalise()
    assert (len(normal), normal.normalised) == (0, True)
    assert len(merge([table, table])) == 0
    assert [row.start for row in merge([table, TABLE])] == [row.start for row in merge([TABLE, table])]


def test_the_last_address() -> None:
    table = table_of("x86-64", [(TOP - 4, TOP, rule(8))])
    assert [offset_at(table, address) for address in (TOP - 5, TOP - 4, TOP - 1, TOP)] == [None, 8, 8, None]


def test_ranges() -> None:
    table = with_ranges(TABLE, [(0x1000, 0x1100, 1), (0x1040, 0x1060, 2), (0x1040, 0x1050, 3), (0x1200, 0x1210, 4)])
    wanted = {0xFFF: 0, 0x1000: 1, 0x1045: 3, 0x1055: 2, 0x1060: 1, 0x10FF: 1, 0x1100: 0, 0x1205: 4, 0x1210: 0}
    found = {address: here.lsda if (here := table.range_at(address)) else 0 for address in wanted}
    assert found == wanted
    assert table.range_at(-1) is table.range_at(1 << 64) is None


def test_ranges_are_a_sequence() -> None:
    ranges = with_ranges(TABLE, [(0x1000, 0x1100, 1)]).ranges
    (one,) = ranges
    assert (one.start, one.end, one.entry, one.source, one.lsda, one.personality) == (
        0x1000,
        0x1100,
        0,
        ".eh_frame",
        1,
        0x9000,
    )
    assert len(no_ranges()) == 0


def test_bad_expressions_are_found() -> None:
    bad = Rule(RegisterPlus(7, 8), ((3, IsExpression(InvalidExpression(b"\x08", "cut"))),))
    (problem,) = table_of("x86-64", [(0, 4, bad), (8, 12, bad), (16, 20, rule(8))]).invalid_expressions()
    assert problem.message == "the expression 08 of a rule cannot be read: cut"


# Normal form.


def test_normal_form_merges_equal_rows() -> None:
    table = table_of("x86-64", [(0, 4, rule(8)), (4, 8, rule(8)), (8, 12, rule(16)), (12, 16, rule(16))])
    assert [(row.start, row.end) for row in table.normalise()] == [(0, 8), (8, 16)]


@pytest.mark.parametrize(
    ("end", "start", "absorbed"),
    [
        (0x1F, 0x20, True),
        (0x11, 0x20, True),
        (0x10, 0x20, False),  # sixteen bytes are more than padding
        (0x1C, 0x24, False),  # ends at no multiple
        (0x1C, 0x30, False),
    ],
)
def test_normal_form_absorbs_padding(end: int, start: int, absorbed: bool) -> None:
    table = table_of("x86-64", [(0x8, end, rule(8)), (start, 0x40, rule(16))])
    normal = table.normalise()
    assert offset_at(normal, start - 1) == (8 if absorbed else None)
    assert offset_at(table.normalise(padding=1), start - 1) is None
    assert [row.start for row in normal] == [8, start]


def test_padding_of_other_alignments() -> None:
    table = table_of("aarch64", [(0x0, 0x1C, rule(8)), (0x20, 0x40, rule(16)), (0x44, 0x60, rule(16))])
    assert [(row.start, row.end) for row in table.normalise(padding=8)] == [(0, 0x20), (0x20, 0x40), (0x44, 0x60)]
    assert [(row.start, row.end) for row in table.normalise(padding=4)] == [(0, 0x1C), (0x20, 0x40), (0x44, 0x60)]


def test_normal_form_of_gaps_in_pieces() -> None:
    """A function without information in the padding: the gap is what all its pieces are together."""
    start = np.array([0x10, 0x1C, 0x1E, 0x20, 0x30], np.uint64)
    table = replace(table_of("x86-64", [(0, 1, rule(8))]), start=start, rule=np.array([1, 0, 0, 1, 0], np.uint32))
    once = table.normalise()
    assert once.start.tolist() == [0x10, 0x30]
    assert once.normalise().start.tolist() == once.start.tolist()


def test_of_equal_starts_the_last_counts() -> None:
    start, rules = np.array([4, 4, 4, 8], np.uint64), np.array([1, 0, 2, 0], np.uint32)
    table = replace(table_of("x86-64", [(0, 1, rule(8)), (2, 3, rule(16))]), start=start, rule=rules)
    assert offset_at(table, 4) == 16
    assert table.normalise().start.tolist() == [4, 8]
    assert offset_at(table.normalise(), 4) == 16


def test_normal_form_keeps_what_is_no_row() -> None:
    table = with_ranges(TABLE, [(0x1000, 0x1040, 0)])
    table = replace(table, args_size=np.ones(5, np.uint32), problems=(Problem("p"),), lost=3)
    normal = table.normalise()
    assert (normal.args_size, normal.problems, normal.lost, normal.ranges) == (None, table.problems, 3, table.ranges)
    assert normal.rules is table.rules
    assert (table.normalised, normal.normalised) == (False, True)


@st.composite
def some_rows(draw: st.DrawFn) -> Rows:
    """Rows that do not overlap, with gaps of every kind."""
    out: Rows = []
    at = draw(st.integers(0, 30))
    for _ in range(draw(st.integers(0, 10))):
        size = draw(st.integers(1, 20))
        out.append((at, at + size, rule(draw(st.integers(1, 3)))))
        at += size + draw(st.sampled_from((0, 0, 1, 3, 8, 15, 16, 17, 40)))
    return out


@given(some_rows(), st.sampled_from((1, 2, 4, 8, 16)))
def test_normal_form_says_the_same(rows: Rows, padding: int) -> None:
    """Everywhere but in padding; and it is the normal form's own normal form."""
    table = table_of("x86-64", rows)
    normal = table.normalise(padding)
    again = normal.normalise(padding)
    assert (normal.start.tolist(), normal.rule.tolist()) == (again.start.tolist(), again.rule.tolist())
    assert not bool((normal.rule[1:] == normal.rule[:-1]).any())
    for address in range(rows[-1][1] + 20 if rows else 20):
        before, after = offset_at(table, address), offset_at(normal, address)
        if before != after:
            end = min(low for low, _, _ in rows if low > address)
            begin = max(high for _, high, _ in rows if high <= address)
            assert before is None
            assert after == offset_at(table, begin - 1)
            assert end - begin < padding
            assert end % padding == 0


@given(some_rows(), st.randoms(use_true_random=False))
def test_rows_in_any_order(rows: Rows, random: object) -> None:
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    table = table_of("x86-64", mixed)
    for low, high, what in rows:
        assert offset_at(table, low) == offset_at(table, high - 1) == what.cfa.offset  # type: ignore[union-attr]
    assert [(row.start, row.end, row.rule) for row in table] == rows


# Several tables.


def test_merge_of_one_is_that_one() -> None:
    assert merge([TABLE]) is TABLE
    with pytest.raises(ValueError):
        merge([])


@given(st.lists(some_rows(), min_size=1, max_size=3))
def test_merge_takes_the_first_that_says_something(parts: list[Rows]) -> None:
    tables = [
        table_of("x86-64", [(low, high, rule(100 * n + 1)) for low, high, _ in part]) for n, part in enumerate(parts)
    ]
    merged = merge(tables)
    assert merged.start.tolist() == sorted(set(merged.start.tolist()))
    for address in range(max([part[-1][1] for part in parts if part], default=0) + 5):
        found = [offset for table in tables if (offset := offset_at(table, address)) is not None]
        assert offset_at(merged, address) == (found[0] if found else None)


def test_merge_keeps_the_first_tables_rows() -> None:
    first = table_of("x86-64", [(0x10, 0x20, rule(8)), (0x20, 0x30, rule(8))])
    second = table_of("x86-64", [(0x14, 0x18, rule(8)), (0x28, 0x38, rule(8)), (0x38, 0x40, rule(16))])
    assert [(row.start, row.end) for row in merge([first, second])] == [
        (0x10, 0x20),
        (0x20, 0x30),
        (0x30, 0x38),
        (0x38, 0x40),
    ]


def test_merge_keeps_argument_sizes() -> None:
    """Those of the table whose rule counts, also where nothing but they change."""
    first = table_of("x86-64", [(0x10, 0x20, rule(8))])
    second = table_of("x86-64", [(0x18, 0x28, rule(8)), (0x28, 0x30, rule(8)), (0x30, 0x38, rule(16))])
    second = replace(second, args_size=np.array([4, 8, 12, 0], np.uint32))
    merged = merge([first, second])
    assert [row.args_size for row in map(merged.lookup, (0x10, 0x1F, 0x20, 0x27, 0x28, 0x30)) if row] == [
        0,
        0,
        4,
        4,
        8,
        12,
    ]
    other_way = merge([second, first])
    assert [row.args_size for row in map(other_way.lookup, (0x10, 0x18, 0x28)) if row] == [0, 4, 8]


def test_merge_of_ranges() -> None:
    """Of equal starts the first table's count, as of rows."""
    one = with_ranges(TABLE, [(0x1000, 0x1020, 7), (0x1030, 0x1040, 8)])
    two = with_ranges(TABLE, [(0x1000, 0x1020, 0), (0x2000, 0x2010, 0)], ".debug_frame")
    merged = merge([one, two])
    assert [(range_.start, range_.source) for range_ in merged.ranges] == [
        (0x1000, ".debug_frame"),
        (0x1000, ".eh_frame"),
        (0x1030, ".eh_frame"),
        (0x2000, ".debug_frame"),
    ]
    here = merged.range_at(0x1010)
    assert here is not None
    assert (here.source, here.lsda, here.personality) == (".eh_frame", 7, 0x9000)
    there = merged.range_at(0x2000)
    assert there is not None
    assert (there.source, there.personality) == (".debug_frame", 0)


def test_merge_of_problems() -> None:
    one, two = replace(TABLE, problems=(Problem("a"),), lost=1), replace(TABLE, problems=(Problem("b"),), lost=2)
    merged = merge([one, two])
    assert ([problem.message for problem in merged.problems], merged.lost) == (["a", "b"], 3)
