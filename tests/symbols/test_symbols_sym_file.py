"""Breakpad symbol files as maps: what counts where records contradict each other, against a plain reading by address."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import FormatError, NotFoundError
from clew.symbols.sym_file import SymbolFile
from clew.symbols.symbol_map import NO_FILE, NO_NAME, SymbolMap
from clew.testing.breakpad import SymbolFileBuilder

Frame = tuple[str, str | None, int]


def name_of(symbols: SymbolMap, index: int) -> str:
    return "?" if index == NO_NAME else symbols.names[index]


def file_of(symbols: SymbolMap, index: int) -> str | None:
    return None if index == NO_FILE else symbols.files[index]


def chain(symbols: SymbolMap, address: int) -> list[Frame] | None:
    """Function, file and line of each frame at an address, the innermost first; read off the columns, one by one."""
    functions, lines, inlines = symbols.functions, symbols.lines, symbols.inlines
    at = bisect_right(functions.address.tolist(), address) - 1
    if at < 0 or address - int(functions.address[at]) >= int(functions.size[at]):
        return None
    line: tuple[str | None, int] = (None, 0)
    for row in range(functions.first_line[at], functions.end_line[at]):
        if 0 <= address - int(lines.address[row]) < int(lines.size[row]):
            line = (file_of(symbols, int(lines.file[row])), int(lines.line[row]))
    frames = [name_of(symbols, int(functions.name[at]))]
    calls: list[tuple[str | None, int]] = []
    for row in range(functions.first_inline[at], functions.end_inline[at]):
        ranges = range(inlines.first_range[row], inlines.first_range[row + 1])
        if any(0 <= address - int(inlines.range_address[r]) < int(inlines.range_size[r]) for r in ranges):
            assert inlines.depth[row] == len(calls), "two calls of one depth, or none around this one"
            frames.append(name_of(symbols, int(inlines.name[row])))
            calls.append((file_of(symbols, int(inlines.call_file[row])), int(inlines.call_line[row])))
    return [(name, *place) for name, place in zip(frames[::-1], [line, *calls[::-1]], strict=True)]


def check(symbols: SymbolMap) -> None:
    """What every map promises."""
    functions, lines, inlines = symbols.functions, symbols.lines, symbols.inlines
    ends = [int(a) + int(s) for a, s in zip(functions.address, functions.size, strict=True)]
    assert all(end <= int(next_) for end, next_ in zip(ends, functions.address[1:], strict=False))
    assert (functions.size > 0).all()
    assert functions.first_line.dtype == functions.end_inline.dtype == lines.size.dtype == np.uint32
    assert inlines.depth.dtype == np.uint16
    for at in range(len(functions.address)):
        low = begin = int(functions.address[at])
        for row in range(functions.first_line[at], functions.end_line[at]):
            assert low <= int(lines.address[row])
            low = int(lines.address[row]) + int(lines.size[row])
            assert low <= ends[at]
        around: list[list[tuple[int, int]]] = [[(begin, ends[at])]]
        for row in range(functions.first_inline[at], functions.end_inline[at]):
            depth = int(inlines.depth[row])
            assert depth < len(around)
            ranges = [
                (int(inlines.range_address[r]), int(inlines.range_address[r]) + int(inlines.range_size[r]))
                for r in range(inlines.first_range[row], inlines.first_range[row + 1])
            ]
            assert ranges
            assert all(a[1] <= b[0] for a, b in pairwise(ranges))
            for first, end in ranges:
                inside = sum(max(0, min(end, high) - max(first, low)) for low, high in around[depth])
                assert inside == end - first > 0
            around[depth + 1 :] = [ranges]
    assert (np.diff(symbols.publics.address.astype(object)) > 0).all()


def test_a_whole_file(tmp_path: Path) -> None:
    builder = SymbolFileBuilder()
    builder.module(name="demo")
    builder.info("CODE_ID", "ABCDEF demo.exe")
    builder.file(7, "/src/a.c")
    builder.file(3, "/src/b.h")
    builder.origin(9, "inner()")
    builder.origin(1, "outer()")
    builder.func(0x1000, 0x40, "main", parameter_size=8, multiple=True)
    builder.inline(0, 20, 7, 1, [(0x1010, 0x10), (0x1030, 8)])
    builder.inline(1, 30, 3, 9, [(0x1014, 4)])
    builder.line(0x1000, 0x10, 10, 7)
    builder.line(0x1010, 0x30, 31, 3)
    builder.public(0x900, "_start", parameter_size=4, multiple=True)
    builder.public(0x800, "_init")
    path = tmp_path / "demo.sym"
    path.write_bytes(builder.build())
    with SymbolFile.open(path) as file:
        symbols = file.symbols
        assert file.module is not None
        assert (file.module.name, file.code_id, file.problems) == ("demo", "ABCDEF", [])
    check(symbols)
    assert chain(symbols, 0xFFF) is None
    assert chain(symbols, 0x1000) == [("main", "/src/a.c", 10)]
    assert chain(symbols, 0x1010) == [("outer()", "/src/b.h", 31), ("main", "/src/a.c", 20)]
    assert chain(symbols, 0x1017) == [
        ("inner()", "/src/b.h", 31),
        ("outer()", "/src/b.h", 30),
        ("main", "/src/a.c", 20),
    ]
    assert chain(symbols, 0x1018) == [("outer()", "/src/b.h", 31), ("main", "/src/a.c", 20)]
    assert chain(symbols, 0x1020) == [("main", "/src/b.h", 31)]
    assert symbols.functions.parameter_size.tolist() == [8]
    assert symbols.functions.multiple.tolist() == [1]
    publics = symbols.publics
    assert publics.address.tolist() == [0x800, 0x900]
    assert [symbols.names[index] for index in publics.name] == ["_init", "_start"]
    assert (publics.parameter_size.tolist(), publics.multiple.tolist()) == ([0, 4], [0, 1])


def test_what_is_no_symbol_file(tmp_path: Path) -> None:
    for data in (b"", b"\n\n", b"\x7fELF", b"hello world\n" * 100):
        with pytest.raises(FormatError, match="no Breakpad symbol file"):
            SymbolFile.open(data, "it")
    with pytest.raises(NotFoundError):
        SymbolFile.open(tmp_path / "absent.sym")


def test_functions_that_overlap() -> None:
    builder = SymbolFileBuilder()
    builder.module()
    builder.func(0x100, 0x100, "outer")
    builder.line(0x100, 0x100, 1, 0)
    builder.func(0x140, 0x10, "inner")
    builder.line(0x140, 0x10, 2, 0)
    builder.func(0x100, 0x20, "twin")
    builder.func(0x140, 0x10, "second inner")
    builder.file(0, "f")
    file = SymbolFile.open(builder.build())
    symbols = file.symbols
    check(symbols)
    names = [name_of(symbols, int(index)) for index in symbols.functions.name]
    assert names == ["outer", "inner", "outer"]
    assert symbols.functions.address.tolist() == [0x100, 0x140, 0x150]
    assert symbols.functions.size.tolist() == [0x40, 0x10, 0xB0]
    assert chain(symbols, 0x13F) == [("outer", "f", 1)]
    assert chain(symbols, 0x140) == [("inner", "f", 2)]
    assert chain(symbols, 0x1FF) == [("outer", "f", 1)]
    assert [(problem.line, problem.message.split(";")[0]) for problem in file.problems] == [
        (2, "other functions have part of the code of this one"),
        (6, "another function has the code of this one"),
        (7, "another function has the code of this one"),
    ]


def test_lines_that_overlap_or_reach_out() -> None:
    text = "MODULE a b c d\nFILE 0 f\nFUNC 100 10 0 g\n108 100 3 0\n100 c 1 0\n104 2 2 0\nf0 8 9 0\n104 2 8 0\n"
    file = SymbolFile.open(text.encode())
    symbols = file.symbols
    check(symbols)
    lines = {0x100: 1, 0x104: 2, 0x105: 2, 0x106: 1, 0x107: 1, 0x108: 3, 0x10F: 3}
    assert {address: (chain(symbols, address) or [])[0][2] for address in lines} == lines
    overlap, outside = "line records of one function overlap", "a line reaches out of its function"
    assert [(problem.line, problem.message) for problem in file.problems] == [
        (4, outside),
        (5, overlap),
        (7, outside),
        (8, overlap),
    ]


def test_numbers_of_files_and_origins() -> None:
    """Twice the same, in no order, missing, and so large that nothing may be as long as they are."""
    text = (
        "MODULE a b c d\nFILE 4000000000 far\nFILE 5 first\nFILE 5 second\nINLINE_ORIGIN 6 f\nINLINE_ORIGIN 6 g\n"
        "FUNC 0 10 0 h\nINLINE 0 1 77 6 0 4\nINLINE 0 1 5 78 4 4\n0 4 1 4000000000\n4 4 2 5\n8 4 3 6\n"
    )
    file = SymbolFile.open(text.encode())
    symbols = file.symbols
    assert chain(symbols, 0) == [("f", "far", 1), ("h", None, 1)]
    assert chain(symbols, 4) == [("?", "first", 2), ("h", "first", 1)]
    assert chain(symbols, 8) == [("h", None, 3)]
    assert [problem.line for problem in file.problems] == [4, 6, 8, 9, 12]


def test_names_that_are_missing() -> None:
    file = SymbolFile.open(
        b"MODULE a b c d\nFUNC 0 4 0 <name omitted>\nFUNC 4 4 0 \nPUBLIC 8 0\nFUNC 10 4 0 twelve chars!\n"
    )
    assert file.symbols.functions.name.tolist() == [NO_NAME, NO_NAME, 2]
    assert file.symbols.publics.name.tolist() == [NO_NAME]


def test_publics_at_one_address() -> None:
    file = SymbolFile.open(b"MODULE a b c d\nPUBLIC 10 0 a\nPUBLIC 8 0 b\nPUBLIC 10 0 c\n")
    assert [file.symbols.names[index] for index in file.symbols.publics.name] == ["b", "a"]
    assert [problem.line for problem in file.problems] == [4]


def test_the_old_form_of_inline() -> None:
    text = (
        "MODULE a b c d\nFILE 0 main.c\nFILE 1 foo.h\nINLINE_ORIGIN 0 1 foo()\nINLINE_ORIGIN 1 0 12 monkeys\n"
        "FUNC 10 20 0 main\nINLINE 0 42 0 10 10 28 4\nINLINE 1 39 1 14 4\n10 20 5 0\n"
    )
    file = SymbolFile.open(text.encode())
    symbols = file.symbols
    assert file.problems == []
    # Nothing says in which file main calls foo; foo calls in the file that is its own.
    assert chain(symbols, 0x15) == [("12 monkeys", "main.c", 5), ("foo()", "foo.h", 39), ("main", None, 42)]
    assert chain(symbols, 0x28) == [("foo()", "main.c", 5), ("main", None, 42)]


def test_forms_of_inline_that_are_mixed() -> None:
    new = "INLINE 0 1 0 0 0 4\nINLINE 0 2 0 0 4 4\n"
    text = f"MODULE a b c d\nFILE 0 f\nINLINE_ORIGIN 0 5 golden rings\nFUNC 0 10 0 g\n{new}INLINE 0 3 0 8 4\n"
    file = SymbolFile.open(text.encode())
    assert chain(file.symbols, 0) == [("5 golden rings", None, 0), ("g", "f", 1)]
    assert chain(file.symbols, 8) == [("g", None, 0)]
    assert [(problem.line, problem.message[:30]) for problem in file.problems] == [
        (7, "most INLINE records of the fil")
    ]


def test_inlined_calls_by_address() -> None:
    """As mozilla's dump_syms writes them: what is called at two places from one call is one record, behind the first."""
    text = (
        "MODULE a b c d\nFILE 0 f\nINLINE_ORIGIN 0 a\nINLINE_ORIGIN 1 b\nINLINE_ORIGIN 2 c\nFUNC 0 40 0 g\n"
        "INLINE 0 10 0 0 0 10\nINLINE 1 20 0 1 8 10\nINLINE 2 30 0 2 c 4 14 2\nINLINE 0 11 0 0 10 10\n"
    )
    file = SymbolFile.open(text.encode())
    symbols = file.symbols
    check(symbols)
    assert file.problems == []
    assert symbols.inlines.depth.tolist() == [0, 1, 2, 0, 1, 2]
    assert symbols.inlines.call_line.tolist() == [10, 20, 30, 11, 20, 30]
    assert symbols.inlines.range_address.tolist() == [0, 8, 0xC, 0x10, 0x10, 0x14]
    assert symbols.inlines.range_size.tolist() == [0x10, 8, 4, 0x10, 8, 2]


