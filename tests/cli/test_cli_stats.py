"""``clew stats``: counts of files and trees, and how it says what it could not read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.testing import Cfa, CfiBuilder, ElfBuilder

Answer = Callable[..., tuple[int, str, str]]


def test_text(library: str, answer: Answer) -> None:
    code, out, error = answer("stats", library)
    assert (code, error) == (0, "")
    lines = out.splitlines()
    assert lines[0] == library
    assert [line.split()[:3] for line in lines[1:8]] == [
        ["section", "bytes", "180"],
        ["entries", "6", "FDEs,"],
        ["code", "bytes", "112"],
        ["rows", "12", "decoded;"],
        ["rules", "7", "different"],
        ["expressions", "0", "uses"],
        ["left", "out", "0"],
    ]
    # No colours or bars in a pipe.
    assert "\x1b" not in out
    assert "█" not in out
    assert lines[lines.index("CFA, in rows") + 1] == "  register  12  100.000 %"


@pytest.mark.parametrize("jobs", [[], ["-j", "1"], ["-j", "3"]])
def test_a_directory(jobs: list[str], library: str, document: Callable[..., Any]) -> None:
    one = document("stats", library)
    folder = Path(library).parent
    for number in range(4):
        shutil.copy(library, folder / f"copy{number}.so")
    (folder / "link").symlink_to(library)
    (folder / "notes").write_text("hello")
    (folder / "bare.so").write_bytes(ElfBuilder().build())
    found = document("stats", str(folder), *jobs)
    assert found["paths"] == [str(folder)]
    assert found["files"] == 5
    for name in ("section_bytes", "cies", "fdes", "code_bytes", "rows", "normalised_rows", "rules"):
        assert found[name] == 5 * one[name]
    for name in ("instructions", "cfas", "kept_columns", "all_columns"):
        assert found[name] == {kind: 5 * count for kind, count in one[name].items()}
    assert found["unreadable"] == []


def test_what_a_tree_has(library: str, answer: Answer) -> None:
    folder = Path(library).parent
    (folder / "bare.so").write_bytes(ElfBuilder().build())
    code, out, _ = answer("stats", str(folder))
    assert (code, out.splitlines()[0]) == (0, f"{folder}: 2 files, 1 with call frame information")
    (folder / "empty").mkdir()
    assert answer("stats", str(folder / "empty")) == (
        0,
        f"{folder / 'empty'}: 0 files, 0 with call frame information\n",
        "",
    )


def test_files_that_cannot_be_read_are_findings(library: str, answer: Answer) -> None:
    folder = Path(library).parent
    (folder / "text").write_text("hello")
    (folder / "cut.so").write_bytes(Path(library).read_bytes()[:40])
    code, out, error = answer("stats", "--json", library, str(folder / "text"), str(folder))
    assert code == 1
    found = json.loads(out)
    assert [Path(each["file"]).name for each in found["unreadable"]] == ["cut.so", "text"]
    assert all(each["message"] and str(folder) not in each["message"] for each in found["unreadable"])
    assert (found["files"], found["rows"]) == (1, 12)
    assert f"{folder / 'text'}: this is not an ELF file" in error
    # Where nothing could be read at all, that is no mere finding.
    assert answer("stats", str(folder / "text"), str(folder / "cut.so"))[0] == 3
    assert answer("stats", str(folder / "text"))[0] == 3


def test_problems_are_told_file_by_file_and_not_all(tmp_path: Path, answer: Answer) -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    for number in range(5):
        cfi.fde(cie, start=0x1000 + number * 16, size=16, instructions=[Cfa.restore_state])
    elf = ElfBuilder()
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    for number in range(23):
        (tmp_path / f"{number:02}.so").write_bytes(elf.build())
    code, out, error = answer("stats", str(tmp_path))
    assert code == 1
    assert ["left", "out", "115"] in [line.split()[:3] for line in out.splitlines()]
    lines = error.splitlines()
    # Three problems and how many more, of twenty files; and how many more of those.
    assert len(lines) == 20 * 4 + 1
    assert lines[3] == f"clew: warning: {tmp_path / '00.so'}: and 2 more"
    assert lines[-1] == "clew: warning: and 3 more files"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{dir}/librari.so"], 3, "did you mean {dir}/library.so, "),
        (["{dir}", "{dir}/missing"], 3, "missing: there is no such file"),
        ([], 2, "usage: clew stats"),
        (["-j", "0", "{dir}"], 2, "'0' is no number of processes"),
        (["-j", "-3", "{dir}"], 2, "'-3' is no number of processes"),
        (["-j", "many", "{dir}"], 2, "'many' is no number of processes"),
        (["{dir}/bare.so"], 3, "no .eh_frame and no .debug_frame"),
    ],
)
def test_errors(arguments: list[str], code: int, words: str, library: str, answer: Answer) -> None:
    folder = Path(library).parent
    (folder / "bare.so").write_bytes(ElfBuilder().build())
    found, out, error = answer("stats", *(argument.format(dir=folder) for argument in arguments))
    assert (found, out) == (code, "")
    assert words.format(dir=folder) in error


def test_a_name_gives_no_orders_to_a_terminal(library: str, answer: Answer) -> None:
    odd = Path(library).with_name("a\x1b[2J.so")
    shutil.copy(library, odd)
    assert answer("stats", str(odd))[1].splitlines()[0].endswith("a\\x1b[2J.so")
    (odd.parent / "b\x1b[2J").write_text("hello")
    assert "b\\x1b[2J" in answer("stats", str(odd.parent / "b\x1b[2J"))[2]
