"""Every form that an attribute can have, in every version, size and byte order that there is."""

from __future__ import annotations

import pytest
from dwarf_programs import CODE, asked, built, function, inlined, names, root, symbolizer

from clew.image import Image
from clew.testing.cfi_instructions import ByteOrder, uleb
from clew.testing.dwarf import AbbrevTable, At, Attribute, DwarfBuilder, Form, Rle, Tag, UnitType
from clew.testing.elf import ElfBuilder

#: Nobody reads this attribute, so that each form has to be passed over.
_UNKNOWN = 0x2FFF
#: A value of each form. References are to the root, which they refer to as an entry.
_VALUES: dict[int, object] = {
    Form.ADDR: 0x1234,
    Form.BLOCK2: b"\x11" * 300,
    Form.BLOCK4: b"\x11" * 70,
    Form.DATA2: 0x1234,
    Form.DATA4: 0x12345678,
    Form.DATA8: 0x123456789ABCDEF0,
    Form.STRING: "text",
    Form.BLOCK: b"\x81" * 200,
    Form.BLOCK1: b"\x82" * 255,
    Form.DATA1: 0xFF,
    Form.FLAG: 1,
    Form.SDATA: -300,
    Form.STRP: "text",
    Form.UDATA: 1 << 63,
    Form.REF1: 1,
    Form.REF2: 1,
    Form.REF4: 1,
    Form.REF8: 1,
    Form.REF_UDATA: 300,
    Form.REF_ADDR: 1,
    Form.INDIRECT: (Form.INDIRECT, (Form.BLOCK1, b"\1\2\3")),
    Form.SEC_OFFSET: 0x1234,
    Form.EXPRLOC: b"\x90" * 130,
    Form.FLAG_PRESENT: 1,
    Form.STRX: "text",
    Form.ADDRX: 0x1000,
    Form.REF_SUP4: 0x10,
    Form.STRP_SUP: 1,
    Form.DATA16: bytes(range(16)),
    Form.LINE_STRP: "text",
    Form.REF_SIG8: 0x1122334455667788,
    Form.IMPLICIT_CONST: -7,
    Form.LOCLISTX: 200,
    Form.RNGLISTX: 200,
    Form.REF_SUP8: 0x10,
    Form.STRX1: "text",
    Form.STRX2: "text",
    Form.STRX3: "text",
    Form.STRX4: "text",
    Form.ADDRX1: 0x1000,
    Form.ADDRX2: 0x1000,
    Form.ADDRX3: 0x1000,
    Form.ADDRX4: 0x1000,
    Form.GNU_ADDR_INDEX: 300,
    Form.GNU_STR_INDEX: 300,
    Form.GNU_REF_ALT: 0x10,
    Form.GNU_STRP_ALT: 0x10,
}


def test_there_is_a_value_of_each_form() -> None:
    assert set(_VALUES) == set(Form)


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("address_size", [4, 8])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_forms_are_passed_over(version: int, address_size: int, dwarf64: bool, byte_order: ByteOrder) -> None:
    dwarf = DwarfBuilder(version=version, address_size=address_size, dwarf64=dwarf64, byte_order=byte_order)
    unit = dwarf.unit()
    extra: list[Attribute] = []
    for form, value in _VALUES.items():
        if form == Form.INDIRECT:
            # Of the builder a single one.
            value = Form.BLOCK1, b"\1\2\3"
        elif isinstance(value, str) and form in (Form.STRP_SUP, Form.GNU_STRP_ALT):
            value = 1
        extra.append((_UNKNOWN, form, value))
    top = root(unit, *extra)
    # In entries that are read, before and behind what is read, and in those that are not.
    function(top, CODE, 0x10, *extra, name="one")
    top.child(Tag.VARIABLE, *extra)
    top.child(Tag.LEXICAL_BLOCK, *extra).child(Tag.VARIABLE, *extra)
    last = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "two"), (At.LOW_PC, Form.ADDR, CODE + 0x10))
    last.add(At.HIGH_PC, *((Form.DATA4, 0x10) if version >= 4 else (Form.ADDR, CODE + 0x20)))
    for attribute in extra:
        last.add(*attribute)
    function(top, CODE + 0x20, 0x10, name="three")
    with built(dwarf) as symbols:
        assert [names(symbols, CODE + at) for at in (0, 0xF, 0x10, 0x1F, 0x20, 0x2F, 0x30)] == [
            ["one"],
            ["one"],
            ["two"],
            ["two"],
            ["three"],
            ["three"],
            [],
        ]
        assert symbols.problems == []


@pytest.mark.parametrize(
    "form",
    [
        Form.STRING,
        Form.STRP,
        Form.LINE_STRP,
        Form.STRX,
        Form.STRX1,
        Form.STRX2,
        Form.STRX3,
        Form.STRX4,
        Form.GNU_STR_INDEX,
    ],
)
@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("dwarf64", [False, True])
def test_forms_of_names(form: int, dwarf64: bool, byte_order: ByteOrder) -> None:
    dwarf = DwarfBuilder(version=5, dwarf64=dwarf64, byte_order=byte_order)
    dwarf.string_offsets.add(dwarf.strings.add("another"))
    unit = dwarf.unit()
    top = root(unit, (At.STR_OFFSETS_BASE, Form.SEC_OFFSET, dwarf.str_offsets_base))
    function(top, CODE, 8, (At.NAME, form, "straße"))
    function(top, CODE + 8, 8, (At.NAME, Form.INDIRECT, (form, "straße")))
    with built(dwarf) as symbols:
        assert names(symbols, CODE) == names(symbols, CODE + 8) == ["straße"]


