"""DWARF made to take time and memory without end: what is honest in it is kept, and a problem says what was left out."""

from __future__ import annotations

import itertools
import tracemalloc
from struct import pack
from time import process_time

import numpy as np
import pytest
from dwarf_programs import CODE, asked, built, function, functions, inlined, names, root, symbolizer

from clew.symbols import Symbolizer
from clew.testing.cfi_instructions import uleb
from clew.testing.dwarf import At, DwarfBuilder, Form, Rle, Tag
from clew.testing.elf import ElfBuilder
from clew.write.breakpad.dump import dump_symbols

#: Seconds that each of these may take; they take some hundredths of it, and days where something multiplies.
PATIENCE = 20.0
#: Bytes of memory for each byte of the file.
PROPORTION = 200


def sections_of(info: bytes, abbrev: bytes, size: int, **others: bytes) -> bytes:
    """A file of sections made by hand."""
    elf = ElfBuilder()
    elf.section(".text", bytes(size), address=CODE, executable=True)
    elf.section(".debug_info", info)
    elf.section(".debug_abbrev", abbrev)
    for name, data in others.items():
        elf.section(f".debug_{name}", data)
    return elf.build()


def unit(entries: bytes, *, abbrevs: int = 0, version: int = 4) -> bytes:
    """A unit of version 4."""
    body = pack("<HIB", version, abbrevs, 8) + entries
    return pack("<I", len(body)) + body


def abbreviation(code: int, tag: int, children: int, *attributes: tuple[int, int]) -> bytes:
    """An entry of a table of abbreviations."""
    return uleb(code) + uleb(tag) + bytes((children,)) + b"".join(uleb(a) + uleb(f) for a, f in attributes) + b"\0\0"


LOW, HIGH, NAME, LIST, STMT = (
    (At.LOW_PC, Form.ADDR),
    (At.HIGH_PC, Form.DATA4),
    (At.NAME, Form.STRING),
    (At.RANGES, Form.SEC_OFFSET),
    (At.STMT_LIST, Form.SEC_OFFSET),
)


def whole(symbols: Symbolizer, size: int) -> list[str]:
    """Reads all of it, in time and memory, and says what was wrong."""
    start = process_time()
    tracemalloc.start()
    dump = dump_symbols(symbols, cfi=False)
    written = sum(map(len, dump.text()))
    for address in range(CODE, CODE + 0x100, 0x40):
        symbols.lookup(address)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert process_time() - start < PATIENCE
    assert most < PROPORTION * size + (64 << 20), f"{most / size:.0f} bytes for each of the file"
    assert written < PROPORTION * size + (4 << 20)
    return [str(problem) for problem in dump.problems]


def test_units_that_share_a_line_program() -> None:
    dwarf = DwarfBuilder(version=4)
    lines = dwarf.line_program(directories=["/src"], files=["a.c"] * 20_000)
    lines.sequence([(CODE + at, at % 1000) for at in range(0, 0x8000, 2)], CODE + 0x8000)
    dwarf.add_lines(lines)
    table = abbreviation(1, Tag.COMPILE_UNIT, 0, STMT, LOW, HIGH)
    info = b"".join(unit(uleb(1) + pack("<IQI", 0, CODE + 8 * number, 8)) for number in range(4000))
    data = sections_of(info, table + b"\0", 0x8000, line=dwarf.sections()[".debug_line"])
    with symbolizer(data) as symbols:
        problems = whole(symbols, len(data))
        assert "units name line programs over and over" in problems[0]
        # The first ones have theirs.
        assert asked(symbols, CODE + 8)[0][2] == 8


