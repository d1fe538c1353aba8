"""The records of Breakpad symbol files: the document's own examples, and what real files do besides."""

from __future__ import annotations

import pytest

from clew.errors import Problem, UsageError
from clew.native.breakpad_fields import MOST_TOLD
from clew.read.breakpad import records as records_module
from clew.read.breakpad.flaws import Flaws
from clew.read.breakpad.module import ModuleRecord
from clew.read.breakpad.records import NO_NUMBER, Records, read_records
from clew.testing.breakpad import SymbolFileBuilder

#: The examples of docs/symbol_files.md, one a kind of record.
DOCUMENT = """\
MODULE Linux x86 D3096ED481217FD4C16B29CD9BC208BA0 firefox-bin
FILE 2 /home/jimb/mc/in/browser/app/nsBrowserApp.cpp
INLINE_ORIGIN 2 nsQueryInterfaceWithError::operator()(nsID const&, void**) const
FUNC m c184 30 0 nsQueryInterfaceWithError::operator()(nsID const&, void**) const
INLINE 0 10 3 4 d30 2a fa1 b
c184 7 59 4
PUBLIC m 2160 0 Public2_1
STACK WIN 4 2170 14 1 0 0 0 0 0 1 $eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ =
STACK CFI INIT 804c4b0 40 .cfa: $esp 4 + $eip: .cfa 4 - ^
STACK CFI 804c4b1 .cfa: $esp 8 + $ebp: .cfa 8 - ^
"""


def read(text: str | bytes) -> tuple[Records, list[Problem]]:
    flaws = Flaws()
    data = text.encode() if isinstance(text, str) else text
    return read_records(memoryview(data), flaws), flaws.problems


def test_the_documents_examples() -> None:
    records, problems = read(DOCUMENT)
    assert problems == []
    assert records.module == ModuleRecord("Linux", "x86", "D3096ED481217FD4C16B29CD9BC208BA0", "firefox-bin")
    assert records.files.number.tolist() == [2]
    assert list(records.files.names) == ["/home/jimb/mc/in/browser/app/nsBrowserApp.cpp"]
    method = "nsQueryInterfaceWithError::operator()(nsID const&, void**) const"
    assert list(records.origins.names) == [method]
    functions = records.functions
    assert (functions.address.tolist(), functions.size.tolist()) == ([0xC184], [0x30])
    assert (functions.multiple.tolist(), functions.parameter_size.tolist()) == ([1], [0])
    assert list(functions.names) == [method]
    inlines = records.inlines
    assert (inlines.depth.tolist(), inlines.call_line.tolist()) == ([0], [10])
    assert (inlines.call_file.tolist(), inlines.origin.tolist()) == ([3], [4])
    assert (inlines.range_address.tolist(), inlines.range_size.tolist()) == ([0xD30, 0xFA1], [0x2A, 0xB])
    lines = records.lines
    assert [column.tolist() for column in (lines.address, lines.size, lines.line, lines.file)] == [
        [0xC184],
        [7],
        [59],
        [4],
    ]
    publics = records.publics
    assert (publics.address.tolist(), publics.multiple.tolist(), list(publics.names)) == ([0x2160], [1], ["Public2_1"])
    win = records.stack_win
    assert (win.type.tolist(), win.address.tolist(), win.code_size.tolist()) == ([4], [0x2170], [0x14])
    assert (win.prologue_size.tolist(), win.has_program.tolist()) == ([1], [1])
    assert list(win.programs) == ["$eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ ="]
    assert [bytes(text).decode() for text in records.cfi.texts()] == ["".join(DOCUMENT.splitlines(True)[-2:])]
    assert records.cfi.text_line.tolist() == [9]
    assert records.text_lines == 10
    assert len(records) == 9  # the STACK CFI records count as the run of text that they are


def test_carriage_returns() -> None:
    records, problems = read(DOCUMENT.replace("\n", "\r\n"))
    assert problems == [Problem("lines end in carriage return and newline", lost=False, line=1)]
    assert records.module is not None
    assert records.module.name == "firefox-bin"
    assert records.lines.address.tolist() == [0xC184]
    assert list(records.publics.names) == ["Public2_1"]
    assert list(records.stack_win.programs) == ["$eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ ="]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_no_final_newline(newline: str) -> None:
    builder = SymbolFileBuilder(newline)
    builder.module()
    builder.func(0x10, 8, "f")
    builder.line(0x10, 8, 5, 0)
    records, problems = read(builder.build(final_newline=False))
    assert records.lines.line.tolist() == [5]
    assert str(problems[-1]) == "line 3: the last line has no newline; the file may have been cut there"


