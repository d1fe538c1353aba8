"""Addresses looked up unit by unit and in the whole file, also where units and functions overlap."""

from __future__ import annotations

import numpy as np
import pytest
from dwarf_programs import CODE, asked, built, frames, function, functions, inlined, names, root, symbolizer

import clew.symbols.symbolizer as module
from clew.image import Image
from clew.symbols import Symbolizer
from clew.testing.dwarf import At, Attribute, Die, DwarfBuilder, Form, Tag
from clew.testing.elf import ElfBuilder


def lined(dwarf: DwarfBuilder, start: int, end: int, *, step: int = 4) -> Attribute:
    """A line for every few bytes of some code: that of their number from the first on."""
    lines = dwarf.line_program(directories=["/src"], files=["a.c", "a.c"])
    lines.sequence([(at, (at - start) // step + 1) for at in range(start, end, step)], end)
    return At.STMT_LIST, Form.SEC_OFFSET, dwarf.add_lines(lines)


def with_symbols(dwarf: DwarfBuilder, symbols: list[tuple[str, int, int]], size: int = 0x100) -> Symbolizer:
    """A file with the linker's symbols too."""
    elf = ElfBuilder()
    elf.section(".text", bytes(size), address=CODE, executable=True)
    for name, start, length in symbols:
        elf.symbol(name, CODE + start, size=length, section=".text", type=2)
    dwarf.put_into(elf)
    return symbolizer(elf.build())


def test_lines_and_calls() -> None:
    dwarf = DwarfBuilder(version=5)
    top = root(dwarf.unit(), (At.COMP_DIR, Form.STRING, "/src"), lined(dwarf, CODE, CODE + 0x40))
    callee = top.child(Tag.SUBPROGRAM, (At.LINKAGE_NAME, Form.STRING, "_Z6calleev"))
    outer = function(top, CODE, 0x20, name="outer")
    inlined(outer, callee, CODE + 8, 8, 77, (At.CALL_FILE, Form.DATA1, 1))
    with built(dwarf) as symbols:
        assert asked(symbols, CODE) == [("outer", "/src/a.c", 1)]
        assert asked(symbols, CODE + 12) == [("_Z6calleev", "/src/a.c", 4), ("outer", "/src/a.c", 77)]
        first, last = symbols.lookup(CODE + 12)
        assert (first.inlined, first.offset, last.inlined, last.offset) == (True, None, False, 12)
        assert first.demangled == "callee()"
        # Behind the functions there is code with lines of which nobody says what it is.
        assert asked(symbols, CODE + 0x20) == [(None, "/src/a.c", 9)]
        assert asked(symbols, CODE + 0x40) == []


@pytest.mark.parametrize("address", [-1, 1 << 64, 1 << 80, (1 << 64) - 1, 0])
def test_addresses_that_cannot_be(address: int) -> None:
    dwarf = DwarfBuilder(version=5)
    function(root(dwarf.unit()), CODE, 8, name="f")
    with built(dwarf) as symbols:
        assert symbols.lookup(address) == ()


def test_code_without_entries_is_named_by_the_linker() -> None:
    """Assembler's code has lines and symbols; padding has lines at best."""
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit(), (At.COMP_DIR, Form.STRING, "/src"), lined(dwarf, CODE, CODE + 0x80), size=0x80)
    function(top, CODE + 0x20, 0x10, name="in_c")
    with with_symbols(
        dwarf, [("first", 0, 0x10), ("second", 0x18, 8), ("in_c", 0x20, 0x10), ("outside", 0x90, 8)]
    ) as symbols:
        assert [(start - CODE, size, name) for start, size, name in functions(symbols.whole)] == [
            (0, 0x10, "first"),
            (0x10, 8, None),
            (0x18, 8, "second"),
            (0x20, 0x10, "in_c"),
            (0x30, 0x50, None),
        ]
        assert asked(symbols, CODE + 0x1C) == [("second", "/src/a.c", 8)]
        assert symbols.lookup(CODE + 0x1C)[0].offset == 4
        assert asked(symbols, CODE + 0x14) == [(None, "/src/a.c", 6)]
        assert asked(symbols, CODE + 0x94) == [("outside", None, 0)]
        # A symbol ends where it says, in whichever way it is asked for.
        many = np.arange(CODE, CODE + 0x100, dtype=np.uint64)
        assert symbols.lookup_many(many) == [symbols.lookup(at) for at in many.tolist()]
        publics = symbols.whole.publics
        assert publics.address.tolist() == [CODE + 0x90]


def test_lines_of_what_a_unit_does_not_claim_are_nobodys() -> None:
    dwarf = DwarfBuilder(version=4)
    # The linker's padding behind each function has a line, but belongs to nobody.
    offset = dwarf.ranges([(0x30, 0x38), (0, 8), (4, 0x10)])
    unit = dwarf.unit()
    unit.die(
        Tag.COMPILE_UNIT,
        (At.NAME, Form.STRING, "a.c"),
        (At.LOW_PC, Form.ADDR, CODE),
        (At.RANGES, Form.SEC_OFFSET, offset),
        lined(dwarf, CODE, CODE + 0x40),
    )
    with built(dwarf) as symbols:
        assert [(start - CODE, size) for start, size, _ in functions(symbols.whole)] == [(0, 0x10), (0x30, 8)]
        assert [bool(asked(symbols, CODE + at)) for at in (0, 0xF, 0x10, 0x2F, 0x30, 0x38)] == [
            True,
            True,
            False,
            False,
            True,
            False,
        ]


def test_a_unit_that_claims_nothing_has_no_code_without_entries() -> None:
    dwarf = DwarfBuilder(version=4)
    unit = dwarf.unit()
    unit.die(Tag.COMPILE_UNIT, (At.RANGES, Form.SEC_OFFSET, dwarf.ranges([(1, 8)])), lined(dwarf, CODE, CODE + 0x40))
    with built(dwarf) as symbols:
        assert functions(symbols.whole) == []
        assert symbols.lookup(CODE) == ()


# Overlaps


def overlapping(*pieces: tuple[str, int, int]) -> DwarfBuilder:
    """Functions of one unit each, which all claim all of the code."""
    dwarf = DwarfBuilder(version=4)
    for name, start, end in pieces:
        top = root(dwarf.unit())
        callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, f"in_{name}"))
        outer = function(top, CODE + start, end - start, name=name)
        inlined(outer, callee, CODE + start, end - start, 1)
    return dwarf


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        # At one place: the first counts; a longer one goes on behind it.
        ([("a", 0, 8), ("b", 0, 8)], "aaaaaaaa"),
        ([("a", 0, 8), ("b", 0, 4)], "aaaaaaaa"),
        ([("a", 0, 4), ("b", 0, 8)], "aaaabbbb"),
        ([("a", 0, 4), ("b", 0, 2), ("c", 0, 8), ("d", 0, 6)], "aaaacccc"),
        ([("a", 0, 2), ("b", 0, 4), ("c", 0, 6)], "aabbcc"),
        # Inside each other: what begins later is inside, and the other goes on behind it.
        ([("a", 0, 8), ("b", 2, 4)], "aabbaaaa"),
        ([("b", 2, 4), ("a", 0, 8)], "aabbaaaa"),
        ([("a", 0, 8), ("b", 2, 6), ("c", 3, 5), ("d", 6, 7)], "aabccbda"),
        # Across each other.
        ([("a", 0, 4), ("b", 2, 8)], "aabbbbbb"),
        ([("a", 0, 6), ("b", 2, 4), ("c", 3, 8)], "aabccccc"),
        ([("a", 0, 8), ("b", 2, 8), ("c", 4, 8)], "aabbcccc"),
    ],
)
def test_functions_of_units_that_overlap(pieces: list[tuple[str, int, int]], expected: str) -> None:
    with built(overlapping(*pieces)) as symbols:
        found = [names(symbols, CODE + at) for at in range(len(expected))]
        # Each with its own calls, and not with those of what it is inside of.
        assert found == [[f"in_{name}", name] for name in expected]
        known = symbols.whole.functions
        assert (known.address[1:] >= known.address[:-1] + known.size[:-1]).all()


