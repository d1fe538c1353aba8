"""What ``explain`` says of places in this machine's C library, against what readelf prints there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from clew.image import Image
from clew.read.dwarf_cfi import explain
from clew.read.frames import frame_sections, machine_of
from clew.table import AtCfa, RegisterPlus

pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is not installed")

PLACES = 400

_FDE = re.compile(r"([0-9a-f]{8}) [0-9a-f]{8,16} [0-9a-f]{8} FDE cie=([0-9a-f]{8}) pc=([0-9a-f]+)\.\.([0-9a-f]+)")
_ROW = re.compile(r"([0-9a-f]{16}) (\S+) +(.*)")


@dataclass
class Described:
    """An FDE as readelf lists it, with its rows: address, CFA, and the cells by register."""

    offset: int
    cie: int
    start: int
    end: int
    rows: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)


@cache
def library() -> Path | None:
    """The C library that this program runs on."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split()[-1])
        if path.name.startswith(("libc.so", "libc-", "ld-musl")):
            return path
    return None


def described(text: str) -> Iterator[Described]:
    """The FDEs in what ``readelf --debug-dump=frames-interp`` prints."""
    current: Described | None = None
    names: list[str] = []
    for line in text.splitlines():
        if found := _FDE.match(line):
            current = Described(*(int(part, 16) for part in found.groups()))
            yield current
        elif not line.strip() or " CIE " in line:
            current = None
        elif line.lstrip().startswith("LOC"):
            names = line.split()[2:]
        elif current is not None and (row := _ROW.match(line)):
            cells = row[3].split()
            current.rows.append((int(row[1], 16), row[2], dict(zip(names, cells, strict=False))))


def test_the_rule_and_the_entries_are_those_that_readelf_prints() -> None:
    path = library()
    if path is None:
        pytest.skip("this Python has no C library of its own")
    command = ["readelf", "-wN", "--debug-dump=frames-interp", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    listed = [fde for fde in described(done.stdout) if fde.end > fde.start and fde.rows]
    with Image.open(path) as image:
        sections = frame_sections(image)
        machine = machine_of(image)
        # Every so many FDEs, each in its first and last byte and somewhere between.
        for turn, expected in enumerate(listed[:: max(len(listed) // PLACES, 1)]):
            for address in (
                expected.start,
                expected.end - 1,
                (expected.start * 5 + expected.end * (turn % 5)) // (5 + turn % 5),
            ):
                found = explain(sections, address)
                assert (found.fde.offset, found.fde.cie.offset) == (expected.offset, expected.cie)
                assert (found.fde.start, found.fde.stop) == (expected.start, expected.end)
                starts = [start for start, _, _ in expected.rows]
                start, cfa, cells = expected.rows[bisect_right(starts, address) - 1]
                rule = found.row.rule
                # readelf cuts a row where an instruction moves, clew does not where it moves by nothing.
                assert found.row.start == start
                assert address < found.row.end
                if isinstance(rule.cfa, RegisterPlus):
                    register = machine.readelf_name(rule.cfa.register) or f"r{rule.cfa.register}"
                    assert cfa == f"{register}{rule.cfa.offset:+d}"
                else:
                    assert cfa == "exp"
                for name, cell in cells.items():
                    number = rule.return_address if name == "ra" else machine.register_number(name)
                    assert number is not None
                    term = rule[number]
                    if cell.startswith("c"):
                        assert term == AtCfa(int(cell[1:]))
                    if cell in ("u", "s"):
                        assert not isinstance(term, AtCfa)
                # What set a register is an instruction that the program has run by then.
                for origin in found.origins.values():
                    entry = found.fde.cie if origin.location is None else found.fde
                    assert entry.program <= origin.instruction.offset < entry.end
                    assert origin.location is None or expected.start <= origin.location <= address
                assert {part for part in found.origins if isinstance(part, int)} == {r for r, _ in rule.registers}
