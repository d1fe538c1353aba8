"""``clew explain``: what it prints for people and for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.testing import Cfa, CfiBuilder, ElfBuilder

Answer = Callable[..., tuple[int, str, str]]

RSP, RIP = 7, 16


def test_text(library: str, answer: Answer) -> None:
    code, out, error = answer("explain", library, "enter+4")
    assert (code, error) == (0, "")
    assert (
        out
        == f"""\
enter+0x4  0x1004  in {library}

  cfa = rbp+16
  rbp = *(cfa-16)
  rip = *(cfa-8)
  rsp = cfa, by the ABI
  the same as here, by the ABI: rbx r12 r13 r14 r15

  row  0x1004..0x1020
  FDE  .eh_frame+0x18  0x1000..0x1020
  CIE  .eh_frame+0x0  version 1, augmentation "zR", moves ×1, offsets ×-8, return address in rip

  set by
    cfa offset    .eh_frame+0x2a  DW_CFA_def_cfa_offset 16  (from 0x1001 on)
    cfa register  .eh_frame+0x2f  DW_CFA_def_cfa_register rbp  (from 0x1004 on)
    rbp           .eh_frame+0x2c  DW_CFA_offset rbp -16  (from 0x1001 on)
    rip           .eh_frame+0x14  DW_CFA_offset rip -8  (in the CIE)