def test_functions_of_one_unit_that_overlap() -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit(), (At.COMP_DIR, Form.STRING, "/src"), lined(dwarf, CODE, CODE + 0x40))
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
    outer = function(top, CODE, 0x20, name="outer")
    inlined(outer, callee, CODE + 4, 0x18, 5)
    function(top, CODE + 8, 8, name="inner")
    with built(dwarf) as symbols:
        assert [asked(symbols, CODE + at) for at in (4, 8, 0x10, 0x1C)] == [
            [("callee", "/src/a.c", 2), ("outer", None, 5)],
            [("inner", "/src/a.c", 3)],
            [("callee", "/src/a.c", 5), ("outer", None, 5)],
            [("outer", "/src/a.c", 8)],
        ]


def test_several_functions_at_one_place_are_marked() -> None:
    with built(overlapping(("a", 0, 8), ("b", 0, 8), ("c", 0x10, 0x18), ("c", 0x10, 0x18))) as symbols:
        assert functions(symbols.whole) == [(CODE, 8, "a"), (CODE + 0x10, 8, "c")]
        assert symbols.whole.functions.multiple.tolist() == [1, 0]


def test_functions_come_before_code_without_entries() -> None:
    dwarf = DwarfBuilder(version=4)
    # The first unit has lines for all of it, the second a function.
    root(dwarf.unit(), (At.COMP_DIR, Form.STRING, "/src"), lined(dwarf, CODE, CODE + 0x40))
    function(root(dwarf.unit()), CODE + 8, 8, name="f")
    with built(dwarf) as symbols:
        assert asked(symbols, CODE + 8) == [("f", None, 0)]
        assert asked(symbols, CODE + 0x10) == [(None, "/src/a.c", 5)]
        assert asked(symbols, CODE + 4) == [(None, "/src/a.c", 2)]


