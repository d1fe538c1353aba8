"""Which functions of a table are shown, and with which rows."""

from __future__ import annotations

from typing import Literal

import pytest

from clew.read.dwarf_cfi import CfiSection
from clew.table import Table, merge, table_of
from clew.testing import Cfa, CfiBuilder
from clew.write.functions import Function, functions

RSP = 7
Fdes = list[tuple[int, int]]


def section(fdes: Fdes, kind: Literal["eh_frame", "debug_frame"] = "eh_frame", first: int = 8) -> Table:
    """An FDE for each range; their CFAs are rsp plus 8, 16, 24 and so on, in this order."""
    cfi = CfiBuilder(kind, address=0x100000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(RSP, 0)])
    for number, (start, end) in enumerate(fdes):
        cfi.fde(cie, start=start, size=end - start, instructions=[Cfa.def_cfa_offset(first + 8 * number)])
    return CfiSection(cfi.build(), name=f".{kind}", address=0x100000).table()


def nameless(address: int) -> None:
    return None


def shown(
    table: Table, within: list[tuple[int, int]] | None = None
) -> list[tuple[int, int, str, list[tuple[int, int]]]]:
    """Start, end and section of each function, and its rows as start and offset of the CFA (0: no information)."""

    def offset(number: int) -> int:
        cfa = table.rules[number].cfa
        return getattr(cfa, "offset", 0)

    return [
        (f.range.start, f.range.end, f.range.source, [(at, offset(n)) for at, n in zip(f.start, f.rule, strict=True)])
        for f in functions(table, nameless, within)
    ]


def test_functions_come_in_the_order_of_their_addresses() -> None:
    assert shown(section([(0x40, 0x50), (0x10, 0x20)])) == [
        (0x10, 0x20, ".eh_frame", [(0x10, 16)]),
        (0x40, 0x50, ".eh_frame", [(0x40, 8)]),
    ]


def test_a_function_within_another_is_among_its_rows_too() -> None:
    assert shown(section([(0x10, 0x40), (0x20, 0x30)])) == [
        (0x10, 0x40, ".eh_frame", [(0x10, 8), (0x20, 16), (0x30, 8)]),
        (0x20, 0x30, ".eh_frame", [(0x20, 16)]),
    ]


@pytest.mark.parametrize(
    ("fdes", "expected"),
    [
        # Of equal starts the last counts; the longer goes on behind it.
        ([(0x10, 0x20), (0x10, 0x20)], [(0x10, 0x20, [(0x10, 16)])]),
        ([(0x10, 0x20), (0x10, 0x40)], [(0x10, 0x40, [(0x10, 16)])]),
        ([(0x10, 0x40), (0x10, 0x20)], [(0x10, 0x40, [(0x10, 16), (0x20, 8)]), (0x10, 0x20, [(0x10, 16)])]),
        # Hidden by two others together.
        (
            [(0x10, 0x30), (0x10, 0x20), (0x20, 0x40)],
            [(0x10, 0x20, [(0x10, 16)]), (0x20, 0x40, [(0x20, 24)])],
        ),
    ],
)
def test_a_function_that_counts_nowhere_is_left_out(
    fdes: Fdes, expected: list[tuple[int, int, list[tuple[int, int]]]]
) -> None:
    found = [(start, end, rows) for start, end, _, rows in shown(section(fdes))]
    assert found == expected


def test_a_function_that_both_sections_describe_comes_once() -> None:
    table = merge([section([(0x10, 0x20)]), section([(0x10, 0x20), (0x30, 0x40)], "debug_frame", 64)])
    assert shown(table) == [
        (0x10, 0x20, ".eh_frame", [(0x10, 8)]),
        (0x30, 0x40, ".debug_frame", [(0x30, 72)]),
    ]


def test_the_first_section_counts_even_if_the_second_starts_later() -> None:
    table = merge([section([(0x10, 0x40)]), section([(0x20, 0x50)], "debug_frame", 64)])
    assert shown(table) == [
        (0x10, 0x40, ".eh_frame", [(0x10, 8)]),
        (0x20, 0x50, ".debug_frame", [(0x20, 8), (0x40, 64)]),
    ]


@pytest.mark.parametrize(
    ("within", "starts"),
    [
        ([(0x10, 0x11)], [0x10]),
        ([(0x1F, 0x20)], [0x10]),
        ([(0x20, 0x21)], [0x20]),
        ([(0x30, 0x40)], [0x10]),
        ([(0x00, 0x10)], []),
        ([(0x40, 0x50)], []),
        ([(0x50, 0x51), (0x20, 0x21)], [0x20, 0x50]),
        ([(0, (1 << 64) - 1)], [0x10, 0x20, 0x50]),
        ([], []),
    ],
)
def test_only_functions_that_count_somewhere_in_the_addresses(within: list[tuple[int, int]], starts: list[int]) -> None:
    table = section([(0x10, 0x40), (0x20, 0x30), (0x50, 0x60)])
    assert [start for start, *_ in shown(table, within)] == starts


def test_names_and_argument_sizes() -> None:
    cfi = CfiBuilder()
    cie = cfi.cie(instructions=[Cfa.def_cfa(RSP, 8)])
    cfi.fde(cie, start=0x10, size=0x10, instructions=[Cfa.advance(4), Cfa.gnu_args_size(32)])
    table = CfiSection(cfi.build()).table()
    (function,) = functions(table, lambda address: ("name", address - 8))
    assert isinstance(function, Function)
    assert (function.name, function.offset, function.args_size) == ("name", 8, [0, 32])
    (function,) = functions(table, nameless)
    assert (function.name, function.offset) == (None, 0)


def test_tables_without_functions() -> None:
    assert shown(section([])) == []
    assert shown(table_of("x86-64", [])) == []


def test_many_functions_upon_each_other_take_no_time() -> None:
    # 5,000 that all begin in the first and end in one another: owners are found in one pass.
    fdes = [(0x1000 + i, 0x10000 - i) for i in range(5000)]
    assert len(shown(section(fdes), [(0x1000, 0x1002)])) == 2