def test_names() -> None:
    records, problems = read(
        "MODULE Linux x86 0 a b  c\nFUNC 10 8 0 f(int, char) const \nPUBLIC 20 0 \nFILE 1 x y\nFILE 2\n"
    )
    assert records.module is not None
    assert records.module.name == "a b  c"
    assert list(records.functions.names) == ["f(int, char) const "]
    assert list(records.publics.names) == [""]
    assert list(records.files.names) == ["x y", ""]
    assert [(problem.line, problem.lost) for problem in problems] == [(3, False), (5, False)]


def test_bytes_that_are_no_text() -> None:
    records, _ = read(b"MODULE Linux x86 0 m\nFUNC 10 8 0 \xff\xc3\xa9\x00\n")
    assert records.functions.names[0] == "\udcff\xe9\0"
    assert records.functions.names.raw(0) == b"\xff\xc3\xa9\x00"


def test_stack_win_of_all_types() -> None:
    builder = SymbolFileBuilder()
    builder.module("windows", "x86")
    builder.stack_win(0, 0x1000, 0x10, parameters=8, saved=4, local=0x20, allocates_base_pointer=True)
    builder.stack_win(4, 0x2000, 0x20, prologue=1, epilogue=2, most=0x30, program="$T0 .raSearch =")
    builder.stack_win(2, 0x3000, 0x30)
    records, problems = read(builder.build())
    assert problems == []
    win = records.stack_win
    assert win.type.tolist() == [0, 4, 2]
    assert win.allocates_base_pointer.tolist() == [1, 0, 0]
    assert (win.parameter_size[0], win.saved_register_size[0], win.local_size[0]) == (8, 4, 0x20)
    assert (win.prologue_size[1], win.epilogue_size[1], win.max_stack_size[1]) == (1, 2, 0x30)
    assert list(win.programs) == ["", "$T0 .raSearch =", ""]


def test_runs_of_cfi() -> None:
    lines = [
        "STACK CFI INIT 0 8 .cfa: $rsp 8 +",
        "STACK CFI 4 .cfa: $rsp 16 +",
        "PUBLIC 0 0 f",
        "STACK CFI INIT 8 8 .cfa: 1",
    ]
    records, _ = read("\n".join(["MODULE Linux x86 0 m", *lines]))
    assert [bytes(text) for text in records.cfi.texts()] == [f"{lines[0]}\n{lines[1]}\n".encode(), lines[3].encode()]
    assert records.cfi.text_line.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("10 8 1", "lacks a field"),
        ("10 8 1 x", "lacks a field"),
        ("10 -8 1 0", "lacks a field"),
        ("10g 8 1 0", "no record begins"),
        ("10 0 1 0", "no bytes of code"),
        ("10 1ffffffff 1 0", "too large"),
        ("11112222333344445 8 1 0", "too large"),
        ("ffffffffffffffff 2 1 0", "too large"),
        ("10 8 1 0 9", "goes on"),
        ("FUNC", "lacks a field"),
        ("FUNC 10", "lacks a field"),
        ("FUNC 10 8 x name", "lacks a field"),
        ("FUNC 10 0 0 name", "no bytes of code"),
        ("FUNC 11112222333344445 8 0 name", "too large"),
        ("FUNC ffffffffffffffff 2 0 name", "too large"),
        ("FUNC 10 8 100000000 name", "too large"),
        ("FILE x name", "lacks a field"),
        ("FILE -1 name", "lacks a field"),
        ("FILE 4294967296 name", "too large"),
        ("FILE 99999999999999999999999999 name", "too large"),
        ("INLINE_ORIGIN name", "lacks a field"),
        ("INLINE 0 1 2", "lacks a field"),
        ("INLINE 0 1 2 3", "lacks a field"),
        ("INLINE -1 1 2 3 10 8", "lacks a field"),
        ("INLINE 65536 1 2 3 10 8", "too large"),
        ("INLINE 0 1 2 3 10 11112222333344445", "too large"),
        ("INLINE 0 1 2 3 10 0", "no bytes of code"),
        ("PUBLIC x 0 name", "lacks a field"),
        ("STACK WIN 4 10 8 0 0 0 0 0 0 1", "lacks a field"),
        ("STACK WIN 4 10 8 0 0 0 0 0 0 0 x", "lacks a field"),
        ("STACK WIN 4 10 100000000 0 0 0 0 0 0 0 1", "too large"),
        ("STACK X", "no record begins"),
        ("FUNCTION 10 8 0 name", "no record begins"),
        ("GARBAGE", "no record begins"),
        ("MODULE Linux x86 0 second", "second MODULE"),
    ],
)
def test_what_is_wrong_is_told_and_the_rest_is_kept(line: str, sentence: str) -> None:
    head = "MODULE Linux x86 0 m\nFUNC 1000 10 0 f\n1000 8 1 0\n"
    records, problems = read(f"{head}{line}\nFUNC 2000 10 0 g\n2000 8 2 0\n")
    assert [(problem.line, sentence in problem.message) for problem in problems] == [(4, True)], problems
    assert [records.functions.names[0], records.functions.names[-1]] == ["f", "g"]
    assert [int(records.lines.line[0]), int(records.lines.line[-1])] == [1, 2]


