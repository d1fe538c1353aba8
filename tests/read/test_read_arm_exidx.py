"""The index table of 32-bit Arm: unwinding instructions beside the prologues that they undo, entries, and tables of them."""

from __future__ import annotations

import pytest

from clew.arch import machine_named
from clew.errors import Error, FormatError, NotFoundError
from clew.image import Image
from clew.image.elf import SHT_NOBITS, ByteOrder
from clew.read.arm_exidx import CANNOT_UNWIND, ExidxSection, decode, exidx_section, rule_of
from clew.read.frames import frame_sections, read_table, unwind_tables
from clew.table import Rule, Undefined
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.testing.arm_exidx import SHT_ARM_EXIDX, ExidxBuilder

ARM = machine_named("arm")


def text(instructions: str) -> str:
    rule = rule_of(bytes.fromhex(instructions), ARM)
    return "refused" if rule is None else rule.text(ARM)


# The prologue, the instructions that GNU as makes of its directives, and what they come to.
PROLOGUES = [
    ("(a leaf)", "b0", "cfa = sp"),
    ("push {r4, lr}", "a8", "cfa = sp+8  r4 = *(cfa-8)  lr = *(cfa-4)"),
    ("push {r4-r6, lr}; sub sp, #16", "03 aa", "cfa = sp+32  r4 = *(cfa-16)  r5 = *(cfa-12)  r6 = *(cfa-8)  lr = *(cfa-4)"),
    ("push {r4-r7}", "a3", "cfa = sp+16  r4 = *(cfa-16)  r5 = *(cfa-12)  r6 = *(cfa-8)  r7 = *(cfa-4)"),
    ("push {r3, lr}", "b1 08 84 00", "cfa = sp+8  r3 = *(cfa-8)  lr = *(cfa-4)"),
    ("push {r0-r3}; push {lr}", "84 00 b1 0f",
     "cfa = sp+20  r0 = *(cfa-16)  r1 = *(cfa-12)  r2 = *(cfa-8)  r3 = *(cfa-4)  lr = *(cfa-20)"),
    ("push {fp, lr}; add fp, sp, #4; sub sp, #8", "9b 40 84 80",
     "cfa = r11+4  r11 = *(cfa-8)  lr = *(cfa-4)"),
    ("push {r7, lr}; mov r7, sp", "97 84 08", "cfa = r7+8  r7 = *(cfa-8)  lr = *(cfa-4)"),
    ("sub sp, #1024", "3f 3f 3f 3f", "cfa = sp+1024"),
    ("sub sp, #1028", "b2 7f", "cfa = sp+1024"),
    ("sub sp, #1536", "b2 ff 00", "cfa = sp+1024"),
    ("vpush {d8-d9}; push {r4, lr}", "a8 d1", "cfa = sp+24  r4 = *(cfa-24)  lr = *(cfa-20)  d8 = *(cfa-16)  d9 = *(cfa-8)"),
    ("fstmfdx sp!, {d8}", "b8", "cfa = sp+12  d8 = *(cfa-12)"),
    ("fstmfdx sp!, {d0-d1}", "b3 01", "cfa = sp+20  d0 = *(cfa-20)  d1 = *(cfa-12)"),
    ("vpush {d0-d1}", "c9 01", "cfa = sp+16  d0 = *(cfa-16)  d1 = *(cfa-8)"),
    ("vpush {d16}", "c8 00", "cfa = sp+8  d16 = *(cfa-8)"),
    ("wstrd wr10, [sp, #-8]!", "c0", "cfa = sp+8  wr10 = *(cfa-8)"),
    ("wstrd wr2, [sp, #-8]!", "c6 20", "cfa = sp+8  wr2 = *(cfa-8)"),
    ("wstrw wcgr0, [sp, #-4]!", "c7 01", "cfa = sp+4  wcgr0 = *(cfa-4)"),
    ("pac r12, lr, sp; push {r12}", "b4 b5", "cfa = sp+4  ra_auth_code = *(cfa-4)"),
    ("push {pc}", "88 00", "cfa = sp+4  pc = *(cfa-4)"),
    # Only what is behind the new vsp is relative to the CFA.
    ("a frame elsewhere", "a0 97 84 00", "cfa = r7+4  r4 = *(sp)  lr = *(cfa-4)"),
    ("a stack pointer that was saved", "82 00", "cfa = *(sp)"),
    ("a register that was saved as vsp", "a0 94 01", "cfa = *(sp) + 8  r4 = *(sp)"),
    ("an implicit end", "a8 b0 ff", "cfa = sp+8  r4 = *(cfa-8)  lr = *(cfa-4)"),
    ("refused", "80 00", "refused"),
]  # fmt: skip


@pytest.mark.parametrize(("prologue", "instructions", "expected"), PROLOGUES, ids=[each[0] for each in PROLOGUES])
def test_rules(prologue: str, instructions: str, expected: str) -> None:
    found = text(instructions)
    if prologue == "sub sp, #1028":
        # 0x204 and four times the number.
        assert found == "cfa = sp+1024"
    assert found == expected


