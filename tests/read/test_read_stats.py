"""Counts of tables made by hand, and how counts of many files come together."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from clew.errors import Error, FormatError, NotFoundError, Problem
from clew.read.stats import Stats, elf_files, file_stats, read_stats, survey
from clew.testing import Cfa, CfiBuilder, ElfBuilder, Op

RBX, RBP, RSP, RIP = 3, 6, 7, 16


def tables(*, broken: bool = False) -> CfiBuilder:
    """Two functions with a gap of 0x10 between them."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 1)], padding=3)
    cfi.fde(
        cie,
        start=0x1000,
        size=0x20,
        instructions=[
            Cfa.advance(1),  # here ends a row with rip
            Cfa.def_cfa_offset(16),
            Cfa.offset(RBP, 2),
            Cfa.offset(12, 3),
            Cfa.advance(4),  # one with rbp, r12, rip
            Cfa.def_cfa_expression(Op.breg(RBP, 16)),
            Cfa.register(RBX, RBP),
        ],  # and one with rbx, rbp, r12, rip
        padding=0,
    )
    cfi.fde(cie, start=0x1030, size=0x10, instructions=[Cfa.undefined(RIP), Cfa.val_offset(RSP, 2)], padding=0)
    if broken:
        cfi.fde(cie, start=0x1050, size=0x10, instructions=[Cfa.restore_state])
    return cfi


def file_of(path: Path, cfi: CfiBuilder) -> str:
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    path.write_bytes(elf.build())
    return str(path)


def test_counts_of_one_file(tmp_path: Path) -> None:
    cfi = tables()
    stats = read_stats(file_of(tmp_path / "a", cfi))
    assert (stats.files, stats.section_bytes, stats.cies, stats.fdes, stats.lost) == (1, len(cfi.build()), 1, 2, 0)
    assert (stats.code_bytes, stats.rows, stats.normalised_rows, stats.rules) == (0x30, 4, 4, 4)
    assert stats.instructions == {
        "DW_CFA_def_cfa": 1,
        "DW_CFA_offset": 3,
        "DW_CFA_nop": 3,
        "DW_CFA_advance_loc": 2,
        "DW_CFA_def_cfa_offset": 1,
        "DW_CFA_def_cfa_expression": 1,
        "DW_CFA_register": 1,
        "DW_CFA_undefined": 1,
        "DW_CFA_val_offset": 1,
    }
    assert stats.cfas == {"register": 3, "expression": 1}
    # Rows by rows: rip | rbp r12 rip | rbx rbp r12 rip | rip rsp. r12 is not kept.
    assert stats.all_columns == {"offset": 1 + 3 + 3, "register": 1, "undefined": 1, "val_offset": 1}
    assert stats.kept_columns == {"offset": 1 + 2 + 2, "register": 1, "undefined": 1, "val_offset": 1}
    assert (stats.expressions, stats.unreadable_expressions) == (1, 0)


def test_unreadable_expressions_are_counted_as_such(tmp_path: Path) -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(RSP, 8)])
    cfi.fde(
        cie, start=0x1000, size=0x10, instructions=[Cfa.expression(RBX, b"\xff"), Cfa.val_expression(RBP, Op.lit(1))]
    )
    stats = read_stats(file_of(tmp_path / "a", cfi))
    assert (stats.expressions, stats.unreadable_expressions) == (2, 1)
    assert stats.all_columns == {"expression": 1, "val_expression": 1}


def test_entries_that_cannot_be_read(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a", tables(broken=True))
    stats = read_stats(path)
    assert (stats.fdes, stats.rows, stats.lost) == (3, 4, 1)
    assert [(file, problem.section, problem.lost) for file, problem in stats.problems] == [(path, ".eh_frame", True)]


def test_reading_one_file_raises() -> None:
    with pytest.raises(NotFoundError):
        read_stats("/nowhere/at/all")


def test_a_file_among_many_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "bare").write_bytes(ElfBuilder().build())
    (tmp_path / "cut").write_bytes(Path(file_of(tmp_path / "a", tables())).read_bytes()[:0x100])
    text, bare, cut = (file_stats(tmp_path / name) for name in ("text", "bare", "cut"))
    assert text.unreadable == [(str(tmp_path / "text"), "this is not an ELF file")]
    assert bare == Stats()
    assert (cut.files, cut.unreadable, [problem.lost for _, problem in cut.problems]) == (0, [], [True])