def test_inlined_calls_of_functions_in_pieces() -> None:
    """dump_syms repeats all calls under each piece of a function; here the pieces are what another function leaves."""
    text = (
        "MODULE a b c d\nFILE 0 f\nINLINE_ORIGIN 0 a\nINLINE_ORIGIN 1 b\n"
        "FUNC 0 40 0 g\nINLINE 0 1 0 0 4 30\nINLINE 1 2 0 1 8 4 30 4\n"
        "FUNC 10 10 0 h\nINLINE 0 3 0 1 0 100\nINLINE 0 4 0 0 30 4\n"
    )
    file = SymbolFile.open(text.encode())
    symbols = file.symbols
    check(symbols)
    assert [name for name, _, _ in chain(symbols, 9) or []] == ["b", "a", "g"]
    assert [name for name, _, _ in chain(symbols, 0x12) or []] == ["b", "h"]
    assert [name for name, _, _ in chain(symbols, 0x31) or []] == ["b", "a", "g"]
    assert [problem.line for problem in file.problems] == [5, 9, 10]


def test_calls_as_deep_as_can_be() -> None:
    depth = 2000
    ranges = "".join(f"INLINE {level} 1 0 0 0 8\n" for level in range(depth))
    file = SymbolFile.open(f"MODULE a b c d\nFILE 0 f\nINLINE_ORIGIN 0 a\nFUNC 0 8 0 g\n{ranges}".encode())
    assert len(chain(file.symbols, 4) or []) == depth + 1
    # Out of order they are followed by address, and not as deep.
    ranges = "".join(f"INLINE {level} 1 0 0 0 8\n" for level in reversed(range(depth)))
    file = SymbolFile.open(f"MODULE a b c d\nFILE 0 f\nINLINE_ORIGIN 0 a\nFUNC 0 8 0 g\n{ranges}".encode())
    assert len(chain(file.symbols, 4) or []) == 1026
    assert file.problems


