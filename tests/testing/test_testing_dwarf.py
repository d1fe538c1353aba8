"""What the builder of DWARF makes, as llvm-dwarfdump and binutils' readelf read it, and beside hand-made bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.image import Image
from clew.testing.cfi_instructions import ByteOrder
from clew.testing.dwarf import AbbrevTable, At, Attribute, Die, DwarfBuilder, Form, Inline, Language, Rle, Tag, UnitType
from clew.testing.dwarf_dies import sibling_attributes
from clew.testing.dwarf_forms import FormEncoder
from clew.testing.elf_parts import Compression

DWARFDUMP = shutil.which("llvm-dwarfdump") or shutil.which("llvm-dwarfdump-14")
#: x86-64, s390x, i386, PowerPC by address size and byte order.
MACHINES = {(8, "little"): 62, (8, "big"): 22, (4, "little"): 3, (4, "big"): 20}


def dwarfdump(path: Path, *options: str) -> str:
    """What llvm-dwarfdump prints; an assertion fails where it is not content."""
    if DWARFDUMP is None:
        pytest.skip("llvm-dwarfdump is not installed")
    result = subprocess.run([DWARFDUMP, *options, path], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "error" not in result.stderr, result.stderr
    assert "warning" not in result.stderr, result.stderr
    return result.stdout


def readelf(path: Path, *options: str) -> str:
    """What readelf prints; an assertion fails where it warns."""
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    result = subprocess.run(
        ["readelf", "--wide", *options, path], capture_output=True, text=True, timeout=60, check=True
    )
    assert "Warning" not in result.stdout + result.stderr, result.stderr
    return result.stdout


def program(dwarf: DwarfBuilder) -> dict[str, Die]:
    """A unit with a function that has another inlined into it, in two pieces."""
    version = dwarf.version
    lines = dwarf.line_program(
        directories=["/src", "inc"] if version >= 5 else ["inc"],
        files=[("a.c", 0), ("b.h", 1)],
        form=Form.LINE_STRP if version >= 5 else None,
    )
    first = 0 if version >= 5 else 1
    lines.sequence([(0x1000, 3, first), (0x1004, 10, first + 1), (0x1006, 4, first, 2)], 0x1010)
    offset = Form.SEC_OFFSET if version >= 4 else Form.DATA8 if dwarf.dwarf64 else Form.DATA4
    length = Form.DATA4 if version >= 4 else Form.ADDR
    unit = dwarf.unit()
    root = unit.die(
        Tag.COMPILE_UNIT,
        (At.PRODUCER, Form.STRP, "clew"),
        (At.LANGUAGE, Form.DATA2, Language.C99),
        (At.NAME, Form.STRING, "a.c"),
        (At.COMP_DIR, Form.STRP, "/src"),
        (At.STMT_LIST, offset, dwarf.add_lines(lines)),
        (At.LOW_PC, Form.ADDR, 0x1000),
        (At.HIGH_PC, length, 0x10 if version >= 4 else 0x1010),
    )
    callee = root.child(
        Tag.SUBPROGRAM,
        (At.NAME, Form.STRP, "square"),
        (At.DECL_FILE, Form.DATA1, first + 1),
        (At.DECL_LINE, Form.UDATA, 9),
        (At.INLINE, Form.DATA1, Inline.DECLARED_INLINED),
    )
    caller = root.child(
        Tag.SUBPROGRAM,
        (At.NAME, Form.STRP, "main"),
        (At.EXTERNAL, Form.FLAG_PRESENT if version >= 4 else Form.FLAG, 1),
        (At.LOW_PC, Form.ADDR, 0x1000),
        (At.HIGH_PC, length, 0x10 if version >= 4 else 0x1010),
    )
    if version >= 5:
        pieces = [Rle.base_address(0x1000), Rle.offset_pair(4, 6), Rle.start_length(0x1008, 1)]
        # Not DW_FORM_rnglistx, which binutils 2.40 does not follow.
        ranges: Attribute = (At.RANGES, Form.SEC_OFFSET, dwarf.range_list(pieces))
        root.add(At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base)
    else:
        ranges = (At.RANGES, offset, dwarf.ranges([(4, 6), (8, 9)]))
    inlined = caller.child(
        Tag.INLINED_SUBROUTINE,
        (At.ABSTRACT_ORIGIN, Form.REF_UDATA, callee),
        ranges,
        (At.CALL_FILE, Form.DATA1, first),
        (At.CALL_LINE, Form.DATA1, 3),
    )
    return {"root": root, "callee": callee, "caller": caller, "inlined": inlined}


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("address_size", [4, 8])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_llvm_and_binutils_are_content(
    tmp_path: Path, version: int, dwarf64: bool, address_size: int, byte_order: ByteOrder
) -> None:
    dwarf = DwarfBuilder(version=version, byte_order=byte_order, address_size=address_size, dwarf64=dwarf64)
    dies = program(dwarf)
    path = tmp_path / "a"
    path.write_bytes(dwarf.elf(code=[(0x1000, bytes(16))], machine=MACHINES[address_size, byte_order]))
    if version > 2 or not dwarf64:
        assert "No errors" in dwarfdump(path, "--verify")
        text = dwarfdump(path, "--debug-info", "--debug-line")
        for die, tag in (("callee", "subprogram"), ("inlined", "inlined_subroutine")):
            assert re.search(rf"{dies[die].offset:#010x}: +DW_TAG_{tag}\n", text), text
        assert re.search(r'DW_AT_abstract_origin\s+\(0x[0-9a-f]+ "square"\)', text)
        assert re.findall(r"\[0x0*(1[0-9a-f]+), 0x0*(1[0-9a-f]+)\)", text) == [("1004", "1006"), ("1008", "1009")]
        assert len(re.findall(r"^0x0*10[01][046] +(3|10|4) ", text, re.MULTILINE)) >= 3
    text = readelf(path, "--debug-dump=info,abbrev,rawline")
    assert text.count("DW_TAG_inlined_subroutine") >= 1


def test_addresses_are_named_by_addr2line(tmp_path: Path) -> None:
    if shutil.which("addr2line") is None:
        pytest.skip("addr2line is not installed")
    for version in (2, 3, 4, 5):
        dwarf = DwarfBuilder(version=version)
        program(dwarf)
        path = tmp_path / f"a{version}"
        path.write_bytes(dwarf.elf(code=[(0x1000, bytes(16))]))
        command = ["addr2line", "-f", "-i", "-e", str(path), "0x1001", "0x1005", "0x1007"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert result.stdout.splitlines() == [
            "main",
            "/src/a.c:3",
            "square",
            "/src/inc/b.h:10",
            "main",
            "/src/a.c:3",
            "main",
            "/src/a.c:4 (discriminator 2)",
        ]


@pytest.mark.parametrize("dwarf64", [False, True])
def test_every_form(tmp_path: Path, dwarf64: bool) -> None:
    """Every form but DW_FORM_addrx3, which LLVM 14 does not know."""
    dwarf = DwarfBuilder(dwarf64=dwarf64)
    unit = dwarf.unit()
    root = unit.die(
        Tag.COMPILE_UNIT,
        (At.STR_OFFSETS_BASE, Form.SEC_OFFSET, dwarf.str_offsets_base),
        (At.ADDR_BASE, Form.SEC_OFFSET, dwarf.addr_base),
        (At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base),
        (At.NAME, Form.STRX1, "a.c"),
        (At.COMP_DIR, Form.LINE_STRP, "/src"),
        (At.LOW_PC, Form.ADDRX, 0x1000),
        (At.HIGH_PC, Form.UDATA, 0x20),
    )
    names = [
        (Form.STRING, "string"),
        (Form.STRP, "strp"),
        (Form.LINE_STRP, "line_strp"),
        (Form.STRX, "strx"),
        (Form.STRX1, "strx1"),
        (Form.STRX2, "strx2"),
        (Form.STRX3, "strx3"),
        (Form.STRX4, "strx4"),
        (Form.INDIRECT, (Form.STRP, "indirect")),
    ]
    dies = [root.child(Tag.VARIABLE, (At.NAME, form, value)) for form, value in names]
    for form in (Form.ADDR, Form.ADDRX, Form.ADDRX1, Form.ADDRX2, Form.ADDRX4):
        dies.append(root.child(Tag.LABEL, (At.LOW_PC, form, 0x1000 + form)))
    for form, value in (
        (Form.DATA1, 0xF1),
        (Form.DATA2, 0xF102),
        (Form.DATA4, 0xF1020304),
        (Form.DATA8, 1 << 63),
        (Form.UDATA, 300),
        (Form.SDATA, -300),
        (Form.IMPLICIT_CONST, -7),
        (Form.INDIRECT, (Form.UDATA, 9)),
    ):
        dies.append(root.child(Tag.VARIABLE, (At.CONST_VALUE, form, value)))
    for form in (Form.BLOCK, Form.BLOCK1, Form.BLOCK2, Form.BLOCK4):
        dies.append(root.child(Tag.VARIABLE, (At.CONST_VALUE, form, b"\x01\x02")))
    dies.append(root.child(Tag.VARIABLE, (At.CONST_VALUE, Form.DATA16, bytes(range(16)))))
    dies.append(root.child(Tag.VARIABLE, (At.LOCATION, Form.EXPRLOC, b"\x9c")))
    dies.append(root.child(Tag.VARIABLE, (At.EXTERNAL, Form.FLAG, 1), (At.ARTIFICIAL, Form.FLAG_PRESENT, 1)))
    target = root.child(Tag.BASE_TYPE, (At.NAME, Form.STRING, "int"))
    for form in (Form.REF1, Form.REF2, Form.REF4, Form.REF8, Form.REF_UDATA, Form.REF_ADDR):
        dies.append(root.child(Tag.VARIABLE, (At.TYPE, form, dies[0] if form == Form.REF1 else target)))
    dies.append(root.child(Tag.VARIABLE, (At.TYPE, Form.REF_SIG8, 0x123456789ABCDEF0)))
    lists = [
        dwarf.range_list([Rle.start_end(0x1000, 0x1004)]),
        dwarf.range_list([Rle.startx_endx(1, 2), Rle.startx_length(3, 2), Rle.base_addressx(0), Rle.offset_pair(8, 9)]),
    ]
    dies.append(root.child(Tag.LEXICAL_BLOCK, (At.RANGES, Form.RNGLISTX, lists[0])))
    dies.append(root.child(Tag.LEXICAL_BLOCK, (At.RANGES, Form.SEC_OFFSET, lists[1])))
    path = tmp_path / "a"
    path.write_bytes(dwarf.elf(code=[(0x1000, bytes(64))]))
    text = dwarfdump(path, "--debug-info")
    for name in ("string", "strp", "line_strp", "strx", "strx1", "strx2", "strx3", "strx4", "indirect"):
        # LLVM prints the string of an indexed form behind its index.
        assert f'"{name}"' in text, name
    for form in (Form.ADDR, Form.ADDRX, Form.ADDRX1, Form.ADDRX2, Form.ADDRX4):
        assert f"(0x{0x1000 + form:016x})" in text, form
    for number in ("0xf1", "0xf102", "0xf1020304", "0x8000000000000000", "300", "-300", "-7", "9"):
        assert re.search(rf"DW_AT_const_value\s+\({number}\)", text), number
    assert len(re.findall(r"DW_AT_const_value\s+\(<0x0*2> 01 02 \)", text)) == 4
    assert re.search(r"DW_AT_type\s+\(0x123456789abcdef0\)", text)
    # LLVM 14 does not print the name of a variable's type where the type is none.
    assert len(re.findall(r'DW_AT_type\s+\(0x[0-9a-f]+ "int"\)', text)) == 5
    pairs = re.findall(r"\[0x0*(1[0-9a-f]+), 0x0*(1[0-9a-f]+)\)", text)
    assert pairs[0] == ("1000", "1004")
    assert len(pairs) == 4
    assert pairs[3] == ("1008", "1009")
    for die in dies:
        assert f"{die.offset:#010x}: " in text
    assert "int" in readelf(path, "--debug-dump=info")


def test_the_form_that_llvm_does_not_know(tmp_path: Path) -> None:
    dwarf = DwarfBuilder()
    base = (At.ADDR_BASE, Form.SEC_OFFSET, dwarf.addr_base)
    root = dwarf.unit().die(Tag.COMPILE_UNIT, base, (At.LOW_PC, Form.ADDR, 0))
    root.child(Tag.LABEL, (At.LOW_PC, Form.ADDRX3, 0x1234))
    path = tmp_path / "a"
    path.write_bytes(dwarf.elf())
    assert re.search(r"DW_AT_low_pc\s+: .*1234", readelf(path, "--debug-dump=info"))
    assert dwarf.sections()[".debug_info"].endswith(b"\x02\0\0\0\0")


def test_kinds_of_units(tmp_path: Path) -> None:
    dwarf = DwarfBuilder()
    abbrevs = AbbrevTable(first=5, step=300)
    type_unit = dwarf.unit(UnitType.TYPE, signature=0x1122334455667788, abbrevs=abbrevs)
    root = type_unit.die(Tag.TYPE_UNIT, (At.NAME, Form.STRING, "types"), (At.LANGUAGE, Form.DATA1, 4))
    type_unit.type_die = root.child(Tag.STRUCTURE_TYPE, (At.NAME, Form.STRING, "thing"), (At.BYTE_SIZE, Form.DATA1, 1))
    partial = dwarf.unit(UnitType.PARTIAL, abbrevs=abbrevs).die(Tag.PARTIAL_UNIT, (At.LANGUAGE, Form.DATA1, 4))
    partial.child(Tag.BASE_TYPE, (At.NAME, Form.STRING, "int"))
    skeleton = dwarf.unit(UnitType.SKELETON, dwo_id=0xABCDEF)
    skeleton.die(Tag.SKELETON_UNIT, (At.DWO_NAME, Form.STRING, "a.dwo"))
    unit = dwarf.unit(version=4, dwarf64=True)
    root = unit.die(Tag.COMPILE_UNIT, (At.LANGUAGE, Form.DATA1, 4))
    root.child(Tag.IMPORTED_UNIT, (At.IMPORT, Form.REF_ADDR, partial))
    children = [root.child(Tag.BASE_TYPE, (At.NAME, Form.STRING, name)) for name in ("a", "b", "c")]
    empty = children[1].child(Tag.VARIABLE, has_children=True)
    sibling_attributes(children)
    types = dwarf.unit(UnitType.TYPE, version=4, signature=5)
    top = types.die(Tag.TYPE_UNIT, (At.LANGUAGE, Form.DATA1, 4))
    types.type_die = top.child(Tag.STRUCTURE_TYPE, (At.NAME, Form.STRING, "old"))
    path = tmp_path / "a"
    path.write_bytes(dwarf.elf())
    text = dwarfdump(path, "--debug-info", "--debug-types")
    assert "unit_type = DW_UT_type" in text
    assert "type_signature = 0x1122334455667788" in text
    assert "name = 'thing'" in text
    assert "name = 'old'" in text
    assert "unit_type = DW_UT_partial" in text
    assert re.search(r"DW_UT_skeleton.*DWO_id = 0x0000000000abcdef", text)
    assert re.search(rf"DW_AT_import\s+\(0x0*{partial.offset:x}\)", text)
    assert re.search(rf"DW_AT_sibling\s+\(0x0*{children[2].offset:x}\)", text)
    assert f"{empty.offset:#010x}: " in text
    assert "[905]" not in text
    assert "[905]" in dwarfdump(path, "--debug-abbrev")
    assert "thing" in readelf(path, "--debug-dump=info")


@pytest.mark.parametrize("version", [4, 5])
def test_split_units(tmp_path: Path, version: int) -> None:
    dwarf = DwarfBuilder(version=version, dwo=True)
    unit = dwarf.unit(UnitType.SPLIT_COMPILE, dwo_id=77)
    root = unit.die(Tag.COMPILE_UNIT, (At.NAME, Form.STRX if version >= 5 else Form.GNU_STR_INDEX, "a.c"))
    root.child(Tag.LABEL, (At.LOW_PC, Form.ADDRX if version >= 5 else Form.GNU_ADDR_INDEX, b"\x02"))
    if version < 5:
        root.add(At.GNU_DWO_ID, Form.DATA8, 77)
    sections = dwarf.sections()
    names = [".debug_abbrev.dwo", ".debug_info.dwo", ".debug_str.dwo", ".debug_str_offsets.dwo"]
    assert sorted(sections) == names
    path = tmp_path / "a.dwo"
    path.write_bytes(dwarf.elf())
    text = dwarfdump(path, "--debug-info")
    assert '"a.c"' in text
    assert "(0x0000004d)" in text or "0x000000000000004d" in text
    assert sections[".debug_str_offsets.dwo"] == (b"\x08\0\0\0\x05\0\0\0" if version >= 5 else b"") + bytes(4)


def test_a_supplementary_file() -> None:
    other = DwarfBuilder(version=4)
    shared = other.unit().die(Tag.PARTIAL_UNIT)
    type_ = shared.child(Tag.BASE_TYPE, (At.NAME, Form.STRP, "int"))
    dwarf = DwarfBuilder(version=4, supplementary=other)
    root = dwarf.unit().die(Tag.COMPILE_UNIT, (At.NAME, Form.GNU_STRP_ALT, "a.c"))
    root.child(Tag.IMPORTED_UNIT, (At.IMPORT, Form.GNU_REF_ALT, shared))
    root.child(Tag.VARIABLE, (At.TYPE, Form.GNU_REF_ALT, type_))
    info = dwarf.sections()[".debug_info"]
    assert other.sections()[".debug_str"] == b"int\0a.c\0"
    # Header; name at 4; imported unit at 0xb; variable of the type behind that and its own code.
    assert info[11:].hex(" ") == "01 04 00 00 00 02 0b 00 00 00 03 0c 00 00 00 00"


def test_an_old_unit_byte_by_byte() -> None:
    dwarf = DwarfBuilder(version=2, address_size=4, byte_order="big")
    root = dwarf.unit().die(Tag.COMPILE_UNIT, (At.LOW_PC, Form.ADDR, 0x1000))
    root.child(Tag.SUBPROGRAM, (At.TYPE, Form.REF_ADDR, root))
    sections = dwarf.sections()
    assert sections[".debug_info"].hex(" ") == "00 00 00 12 00 02 00 00 00 00 04 01 00 00 10 00 02 00 00 00 0b 00"
    assert sections[".debug_abbrev"].hex(" ") == "01 11 01 11 01 00 00 02 2e 00 49 10 00 00 00"


def test_fields_that_shall_be_wrong() -> None:
    dwarf = DwarfBuilder()
    unit = dwarf.unit(length=0xFFFFFFF0, header_version=77, padding=3)
    unit.die(Tag.COMPILE_UNIT)
    assert dwarf.sections()[".debug_info"].hex(" ") == "f0 ff ff ff 4d 00 01 08 00 00 00 00 01 00 00 00"


def test_what_a_form_cannot_say() -> None:
    for form, value in ((Form.DATA1, 256), (Form.DATA4, "text"), (Form.STRP, b""), (Form.DATA16, b"short")):
        dwarf = DwarfBuilder()
        dwarf.unit().die(Tag.COMPILE_UNIT, (At.NAME, form, value))
        with pytest.raises(ValueError, match=r"nothing that form|does not fit"):
            dwarf.sections()
    dwarf = DwarfBuilder()
    dwarf.unit().die(Tag.COMPILE_UNIT, (At.NAME, Form.DATA1, 1.5))
    with pytest.raises(ValueError, match="nothing that form"):
        dwarf.sections()
    dwarf = DwarfBuilder()
    foreign = DwarfBuilder().unit().die(Tag.COMPILE_UNIT)
    dwarf.unit().die(Tag.COMPILE_UNIT, (At.SIBLING, Form.REF4, foreign))
    with pytest.raises(ValueError, match="not part of this"):
        dwarf.sections()


@pytest.mark.parametrize(
    ("form", "value", "little", "big"),
    [
        (Form.ADDR, 0x1234, "34120000", "00001234"),
        (Form.STRP_SUP, "a", "02000000", "00000002"),
        (Form.GNU_STRP_ALT, "a", "02000000", "00000002"),
        (Form.REF_SUP4, 0x11, "11000000", "00000011"),
        (Form.REF_SUP8, 0x11, "1100000000000000", "0000000000000011"),
        (Form.GNU_REF_ALT, 0x11, "11000000", "00000011"),
        (Form.GNU_ADDR_INDEX, 0x1000, "01", "01"),
        (Form.GNU_STR_INDEX, "b", "01", "01"),
        (Form.STRX3, "b", "010000", "000001"),
        (Form.ADDRX3, b"\x05\x01", "050100", "000105"),
        (Form.LOCLISTX, 200, "c801", "c801"),
        (Form.SEC_OFFSET, 7, "07000000", "00000007"),
        (Form.REF_SIG8, 7, "0700000000000000", "0000000000000007"),
        (Form.DATA16, 7, "07" + 15 * "00", 15 * "00" + "07"),
        (Form.BLOCK2, b"xy", "02007879", "00027879"),
        (Form.STRING, "\udcff", "ff00", "ff00"),
        (Form.FLAG_PRESENT, 1, "", ""),
    ],
)
def test_forms_byte_by_byte(form: Form, value: int | str | bytes, little: str, big: str) -> None:
    for order, expected in (("little", little), ("big", big)):
        encoder = FormEncoder(byte_order="little" if order == "little" else "big", address_size=4)
        encoder.supplementary.add("x")
        encoder.string_offsets.add(encoder.strings.add("x"))
        encoder.addresses.add(0)
        assert encoder.encode(form, value).hex() == expected


def test_references_between_units_have_the_size_of_their_version() -> None:
    assert [FormEncoder(version=2, address_size=8).size(Form.REF_ADDR), FormEncoder(version=3).size(Form.REF_ADDR)] == [
        8,
        4,
    ]
    assert FormEncoder(version=3, dwarf64=True).size(Form.REF_ADDR) == 8


@pytest.mark.parametrize("compress", ["zlib", "zdebug"])
def test_compressed_sections(tmp_path: Path, compress: Compression) -> None:
    dwarf = DwarfBuilder(version=4)
    program(dwarf)
    path = tmp_path / "a"
    path.write_bytes(dwarf.elf(code=[(0x1000, bytes(16))], compress=compress))
    with Image.open(path) as image:
        for name, data in dwarf.sections().items():
            section = image.section(name)
            assert section is not None
            assert bytes(section.data) == data
    assert "DW_TAG_inlined_subroutine" in readelf(path, "--decompress", "--debug-dump=info")


def test_a_chain_of_entries_as_deep_as_one_likes() -> None:
    dwarf = DwarfBuilder()
    die = dwarf.unit().die(Tag.COMPILE_UNIT)
    for _ in range(20_000):
        die = die.child(Tag.LEXICAL_BLOCK)
    assert len(dwarf.sections()[".debug_info"]) == 12 + 20_001 + 20_000