def test_sums(tmp_path: Path) -> None:
    one, two = read_stats(file_of(tmp_path / "a", tables())), read_stats(file_of(tmp_path / "b", tables(broken=True)))
    both = Stats()
    both.add(one)
    both.add(two)
    assert (both.files, both.rows, both.lost, len(both.problems)) == (2, 8, 1, 1)
    assert both.instructions["DW_CFA_offset"] == 6
    assert one.rows == 4


def test_json_has_numbers_for_everything_but_unreadable_files() -> None:
    stats = Stats(rows=3, problems=[("a", Problem("b"))], unreadable=[("c", "d")])
    stats.cfas["register"] = 3
    found = stats.to_json()
    assert (found["rows"], found["cfas"], found["problems"]) == (3, {"register": 3}, 1)
    assert found["unreadable"] == [{"file": "c", "message": "d"}]


def test_files_of_a_tree(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    path = file_of(tmp_path / "below" / "lib.so", tables())
    (tmp_path / "a-hard-link").hardlink_to(path)
    (tmp_path / "a-symbolic-link").symlink_to(path)
    (tmp_path / "a-loop").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "tiny").write_bytes(b"\x7fEL")
    (tmp_path / "cut").write_bytes(b"\x7fELF")
    os.mkfifo(tmp_path / "pipe")
    # The first name in the order of the tree; what begins like an ELF file is taken for one.
    assert sorted(elf_files([tmp_path])) == [str(tmp_path / "a-hard-link"), str(tmp_path / "cut")]
    # What is named is taken as it is, but once.
    named = [tmp_path / "a-symbolic-link", path, tmp_path / "text", tmp_path / "missing", tmp_path / "below"]
    assert list(elf_files(named)) == [str(named[0]), str(tmp_path / "text"), str(tmp_path / "missing")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_given(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("?")
    (tmp_path / "file").chmod(0)
    (tmp_path / "folder").mkdir(mode=0)
    found = list(elf_files([tmp_path]))
    (tmp_path / "folder").chmod(0o700)
    assert found == [str(tmp_path / "file"), str(tmp_path / "folder")]


class DistributedFuture:
    """A future as another library may have it: no relative of this one's."""

    def __init__(self, function: Callable[[str], Stats], file: str) -> None:
        self.function, self.file = function, file

    def result(self) -> Stats:
        return self.function(self.file)


class DistributedClient:
    """An executor as a Dask client is one: its ``submit`` takes more than the standard's, and it has no other base."""

    def submit(
        self, func: Callable[[str], Stats], *args: str, key: str | None = None, pure: bool = True
    ) -> DistributedFuture:
        return DistributedFuture(func, *args)


@pytest.mark.parametrize("where", ["here", "threads", "dask"])
def test_a_survey_is_the_same_wherever_it_is_made(where: str, tmp_path: Path) -> None:
    files = [file_of(tmp_path / f"lib{number}.so", tables(broken=number == 3)) for number in range(5)]
    (tmp_path / "text").write_text("hello")
    files.append(str(tmp_path / "text"))
    expected = Stats()
    for file in files:
        expected.add(file_stats(file))
    done: list[str] = []
    if where == "threads":
        with ThreadPoolExecutor(2) as pool:
            found = survey(files, pool, done.append)
    else:
        found = survey(files, DistributedClient() if where == "dask" else None, done.append)
    assert found == expected
    assert sorted(done) == sorted(files)


def test_a_survey_of_nothing() -> None:
    assert survey([]) == survey([], DistributedClient()) == Stats()


def test_an_executor_that_breaks_down() -> None:
    class Broken(DistributedFuture):
        def result(self) -> Stats:
            raise BrokenExecutor

    class Client:
        def submit(self, function: Callable[[str], Stats], file: str, /) -> Broken:
            return Broken(function, file)

    with pytest.raises(Error, match="ended before") as caught:
        survey(["a"], Client())
    assert not isinstance(caught.value, FormatError)
    assert caught.value.hint is not None