def test_tables_of_abbreviations_that_lie_in_each_other() -> None:
    table = b"".join(abbreviation(number, Tag.SUBPROGRAM, 0, NAME) for number in range(1, 30_000)) + b"\0"
    good = abbreviation(1, Tag.COMPILE_UNIT, 1, NAME) + abbreviation(2, Tag.SUBPROGRAM, 0, NAME, LOW, HIGH) + b"\0"
    info = unit(uleb(1) + b"a.c\0" + uleb(2) + b"f\0" + pack("<QI", CODE, 8) + b"\0")
    info += b"".join(unit(b"\x01a\0", abbrevs=len(good) + 7 * number) for number in range(20_000))
    data = sections_of(info, good + table, 0x100)
    with symbolizer(data) as symbols:
        problems = whole(symbols, len(data))
        assert any("lie in each other" in problem for problem in problems)
        assert names(symbols, CODE) == ["f"]


def test_entries_with_attributes_that_take_no_room() -> None:
    most = 200_000
    table = abbreviation(1, Tag.COMPILE_UNIT, 1, NAME)
    table += abbreviation(2, Tag.SUBPROGRAM, 0, *[(At.EXTERNAL, Form.FLAG_PRESENT)] * most) + b"\0"
    data = sections_of(unit(uleb(1) + b"a.c\0" + uleb(2) * most), table, 0x100)
    with symbolizer(data) as symbols:
        assert "more attributes than there are" in whole(symbols, len(data))[0]


def test_one_list_of_ranges_for_all() -> None:
    many = 20_000
    table = abbreviation(1, Tag.COMPILE_UNIT, 1, LOW, HIGH) + abbreviation(2, Tag.SUBPROGRAM, 0, LIST) + b"\0"
    ranges = b"".join(pack("<QQ", CODE + 4 * at, CODE + 4 * at + 2) for at in range(many)) + bytes(16)
    info = unit(uleb(1) + pack("<QI", CODE, 4 * many) + (uleb(2) + pack("<I", 0)) * many + b"\0")
    # From a base of nothing.
    data = sections_of(
        info.replace(pack("<QI", CODE, 4 * many), pack("<QI", 0, 4 * many)), table, 4 * many, ranges=ranges
    )
    with symbolizer(data) as symbols:
        problems = whole(symbols, len(data))
        assert "range lists are named over and over" in problems[0]
        assert len(functions(symbols.whole)) == many


def test_pieces_and_calls_that_multiply() -> None:
    many = 20_000
    table = abbreviation(1, Tag.COMPILE_UNIT, 1, LOW)
    table += abbreviation(2, Tag.SUBPROGRAM, 1, LIST) + abbreviation(3, Tag.INLINED_SUBROUTINE, 0, LOW, HIGH) + b"\0"
    ranges = b"".join(pack("<QQ", CODE + 4 * at, CODE + 4 * at + 2) for at in range(many)) + bytes(16)
    calls = (uleb(3) + pack("<QI", CODE, 4 * many)) * many
    info = unit(uleb(1) + pack("<Q", 0) + uleb(2) + pack("<I", 0) + calls + b"\0\0")
    data = sections_of(info, table, 4 * many, ranges=ranges)
    with symbolizer(data) as symbols:
        problems = whole(symbols, len(data))
        assert "far too many together" in problems[0]
        assert len(functions(symbols.whole)) == many


def test_functions_that_are_all_in_one_place() -> None:
    many = 20_000
    dwarf = DwarfBuilder(version=4)
    lines = dwarf.line_program(files=["a.c"])
    lines.sequence([(CODE + at, at % 1000) for at in range(0, 4 * many, 2)], CODE + 4 * many)
    dwarf.add_lines(lines)
    table = (
        abbreviation(1, Tag.COMPILE_UNIT, 1, STMT, LOW, HIGH) + abbreviation(2, Tag.SUBPROGRAM, 0, LOW, HIGH) + b"\0"
    )
    nest = b"".join(uleb(2) + pack("<QI", CODE + at, 4 * many - 2 * at) for at in range(many))
    info = unit(uleb(1) + pack("<IQI", 0, CODE, 4 * many) + nest + b"\0")
    data = sections_of(info, table, 4 * many, line=dwarf.sections()[".debug_line"])
    with symbolizer(data) as symbols:
        problems = whole(symbols, len(data))
        assert "far too many together" in problems[0]