#: Addresses of these files.
SPACE = 32
pieces = st.tuples(st.integers(0, SPACE - 1), st.integers(1, SPACE)).map(
    lambda pair: (pair[0], min(pair[1], SPACE - pair[0]))
)
functions = st.lists(
    st.tuples(
        pieces,
        st.lists(st.tuples(pieces, st.integers(0, 9)), max_size=5),
        st.lists(st.tuples(st.integers(0, 3), st.lists(pieces, min_size=1, max_size=3), st.integers(0, 9)), max_size=6),
    ),
    max_size=5,
)
Piece = tuple[int, int]
Function = tuple[Piece, list[tuple[Piece, int]], list[tuple[int, list[Piece], int]]]


def owner(items: list[Piece], address: int) -> int | None:
    """Which of these has the address: the one that begins last, of those the first."""
    around = [(start, -index) for index, (start, size) in enumerate(items) if start <= address < start + size]
    return -max(around)[1] if around else None


@settings(max_examples=100, deadline=None)
@given(functions)
def test_any_file_against_a_plain_reading(files: list[Function]) -> None:
    builder = SymbolFileBuilder()
    builder.module()
    builder.file(0, "f")
    for number in range(10):
        builder.origin(number, f"call {number}")
    for number, ((start, size), lines, inlines) in enumerate(files):
        builder.func(start, size, f"function {number}")
        for depth, ranges, line in inlines:
            builder.inline(depth, line, 0, line, ranges)
        for (begin, length), line in lines:
            builder.line(begin, length, line, 0)
    symbols = SymbolFile.open(builder.build()).symbols
    check(symbols)
    for address in range(SPACE):
        found = chain(symbols, address)
        number = owner([piece for piece, _, _ in files], address)
        if number is None:
            assert found is None
            continue
        assert found is not None
        _, lines, inlines = files[number]
        assert found[-1][0] == f"function {number}"
        row = owner([piece for piece, _ in lines], address)
        assert found[0][1:] == ((None, 0) if row is None else ("f", lines[row][1]))
        # Of each depth the call that has the address, down to the first depth that has none.
        calls: list[int] = []
        while True:
            level = [(piece, line) for depth, ranges, line in inlines if depth == len(calls) for piece in ranges]
            row = owner([piece for piece, _ in level], address)
            if row is None:
                break
            calls.append(level[row][1])
        assert [name for name, _, _ in found[:-1]] == [f"call {line}" for line in reversed(calls)]
        assert [line for _, _, line in found[1:]] == list(reversed(calls))
