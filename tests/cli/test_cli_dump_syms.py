"""``clew dump-syms``: where symbol files go, and what is said of what cannot be written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.symbols.sym_file import SymbolFile
from clew.testing import Cfa, CfiBuilder, ElfBuilder

Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture
def answer(answer: Answer) -> Answer:
    """The commands without the warning that there are no lines, which most of the files here earn."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code, out, error = answer(*arguments)
        return code, out, "".join(line for line in error.splitlines(True) if ": no lines: " not in line)

    return run


RAX, RSP, RIP = 0, 7, 16


@pytest.fixture
def written(library: str, tmp_path: Path, answer: Answer) -> Path:
    """The symbol file of the library."""
    path = tmp_path / "out.sym"
    assert answer("dump-syms", library, "-o", str(path)) == (0, "", "")
    return path


def test_a_symbol_file_has_the_functions_and_the_unwind_table(written: Path) -> None:
    """The library's code begins at 0x1000, where it is loaded: addresses count from there."""
    lines = written.read_text().splitlines()
    assert lines[0].startswith("MODULE Linux x86_64 ")
    assert lines[0].endswith(" library.so")
    assert "PUBLIC 0 0 enter" in lines
    # Control characters in names are nobody's orders to a terminal.
    assert "PUBLIC 70 0 b [2Jell" in lines
    assert "STACK CFI INIT 0 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^" in lines
    assert "STACK CFI 1 .cfa: $rsp 16 + $rbp: .cfa -16 + ^" in lines
    assert "STACK CFI 4 .cfa: $rbp 16 +" in lines


def test_it_reads_back(written: Path) -> None:
    with SymbolFile.open(written) as symbols:
        assert symbols.problems == []
        publics = symbols.symbols.publics
        names = [symbols.symbols.names[number] for number in publics.name]
        assert dict(zip(publics.address.tolist(), names, strict=True))[0x50] == "add"


def test_a_store_has_the_file_under_its_name_and_id(library: str, tmp_path: Path, answer: Answer) -> None:
    store = tmp_path / "store"
    assert answer("dump-syms", "--store", str(store), library) == (0, "", "")
    (path,) = store.rglob("*.sym")
    name, identity, file = path.relative_to(store).parts
    assert (name, file) == ("library.so", "library.so.sym")
    assert path.read_text().split("\n", 1)[0] == f"MODULE Linux x86_64 {identity} library.so"


def test_several_files_in_parallel(library: str, tmp_path: Path, answer: Answer) -> None:
    second = tmp_path / "second.so"
    second.write_bytes(Path(library).read_bytes())
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF")
    store = tmp_path / "store"
    code, out, error = answer(
        "dump-syms", "--store", str(store), "-j", "2", library, str(broken), "nothing", str(second)
    )
    assert (code, out) == (1, "")
    assert "broken.so" in error
    assert "nothing" in error
    assert sorted(path.name for path in store.iterdir()) == ["library.so", "second.so"]


def test_several_files_need_a_store(library: str, answer: Answer) -> None:
    code, out, error = answer("dump-syms", library, library + ".other")
    assert (code, out) == (2, "")
    assert "--store" in error


def test_without_the_unwind_table_and_with_another_machine(library: str, tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "out.sym"
    assert answer("dump-syms", "--no-cfi", "--arch", "amd64", library, "-o", str(path))[0] == 0
    text = path.read_text()
    assert text.startswith("MODULE Linux amd64 ")
    assert "STACK" not in text
    assert answer("dump-syms", "--arch", "two words", library)[0] == 2


def test_nothing_is_left_where_it_cannot_be_written(library: str, tmp_path: Path, answer: Answer) -> None:
    there = tmp_path / "there"
    there.mkdir()
    code, _, error = answer("dump-syms", library, "-o", str(there / "no" / "out.sym"))
    assert code == 3
    assert "No such file" in error
    assert list(there.iterdir()) == []


def test_the_file_that_was_there_is_replaced_as_a_whole(library: str, tmp_path: Path, answer: Answer) -> None:
    real = tmp_path / "real.sym"
    real.write_text("old")
    link = tmp_path / "link.sym"
    link.symlink_to(real)
    assert answer("dump-syms", library, "-o", str(link))[0] == 0
    assert link.is_symlink()
    assert real.read_text().startswith("MODULE")
    assert sorted(path.name for path in tmp_path.glob("*.sym*")) == ["link.sym", "real.sym"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~mask


def test_standard_output_is_the_default(library: str, written: Path) -> None:
    command = [sys.executable, "-m", "clew", "dump-syms", library]
    assert subprocess.run(command, capture_output=True, check=True).stdout == written.read_bytes()


def test_what_the_format_cannot_say_is_counted(tmp_path: Path, answer: Answer) -> None:
    """A signal frame: the format has no word for it."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(augmentation="zRS", instructions=[Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 1)])
    cfi.fde(cie, start=0x1000, size=0x10, instructions=[])
    cfi.terminator()
    elf = ElfBuilder()
    elf.section(".text", bytes(0x10), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    path = tmp_path / "signal.so"
    path.write_bytes(elf.build())
    code, _, error = answer("dump-syms", str(path), "-o", str(tmp_path / "out.sym"))
    assert code == 0
    assert "1 row" in error
    assert "0x1000" in error
    assert "STACK CFI INIT 0 10 " in (tmp_path / "out.sym").read_text()


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ" + bytes(100)])
def test_what_is_no_binary_is_an_error(content: bytes, tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    code, out, error = answer("dump-syms", str(path))
    assert (code, out) == (3, "")
    assert str(path) in error


def test_what_was_not_found_is_said(library: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from clew.cli import main

    assert main(("dump-syms", library, "-o", str(tmp_path / "out.sym"))) == 0
    error = capsys.readouterr().err
    assert f"{library}: no lines: no debugging information was found" in error
    assert f"{library} has no DWARF" in error


def test_a_file_that_is_read_is_not_written_over(library: str, tmp_path: Path, answer: Answer) -> None:
    before = Path(library).read_bytes()
    link = tmp_path / "link"
    link.symlink_to(library)
    for output in (library, str(link)):
        code, _, error = answer("dump-syms", library, "-o", output)
        assert code == 2
        assert "take the place" in error
    assert Path(library).read_bytes() == before
