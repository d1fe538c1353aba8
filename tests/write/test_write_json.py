"""Tables as JSON: always one valid document, whatever is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.read.dwarf_cfi import CfiSection
from clew.table import Table
from clew.testing import Cfa, CfiBuilder
from clew.write.json import table_json

RBP, RSP, RIP = 6, 7, 16


def table(functions: int) -> Table:
    """Functions of 0x10 bytes from 0x1000 on: a row of rsp+8, and from the second byte on one of rsp+16, rsp+24 and so on."""
    cfi = CfiBuilder()
    plain = cfi.cie(instructions=[Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 1)])
    full = cfi.cie(
        augmentation="zPLR",
        personality=(0, 0x5000),
        lsda_encoding=0,
        instructions=[Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 1)],
    )
    for number in range(functions):
        program = [Cfa.advance(1), Cfa.def_cfa_offset(16 + 8 * number), Cfa.gnu_args_size(number)]
        lsda = {"lsda": 0x6000} if number == 1 else {}
        cfi.fde(full if lsda else plain, start=0x1000 + 16 * number, size=16, instructions=program, **lsda)
    return CfiSection(cfi.build()).table()


def document(functions: int, within: list[tuple[int, int]] | None = None) -> dict[str, Any]:
    def name_of(address: int) -> tuple[str, int] | None:
        return (f'"{address:x}"', 0) if address % 32 else None

    pieces = table_json(table(functions), "a \x1b file", name_of, [{"message": "m", "lost": True}], within)
    found: dict[str, Any] = json.loads("".join(pieces))
    return found


@pytest.mark.parametrize("functions", [0, 1, 2, 3])
def test_however_many_functions_there_are(functions: int) -> None:
    found = document(functions)
    assert (found["file"], found["machine"], found["row_count"]) == ("a \x1b file", "x86-64", 2 * functions)
    assert found["problems"] == [{"message": "m", "lost": True}]
    starts = [function["start"] for function in found["functions"]]
    assert starts == [f"{0x1000 + 16 * number:#x}" for number in range(functions)]


def test_what_a_function_says() -> None:
    first, second = document(2)["functions"]
    assert first.pop("rows")[0] == {"start": "0x1000", "rule": 1}
    assert first == {"start": "0x1000", "end": "0x1010", "section": ".eh_frame", "fde": first["fde"]}
    assert second["rows"][1]["args_size"] == 1
    assert (second["function"], second["function_offset"]) == ('"1010"', "0x0")
    assert (second["lsda"], second["personality"]) == ("0x6000", "0x5000")


@pytest.mark.parametrize(
    "within", [None, [(0x1000, 0x1001)], [(0x1010, 0x1011)], [(0x1000, 0x1001), (0x1020, 0x1030)], []]
)
def test_rows_name_their_rules_by_index_and_every_rule_is_named(within: list[tuple[int, int]] | None) -> None:
    found = document(3, within)
    named = set()
    for function in found["functions"]:
        start = int(function["start"], 16)
        # By construction: rsp+8, then 16 and more, by the number of the function.
        expected = ["rsp+8", f"rsp+{16 + 8 * ((start - 0x1000) // 16)}"]
        assert [found["rules"][row["rule"]]["cfa"] for row in function["rows"]] == expected
        named |= {row["rule"] for row in function["rows"]}
    # The whole table also has its end, where there is no information.
    rest = [rule for number, rule in enumerate(found["rules"]) if number not in named]
    assert rest == ([{"information": False}] if within is None else [])
    assert len(found["functions"]) == (3 if within is None else len(within))