"""
    )


def test_json(library: str, document: Callable[..., Any]) -> None:
    assert document("explain", library, "0x1004") == {
        "file": library,
        "machine": "x86-64",
        "address": "0x1004",
        "function": "enter",
        "function_offset": "0x4",
        "rule": {
            "cfa": "rbp+16",
            "registers": {"rbp": "*(cfa-16)", "rip": "*(cfa-8)"},
            "terms": {
                "cfa": {"kind": "register_plus", "register": "rbp", "offset": 16},
                "rbp": {"kind": "at_cfa", "offset": -16},
                "rip": {"kind": "at_cfa", "offset": -8},
            },
            "return_address": "rip",
        },
        "row": {"start": "0x1004", "end": "0x1020"},
        "fde": {"section": ".eh_frame", "offset": "0x18", "start": "0x1000", "end": "0x1020"},
        "cie": {
            "offset": "0x0",
            "version": 1,
            "augmentation": "zR",
            "code_alignment": 1,
            "data_alignment": -8,
            "return_address": "rip",
        },
        "set_by": {
            "cfa offset": {"offset": "0x2a", "instruction": "DW_CFA_def_cfa_offset 16", "from": "0x1001"},
            "cfa register": {"offset": "0x2f", "instruction": "DW_CFA_def_cfa_register rbp", "from": "0x1004"},
            "rbp": {"offset": "0x2c", "instruction": "DW_CFA_offset rbp -16", "from": "0x1001"},
            "rip": {"offset": "0x14", "instruction": "DW_CFA_offset rip -8"},
        },
    }


def file_of(path: Path, machine: str, augmentation: str, *programs: tuple[int, int, list[bytes | Any]]) -> str:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(augmentation=augmentation, instructions=[Cfa.def_cfa(31 if machine == "aarch64" else RSP, 8)])
    for start, end, program in programs:
        cfi.fde(cie, start=start, size=end - start, instructions=program, lsda=0x3000)
    elf = ElfBuilder(machine={"aarch64": 183, "x86-64": 62}[machine])
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    path.write_bytes(elf.build())
    return str(path)


def test_everything_that_a_row_may_have(tmp_path: Path, answer: Answer, document: Callable[..., Any]) -> None:
    signed: list[Any] = [Cfa.advance(4), b"\x2d", Cfa.gnu_args_size(32), Cfa.remember_state, Cfa.def_cfa_offset(64)]
    program = [*signed, Cfa.advance(4), Cfa.restore_state]
    path = file_of(tmp_path / "a", "aarch64", "zRSB", (0x1000, 0x1040, program))
    code, out, _ = answer("explain", path, "0x1008")
    assert code == 0
    assert "(no symbol)  0x1008" in out
    assert "\n  signal frame\n  return address signed, key B\n" in out
    assert "\n  32 bytes of arguments on the stack\n" in out
    assert "brought back by .eh_frame+0x31  DW_CFA_restore_state  (from 0x1008 on)" in out
    found = document("explain", path, "0x1008")
    assert found["row"]["args_size"] == 32
    assert found["rule"]["signing"] == "signed"
    assert found["set_by"]["cfa offset"]["via"]["from"] == "0x1008"
    assert "function" not in found


def test_hidden_entries(tmp_path: Path, answer: Answer, document: Callable[..., Any]) -> None:
    path = file_of(tmp_path / "a", "x86-64", "zR", (0x1000, 0x1040, []), (0x1010, 0x1020, []))
    assert "hidden: FDE .eh_frame+0x18  0x1000..0x1040 lies around it too" in answer("explain", path, "0x1010")[1]
    hidden = {"section": ".eh_frame", "offset": "0x18", "start": "0x1000", "end": "0x1040"}
    assert document("explain", path, "0x1010")["hidden"] == [hidden]


def test_an_entry_that_makes_no_sense(tmp_path: Path, answer: Answer) -> None:
    broken: tuple[int, int, list[Any]] = (0x1010, 0x1020, [Cfa.restore_state])
    around: tuple[int, int, list[Any]] = (0x1000, 0x1040, [])
    path = file_of(tmp_path / "a", "x86-64", "zR", around, broken)
    code, out, error = answer("explain", path, "0x1010")
    assert code == 1
    assert "FDE  .eh_frame+0x18" in out
    assert "without a remembered state" in error
    path = file_of(tmp_path / "b", "x86-64", "zR", broken)
    code, out, error = answer("explain", path, "0x1010")
    assert (code, out) == (3, "")
    assert error == f"clew: error: {path}: .eh_frame: 0x29: DW_CFA_restore_state without a remembered state\n"


def test_an_expression_that_cannot_be_read(tmp_path: Path, answer: Answer) -> None:
    path = file_of(tmp_path / "a", "x86-64", "zR", (0x1000, 0x1010, [Cfa.expression(RIP, b"\xff")]))
    code, out, error = answer("explain", path, "0x1000")
    assert code == 1
    assert "rip = *(invalid expression ff)" in out
    assert "expression ff" in error


def test_entries_that_cannot_be_read_may_have_covered_it(tmp_path: Path, answer: Answer) -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie()
    cfi.fde(cie, start=0x1000, size=0x10)
    cfi.fde(cie, start=0x1010, size=0x10, cie_pointer=0x5555)
    elf = ElfBuilder()
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    (tmp_path / "a").write_bytes(elf.build())
    code, _, error = answer("explain", str(tmp_path / "a"), "0x1010")
    assert code == 3
    assert "what they cover is not known" in error


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{file}"], 2, ["clew explain FILE ADDRESS"]),
        ([], 2, ["usage: clew explain"]),
        (["{file}", "0x1064"], 3, ["covers 0x1064", "add, 0x1050..0x1060"]),
        (["{file}", "imported"], 3, ["defined in another"]),
        (["--pid", "1x", "0x10"], 2, ["--pid"]),
        (["--pid", "{pid}", "main"], 2, ["'main' is no address", "name the module"]),
        (["--pid", "{pid}", "0x10"], 3, ["0x10 is not mapped"]),
        (["--pid", "4194305", "0x10"], 3, ["no process 4194305", "ps -e"]),
    ],
)
def test_errors(arguments: list[str], code: int, words: list[str], library: str, answer: Answer) -> None:
    values = [argument.format(file=library, pid=os.getpid()) for argument in arguments]
    found, out, error = answer("explain", *values)
    assert (found, out) == (code, "")
    for word in words:
        assert word in error


def test_a_running_process(answer: Answer, document: Callable[..., Any]) -> None:
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    wanted = ("libc.so", "libc-", "ld-musl")
    libraries = [line for line in maps if "x" in line[1] and Path(line[-1]).name.startswith(wanted)]
    if not libraries:
        pytest.skip("this Python has no C library of its own")
    name = libraries[0][-1]
    by_name = document("explain", "--pid", str(os.getpid()), name, "getpid")
    address = by_name["runtime_address"]
    start, end = (int(part, 16) for part in libraries[0][0].split("-"))
    assert start <= int(address, 16) < end
    found = document("explain", "--pid", str(os.getpid()), address)
    assert found == by_name
    # The same in the file itself.
    in_the_file = document("explain", name, found["address"])
    assert in_the_file["fde"] == found["fde"]
    assert f"{address} in the process" in answer("explain", "--pid", str(os.getpid()), address)[1]
