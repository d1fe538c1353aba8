"""``STACK CFI`` of whole libraries against GNU readelf's rows: the same registers of the caller, computed twice.

The records are evaluated by tests/write/stack_cfi_evaluator.py and readelf's rows by readelf_rows.py, over made-up registers
and memory; neither knows clew.
"""

from __future__ import annotations

import re
import shutil
import sys
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "write"))

from readelf_rows import Row, machine, rows
from stack_cfi_evaluator import Records, caller

from clew.arch import machine_named
from clew.image import Image
from clew.read.breakpad.cfi import read_cfi
from clew.read.frames import read_table
from clew.table import compare
from clew.write.breakpad.cfi import stack_cfi

NAMES = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{number}" for number in range(8, 16))]
PRESERVED = frozenset(f"${name}" for name in ("rbx", "rbp", "r12", "r13", "r14", "r15"))
#: Processors end a walk at a return address below this.
LOWEST = 4096

LIBRARIES = [
    Path(path)
    for path in (
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
        "/usr/bin/python3.11",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    )
]
CORPUS = Path(__file__).parents[3] / "shared" / "corpus"

Values = dict[str, int | None]


def load(address: int) -> int:
    """Memory: each address has its own word, above all that is no address."""
    return ((address * 0x9E3779B97F4A7C15) & ((1 << 63) - 1)) | 1 << 62


def sample(pc: int) -> dict[int, int]:
    """Registers by number, of which each has its own value."""
    registers = {number: 0x7FFF_0000_0000 + 0x10_0018 * number for number in range(16)}
    registers[9] = 17
    return {**registers, 16: pc}


def by_readelf(row: Row, registers: Mapping[int, int]) -> Values:
    """The caller's registers by a row of readelf's; what is undefined and what is not said it prints alike."""
    numbers = {name: number for number, name in enumerate(NAMES)}

    def place(text: str) -> int:
        found = re.fullmatch(r"(\w+)([+-]\d+)", text)
        assert found is not None, text
        return registers[numbers[found[1]]] + int(found[2])

    cfa = machine(row.cfa[4:], registers, load) if row.cfa.startswith("exp ") else place(row.cfa)
    out: Values = {".cfa": cfa, ".ra": None}
    for name, number in numbers.items():
        out[f"${name}"] = cfa if name == "rsp" else registers[number] if f"${name}" in PRESERVED else None
    for name, cell in row.columns:
        key = ".ra" if name == "ra" else f"${name}"
        if cell == "s":
            out[key] = registers[numbers[name]]
        elif cell.startswith("c"):
            out[key] = load(cfa + int(cell[1:]))
        elif cell.startswith("v") and cell[1] in "+-":
            out[key] = cfa + int(cell[1:])
        elif cell.startswith("vexp "):
            out[key] = machine(cell[5:], registers, load, cfa)
        elif cell.startswith("exp "):
            out[key] = load(machine(cell[4:], registers, load, cfa))
        elif cell.startswith("r"):
            out[key] = registers[int(cell.split()[0][1:])]
        else:
            assert cell == "u", cell
    return {key: value for key, value in out.items() if key == ".ra" or key[1:] in numbers or key == ".cfa"}


def by_records(rules: Mapping[str, str], registers: Mapping[int, int]) -> Values:
    """The same by records."""
    named = {f"${name}": registers[number] for number, name in enumerate([*NAMES, "rip"])}
    out = caller(rules, named, load, preserved=PRESERVED, stack_pointer="$rsp")
    out.pop("$rip", None)
    if (out.get(".ra") or LOWEST) < LOWEST:
        out[".ra"] = None
    return out


def wrong_rows(path: Path) -> tuple[int, list[str]]:
    """How many rows readelf prints, and what is wrong at which."""
    with Image.open(path) as image:
        text = b"".join(stack_cfi(read_table(image, ".eh_frame"))).decode()
    ours = Records.parse(text).rows()
    starts = [start for start, _, _ in ours]
    wrong: list[str] = []
    count = 0
    bytes_there = 0
    known: dict[tuple[object, ...], bool] = {}
    for row in rows(path):
        count += 1
        bytes_there += row.end - row.start
        at = bisect_right(starts, row.start) - 1
        position = row.start
        expressions = "DW_OP" in repr(row)
        while position < row.end:
            if at < 0 or at >= len(ours) or not ours[at][0] <= position < ours[at][1]:
                wrong.append(f"{position:#x}: no record")
                break
            rules = ours[at][2]
            # Expressions may depend on the pc: at every one of the first addresses.
            for pc in range(position, min(row.end, position + 32)) if expressions else (position,):
                key = (row.cfa, row.columns, *rules.items(), pc if expressions else 0)
                if key not in known:
                    known[key] = by_readelf(row, sample(pc)) == by_records(rules, sample(pc))
                if not known[key]:
                    wrong.append(f"{pc:#x}: {row} {rules}")
                    break
            position = ours[at][1]
            at += 1
    if not wrong and bytes_there != sum(end - start for start, end, _ in ours):
        wrong.append("records where readelf has no rows")
    return count, wrong


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is not installed")
@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.name)
def test_records_say_what_readelf_says(path: Path) -> None:
    if not path.is_file() or machine_named("x86-64").elf_machines[0] != Image.open(path).e_machine:
        pytest.skip(f"{path} is not here")
    count, wrong = wrong_rows(path)
    assert count > 1000
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.name)
def test_records_give_the_table_again(path: Path) -> None:
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    with Image.open(path) as image:
        table = read_table(image)
        text = b"".join(stack_cfi(table))
    again = read_cfi(text, table.machine)
    assert again.problems == ()
    # What a frame's caller is, is all that records say.
    assert [one for one in compare(table, again) if one.register != "signal frame"] == []
    assert len(again.ranges) > 500


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not there")
def test_symbol_files_of_others() -> None:
    """Every record that Breakpad's and rust-minidump's own symbol files have is read, and written again says the same."""
    oddities = {
        # Functions that the linker left out are all at address 0; merged ones are there once for each name.
        "overlaps another": 3,
        "the rule of .ra is itself": 4,
        # glibc 2.13 restores a context whose CFI has no CFA.
        "there is no rule for .cfa": 2,
    }
    read = 0
    for path in sorted(CORPUS.glob("*/symbols/**/*.sym")):
        data = path.read_bytes()
        if b"\nSTACK CFI" not in data:
            continue
        table = read_cfi(data, machine_named(data.split(b" ", 3)[2].decode()))
        kinds = {next((kind for kind in oddities if kind in one.message), one.message) for one in table.problems}
        for kind in kinds:
            oddities[kind] -= 1
        initials = len(re.findall(rb"^STACK CFI INIT [0-9a-f]+ [1-9a-f]", data, re.MULTILINE))
        assert len(table.ranges) == initials or "overlaps another" in kinds, path
        made = stack_cfi(table)
        assert made.unsaid == (), path
        assert list(compare(table, read_cfi(b"".join(made), table.machine))) == [], path
        read += 1
    assert read >= 5
    assert set(oddities.values()) == {0}
