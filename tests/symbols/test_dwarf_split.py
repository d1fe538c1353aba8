"""Split units: skeletons with their ``.dwo`` files and packages, of DWARF 5 and of GNU's version before it."""

from __future__ import annotations

from struct import pack

import pytest
from dwarf_programs import CODE, asked, function, inlined, names, symbolizer

from clew.image import Image
from clew.symbols import Symbolizer
from clew.symbols.dwarf.info import DebugInfo
from clew.symbols.dwarf.package import Package
from clew.symbols.dwarf.split import Splits
from clew.symbols.found import DebugFile
from clew.testing.cfi_instructions import ByteOrder
from clew.testing.dwarf import At, Die, DwarfBuilder, Form, Rle, Tag, UnitType
from clew.testing.elf import ElfBuilder

#: DW_AT_GNU_dwo_name, DW_AT_GNU_dwo_id, DW_AT_GNU_ranges_base, DW_AT_GNU_addr_base.
GNU_NAME, GNU_ID, GNU_RANGES, GNU_ADDR = 0x2130, 0x2131, 0x2132, 0x2133


def halves(
    count: int, *, version: int = 5, dwarf64: bool = False, byte_order: ByteOrder = "little", one_file: bool = False
) -> tuple[DwarfBuilder, list[DwarfBuilder]]:
    """A program with so many skeletons, and the files with the rest of each; or one with that of all."""
    main = DwarfBuilder(version=version, dwarf64=dwarf64, byte_order=byte_order)
    main.addresses.add(0x9999)
    # What the ranges of split units count from, in GNU's version.
    main.ranges([(0, 0)], end=False)
    files: list[DwarfBuilder] = []
    for number in range(count):
        start = CODE + 0x40 * number
        if not files or not one_file:
            files.append(DwarfBuilder(version=version, dwarf64=dwarf64, byte_order=byte_order, dwo=True))
            files[-1].addresses = main.addresses
        identity = 0x1000 + number
        lines = main.line_program(directories=["/src"], files=["a.c", "a.c"])
        lines.sequence([(at, at - start + 1) for at in range(start, start + 0x40, 4)], start + 0x40)
        skeleton = main.unit(UnitType.SKELETON if version >= 5 else UnitType.COMPILE, dwo_id=identity)
        top = skeleton.die(
            Tag.SKELETON_UNIT if version >= 5 else Tag.COMPILE_UNIT,
            (At.STMT_LIST, Form.SEC_OFFSET, main.add_lines(lines)),
            (At.LOW_PC, Form.ADDR, start),
            (At.HIGH_PC, Form.DATA4, 0x40),
            (At.COMP_DIR, Form.STRP, "/src"),
            (At.DWO_NAME if version >= 5 else GNU_NAME, Form.STRP, "all.dwo" if one_file else f"{number}.dwo"),
            (At.ADDR_BASE if version >= 5 else GNU_ADDR, Form.SEC_OFFSET, main.addr_base),
        )
        if version < 5:
            top.add(GNU_ID, Form.DATA8, identity)
            top.add(GNU_RANGES, Form.SEC_OFFSET, 16)
        _rest(main, files[-1], start, identity, number)
    return main, files


def _rest(main: DwarfBuilder, dwarf: DwarfBuilder, start: int, identity: int, number: int) -> None:
    """The split unit: a function with one piece and a call, and one with several pieces."""
    new = dwarf.version >= 5
    string, address = (Form.STRX, Form.ADDRX) if new else (Form.GNU_STR_INDEX, Form.GNU_ADDR_INDEX)
    unit = dwarf.unit(UnitType.SPLIT_COMPILE if new else UnitType.COMPILE, dwo_id=identity)
    top = unit.die(Tag.COMPILE_UNIT, (At.NAME, string, "a.c"))
    if not new:
        top.add(GNU_ID, Form.DATA8, identity)
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, string, f"callee{number}"))
    whole = top.child(
        Tag.SUBPROGRAM, (At.NAME, string, f"whole{number}"), (At.LOW_PC, address, start), (At.HIGH_PC, Form.DATA4, 0x10)
    )
    whole.child(
        Tag.INLINED_SUBROUTINE,
        (At.ABSTRACT_ORIGIN, Form.REF4, callee),
        (At.LOW_PC, address, start + 4),
        (At.HIGH_PC, Form.DATA4, 4),
        (At.CALL_FILE, Form.DATA1, 1),
        (At.CALL_LINE, Form.DATA1, 100),
    )
    pieces = top.child(Tag.SUBPROGRAM, (At.NAME, string, f"pieces{number}"))
    if new:
        entries = [Rle.offset_pair(0x20, 0x24), Rle.startx_length(main.addresses.add(start + 0x30), 4)]
        pieces.add(At.RANGES, Form.RNGLISTX, dwarf.range_list(entries))
    else:
        # Counted from GNU's base, which only the skeleton knows.
        pieces.add(At.RANGES, Form.SEC_OFFSET, main.ranges([(0x20, 0x24), (0x30, 0x34)]) - 16)