def test_the_return_address_is_a_pc_that_was_popped() -> None:
    rule = rule_of(bytes.fromhex("8800"), ARM)
    assert rule is not None
    assert rule.return_address == 15
    other = rule_of(bytes.fromhex("a8"), ARM)
    assert other is not None
    assert other.return_address == 14


# Table 4: reserved and spare, and what is cut.
UNDEFINED = """80 9d 9f b1 b100 b110 b2 b280 b2ffffffff7f b3 b6 b7 c7 c700 c710 c6ff c8 c8ff c9 ca cf d8 ff"""


@pytest.mark.parametrize("instructions", UNDEFINED.split())
def test_what_is_not_defined(instructions: str) -> None:
    with pytest.raises(FormatError, match="is not defined, or cut"):
        rule_of(bytes.fromhex(instructions), ARM)


def test_every_byte_has_a_meaning_or_an_error() -> None:
    for first in range(256):
        for second in (0, 1, 0x0F, 0x10, 0x7F, 0x80, 0xFF):
            try:
                found = list(decode(bytes((first, second, 0, 0, 0, 0))))
            except FormatError:
                continue
            assert found[0][0] == 0
            assert str(found[0][2])
            assert b"".join(data for _, data, _ in found)[:2] == bytes((first, second))


def test_a_stack_pointer_loaded_again_and_again() -> None:
    with pytest.raises(FormatError, match="too often"):
        rule_of(bytes.fromhex("8200") * 4, ARM)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("segment", [True, False])
def test_entries_of_every_model(order: ByteOrder, segment: bool) -> None:
    builder = ExidxBuilder(byte_order=order)
    builder.compact(0x1000, "a8")
    builder.cantunwind(0x1010)
    builder.compact(0x1020, "03 aa", model=1)
    builder.compact(0x1030, "b2 7f b1 08 84 00", model=2, lsda=b"lsda")
    builder.generic(0x1041, 0x1001, "01 02 03 aa", lsda=b"data")
    builder.generic(0x1050, 0x1000, "a8")
    image = Image.from_bytes(builder.file(code=(0x1000, bytes(0x100)), segment=segment))
    section = exidx_section(image)
    assert section is not None
    found = list(section.entries())
    assert [entry.start for entry in found] == [0x1000, 0x1010, 0x1020, 0x1030, 0x1040, 0x1050]
    assert [entry.model for entry in found] == [0, None, 1, 2, None, None]
    assert [entry.data and entry.data.hex() for entry in found] == [
        "a8b0b0",
        None,
        "03aa",
        "b27fb1088400",
        "010203aab0b0b0",
        "a8b0b0",
    ]
    assert [entry.personality for entry in found] == [None, None, None, None, 0x1000, 0x1000]
    assert [bytes(image.bytes_at(found[index].lsda or 0, 4) or b"") for index in (3, 4)] == [b"lsda", b"data"]
    table = section.table()
    assert (table.problems, table.lost) == ((), 0)
    assert [(row.start, row.end, row.rule.cfa.offset) for row in table if row.rule.cfa] == [  # type: ignore[union-attr]
        (0x1000, 0x1010, 8),
        (0x1020, 0x1030, 32),
        (0x1030, 0x1040, 0x204 + 4 * 0x7F + 8),
        (0x1040, 0x1050, 8 + 12 + 16 + 16),
        (0x1050, 0x1100, 8),
    ]
    # What cannot be unwound is no information: that is what compilers say of everything for which they have no table.
    assert table.lookup(0x1010) is None
    ranges = list(table.ranges)
    assert [(each.start, each.end, each.entry, each.source) for each in ranges][:2] == [
        (0x1000, 0x1010, 0, ".ARM.exidx"),
        (0x1020, 0x1030, 16, ".ARM.exidx"),
    ]
    assert (ranges[3].personality, ranges[0].personality) == (0x1000, 0)
    assert ranges[3].lsda == found[4].lsda


def test_the_entry_point_is_outermost() -> None:
    builder = ExidxBuilder()
    builder.cantunwind(0x1000)
    builder.cantunwind(0x1010)
    image = Image.from_bytes(builder.file(code=(0x1000, bytes(0x20)), entry=0x1011))
    table = read_table(image)
    assert table.lookup(0x1000) is None
    row = table.lookup(0x1010)
    assert row is not None
    assert row.rule == CANNOT_UNWIND
    assert isinstance(row.rule[14], Undefined)


def test_call_frame_information_counts_first() -> None:
    builder = ExidxBuilder()
    builder.compact(0x1000, "a8")
    cfi = CfiBuilder("debug_frame", address_size=4)
    cfi.fde(cfi.cie(instructions=[Cfa.def_cfa(13, 0)], return_address=14), start=0x1000, size=4, instructions=[])
    elf = ElfBuilder(machine=40, bits=32)
    elf.section(".text", bytes(16), address=0x1000, executable=True)
    elf.section(".ARM.exidx", builder.index, type=SHT_ARM_EXIDX, address=0x8000)
    elf.section(".debug_frame", cfi.build())
    image = Image.from_bytes(elf.build())
    assert len(unwind_tables(image)) == 2
    table = read_table(image)
    assert [row.rule.text(ARM) for row in table] == ["cfa = sp", "cfa = sp+8  r4 = *(cfa-8)  lr = *(cfa-4)"]
    assert [row.start for row in table] == [0x1000, 0x1004]
    assert len(read_table(image, ".ARM.exidx").ranges) == 1
    assert len(read_table(image, ".debug_frame").ranges) == 1