@pytest.mark.parametrize(
    "form", [Form.ADDR, Form.ADDRX, Form.ADDRX1, Form.ADDRX2, Form.ADDRX3, Form.ADDRX4, Form.GNU_ADDR_INDEX]
)
@pytest.mark.parametrize("address_size", [4, 8])
@pytest.mark.parametrize("end", ["address", "size", "before"])
def test_forms_of_addresses(form: int, address_size: int, end: str) -> None:
    dwarf = DwarfBuilder(version=5, address_size=address_size)
    dwarf.addresses.add(0x77)
    top = root(dwarf.unit(), (At.ADDR_BASE, Form.SEC_OFFSET, dwarf.addr_base))
    low: Attribute = (At.LOW_PC, form, CODE + 4)
    high: Attribute = (At.HIGH_PC, Form.UDATA, 12) if end == "size" else (At.HIGH_PC, form, CODE + 16)
    top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "f"), *((high, low) if end == "before" else (low, high)))
    with built(dwarf) as symbols:
        assert [names(symbols, CODE + at) for at in (3, 4, 15, 16)] == [[], ["f"], ["f"], []]


@pytest.mark.parametrize(
    "form", [Form.DATA1, Form.DATA2, Form.DATA4, Form.DATA8, Form.UDATA, Form.SDATA, Form.IMPLICIT_CONST]
)
def test_forms_of_sizes_and_lines(form: int) -> None:
    dwarf = DwarfBuilder(version=5)
    top = root(dwarf.unit())
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"), (At.INLINE, form, 1))
    caller = top.child(
        Tag.SUBPROGRAM, (At.NAME, Form.STRING, "f"), (At.LOW_PC, Form.ADDR, CODE), (At.HIGH_PC, form, 100)
    )
    inlined(caller, callee, CODE, 4, 0)
    caller.child(
        Tag.INLINED_SUBROUTINE,
        (At.ABSTRACT_ORIGIN, Form.REF4, callee),
        (At.LOW_PC, Form.ADDR, CODE + 8),
        (At.HIGH_PC, form, 4),
        (At.CALL_LINE, form, 77),
    )
    with built(dwarf) as symbols:
        assert names(symbols, CODE + 99) == ["f"]
        assert names(symbols, CODE + 100) == []
        assert asked(symbols, CODE + 8) == [("callee", None, 0), ("f", None, 77)]


@pytest.mark.parametrize("form", [Form.REF1, Form.REF2, Form.REF4, Form.REF8, Form.REF_UDATA, Form.REF_ADDR])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("address_size", [4, 8])
@pytest.mark.parametrize("dwarf64", [False, True])
def test_forms_of_references(form: int, version: int, address_size: int, dwarf64: bool) -> None:
    dwarf = DwarfBuilder(version=version, address_size=address_size, dwarf64=dwarf64)
    # Not the first unit, so that what is counted from a unit and what is from the section differ.
    root(dwarf.unit(), low=0x10)
    top = root(dwarf.unit())
    declared = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "declared"), (At.DECLARATION, Form.FLAG, 1))
    function(top, CODE, 8, (At.SPECIFICATION, form, declared))
    with built(dwarf) as symbols:
        assert names(symbols, CODE) == ["declared"]
        assert symbols.problems == []


@pytest.mark.parametrize("form", [Form.GNU_REF_ALT, Form.REF_SUP4, Form.REF_SUP8])
@pytest.mark.parametrize("string_form", [Form.GNU_STRP_ALT, Form.STRP_SUP])
@pytest.mark.parametrize("dwarf64", [False, True])
def test_forms_of_the_supplementary_file(form: int, string_form: int, dwarf64: bool) -> None:
    supplement = DwarfBuilder(version=5, dwarf64=dwarf64)
    partial = supplement.unit(UnitType.PARTIAL).die(Tag.PARTIAL_UNIT)
    supplement.strings.add("something before")
    declared = partial.child(Tag.SUBPROGRAM, (At.LINKAGE_NAME, Form.STRP, "_Z6sharedv"))
    abstract = partial.child(Tag.SUBPROGRAM, (At.ABSTRACT_ORIGIN, Form.REF_ADDR, declared))
    dwarf = DwarfBuilder(version=5, dwarf64=dwarf64, supplementary=supplement)
    top = root(dwarf.unit())
    function(top, CODE, 8, (At.ABSTRACT_ORIGIN, form, abstract))
    function(top, CODE + 8, 8, (At.NAME, string_form, "from there"))
    data = dwarf.elf(code=[(CODE, bytes(64))])
    with symbolizer(data, alternate=supplement.elf()) as symbols:
        assert names(symbols, CODE) == ["_Z6sharedv"]
        assert names(symbols, CODE + 8) == ["from there"]
        assert symbols.problems == []
    # Without it nobody knows the names, which is no fault of the file.
    with symbolizer(data) as symbols:
        assert names(symbols, CODE) == names(symbols, CODE + 8) == [None]