def test_a_function_around_very_many() -> None:
    """Its parts between the others each have all of its calls and lines to choose from."""
    many = 20_000
    dwarf = DwarfBuilder(version=4)
    lines = dwarf.line_program(files=["a.c"])
    lines.sequence([(CODE + at, at % 1000) for at in range(0, 8 * many, 2)], CODE + 8 * many)
    dwarf.add_lines(lines)
    table = abbreviation(1, Tag.COMPILE_UNIT, 1, STMT, LOW, HIGH)
    table += abbreviation(2, Tag.SUBPROGRAM, 0, LOW, HIGH) + abbreviation(3, Tag.SUBPROGRAM, 1, LOW, HIGH)
    table += abbreviation(4, Tag.INLINED_SUBROUTINE, 0, LOW, HIGH) + b"\0"
    inner = b"".join(uleb(2) + pack("<QI", CODE + 8 * at, 4) for at in range(many))
    calls = b"".join(uleb(4) + pack("<QI", CODE + 8 * at + 4, 2) for at in range(many))
    info = unit(
        uleb(1)
        + pack("<IQI", 0, CODE, 8 * many)
        + uleb(3)
        + pack("<QI", CODE, 8 * many)
        + calls
        + b"\0"
        + inner
        + b"\0"
    )
    data = sections_of(info, table, 8 * many, line=dwarf.sections()[".debug_line"])
    with symbolizer(data) as symbols:
        assert "functions are cut into too many parts" in whole(symbols, len(data))[0]
        # The first one inside begins where the function around it does, which came first.
        assert len(functions(symbols.whole)) == 2 * many - 1


def test_many_claims_and_as_many_orphans() -> None:
    many = 30_000
    dwarf = DwarfBuilder(version=4)
    lines = dwarf.line_program(files=["a.c"])
    for at in range(0, 4 * many, 4):
        lines.sequence([(CODE + at, 1)], CODE + at + 2)
    dwarf.add_lines(lines)
    table = abbreviation(1, Tag.COMPILE_UNIT, 0, STMT, LOW, LIST) + b"\0"
    ranges = b"".join(pack("<QQ", CODE + 4 * at, CODE + 4 * at + 1) for at in range(many)) + bytes(16)
    info = unit(uleb(1) + pack("<IQI", 0, 0, 0))
    data = sections_of(info, table, 4 * many, line=dwarf.sections()[".debug_line"], ranges=ranges)
    with symbolizer(data) as symbols:
        assert whole(symbols, len(data)) == []
        assert len(functions(symbols.whole)) == many


def test_one_claim_around_very_many() -> None:
    many = 50_000
    table = abbreviation(1, Tag.COMPILE_UNIT, 0, LOW, HIGH) + b"\0"
    info = unit(uleb(1) + pack("<QI", CODE, 4 * many))
    info += b"".join(unit(uleb(1) + pack("<QI", CODE + 4 * at, 2)) for at in range(many))
    data = sections_of(info, table, 4 * many)
    with symbolizer(data) as symbols:
        start = process_time()
        for at in np.linspace(0, 4 * many - 1, 500, dtype=np.uint64).tolist():
            assert symbols.lookup(CODE + at) == ()
        assert process_time() - start < PATIENCE


