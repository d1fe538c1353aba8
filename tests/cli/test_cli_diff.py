"""``clew diff``: what differs, and what only looks different."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.testing import Cfa, CfiBuilder, ElfBuilder

Answer = Callable[..., tuple[int, str, str]]

RBX, RBP, RSP, RIP = 3, 6, 7, 16


def file_of(path: Path, *programs: list[Any], machine: int = 62) -> str:
    """A function of 0x10 bytes for each program."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 1)])
    for number, program in enumerate(programs):
        cfi.fde(cie, start=0x1000 + 0x10 * number, size=0x10, instructions=program)
    elf = ElfBuilder(machine=machine)
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    path.write_bytes(elf.build())
    return str(path)


def test_a_file_and_itself(library: str, answer: Answer) -> None:
    assert answer("diff", library, library) == (0, "the same: 12 and 12 rows\n", "")


def test_what_the_abi_says_anyway_is_no_difference(tmp_path: Path, answer: Answer) -> None:
    a = file_of(tmp_path / "a", [Cfa.advance(4), Cfa.same_value(RBX), Cfa.val_offset(RSP, 0)])
    b = file_of(tmp_path / "b", [])
    assert answer("diff", a, b) == (0, "the same: 2 and 1 rows\n", "")


def test_text(tmp_path: Path, answer: Answer) -> None:
    a = file_of(tmp_path / "a", [Cfa.def_cfa_offset(16), Cfa.offset(RBP, 2)], [])
    b = file_of(tmp_path / "b", [Cfa.advance(8), Cfa.def_cfa_offset(16)])
    code, out, error = answer("diff", a, b)
    assert (code, error) == (1, "")
    assert out.splitlines() == [
        "0x1000..0x1008  cfa   rsp+16  ->  rsp+8",
        "0x1000..0x1010  rbp   *(cfa-16)  ->  rbp",
        "0x1010..0x1020  rule  cfa = rsp+8  rip = *(cfa-8)  ->  -",
        # At 8 bytes two things differ.
        "3 differences over 32 bytes of code",
    ]


def test_json(tmp_path: Path, answer: Answer) -> None:
    a = file_of(tmp_path / "a", [Cfa.def_cfa_offset(16), Cfa.offset(RBP, 2)])
    b = file_of(tmp_path / "b", [])
    code, out, _ = answer("diff", "--json", a, b)
    assert code == 1
    assert json.loads(out) == {
        "same": False,
        "rows": 1,
        "differences": [
            {"start": "0x1000", "end": "0x1010", "register": "cfa", "a": "rsp+16", "b": "rsp+8"},
            {"start": "0x1000", "end": "0x1010", "register": "rbp", "a": "*(cfa-16)", "b": "rbp"},
        ],
    }


def test_one_is_one(tmp_path: Path, answer: Answer) -> None:
    a, b = file_of(tmp_path / "a", [Cfa.advance(0xF), Cfa.def_cfa_offset(16)]), file_of(tmp_path / "b", [])
    assert answer("diff", a, b)[1].splitlines()[-1] == "1 difference over 1 byte of code"


def test_different_machines(library: str, tmp_path: Path, answer: Answer) -> None:
    code, out, error = answer("diff", library, file_of(tmp_path / "a", [], machine=183))
    assert (code, out) == (2, "")
    assert "x86-64 and aarch64" in error


def test_what_was_left_out_is_a_finding(tmp_path: Path, answer: Answer) -> None:
    a, b = file_of(tmp_path / "a", [], [Cfa.restore_state]), file_of(tmp_path / "b", [])
    code, out, error = answer("diff", a, b)
    assert (code, out) == (1, "the same: 1 and 1 rows\n")
    assert str(tmp_path / "a") in error


def test_errors(library: str, tmp_path: Path, answer: Answer) -> None:
    assert answer("diff", library, str(tmp_path / "missing"))[0] == 3
    assert answer("diff", library)[0] == 2
    code, _, error = answer("diff", library, library, "--section-b", ".debug_frame")
    assert code == 3
    assert "no section .debug_frame" in error


SOURCE = """
int external(int *);
int leaf(int a) { return a + 1; }
int twice(int a) { int b[100]; b[3] = a; return external(b) + external(b + 1); }
int variable(int n) { int b[n]; b[0] = n; return external(b); }
"""


def compiled(folder: Path, name: str, *options: str) -> str:
    source = folder / "source.c"
    source.write_text(SOURCE)
    path = folder / name
    command = ["gcc", "-O1", "-shared", "-fPIC", "-nostdlib", *options, "-o", str(path), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return str(path)


def only_in_the_first(found: tuple[int, str, str]) -> bool:
    """Whether only the first table has some rows more: those of the PLT, which the linker describes where it can."""
    _, out, error = found
    lines = out.splitlines()
    return not error and (lines[0].startswith("the same") or all(line.endswith("->  -") for line in lines[:-1]))


@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("strip"), reason="there is no gcc or no strip")
def test_the_sections_that_a_compiler_writes_say_the_same(tmp_path: Path, answer: Answer) -> None:
    eh = compiled(tmp_path, "eh.so", "-fasynchronous-unwind-tables")
    debug = compiled(tmp_path, "debug.so", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
    stripped = str(tmp_path / "stripped.so")
    subprocess.run(["strip", "-o", stripped, eh], check=True)
    assert answer("diff", eh, stripped)[0] == 0
    assert ".debug_frame" in answer("table", debug, "--function", "variable")[1]
    assert only_in_the_first(answer("diff", eh, debug))
    # By the assembler's directive one file has both.
    (tmp_path / "both.c").write_text('__asm__(".cfi_sections .eh_frame, .debug_frame");' + SOURCE)
    both = tmp_path / "both.so"
    command = ["gcc", "-O1", "-shared", "-fPIC", "-nostdlib", "-o", str(both), str(tmp_path / "both.c")]
    subprocess.run(command, check=True, capture_output=True)
    assert only_in_the_first(
        answer("diff", str(both), str(both), "--section", ".eh_frame", "--section-b", ".debug_frame")
    )