@pytest.mark.parametrize("form", [Form.REF_SIG8, Form.DATA4, Form.STRING])
def test_what_refers_to_no_entry_costs_the_name_alone(form: int) -> None:
    dwarf = DwarfBuilder(version=5)
    top = root(dwarf.unit())
    odd = function(top, CODE, 8, (At.SPECIFICATION, form, "text" if form == Form.STRING else 0x1234))
    inlined(odd, odd, CODE, 4, 3)
    function(top, CODE + 8, 8, name="next")
    with built(dwarf) as symbols:
        assert names(symbols, CODE + 4) == [None]
        assert asked(symbols, CODE) == [(None, None, 0), (None, None, 3)]
        assert names(symbols, CODE + 8) == ["next"]
        assert [(problem.section, problem.offset) for problem in symbols.problems] == [(".debug_info", odd.offset)]


@pytest.mark.parametrize("form", [0x00, 0x02, 0x2D, 0x1F03, 0x7FFF])
def test_forms_that_nobody_has_defined(form: int) -> None:
    dwarf = DwarfBuilder(version=5)
    for low in (0, 0x80):
        function(root(dwarf.unit(), low=CODE + low, size=0x80), CODE + low, 8, name=f"f{low:x}")
    sections = dwarf.sections()
    # The first attribute of the first table.
    abbrev = bytearray(sections[".debug_abbrev"])
    assert abbrev[3:5] == bytes((At.NAME, Form.STRING))
    abbrev[3:5] = bytes((At.NAME,)) + uleb(form)
    shift = len(abbrev) - len(sections[".debug_abbrev"])
    info = bytearray(sections[".debug_info"])
    second = dwarf.units[1].offset
    assert second is not None
    info[second + 8 : second + 12] = (dwarf.units[1].abbrev_offset + shift).to_bytes(4, "little")
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=CODE, executable=True)
    elf.section(".debug_info", bytes(info))
    elf.section(".debug_abbrev", bytes(abbrev))
    with symbolizer(elf.build()) as symbols:
        assert names(symbols, CODE + 0x80) == ["f80"]
        assert names(symbols, CODE) == []
        assert [problem.offset for problem in symbols.problems] == [0]
        assert "form" in symbols.problems[0].message


@pytest.mark.parametrize(("first", "step"), [(1, 1), (7, 1), (1, 3), (1 << 40, 1 << 33), ((1 << 64) - 40, 1), (40, -1)])
def test_codes_of_abbreviations(first: int, step: int) -> None:
    table = AbbrevTable(first=first, step=step)
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit(abbrevs=table))
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
    inlined(function(top, CODE, 16, name="f"), callee, CODE + 4, 4, 9)
    other = root(dwarf.unit(abbrevs=table), low=CODE + 0x40, size=0x40)
    function(other, CODE + 0x40, 8, (At.EXTERNAL, Form.FLAG_PRESENT, 1), name="g")
    with built(dwarf) as symbols:
        assert names(symbols, CODE + 4) == ["callee", "f"]
        assert names(symbols, CODE + 0x40) == ["g"]
        assert symbols.problems == []


def test_a_bad_table_leaves_the_next_one_alone() -> None:
    dwarf = DwarfBuilder(version=4)
    # Cut in the middle of an abbreviation, by a form that there is not.
    first = root(dwarf.unit(), (_UNKNOWN, Form.DATA1, 0), low=CODE, size=0x10)
    function(first, CODE, 8, name="lost")
    function(root(dwarf.unit(), low=CODE + 0x40, size=0x40), CODE + 0x40, 8, name="kept")
    data = dwarf.elf(code=[(CODE, bytes(0x100))])
    good = uleb(_UNKNOWN) + bytes((Form.DATA1,))
    assert data.count(good) == 1
    with_damage = data.replace(good, uleb(_UNKNOWN) + b"\x02")
    with symbolizer(with_damage) as symbols:
        assert names(symbols, CODE + 0x40) == ["kept"]
        assert [problem.offset for problem in symbols.problems] == [0]


def test_the_image_is_read_in_the_byte_order_of_its_header() -> None:
    dwarf = DwarfBuilder(version=5, byte_order="big")
    top = root(dwarf.unit(), (At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base))
    top.child(
        Tag.SUBPROGRAM,
        (At.NAME, Form.STRING, "f"),
        (At.RANGES, Form.RNGLISTX, dwarf.range_list([Rle.start_end(CODE, CODE + 4), Rle.start_length(CODE + 8, 4)])),
    )
    data = dwarf.elf(code=[(CODE, bytes(0x100))])
    assert Image.from_bytes(data).byte_order == "big"
    with built(dwarf) as symbols:
        assert [names(symbols, CODE + at) for at in (0, 4, 8, 12)] == [["f"], [], ["f"], []]