def test_files_that_have_none() -> None:
    elf = ElfBuilder(machine=40, bits=32)
    elf.section(".text", bytes(16), address=0x1000, executable=True)
    image = Image.from_bytes(elf.build())
    assert exidx_section(image) is None
    for only in (None, ".ARM.exidx"):
        with pytest.raises(NotFoundError):
            read_table(image, only)
    other = ElfBuilder()
    other.section(".ARM.exidx", bytes(8), type=SHT_ARM_EXIDX, address=0x8000)
    assert exidx_section(Image.from_bytes(other.build())) is None


def section_of(builder: ExidxBuilder, code: tuple[int, int] = (0x1000, 0x1100)) -> ExidxSection:
    def read(address: int, size: int) -> bytes | None:
        at = address - builder.table
        return builder.extab[at : at + size] if 0 <= at <= len(builder.extab) - size else None

    return ExidxSection(builder.index, address=builder.address, read=read, machine=ARM, code=[code])


def test_damage_is_told_and_leaves_a_gap() -> None:
    builder = ExidxBuilder()
    builder.compact(0x1000, "a8")
    builder.raw(0x1010, 0x81 << 24)
    builder.raw(0x1020, 0x7000)
    builder.large(0x1030, bytes.fromhex("83000000"))
    builder.large(0x1040, bytes.fromhex("81ff0000"))
    builder.compact(0x1050, "ff")
    builder.compact(0x9000, "a8")
    builder.compact(0x1060, "80 00")
    table = section_of(builder).table()
    assert [row.start for row in table] == [0x1000]
    texts = [str(problem) for problem in table.problems]
    assert table.lost == 6
    for part in (
        ".ARM.exidx: its entries are not sorted",
        ".ARM.exidx: 0x8: the index holds the compact model 1",
        "is not in the file",
        "the compact model 3 is not defined",
        "an entry of 255 words",
        "the unwinding instruction ff is not defined",
        "1 entries are for addresses that are no code",
    ):
        assert any(part in text for text in texts), (part, texts)
    with pytest.raises(Error):
        list(section_of(builder).entries())


def test_entries_that_overlap_do_not_take_time_without_end() -> None:
    builder = ExidxBuilder()
    for number in range(255):
        # Each part of the table is as long as can be, and begins a word behind the one before.
        builder.large(0x1000 + number, b"\x81\xff\x00\x00")
    builder.large(0x10FF, bytes(range(128)) * 20)
    table = section_of(builder).table()
    assert sum(len(rule.registers) for rule in table.rules) < 1 << 16
    assert len(table.problems) <= 101


def test_of_equal_starts_and_an_odd_tail() -> None:
    builder = ExidxBuilder()
    builder.compact(0x1000, "a8")
    builder.compact(0x1000, "a9")
    section = section_of(builder)
    section = ExidxSection(
        builder.index + b"\0\0\0", address=builder.address, read=lambda *_: None, machine=ARM, code=[(0x1000, 0x1010)]
    )
    table = section.table()
    assert len(section) == 2
    assert [(row.start, row.end) for row in table] == [(0x1000, 0x1010)]
    rule: Rule = next(iter(table)).rule
    assert rule.cfa is not None
    assert rule.text(ARM).startswith("cfa = sp+12")
    assert len(section_of(ExidxBuilder()).table()) == 0


def test_it_is_said_that_there_is_no_call_frame_information() -> None:
    builder = ExidxBuilder()
    builder.compact(0x1000, "a8")
    image = Image.from_bytes(builder.file(code=(0x1000, bytes(16))))
    for only in (None, ".ARM.exidx"):
        with pytest.raises(NotFoundError, match=r"its unwind table is \.ARM\.exidx") as caught:
            frame_sections(image, only)
        assert "clew table" in (caught.value.hint or "")
    with pytest.raises(NotFoundError, match="no section"):
        frame_sections(image, ".debug_frame")


def test_what_holds_only_what_was_stripped_has_no_index() -> None:
    """Of older versions of objcopy, the segments of such a file still are those of the whole one."""
    builder = ExidxBuilder()
    builder.compact(0x1000, "a8")
    data = bytearray(builder.file(code=(0x1000, bytes(16)), segment=True))
    image = Image.from_bytes(bytes(data))
    assert exidx_section(image) is not None
    [section] = [each for each in image.sections if each.name == ".ARM.exidx"]
    # ELF32: sh_type is the second word of a section header of 40 bytes.
    at = image.header.section_offset + 40 * section.index + 4
    data[at : at + 4] = SHT_NOBITS.to_bytes(4, "little")
    assert exidx_section(Image.from_bytes(bytes(data))) is None
