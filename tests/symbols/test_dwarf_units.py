"""Units of all kinds: which are read, which are not, and how far those are that make no sense."""

from __future__ import annotations

import pytest
from dwarf_programs import CODE, at, built, function, functions, names, root, symbolizer

from clew.image.elf import ET_REL
from clew.testing.dwarf import At, DwarfBuilder, Form, Tag, UnitType
from clew.testing.elf import ElfBuilder


@pytest.mark.parametrize("kind", [UnitType.PARTIAL, UnitType.TYPE])
def test_units_without_code_are_not_looked_at(kind: int) -> None:
    dwarf = DwarfBuilder(version=5)
    tag = Tag.PARTIAL_UNIT if kind == UnitType.PARTIAL else Tag.TYPE_UNIT
    other = dwarf.unit(kind).die(tag, (At.LOW_PC, Form.ADDR, CODE), (At.HIGH_PC, Form.DATA1, 0x40))
    shared = function(other, CODE, 8, name="shared")
    function(root(dwarf.unit()), CODE + 8, 8, (At.SPECIFICATION, Form.REF_ADDR, shared))
    with built(dwarf) as symbols:
        assert functions(symbols.whole) == [(CODE + 8, 8, "shared")]
        assert at(symbols, 0, 8) == [[], ["shared"]]


@pytest.mark.parametrize("version", [0, 1, 6, 0xFFFF])
def test_units_of_unknown_versions(version: int) -> None:
    dwarf = DwarfBuilder(version=4)
    function(root(dwarf.unit(header_version=version)), CODE, 8, name="unknown")
    function(root(dwarf.unit()), CODE + 8, 8, name="known")
    with built(dwarf) as symbols:
        assert functions(symbols.whole) == [(CODE + 8, 8, "known")]
        assert [str(problem) for problem in symbols.problems] == [
            f".debug_info: 0x0: version {version} of DWARF is not known"
        ]


def test_a_header_that_is_cut_is_passed_over() -> None:
    dwarf = DwarfBuilder(version=5)
    function(root(dwarf.unit()), CODE, 8, name="f")
    sections = dwarf.sections()
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=CODE, executable=True)
    # A unit of three bytes, one of none, and then the good one.
    elf.section(".debug_info", b"\3\0\0\0\5\0\1" + bytes(4) + sections[".debug_info"])
    elf.section(".debug_abbrev", sections[".debug_abbrev"])
    with symbolizer(elf.build()) as symbols:
        assert at(symbols, 0) == [["f"]]
        assert [problem.offset for problem in symbols.problems] == [0]


@pytest.mark.parametrize("length", [0x7FFFFFFF, 0xFFFFFFF0, 0xFFFFFFFE])
def test_lengths_beyond_the_section(length: int) -> None:
    dwarf = DwarfBuilder(version=4)
    function(root(dwarf.unit()), CODE, 8, name="first")
    function(root(dwarf.unit(length=length)), CODE + 8, 8, name="second")
    with built(dwarf) as symbols:
        # What is only too long is read as far as it goes.
        assert at(symbols, 0, 8) == [["first"], ["second"] if length < 0xFFFFFFF0 else []]
        assert [problem.offset for problem in symbols.problems] == [dwarf.units[1].offset]


def test_units_of_other_sizes_share_a_table() -> None:
    dwarf = DwarfBuilder(version=4)
    first = dwarf.unit()
    function(root(first), CODE, 8, (At.DECL_LINE, Form.SEC_OFFSET, 1), name="narrow")
    function(
        root(dwarf.unit(dwarf64=True, abbrevs=first.abbrevs)),
        CODE + 8,
        8,
        (At.DECL_LINE, Form.SEC_OFFSET, 1),
        name="wide",
    )
    with built(dwarf) as symbols:
        assert at(symbols, 0, 8) == [["narrow"], ["wide"]]


def test_units_that_do_not_say_where_their_code_is() -> None:
    dwarf = DwarfBuilder(version=4)
    for number in range(3):
        unit = dwarf.unit().die(Tag.COMPILE_UNIT, (At.NAME, Form.STRING, "a.c"))
        function(unit, CODE + 0x40 * number, 8, name=f"f{number}")
    function(root(dwarf.unit(), low=CODE + 0x20, size=0x10), CODE + 0x20, 8, name="claimed")
    with built(dwarf) as symbols:
        assert at(symbols, 0, 0x40, 0x80, 0x20, 8) == [["f0"], ["f1"], ["f2"], ["claimed"], []]


@pytest.mark.parametrize("compress", [None, "zlib", "zdebug", "zstd"])
@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_compressed_sections(compress: str | None, byte_order: str) -> None:
    if compress == "zstd":
        pytest.importorskip("zstandard")
    dwarf = DwarfBuilder(version=5, byte_order=byte_order)  # type: ignore[arg-type]
    function(root(dwarf.unit()), CODE, 8, (At.NAME, Form.STRP, "f" * 200))
    data = dwarf.elf(code=[(CODE, bytes(64))], compress=compress)  # type: ignore[arg-type]
    with symbolizer(data) as symbols:
        assert at(symbols, 0) == [["f" * 200]]
        assert symbols.problems == []


def test_stabs_are_refused_by_name() -> None:
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=CODE, executable=True)
    elf.section(".stab", bytes(24))
    elf.section(".stabstr", b"\0")
    elf.symbol("main", CODE, size=8, section=".text", type=2)
    with symbolizer(elf.build()) as symbols:
        assert at(symbols, 0) == [["main"]]
        assert [(problem.section, "STABS" in problem.message) for problem in symbols.problems] == [(".stab", True)]


def test_object_files() -> None:
    dwarf = DwarfBuilder(version=4)
    function(root(dwarf.unit(), low=0), 0, 8, name="f")
    with symbolizer(dwarf.elf(code=[(0, bytes(64))], type=ET_REL)) as symbols:
        address = symbols.image.section_addresses()[1]
        assert names(symbols, address) == (["f"] if address == 0 else [])