def opened(main: DwarfBuilder, files: dict[str, bytes], package: bytes | None = None) -> Symbolizer:
    """The program's symboliser, which finds these files by their names."""
    symbols = symbolizer(main.elf(code=[(CODE, bytes(0x400))]))

    def find(name: str, directory: str | None) -> DebugFile:
        assert directory == "/src"
        return DebugFile(Image.from_bytes(files[name]) if name in files else None)

    found = DebugFile(None if package is None else Image.from_bytes(package))
    symbols.__dict__["info"] = DebugInfo(symbols.image, splits=Splits(lambda: found, find))
    return symbols


def check(symbols: Symbolizer, count: int) -> None:
    """What all units together say, in whichever way they were found."""
    for number in range(count):
        start = CODE + 0x40 * number
        assert asked(symbols, start) == [(f"whole{number}", "/src/a.c", 1)]
        assert asked(symbols, start + 4) == [(f"callee{number}", "/src/a.c", 5), (f"whole{number}", "/src/a.c", 100)]
        assert [names(symbols, start + at) for at in (0x20, 0x30, 0x33)] == [[f"pieces{number}"]] * 3
        # Lines without a function.
        assert asked(symbols, start + 0x24) == [(None, "/src/a.c", 0x25)]
    assert symbols.problems == []


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("one_file", [False, True])
def test_files_of_units(version: int, dwarf64: bool, byte_order: ByteOrder, one_file: bool) -> None:
    main, files = halves(3, version=version, dwarf64=dwarf64, byte_order=byte_order, one_file=one_file)
    built = {"all.dwo" if one_file else f"{number}.dwo": each.elf() for number, each in enumerate(files)}
    with opened(main, built) as symbols:
        check(symbols, 3)


def packed(files: list[DwarfBuilder], version: int, byte_order: ByteOrder, slots: int = 8) -> ElfBuilder:
    """A package of files with one unit each: their sections one behind the other, and an index (DWARF 5, 7.3.5.3)."""
    order = "<" if byte_order == "little" else ">"
    columns = {".debug_info.dwo": 1, ".debug_abbrev.dwo": 3, ".debug_str_offsets.dwo": 6}
    if version >= 5:
        columns[".debug_rnglists.dwo"] = 8
    joined: dict[str, bytes] = dict.fromkeys(columns, b"")
    offsets, sizes = [], []
    strings = b""
    parts = []
    for file in files:
        # All strings are in one table, into which each file puts its own when it is built.
        file.strings.data = strings
        raw = file.sections()
        parts.append(raw)
        strings = raw[".debug_str.dwo"]
    for part in parts:
        offsets.append([len(joined[name]) for name in columns])
        sizes.append([len(part[name]) for name in columns])
        for name in columns:
            joined[name] += part[name]
    ids, rows = [0] * slots, [0] * slots
    for row in range(len(files)):
        # At places that are no hash of theirs: the ids themselves tell.
        ids[slots - 1 - row], rows[slots - 1 - row] = 0x1000 + row, row + 1
    head = pack(order + "HH", 5, 0) if version >= 5 else pack(order + "I", 2)
    index = head + pack(f"{order}III{slots}Q{slots}I", len(columns), len(files), slots, *ids, *rows)
    for line in (list(columns.values()), *offsets, *sizes):
        index += pack(f"{order}{len(columns)}I", *line)
    elf = ElfBuilder(byte_order=byte_order)
    for name, data in joined.items():
        elf.section(name, data)
    elf.section(".debug_str.dwo", strings)
    elf.section(".debug_cu_index", index)
    return elf


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_packages(version: int, dwarf64: bool, byte_order: ByteOrder) -> None:
    main, files = halves(3, version=version, dwarf64=dwarf64, byte_order=byte_order)
    with opened(main, {}, packed(files, version, byte_order).build()) as symbols:
        check(symbols, 3)


