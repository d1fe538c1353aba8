"""``clew table``: which functions it prints, in which form."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.image.elf import SHT_NOBITS
from clew.testing import CfiBuilder, ElfBuilder
from clew.testing.arm_exidx import ExidxBuilder

Answer = Callable[..., tuple[int, str, str]]


def headings(text: str) -> list[str]:
    """The lines that name the functions."""
    return [line for line in text.splitlines() if line and not line.startswith(" ")]


def test_plain_text_in_a_pipe(library: str, answer: Answer) -> None:
    code, out, error = answer("table", library)
    assert (code, error) == (0, "")
    assert "\x1b" not in out
    assert headings(out) == [
        "enter  0x1000..0x1020  .eh_frame+0x18",
        "init  0x1020..0x1030  .eh_frame+0x38",
        "init  0x1030..0x1040  .eh_frame+0x50",
        "operator+  0x1040..0x1050  .eh_frame+0x68",
        "add  0x1050..0x1060  .eh_frame+0x80",
        # A name out of a file gives no orders to a terminal.
        "b\\x1b[2Jell  0x1070..0x1080  .eh_frame+0x98",
    ]
    assert out.split("\n\n")[0].splitlines()[1:] == [
        "  address  cfa     rbp        rip",
        "  0x1000   rsp+8   ·          *(cfa-8)",
        "  0x1001   rsp+16  *(cfa-16)  *(cfa-8)",
        "  0x1004   rbp+16  *(cfa-16)  *(cfa-8)",
    ]


@pytest.mark.parametrize(
    ("arguments", "starts"),
    [
        ([], ["0x1000", "0x1020", "0x1030", "0x1040", "0x1050", "0x1070"]),
        (["--function", "enter"], ["0x1000"]),
        (["--function", "init"], ["0x1020", "0x1030"]),
        (["--function", "operator+"], ["0x1040"]),
        (["--address", "enter+0x1f"], ["0x1000"]),
        (["--address", "1020"], ["0x1020"]),
        (["--section", ".eh_frame"], ["0x1000", "0x1020", "0x1030", "0x1040", "0x1050", "0x1070"]),
    ],
)
def test_text_and_json_agree(
    arguments: list[str], starts: list[str], library: str, answer: Answer, document: Callable[..., Any]
) -> None:
    found = document("table", library, *arguments)
    assert [function["start"] for function in found["functions"]] == starts
    code, out, _ = answer("table", library, *arguments)
    assert (code, [line.split()[1].split("..")[0] for line in headings(out)]) == (0, starts)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--function", "bare"], 3, ["covers 0x1060", "0x1050..0x1060"]),
        (["--address", "0x1060"], 3, ["covers 0x1060", "add, 0x1050..0x1060"]),
        (["--address", "0xffffffffffffffff"], 3, ["covers 0xffffffffffffffff"]),
        (["--address", "init"], 2, ["0x1020, 0x1030"]),
        (["--function", ""], 2, ["name of a function is missing"]),
        (["--section", ".debug_frame"], 3, ["no section .debug_frame", "it has .eh_frame"]),
        (["--function", "enter", "--address", "1000"], 2, ["not allowed with"]),
        (["--pid", "4194305"], 3, ["no process 4194305"]),
        (["--format", "readelf", "--json"], 2, ["as readelf does"]),
        (["--format", "readelf", "--function", "enter"], 2, ["as readelf does"]),
        (["--sect", ".eh_frame"], 2, ["--sect"]),
    ],
)
def test_errors(arguments: list[str], code: int, words: list[str], library: str, answer: Answer) -> None:
    found, out, error = answer("table", library, *arguments)
    assert (found, out) == (code, "")
    for word in words:
        assert word in error


def test_a_table_without_functions(tmp_path: Path, answer: Answer) -> None:
    cfi = CfiBuilder()
    cfi.cie()
    elf = ElfBuilder()
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    path = tmp_path / "empty.so"
    path.write_bytes(elf.build())
    assert answer("table", str(path)) == (0, "", "")
    assert json.loads(answer("table", "--json", str(path))[1])["functions"] == []


# In the place of readelf: its exit codes and its output.


@pytest.mark.parametrize("raw", [[], ["--raw"]])
def test_readelf_of_a_file(raw: list[str], library: str, answer: Answer) -> None:
    code, out, error = answer("table", "--format", "readelf", *raw, library)
    assert (code, error) == (0, "")
    assert out.startswith("Contents of the .eh_frame section:\n\n\n00000000 0000000000000014 00000000 CIE")
    assert ("DW_CFA_def_cfa_register: r6 (rbp)" in out) == bool(raw)


def test_readelf_of_what_it_cannot_read(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "text").write_text("hello")
    elf = ElfBuilder()
    elf.section(".eh_frame", type=SHT_NOBITS, size=16, address=0x1000)
    (tmp_path / "x.debug").write_bytes(elf.build())
    (tmp_path / "bare").write_bytes(ElfBuilder().build())
    for name, code in (("missing", 1), ("text", 1), ("", 1), ("x.debug", 1), ("bare", 0)):
        found, _, error = answer("table", "--format", "readelf", str(tmp_path / name))
        assert found == code, name
        assert bool(error) == bool(code)


def test_readelf_warns_without_failing(tmp_path: Path, answer: Answer) -> None:
    cfi = CfiBuilder()
    # 0x1b is no instruction, to readelf as well.
    cfi.fde(cfi.cie(), start=0x1000, size=0x10, instructions=[b"\x1b"])
    elf = ElfBuilder()
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    path = tmp_path / "odd.so"
    path.write_bytes(elf.build())
    code, out, error = answer("table", "--format", "readelf", str(path))
    assert code == 0
    assert "FDE" in out
    assert "warning" in error
    assert answer("table", str(path))[0] == 1


def test_an_address_that_no_index_of_arm_covers(tmp_path: Path, answer: Answer) -> None:
    builder = ExidxBuilder()
    builder.compact(0x1000, "a8")
    builder.cantunwind(0x1010)
    path = tmp_path / "arm.so"
    path.write_bytes(builder.file(code=(0x1000, bytes(32))))
    assert answer("table", str(path), "--address", "0x1004")[0] == 0
    code, _, error = answer("table", str(path), "--address", "0x1014")
    assert code == 3
    assert "no unwind table covers 0x1014" in error