def test_code_that_very_many_units_claim() -> None:
    dwarf = overlapping(*((f"f{number}", number % 200, number % 200 + 40) for number in range(300)))
    with built(dwarf) as symbols:
        one_by_one = [frames(symbols.lookup(CODE + at)) for at in range(0, 256, 7)]
        assert one_by_one == [frames(symbols._whole_lookup.frames(CODE + at)) for at in range(0, 256, 7)]
        # They are read as a whole instead, once.
        assert symbols._units == {}


def test_units_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_UNITS", 3)
    dwarf = DwarfBuilder(version=5)
    for number in range(8):
        start = CODE + 0x10 * number
        top = root(dwarf.unit(), lined(dwarf, start, start + 0x10), low=start, size=0x10)
        # A range list of its own, which may be read as often as it has to be.
        top.add(At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base)
        function(top, start, 8, name=f"f{number}")
    with built(dwarf) as symbols:
        for _ in range(50):
            assert [names(symbols, CODE + 0x10 * number) for number in range(8)] == [
                [f"f{number}"] for number in range(8)
            ]
            assert len(symbols._units) <= 3
        assert symbols.problems == []


def test_reading_again_is_free() -> None:
    """What is honest may be read any number of times, whatever it cost at first."""
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit(), lined(dwarf, CODE, CODE + 0x100, step=1))
    pieces = dwarf.ranges([(at, at + 1) for at in range(0, 0x100, 2)])
    top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "f"), (At.RANGES, Form.SEC_OFFSET, pieces))
    with built(dwarf) as symbols:
        for _ in range(600):
            symbols.read_whole()
        assert symbols.problems == []
        assert len(functions(symbols.read_whole())) == 256


def test_many_addresses_are_looked_up_in_the_whole_file() -> None:
    with built(overlapping(("a", 0, 8), ("b", 0x10, 0x20))) as symbols:
        few = np.array([CODE, CODE + 0x10, 5], np.uint64)
        assert symbols.lookup_many(few) == [symbols.lookup(at) for at in few.tolist()]
        assert "whole" not in symbols.__dict__
        many = np.resize(few, 300)
        assert symbols.lookup_many(many)[:3] == [symbols.lookup(at) for at in few.tolist()]
        assert "whole" in symbols.__dict__


def test_problems_are_told_once() -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit(), (At.STMT_LIST, Form.SEC_OFFSET, 0x1234))
    function(top, CODE, 8, (At.ABSTRACT_ORIGIN, Form.REF_ADDR, 0x7FFFFFFF))
    with built(dwarf) as symbols:
        symbols.lookup(CODE)
        told = symbols.problems
        assert len(told) == len({str(problem) for problem in told}) == 2
        symbols.read_whole()
        symbols.read_whole()
        assert symbols.problems == told


def test_a_file_without_anything() -> None:
    elf = ElfBuilder()
    elf.section(".text", bytes(16), address=CODE, executable=True)
    with symbolizer(elf.build()) as symbols:
        assert symbols.lookup(CODE) == ()
        assert functions(symbols.whole) == []
        assert symbols.problems == []


def test_a_symbolizer_of_an_image_finds_the_image_itself() -> None:
    dwarf = overlapping(("a", 0, 8))
    with Symbolizer(Image.from_bytes(dwarf.elf(code=[(CODE, bytes(64))]))) as symbols:
        assert names(symbols, CODE) == ["in_a", "a"]


def deep(parent: Die, origin: Die, level: int) -> None:
    """Calls in calls."""
    if level:
        deep(inlined(parent, origin, CODE, 8, level), origin, level - 1)


def test_calls_are_told_from_the_innermost_out() -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit())
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
    deep(function(top, CODE, 8, name="f"), callee, 5)
    with built(dwarf) as symbols:
        assert [frame[2] for frame in asked(symbols, CODE)] == [0, 1, 2, 3, 4, 5]
