"""Breakpad symbol files that are written: their text, and that reading it gives the same map."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.read.breakpad import ModuleRecord
from clew.symbols.sym_file import SymbolFile
from clew.symbols.symbol_map import NO_FILE, NO_NAME, Functions, Inlines, Lines, Publics, SymbolMap
from clew.testing.breakpad import SymbolFileBuilder
from clew.write.breakpad.symbols import harmless, symbol_text, write_symbols

MODULE = ModuleRecord("Linux", "x86_64", "D3096ED481217FD4C16B29CD9BC208BA0", "demo")


def demo(**changes: Any) -> SymbolMap:
    """Two functions, one with inlined calls, and a symbol of the linker."""
    columns = {
        "functions": Functions(
            address=np.array([0x1000, 0x2000], np.uint64),
            size=np.array([0x40, 0x10], np.uint64),
            name=np.array([3, 3], np.uint32),
            parameter_size=np.array([0, 0x1C], np.uint32),
            multiple=np.array([0, 1], np.uint8),
            first_line=np.array([1, 0], np.uint32),
            end_line=np.array([4, 1], np.uint32),
            first_inline=np.array([0, 0], np.uint32),
            end_inline=np.array([2, 0], np.uint32),
        ),
        "lines": Lines(
            # The last of the first function goes on behind it; none of it is inside the second.
            address=np.array([0x2000, 0x1000, 0x1010, 0x1030], np.uint64),
            size=np.array([0x10, 0x10, 0x20, 0x40], np.uint32),
            line=np.array([0, 10, 11, 4294967295], np.uint32),
            file=np.array([NO_FILE, 4, 2, 4], np.uint32),
        ),
        "inlines": Inlines(
            depth=np.array([0, 1], np.uint16),
            name=np.array([1, NO_NAME], np.uint32),
            call_file=np.array([4, 5], np.uint32),
            call_line=np.array([12, 0], np.uint32),
            first_range=np.array([0, 2, 3], np.uint32),
            range_address=np.array([0x1010, 0x1038, 0x1014], np.uint64),
            range_size=np.array([0x10, 0x20, 4], np.uint64),
        ),
        "publics": Publics(
            address=np.array([0x900], np.uint64),
            name=np.array([0], np.uint32),
            parameter_size=np.array([8], np.uint32),
            multiple=np.array([1], np.uint8),
        ),
        "names": ["_start", "inlined", "unused", "main"],
        "files": ["unused", "unused", "/b.h", "unused", "/a.c", "/b.h"],
    }
    return SymbolMap(**{**columns, **changes})


def written(symbols: SymbolMap, **options: Any) -> bytes:
    return b"".join(symbol_text(MODULE, [("CODE_ID", "ABCD")], symbols, **options))


def test_the_text() -> None:
    out = io.BytesIO()
    write_symbols(
        out,
        MODULE,
        [("CODE_ID", "ABCD demo.exe"), ("GENERATOR", "clew")],
        demo(),
        cfi_chunks=[b"STACK CFI INIT 1000 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n"],
    )
    assert out.getvalue().decode() == (
        "MODULE Linux x86_64 D3096ED481217FD4C16B29CD9BC208BA0 demo\n"
        "INFO CODE_ID ABCD demo.exe\n"
        "INFO GENERATOR clew\n"
        "FILE 0 /b.h\n"
        "FILE 1 /a.c\n"
        "INLINE_ORIGIN 0 inlined\n"
        "INLINE_ORIGIN 1 <name omitted>\n"
        "FUNC 1000 40 0 main\n"
        "INLINE 0 12 1 0 1010 10 1038 8\n"
        "INLINE 1 0 0 1 1014 4\n"
        "1000 10 10 1\n"
        "1010 20 11 0\n"
        "1030 10 4294967295 1\n"
        "FUNC m 2000 10 1c main\n"
        "2000 10 0 2\n"
        "PUBLIC m 900 8 _start\n"
        "STACK CFI INIT 1000 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n"
    )


def test_names_are_asked_for_once() -> None:
    asked: Counter[str] = Counter()

    def shout(name: str) -> str:
        asked[name] += 1
        return name.upper()

    text = written(demo(), name_text=shout)
    assert asked == {"inlined": 1, "main": 1, "_start": 1}
    assert text.count(b" MAIN\n") == 2
    assert b"INLINE_ORIGIN 0 INLINED\n" in text


def test_names_that_become_the_same_have_one_number() -> None:
    text = written(demo(), name_text=lambda _: "<name omitted>")
    assert text.count(b"INLINE_ORIGIN") == 1
    assert b"INLINE 0 12 1 0 " in text
    assert b"INLINE 1 0 0 0 " in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two\nlines", b"two lines"),
        ("a\r\nFUNC 0 1 0 b", b"a  FUNC 0 1 0 b"),
        ("\x1b[31mred\x7f\x00", b"[31mred"),
        ("  ", b""),
        ("\udcff\xe9", b"\xff\xc3\xa9"),
        ("\ud800", b"?"),
    ],
)
def test_names_are_made_harmless(name: str, expected: bytes) -> None:
    assert harmless(name) == expected
    text = written(demo(names=[name, "inlined", "", "main"]))
    assert text.count(b"\n") == written(demo()).count(b"\n")
    assert (b"PUBLIC m 900 8 " + (expected or b"<name omitted>") + b"\n") in text


def test_fields_of_the_module_are_made_harmless() -> None:
    module = ModuleRecord("", "x 86", "", "\n")
    assert b"".join(symbol_text(module, [("A\nB", "")], demo())).startswith(
        b"MODULE unknown x_86 " + b"0" * 33 + b" unknown\nINFO A_B\n"
    )


def test_what_is_nowhere_is_not_written() -> None:
    functions = demo().functions
    empty = Functions(
        **{name: getattr(functions, name) for name in functions.__slots__ if name != "size"},
        size=np.zeros(2, np.uint64),
    )
    text = written(demo(functions=empty))
    assert b"FUNC" not in text
    assert b"FILE" not in text
    assert b"INLINE" not in text


def test_the_end_of_all_addresses() -> None:
    last = (1 << 64) - 16
    symbols = demo(
        functions=Functions(
            *(np.array([value], dtype) for value, dtype in ((last, np.uint64), (64, np.uint64), (3, np.uint32))),
            *(np.array([0], dtype) for dtype in (np.uint32, np.uint8)),
            *(np.array([value], np.uint32) for value in (0, 1, 0, 0)),
        ),
        lines=Lines(np.array([last], np.uint64), *(np.array([value], np.uint32) for value in (0xFFFFFFFF, 7, 4))),
    )
    assert b"FUNC fffffffffffffff0 10 0 main\nfffffffffffffff0 10 7 0\n" in written(symbols)


def test_indices_that_are_none() -> None:
    """Columns that contradict each other make poor text, but no damage."""
    inlines = demo().inlines
    wild = Inlines(
        **{**{name: getattr(inlines, name) for name in inlines.__slots__}, "name": np.array([99, 98], np.uint32)}
    )
    text = written(demo(inlines=wild, files=[]))
    assert b"INLINE_ORIGIN 0 <name omitted>\nFUNC" in text
    assert b"1000 10 10 0\n" in text


def test_pieces_are_bounded() -> None:
    count = 400_000
    builder = demo()
    functions = {name: getattr(builder.functions, name)[:1] for name in builder.functions.__slots__}
    functions |= {"size": np.array([4 * count], np.uint64), "first_line": np.array([0], np.uint32)}
    functions |= {"end_line": np.array([count], np.uint32)}
    symbols = demo(
        functions=Functions(**functions),
        lines=Lines(
            0x1000 + 4 * np.arange(count, dtype=np.uint64),
            np.full(count, 4, np.uint32),
            np.arange(count, dtype=np.uint32),
            np.full(count, 2, np.uint32),
        ),
    )
    sizes = [len(piece) for piece in symbol_text(MODULE, (), symbols)]
    assert len(sizes) > 5
    assert max(sizes) < (1 << 20) + 100
    text = b"".join(symbol_text(MODULE, (), symbols))
    assert [int(line.split()[2]) for line in text.splitlines() if not line[:1].isupper()] == list(range(count))


def test_stack_win() -> None:
    builder = SymbolFileBuilder()
    builder.module("windows", "x86")
    builder.stack_win(0, 0x1000, 0x10, parameters=8, saved=4, local=0x20, allocates_base_pointer=True)
    builder.stack_win(4, 0x2000, 0x20, prologue=1, epilogue=2, most=0x30, program="$T0 .raSearch = $eip $T0 ^ =")
    file = SymbolFile.open(builder.build())
    text = b"".join(symbol_text(MODULE, (), file.symbols, stack_win=file.stack_win))
    assert text.splitlines()[1:] == builder.build().splitlines()[1:]


def test_what_becomes_of_blanks_alone() -> None:
    """Names and programs of control characters are none; that is so again when the text is read and written once more."""
    builder = SymbolFileBuilder()
    builder.module("windows", "x86")
    for number, name in enumerate(("\t", "<name omitted>", "f")):
        builder.origin(number, name)
    builder.func(0, 9, "\x01")
    for number in (1, 0, 2):
        builder.inline(0, 1, 0, number, [(3 * number, 3)])
    builder.stack_win(4, 0, 9, program="\x02")
    builder.stack_win(4, 0, 9, program="\x02 $eip 4 + ^ =")
    file = SymbolFile.open(builder.build())
    text = b"".join(symbol_text(MODULE, (), file.symbols, stack_win=file.stack_win))
    assert text.splitlines()[1:] == [
        b"INLINE_ORIGIN 0 f",
        b"INLINE_ORIGIN 1 <name omitted>",
        b"FUNC 0 9 0 <name omitted>",
        b"INLINE 0 1 0 1 3 3",
        b"INLINE 0 1 0 1 0 3",
        b"INLINE 0 1 0 0 6 3",
        b"STACK WIN 4 0 9 0 0 0 0 0 0 1 $eip 4 + ^ =",
    ]
    again = SymbolFile.open(text)
    assert b"".join(symbol_text(MODULE, (), again.symbols, stack_win=again.stack_win)) == text


def plain(symbols: SymbolMap) -> list[Any]:
    """A map as nested lists, names and files as text."""
    f, n, i, p = symbols.functions, symbols.lines, symbols.inlines, symbols.publics

    def name(index: int) -> str | None:
        return None if index == NO_NAME else symbols.names[index]

    def file(index: int) -> str | None:
        return None if index == NO_FILE else symbols.files[index]

    found: list[Any] = []
    for at in range(len(f.address)):
        lines = [
            (int(n.address[k]), int(n.size[k]), int(n.line[k]), file(int(n.file[k])))
            for k in range(f.first_line[at], f.end_line[at])
        ]
        inlines = [
            (
                int(i.depth[k]),
                name(int(i.name[k])),
                file(int(i.call_file[k])),
                int(i.call_line[k]),
                [
                    (int(i.range_address[r]), int(i.range_size[r]))
                    for r in range(i.first_range[k], i.first_range[k + 1])
                ],
            )
            for k in range(f.first_inline[at], f.end_inline[at])
        ]
        head = (
            int(f.address[at]),
            int(f.size[at]),
            name(int(f.name[at])),
            int(f.parameter_size[at]),
            int(f.multiple[at]),
        )
        found.append((head, lines, inlines))
    publics = zip(
        p.address.tolist(), map(name, p.name.tolist()), p.parameter_size.tolist(), p.multiple.tolist(), strict=True
    )
    return [found, list(publics)]


pieces = st.tuples(st.integers(0, 40), st.integers(1, 30))
texts = (
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
    .map(str.strip)
    .filter(bool)
)
functions = st.lists(
    st.tuples(
        pieces,
        texts,
        st.booleans(),
        st.integers(0, 0xFFFFFFFF),
        st.lists(st.tuples(pieces, st.integers(0, 0xFFFFFFFF), st.integers(0, 4)), max_size=5),
        st.lists(st.tuples(st.integers(0, 3), st.lists(pieces, min_size=1, max_size=3), st.integers(0, 4)), max_size=6),
    ),
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(
    functions,
    st.lists(texts, max_size=4),
    st.lists(texts, max_size=4),
    st.lists(st.tuples(st.integers(0, 99), texts), max_size=3),
    st.booleans(),
)
def test_round_trips(
    made: list[Any], files: list[str], origins: list[str], publics: list[tuple[int, str]], old: bool
) -> None:
    builder = SymbolFileBuilder()
    builder.module()
    for number, name in enumerate(files):
        builder.file(number, name)
    for number, name in enumerate(origins):
        builder.origin(number, name, file=1 if old else None)
    for (start, size), name, multiple, parameters, lines, inlines in made:
        builder.func(start, size, name, multiple=multiple, parameter_size=parameters)
        for depth, ranges, number in inlines:
            builder.inline(depth, number, None if old else number, number, ranges)
        for (begin, length), line, file in lines:
            builder.line(begin, length, line, file)
    for address, name in publics:
        builder.public(address, name)
    first = SymbolFile.open(builder.build()).symbols
    text = written(first)
    again = SymbolFile.open(text)
    assert plain(again.symbols) == plain(first)
    assert written(again.symbols) == text
    # What is written has no flaws but the files that nobody knows.
    assert all("FILE record has the number" in problem.message for problem in again.problems), again.problems