def test_files_that_are_missing() -> None:
    main, files = halves(3)
    with opened(main, {"1.dwo": files[1].elf()}) as symbols:
        # What the skeleton says is known all the same.
        assert asked(symbols, CODE) == [(None, "/src/a.c", 1)]
        assert names(symbols, CODE + 0x40) == ["whole1"]
        assert asked(symbols, CODE + 0x80) == [(None, "/src/a.c", 1)]
        assert [str(problem) for problem in symbols.problems] == [
            ".debug_info: the split DWARF of 0.dwo and 1 more was not found"
        ]


def test_files_of_another_compilation_are_not_used() -> None:
    main, files = halves(2)
    with opened(main, {"0.dwo": files[1].elf(), "1.dwo": files[1].elf()}) as symbols:
        assert names(symbols, CODE) == [None]
        assert names(symbols, CODE + 0x40) == ["whole1"]
        assert len(symbols.problems) == 1


def test_indices_that_make_no_sense() -> None:
    def problems(data: bytes | None) -> list[str]:
        elf = ElfBuilder()
        elf.section(".debug_info.dwo", bytes(64))
        if data is not None:
            elf.section(".debug_cu_index", data)
        package = Package(Image.from_bytes(elf.build()))
        assert package.find(0) is None
        return [problem.message for problem in package.problems]

    assert problems(None) == ["there is no index of units"]
    assert problems(bytes(3)) == problems(b"") == ["the index of units is cut"]
    assert problems(pack("<IIII", 7, 1, 1, 1)) == ["version 7 of the index, with 1 columns, is not known"]
    assert problems(pack("<IIII", 5, 200, 1, 1)) == ["version 5 of the index, with 200 columns, is not known"]
    for counts in ((1, 1, 1), (16, 0xFFFFFFFF, 0xFFFFFFFF), (0, 0, 0xFFFFFFFF), (1, 0xFFFFFFFF, 0)):
        assert problems(pack("<IIII", 5, *counts)) == ["the index of units is cut"]
    assert problems(pack("<IIII", 5, 0, 0, 0)) == []


def test_rows_that_are_not_there_are_left_out() -> None:
    index = pack("<HHIII", 5, 0, 2, 1, 4) + pack("<4Q", 10, 11, 12, 10) + pack("<4I", 2, 1, 0xFFFFFFFF, 1)
    index += pack("<6I", 1, 99, 0, 0, 16, 16)
    elf = ElfBuilder()
    elf.section(".debug_info.dwo", bytes(16))
    elf.section(".debug_cu_index", index)
    package = Package(Image.from_bytes(elf.build()))
    # Of columns those that are known.
    assert package.find(11) == package.find(10) == {".debug_info.dwo": (0, 16)}
    assert package.find(12) is None


def test_parts_that_lie_in_each_other() -> None:
    count = 20_000
    index = (
        pack("<HHIII", 5, 0, 1, count, count)
        + pack(f"<{count}Q", *range(count))
        + pack(f"<{count}I", *range(1, count + 1))
    )
    index += pack("<I", 1) + bytes(4 * count) + pack(f"<{count}I", *[100_000] * count)
    elf = ElfBuilder()
    elf.section(".debug_info.dwo", bytes(100_000))
    elf.section(".debug_cu_index", index)
    package = Package(Image.from_bytes(elf.build()))
    assert [problem.message for problem in package.problems] == ["the parts of units lie in each other"]
    assert package.find(5) is None


def test_parts_beyond_their_sections() -> None:
    main, files = halves(1)
    elf = packed(files, 5, "little")
    data = bytearray(elf.build())
    # The size of the only unit's part of .debug_info.
    at = data.index(pack("<4I", 1, 3, 6, 8)) + 4 * 8
    for size in (5, 0xFFFFFFFF):
        data[at : at + 4] = pack("<I", size)
        with opened(main, {}, bytes(data)) as symbols:
            assert names(symbols, CODE) in ([None], ["whole0"])


def test_gnu_units_that_are_not_split_are_read_as_they_are() -> None:
    """A name without an id says nothing: so it stands in the split unit itself."""
    dwarf = DwarfBuilder(version=4)
    top: Die = dwarf.unit().die(
        Tag.COMPILE_UNIT, (At.LOW_PC, Form.ADDR, CODE), (At.HIGH_PC, Form.DATA4, 8), (GNU_NAME, Form.STRING, "a.dwo")
    )
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
    inlined(function(top, CODE, 8, name="f"), callee, CODE, 4, 1)
    with opened(dwarf, {}) as symbols:
        assert names(symbols, CODE) == ["callee", "f"]
