"""Units read by several processes: the same map as one makes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clew.symbols import Lookup, Symbolizer
from clew.symbols.dwarf import shares
from clew.testing.dwarf import At, DwarfBuilder, Form, Inline, Tag

UNITS = 7


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Units of one function each, with a call of one that all of them have, and a header that half of them have."""
    dwarf = DwarfBuilder(version=5)
    for number in range(UNITS):
        start = 0x1000 + 0x20 * number
        lines = dwarf.line_program(directories=["/src"], files=[f"{number}.c", f"{number}.c", f"{number % 2}.h"])
        lines.sequence([(start, 3), (start + 8, 4)], start + 0x20)
        unit = dwarf.unit()
        root = unit.die(
            Tag.COMPILE_UNIT,
            (At.NAME, Form.STRING, f"{number}.c"),
            (At.COMP_DIR, Form.LINE_STRP, "/src"),
            (At.STMT_LIST, Form.SEC_OFFSET, dwarf.add_lines(lines)),
            (At.LOW_PC, Form.ADDR, start),
            (At.HIGH_PC, Form.UDATA, 0x20),
        )
        same = root.child(
            Tag.SUBPROGRAM, (At.NAME, Form.STRP, "same"), (At.INLINE, Form.IMPLICIT_CONST, Inline.INLINED)
        )
        function = root.child(
            Tag.SUBPROGRAM,
            (At.NAME, Form.STRP, f"f{number}"),
            (At.LOW_PC, Form.ADDR, start),
            (At.HIGH_PC, Form.DATA4, 0x20),
        )
        function.child(
            Tag.INLINED_SUBROUTINE,
            (At.ABSTRACT_ORIGIN, Form.REF4, same),
            (At.LOW_PC, Form.ADDR, start + 4),
            (At.HIGH_PC, Form.DATA4, 8),
            (At.CALL_FILE, Form.DATA1, 2),
            (At.CALL_LINE, Form.DATA1, number + 10),
        )
    path = tmp_path / "program"
    path.write_bytes(dwarf.elf(code=[(0x1000, bytes(0x20 * UNITS))]))
    return str(path)


def everything(path: str, processes: int) -> list[Any]:
    with Symbolizer.open(path) as symbols:
        lookup = Lookup(symbols.read_whole(processes=processes))
        return [*map(lookup.frames, range(0xFF0, 0x1010 + 0x20 * UNITS)), symbols.problems]


@pytest.mark.parametrize("processes", [2, 3, UNITS, 4 * UNITS])
def test_the_map_is_the_same(processes: int, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = everything(program, 1)
    frames = alone[0x14]
    assert [(frame.function, frame.file, frame.line) for frame in frames] == [
        ("same", "/src/0.c", 3),
        ("f0", "/src/0.h", 10),
    ]
    monkeypatch.setattr(shares, "LARGE", 0)
    assert everything(program, processes) == alone


def test_a_process_that_is_ended_is_done_without(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = everything(program, 1)
    monkeypatch.setattr(shares, "LARGE", 0)
    monkeypatch.setattr(shares, "_answer", lambda *_: os._exit(9))
    assert everything(program, 3) == alone