@pytest.mark.parametrize("kind", ["names", "long entry", "directories"])
def test_long_texts_that_many_refer_to(kind: str) -> None:
    many = 20_000
    dwarf = DwarfBuilder(version=5)
    text = "x" * 60_000
    top = root(dwarf.unit(), (At.COMP_DIR, Form.LINE_STRP, "/" + text), size=8 * many)
    if kind == "directories":
        names_of_files = [(f"{number}.c", 0) for number in range(many)]
        lines = dwarf.line_program(directories=[text], files=names_of_files, form=Form.LINE_STRP)
        lines.sequence([(CODE + 4 * number, 1, number) for number in range(many)], CODE + 4 * many)
        top.add(At.STMT_LIST, Form.SEC_OFFSET, dwarf.add_lines(lines))
    long = top.child(Tag.SUBPROGRAM, (0x2FFF, Form.STRING, "y" * 1_000_000), (At.NAME, Form.STRING, "long"))
    at = dwarf.strings.add(text)
    for number in range(many):
        low = CODE + 8 * number
        match kind:
            case "names":
                function(top, low, 8, (At.NAME, Form.STRP, at + number))
            case "long entry":
                function(top, low, 8, (At.ABSTRACT_ORIGIN, Form.REF4, long))
                inlined(top.children[-1], long, low, 4)
            case _:
                pass
    with built(dwarf, size=8 * many) as symbols:
        problems = whole(symbols, 2_000_000)
        assert kind == "long entry" or "too many and too long" in problems[0]


def test_chains_that_many_go_through() -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit(), size=8 * 5000)
    links = [top.child(Tag.SUBPROGRAM, (0x2FFF, Form.STRING, "y" * 50_000)) for _ in range(10)]
    for link, after in itertools.pairwise(links):
        link.add(At.ABSTRACT_ORIGIN, Form.REF4, after)
    for number in range(5000):
        low = top.child(Tag.SUBPROGRAM, (At.ABSTRACT_ORIGIN, Form.REF4, links[0]))
        function(top, CODE + 8 * number, 8, (At.ABSTRACT_ORIGIN, Form.REF4, low))
    with built(dwarf, size=8 * 5000) as symbols:
        assert any("too many and too long" in problem for problem in whole(symbols, 1_000_000))


def test_names_without_end() -> None:
    dwarf = DwarfBuilder(version=4)
    function(root(dwarf.unit()), CODE, 8, (At.NAME, Form.STRP, 0))
    sections = dwarf.sections()
    for text in (b"x" * 1_000_000, b"x" * 100):
        data = sections_of(sections[".debug_info"], sections[".debug_abbrev"], 0x100, str=text)
        with symbolizer(data) as symbols:
            whole(symbols, len(data))
            assert names(symbols, CODE) == ["x" * min(len(text), 1 << 16)]


def test_very_many_units() -> None:
    table = abbreviation(1, Tag.COMPILE_UNIT, 0) + b"\0"
    info = unit(uleb(1)) * 30_000
    data = sections_of(info, table, 0x100)
    with symbolizer(data) as symbols:
        assert whole(symbols, len(data)) == []
    bad = sections_of(unit(uleb(9)) * 30_000, table, 0x100)
    with symbolizer(bad) as symbols:
        assert len(whole(symbols, len(bad))) <= 1000


def test_deep_entries() -> None:
    table = abbreviation(1, Tag.COMPILE_UNIT, 1, LOW, HIGH) + abbreviation(2, Tag.LEXICAL_BLOCK, 1) + b"\0"
    info = unit(uleb(1) + pack("<QI", CODE, 8) + uleb(2) * 1_000_000)
    data = sections_of(info, table, 0x100)
    with symbolizer(data) as symbols:
        assert whole(symbols, len(data)) == []


def test_lists_of_version_5_that_name_addresses_over_and_over() -> None:
    dwarf = DwarfBuilder(version=5)
    index = dwarf.addresses.add(CODE)
    entries = [Rle.startx_length(index, 4)] * 20_000
    top = root(
        dwarf.unit(),
        (At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base),
        (At.ADDR_BASE, Form.SEC_OFFSET, dwarf.addr_base),
    )
    listed = dwarf.range_list(entries)
    for _ in range(2000):
        top.child(Tag.SUBPROGRAM, (At.RANGES, Form.SEC_OFFSET, listed))
    with built(dwarf) as symbols:
        assert "over and over" in whole(symbols, 200_000)[0]