def test_lines_and_files_that_are_unknown() -> None:
    records, problems = read(
        "MODULE Linux x86 0 m\nFUNC 10 8 0 f\n10 2 -376 2225\n12 2 4294967296 -1\n14 2 7 4294967295\n"
    )
    assert records.lines.line.tolist() == [0, 0, 7]
    assert records.lines.file.tolist() == [2225, NO_NUMBER, NO_NUMBER]
    assert [problem.line for problem in problems] == [3, 4, 4, 5]


def test_records_that_belong_to_no_function() -> None:
    records, problems = read(
        "10 8 1 0\nINLINE 0 1 0 0 10 8\nFUNC x\n10 8 2 0\nFUNC 10 0 0 f\n10 8 3 0\nFUNC 10 8 0 g\n10 8 4 0\n"
    )
    assert records.lines.line.tolist() == [4]
    assert [problem.line for problem in problems] == [1, 1, 2, 3, 4, 5, 6]
    assert records.functions.first_line.tolist() == [0]
    assert records.functions.end_line.tolist() == [1]


def test_blanks_are_forgiven() -> None:
    records, problems = read("MODULE Linux x86 0 m\n\n   \nFUNC  m  10 8\t0 f\n  10   8  3\t4  \n\t\n")
    assert problems == []
    assert records.functions.multiple.tolist() == [1]
    assert (records.lines.line.tolist(), records.lines.file.tolist()) == ([3], [4])


def test_digits_in_upper_case() -> None:
    records, problems = read("MODULE Linux x86 0 m\nFUNC ABC0 F 0 f\nABC0 F 3 4\n")
    assert problems == []
    assert records.lines.address.tolist() == [0xABC0]


def test_the_lines_of_line_records() -> None:
    """Known is only where a run of them begins, yet each is told by its own line."""
    text = "MODULE Linux x86 0 m\nFUNC 0 100 0 f\n0 1 1 0\n1 1 2 0\nINLINE 0 1 0 0 0 1\n2 1 3 0\n\n 3 1 4 0\n4 1 5 0\n"
    records, _ = read(text)
    every = [line for line, record in enumerate(text.splitlines(), 1) if record[:1].isdigit() or record[:2] == " 3"]
    assert records.lines.text_line(records.lines.line.astype(int) - 1).tolist() == every


def test_module_is_missing_or_late() -> None:
    records, problems = read("FILE 0 a\n")
    assert records.module is None
    assert str(problems[0]) == "line 1: there is no MODULE record"
    records, problems = read("FILE 0 a\nMODULE Linux x86 0 m\n")
    assert records.module is not None
    assert str(problems[0]) == "line 2: the MODULE record is not in the first line"
    records, problems = read("MODULE Linux x86\n")
    assert records.module == ModuleRecord("Linux", "x86", "", "")
    assert str(problems[0]) == "line 1: the MODULE record lacks a field"


def test_problems_are_capped() -> None:
    _, problems = read("MODULE Linux x86 0 m\n" + "nonsense\n" * 100_000)
    assert len(problems) == MOST_TOLD + 1
    assert problems[-1].message.endswith(f"({100_000 - MOST_TOLD:,} more of these)")


def test_info_is_capped() -> None:
    records, problems = read("MODULE Linux x86 0 m\n" + "INFO URL https://example.org/\n" * 3000)
    assert records.info == (("URL", "https://example.org/"),) * 1000
    assert [problem.line for problem in problems] == [1002]


def test_numbers_do_not_ask_for_memory() -> None:
    records, problems = read(
        "MODULE Linux x86 0 m\nFILE 4294967294 a\nINLINE_ORIGIN 4294967294 b\nFUNC 0 ffffffffffffffff 0 f\n"
    )
    assert problems == []
    assert records.files.number.tolist() == [4294967294]


def test_the_last_address() -> None:
    records, problems = read("MODULE Linux x86 0 m\nFUNC ffffffffffffffff 40 0 f\nFUNC fffffffffffffff0 10 0 g\n")
    assert records.functions.size.tolist() == [1, 16]
    assert [problem.line for problem in problems] == [2]


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "MAXIMUM_SIZE", 10)
    with pytest.raises(UsageError):
        read(DOCUMENT)
