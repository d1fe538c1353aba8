"""Which functions count: dead ones, empty ones, and those that lie upon each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.read.dwarf_cfi import CfiSection
from clew.table import RegisterPlus
from clew.testing import Cfa, CfiBuilder

CODE = [(0x1000, 0x9000)]


def section(ranges: list[tuple[int, int]], **options: object) -> CfiSection:
    """Functions at (start, size), each with its number, and the size at its middle, in its CFA's offset."""
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    for number, (start, size) in enumerate(ranges, 1):
        middle = [Cfa.advance(size // 2), Cfa.def_cfa_offset(1000 * number + 1)] if size > 1 else []
        cfi.fde(cie, start=start, size=size, instructions=[Cfa.def_cfa_offset(1000 * number), *middle])
    return CfiSection(cfi.build(), name=".debug_frame", **options)  # type: ignore[arg-type]


def starts(made: CfiSection) -> list[int]:
    return [row.start for row in made.table().rows()]


def rule_at(made: CfiSection, address: int) -> int:
    row = made.table().lookup(address)
    if row is None:
        return 0
    assert isinstance(row.rule.cfa, RegisterPlus)
    return row.rule.cfa.offset


def test_empty_functions_describe_nothing() -> None:
    made = section([(0x1000, 0), (0x1000, 1), (0x1001, 0), (0x2000, 0)])
    assert len(made) == 4
    assert starts(made) == [0x1000]
    assert len(made.table().ranges) == 1
    assert list(made.fde(0).rows()) == []


@pytest.mark.parametrize("start", [(1 << 64) - 1, (1 << 64) - 2])
def test_tombstones_of_lld(start: int) -> None:
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    cfi.fde(cie, start=start, size=1 if start & 1 == 0 else 0)
    cfi.fde(cie, start=0x1000, size=0x10)
    made = CfiSection(cfi.build(), name=".debug_frame")
    assert (len(made), made.problems, starts(made)) == (2, (), [0x1000])
    assert made.fdes_at(start) == []


def test_tombstones_of_32_bits() -> None:
    cfi = CfiBuilder("debug_frame", byte_order="big", address_size=4)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    cfi.fde(cie, start=0xFFFFFFFE, size=1)
    cfi.fde(cie, start=0x1000, size=0x10)
    assert starts(CfiSection(cfi.build(), name=".debug_frame", machine="dwarf-example")) == [0x1000]


def test_address_zero_is_dead_only_outside_the_code() -> None:
    ranges = [(0, 0x10), (0x1000, 0x10)]
    assert starts(section(ranges, code=CODE)) == [0x1000, 0x1008]
    assert starts(section(ranges, code=[(0, 0x2000)])) == [0, 8, 0x1000, 0x1008]
    assert starts(section(ranges)) == [0, 8, 0x1000, 0x1008], "an object file's code is at 0"
    assert section(ranges, code=CODE).fdes_at(4) == []


def test_functions_in_any_order_make_a_sorted_table() -> None:
    made = section([(0x3000, 0x10), (0x1000, 0x10), (0x2000, 0x10)])
    assert starts(made) == [0x1000, 0x1008, 0x2000, 0x2008, 0x3000, 0x3008]
    assert [range_.start for range_ in made.table().ranges] == [0x1000, 0x2000, 0x3000]
    assert [fde.start for fde in made.fdes()] == [0x3000, 0x1000, 0x2000], "entries keep the file's order"


def test_a_gap_is_a_row_without_information() -> None:
    table = section([(0x1000, 1), (0x1001, 1), (0x1010, 1)]).table()
    assert [(row.start, row.end, row.rule.information) for row in table.rows(gaps=True)] == [
        (0x1000, 0x1001, True),
        (0x1001, 0x1002, True),
        (0x1002, 0x1010, False),
        (0x1010, 0x1011, True),
        (0x1011, 0x1011, False),
    ]


def test_overlaps_are_told_and_cost_nothing() -> None:
    table = section([(0x1000, 0x100), (0x1040, 0x20)]).table()
    ((message, lost),) = [(problem.message, problem.lost) for problem in table.problems]
    assert message == "FDEs overlap; of those around an address the one that starts last counts"
    assert (lost, table.lost) == (False, 0)


def test_functions_that_touch_do_not_overlap() -> None:
    assert section([(0x1000, 0x40), (0x1040, 0x20), (0x1060, 1)]).table().problems == ()


def test_a_bad_function_overlaps_nothing() -> None:
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    cfi.fde(cie, start=0x1000, size=0x100)
    cfi.fde(cie, start=0x1040, size=0x10, instructions=[Cfa.restore_state])
    table = CfiSection(cfi.build(), name=".debug_frame").table()
    assert [problem.message for problem in table.problems] == ["DW_CFA_restore_state without a remembered state"]
    assert [(row.start, row.end) for row in table.rows()] == [(0x1000, 0x1100)]


def test_nested_functions() -> None:
    made = section([(0x1000, 0x100), (0x1040, 0x20), (0x1050, 8)])
    wanted = {0x1000: 1000, 0x103F: 1000, 0x1040: 2000, 0x104F: 2000, 0x1050: 3000, 0x1057: 3001, 0x1058: 2001}
    wanted |= {0x105F: 2001, 0x1060: 1000, 0x107F: 1000, 0x1080: 1001, 0x10FF: 1001, 0x1100: 0, 0xFFF: 0}
    assert {address: rule_at(made, address) for address in wanted} == wanted


def test_equal_starts() -> None:
    """The one that stands last in the section counts, whichever is longer."""
    assert [rule_at(section([(0x1000, 0x100), (0x1000, 0x10)]), at) for at in (0x1000, 0x1010)] == [2000, 1000]
    assert [rule_at(section([(0x1000, 0x10), (0x1000, 0x100)]), at) for at in (0x1000, 0x1010)] == [2000, 2000]


def test_overlapping_argument_sizes() -> None:
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    cfi.fde(cie, start=0x1000, size=0x100, instructions=[Cfa.gnu_args_size(8)])
    cfi.fde(cie, start=0x1040, size=0x20)
    args = CfiSection(cfi.build(), name=".debug_frame").table().args_size
    assert args is not None
    assert args.tolist() == [8, 0, 8, 0]


@given(st.lists(st.tuples(st.integers(0x1000, 0x1030), st.integers(0, 0x20)), min_size=1, max_size=8))
def test_overlaps_against_every_address(ranges: list[tuple[int, int]]) -> None:
    """Of the functions around an address the one that starts last, of equal starts the one that stands last."""
    made = section(ranges)
    table = made.table()
    for address in range(0xFFE, 0x1052):
        around = [(start, n, size) for n, (start, size) in enumerate(ranges, 1) if start <= address < start + size]
        wanted = 0
        if around:
            start, n, size = max(around)
            wanted = 1000 * n + (1 if size > 1 and address >= start + size // 2 else 0)
        row = table.lookup(address)
        got = row.rule.cfa.offset if row is not None and isinstance(row.rule.cfa, RegisterPlus) else 0
        assert got == wanted, hex(address)
        here = table.range_at(address)
        assert (here is None) == (not around)
        if here is not None:
            start, _, size = max(around)
            assert (here.start, here.end) == (start, start + size)
        assert [(fde.start, fde.index + 1) for fde in made.fdes_at(address)] == [(s, n) for s, n, _ in sorted(around)]
