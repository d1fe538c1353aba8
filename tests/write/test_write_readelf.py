"""The text of GNU readelf, written out by hand next to the bytes that it is about.

What readelf prints of sections like these, and of many others, is held against the program in tests/peers.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.image import Image
from clew.testing import Cfa, CfiBuilder, ElfBuilder, Op, uleb
from clew.write.readelf import frames_text

AARCH64 = 183
ARM = 40


def image_of(
    data: bytes,
    *,
    name: str = ".eh_frame",
    machine: int = 62,
    bits: int = 64,
    big: bool = False,
    address: int | None = None,
) -> Image:
    """A shared library with one frame section."""
    elf = ElfBuilder(machine=machine, bits=bits, byte_order="big" if big else "little")
    elf.section(name, data, address=address)
    return Image.from_bytes(elf.build())


def text_of(image: Image, *, raw: bool = False) -> str:
    return b"".join(frames_text(image, raw=raw)).decode()


def rows(builder: CfiBuilder, *, machine: int = 62, bits: int = 64, big: bool = False) -> list[str]:
    """The lines of the listing of rows, without heading and empty lines."""
    name = f".{builder.kind}"
    lines = text_of(image_of(builder.build(), name=name, machine=machine, bits=bits, big=big)).splitlines()
    return [line for line in lines[1:] if line]


def raw(builder: CfiBuilder, *, machine: int = 62, bits: int = 64, big: bool = False) -> list[str]:
    """The same of the listing of instructions, from the line of the last entry on."""
    name = f".{builder.kind}"
    image = image_of(builder.build(), name=name, machine=machine, bits=bits, big=big)
    lines = [line for line in text_of(image, raw=True).splitlines() if line]
    return lines[max(place for place, line in enumerate(lines) if line[0] == "0") :]


def simple(*instructions: bytes, start: Sequence[bytes] = (Cfa.def_cfa(7, 8), Cfa.offset(16, 1))) -> CfiBuilder:
    """One CIE as on x86-64, and one FDE for 16 bytes of code at 0x1000, in .debug_frame."""
    builder = CfiBuilder("debug_frame")
    cie = builder.cie(version=3, instructions=start, padding=0)
    builder.fde(cie, start=0x1000, size=16, instructions=instructions, padding=0)
    return builder


def test_a_listing_of_rows() -> None:
    builder = CfiBuilder(address=0x2000)
    cie = builder.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    builder.fde(
        cie,
        start=0x1000,
        size=0x20,
        # push %rbp; mov %rsp,%rbp; ...; pop %rbp; ret
        instructions=[
            Cfa.advance_loc(1),
            Cfa.def_cfa_offset(16),
            Cfa.offset(6, 2),
            Cfa.advance_loc(3),
            Cfa.def_cfa_register(6),
            Cfa.advance_loc1(0x1A),
            Cfa.def_cfa(7, 8),
            Cfa.restore(6),
        ],
    )
    builder.terminator()
    assert text_of(image_of(builder.build(), address=0x2000)) == (
        "Contents of the .eh_frame section:\n\n\n"
        '00000000 0000000000000014 00000000 CIE "zR" cf=1 df=-8 ra=16\n'
        "   LOC           CFA      ra    \n"
        "0000000000000000 rsp+8    c-8   \n\n"
        "00000018 000000000000001c 0000001c FDE cie=00000000 pc=0000000000001000..0000000000001020\n"
        "   LOC           CFA      rbp   ra    \n"
        "0000000000001000 rsp+8    u     c-8   \n"
        "0000000000001001 rsp+16   c-16  c-8   \n"
        "0000000000001004 rbp+16   c-16  c-8   \n"
        "000000000000101e rsp+8    u     c-8   \n\n"
        "00000038 ZERO terminator\n\n\n"
    )


def test_a_listing_of_instructions() -> None:
    builder = CfiBuilder(address=0x2000)
    cie = builder.cie(
        augmentation="zPLR",
        personality=(0x9B, 0x4000),
        lsda_encoding=0x1B,
        instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)],
        padding=2,
    )
    builder.fde(cie, start=0x1000, size=0x20, lsda=0x3000, instructions=[Cfa.advance_loc(4), Cfa.remember_state])
    assert text_of(image_of(builder.build(), address=0x2000), raw=True) == (
        "Contents of the .eh_frame section:\n\n\n"
        "00000000 000000000000001c 00000000 CIE\n"
        "  Version:               1\n"
        '  Augmentation:          "zPLR"\n'
        "  Code alignment factor: 1\n"
        "  Data alignment factor: -8\n"
        "  Return address column: 16\n"
        # 0x4000 - 0x2013, the place of the pointer
        "  Augmentation data:     9b ed 1f 00 00 1b 1b\n"
        "  DW_CFA_def_cfa: r7 (rsp) ofs 8\n"
        "  DW_CFA_offset: r16 (rip) at cfa-8\n"
        "  DW_CFA_nop\n"
        "  DW_CFA_nop\n\n"
        "00000020 0000000000000014 00000024 FDE cie=00000000 pc=0000000000001000..0000000000001020\n"
        # 0x3000 - 0x2031
        "  Augmentation data:     cf 0f 00 00\n"
        "  DW_CFA_advance_loc: 4 to 0000000000001004\n"
        "  DW_CFA_remember_state\n"
        "  DW_CFA_nop\n\n"
    )


def test_every_kind_of_rule() -> None:
    builder = simple(
        Cfa.undefined(0),
        Cfa.same_value(3),
        Cfa.offset_extended_sf(12, 3),
        Cfa.val_offset(13, 2),
        Cfa.register(14, 1),
        Cfa.register(15, 99),
        Cfa.expression(6, Op.breg(7, 8)),
        Cfa.val_expression(1, Op.breg(7, 8)),
    )
    assert rows(builder)[-2:] == [
        "   LOC           CFA      rax   rdx   rbx   rbp   r12   r13   r14   r15   ra    ",
        "0000000000001000 rsp+8    u     vexp  s     exp   c-24  v-16  r1 (rdx) r99   c-8   ",
    ]
    assert raw(builder)[1:] == [
        "  DW_CFA_undefined: r0 (rax)",
        "  DW_CFA_same_value: r3 (rbx)",
        "  DW_CFA_offset_extended_sf: r12 (r12) at cfa-24",
        "  DW_CFA_val_offset: r13 (r13) is cfa-16",
        "  DW_CFA_register: r14 (r14) in r1 (rdx)",
        "  DW_CFA_register: r15 (r15) in r99",
        "  DW_CFA_expression: r6 (rbp) (DW_OP_breg7 (rsp): 8)",
        "  DW_CFA_val_expression: r1 (rdx) (DW_OP_breg7 (rsp): 8)",
    ]


def test_a_register_that_the_cie_does_not_mention_is_restored_to_undefined() -> None:
    assert rows(simple(Cfa.same_value(3), Cfa.advance_loc(1), Cfa.restore(3), Cfa.restore(16)))[-2:] == [
        "0000000000001000 rsp+8    s     c-8   ",
        "0000000000001001 rsp+8    u     c-8   ",
    ]


def test_restoring_changes_nothing_in_a_cie() -> None:
    start = [Cfa.def_cfa(7, 8), Cfa.offset(16, 1), Cfa.restore(16), Cfa.restore(3)]
    assert rows(simple(start=start))[2] == "0000000000000000 rsp+8    u     c-8   "


def test_an_entry_of_nops_has_no_row() -> None:
    builder = simple(Cfa.nop, Cfa.nop)
    assert rows(builder)[-1].endswith("FDE cie=00000000 pc=0000000000001000..0000000000001010")
    assert raw(builder)[1:] == ["  DW_CFA_nop", "  DW_CFA_nop"]


def test_remembered_rows_outlive_their_fde() -> None:
    builder = simple(Cfa.def_cfa_offset(64), Cfa.offset(3, 4), Cfa.remember_state)
    cie = builder.cie(version=3, return_address=16, instructions=[Cfa.def_cfa(6, 16)], padding=0)
    for start in (0x2000, 0x3000):
        builder.fde(cie, start=start, size=4, instructions=[Cfa.offset(12, 1), Cfa.restore_state], padding=0)
    lines = rows(builder)[-7:]
    assert [line for line in lines if "FDE" not in line] == [
        # Not even this FDE's own r12 is left: it had no column in the row that was remembered.
        "   LOC           CFA      rbx   ra    ",
        "0000000000002000 rsp+64   c-32  c-8   ",
        "Mismatched DW_CFA_restore_state",
        "   LOC           CFA      r12   ",
        "0000000000003000 rbp+16   c-8   ",
    ]


def test_an_expression_as_cfa_is_not_inherited() -> None:
    start = [Cfa.def_cfa(7, 8), Cfa.def_cfa_expression(Op.breg(7, 8))]
    lines = rows(simple(Cfa.same_value(3), start=start))
    assert lines[2] == "0000000000000000 exp      "
    assert lines[5] == "0000000000001000 rsp+8    s     "


def test_a_cie_behind_its_fde() -> None:
    builder = CfiBuilder("debug_frame")
    cie = builder.cie(version=3, instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)], padding=0, later=True)
    for _ in range(2):
        builder.fde(cie, start=0x1000, size=1, instructions=[Cfa.same_value(3)], padding=0)
    builder.place(cie)
    builder.fde(cie, start=0x1000, size=1, instructions=[Cfa.same_value(3)], padding=0)
    at = cie.offset
    lines = rows(builder)
    # The first FDE shows the CIE's length, 0xe; and both an empty row, for the CIE's program has not been run.
    assert lines[0] == f"00000000 000000000000000e {at:08x} FDE cie={at:08x} pc=0000000000001000..0000000000001001"
    assert lines[3] == f"0000001a 0000000000000016 {at:08x} FDE cie={at:08x} pc=0000000000001000..0000000000001001"
    assert lines[2] == lines[5] == "0000000000001000 rax+0    s     "
    assert lines[-1] == "0000000000001000 rsp+8    s     c-8   "


def test_an_fde_without_a_cie() -> None:
    builder = simple()
    cie = builder.cie(version=3)
    builder.fde(
        cie, start=0x10, size=4, cie_pointer=0x11, instructions=[Cfa.offset(6, 2), Cfa.advance_loc(9)], padding=0
    )
    # No CIE, no factors: every offset is 0, and no instruction moves the location.
    assert rows(builder)[-4:] == [
        "0000003a 0000000000000017 00000011 FDE cie=invalid  pc=0000000000000010..0000000000000014",
        "   LOC           CFA      rbp   ",
        "0000000000000010 rax+0    c+0   ",
        "0000000000000010 rax+0    c+0   ",
    ]


def test_numbers_are_as_wide_as_c_has_them() -> None:
    builder = CfiBuilder("debug_frame")
    cie = builder.cie(version=3, code_alignment=0x1000_0001, data_alignment=-(1 << 33) - 8, padding=0)
    builder.fde(
        cie,
        start=0x1000,
        size=1,
        instructions=[
            Cfa.advance_loc(0x3F),
            Cfa.advance_loc1(0x3F),
            b"\x0c\x07" + uleb(0xFFFF_FFF8),
            Cfa.offset_extended_sf(3, 1 << 40),
            b"\x09\x06" + uleb(0x8000_0000),
        ],
        padding=0,
    )
    lines = rows(builder)
    assert lines[0].endswith('CIE "" cf=268435457 df=-8 ra=16')
    assert lines[-3:] == [
        "0000000000001000 rax+0    u     u     ",
        # 0x3f * 0x10000001 in 32 bits, then in 64
        "00000000f000103f rax+0    u     u     ",
        "00000004e000107e rsp-8    c-8796093022208 r-2147483648 ",
    ]
    assert raw(builder)[1:] == [
        "  DW_CFA_advance_loc: -268435393 to 00000000f000103f",
        "  DW_CFA_advance_loc1: 16911433791 to 00000004e000107e",
        "  DW_CFA_def_cfa: r7 (rsp) ofs -8",
        "  DW_CFA_offset_extended_sf: r3 (rbx) at cfa-8796093022208",
        "  DW_CFA_register: r6 (rbp) in r-2147483648",
    ]


def test_a_machine_that_readelf_has_no_names_for_loses_its_columns() -> None:
    builder = simple(Cfa.same_value(3), Cfa.same_value(1024), Cfa.same_value(5))
    assert rows(builder, machine=ARM)[-3:] == [
        # Registers up to 5 were found again behind the one that is too large; r16, which the CIE mentions, was not.
        "  DW_CFA_same_value: bad register: r1024",
        "   LOC           CFA      r3    r5    ",
        "0000000000001000 r7+8     s     s     ",
    ]
    # x86-64 has names for 126: the register is refused, and nothing else happens.
    assert rows(builder)[-3:] == [
        "  DW_CFA_same_value: bad register: r1024",
        "   LOC           CFA      rbx   rdi   ra    ",
        "0000000000001000 rsp+8    s     s     c-8   ",
    ]


def test_what_only_the_second_pass_finds_is_a_bad_register() -> None:
    # The expression claims more bytes than the entry has, which ends the first pass but not the second.
    builder = simple(b"\x0f\x7f", Cfa.same_value(17), Cfa.restore_extended(16))
    assert rows(builder)[-4:] == [
        "  DW_CFA_def_cfa_expression: <corrupt len 127>",
        "  DW_CFA_same_value: bad register: r17 (xmm0)",
        "   LOC           CFA      ra    ",
        "0000000000001000 rsp+8    c-8   ",
    ]


def test_vendors_and_unknown_opcodes() -> None:
    vendors = simple(b"\x1d" + bytes((0, 0, 1, 0, 0, 0, 0, 0)), b"\x2d", Cfa.gnu_args_size(300))
    assert raw(vendors)[1:] == [
        "  DW_CFA_MIPS_advance_loc8: 65536 to 0000000000011000",
        "  DW_CFA_GNU_window_save",
        "  DW_CFA_GNU_args_size: 300",
    ]
    assert raw(vendors, machine=AARCH64)[2] == "  DW_CFA_AARCH64_negate_ra_state"
    assert rows(simple(b"\x30", Cfa.advance_loc(1)))[-3:] == [
        "  DW_CFA_??? (User defined call frame op: 0x30)",
        "   LOC           CFA      ra    ",
        "0000000000001000 rsp+8    c-8   ",
    ]
    assert raw(simple(b"\x17", Cfa.advance_loc(1)))[1:] == []


def test_a_version_4_cie_has_an_address_size_of_its_own() -> None:
    builder = CfiBuilder("debug_frame", address_size=4)
    cie = builder.cie(version=4, instructions=[Cfa.def_cfa(7, 8)], padding=0)
    # The range is read as wide as the file's addresses, so the program begins four bytes late.
    builder.fde(cie, start=0x1000, size=16, instructions=[bytes(4), Cfa.advance_loc(2)], padding=0)
    assert rows(builder) == [
        '00000000 0000000e ffffffff CIE "" cf=1 df=-8 ra=16',
        "   LOC   CFA      ",
        "00000000 rsp+8    ",
        "00000012 00000011 00000000 FDE cie=00000000 pc=00001000..00001010",
        "   LOC   CFA      ",
        "00001000 rsp+8    ",
        "00001002 rsp+8    ",
    ]


def test_segments() -> None:
    builder = CfiBuilder("debug_frame", address_size=4)
    cie = builder.cie(version=4, segment_size=2, padding=0)
    builder.fde(cie, start=0x1000, size=16, segment=0x2B, padding=0)
    assert raw(builder, bits=32, machine=3) == [
        "0000000f 0000000e 00000000 FDE cie=00000000 pc=002b:00001000..00001010",
    ]


def test_long_entries_and_big_endian_numbers() -> None:
    builder = CfiBuilder("debug_frame", byte_order="big", dwarf64=True)
    cie = builder.cie(version=3, code_alignment=4, return_address=14, instructions=[Cfa.def_cfa(15, 160)], padding=0)
    builder.fde(cie, start=0x1000, size=16, instructions=[Cfa.offset(6, 6), Cfa.advance_loc(3)], padding=0)
    assert rows(builder, machine=22, big=True) == [
        '00000000 0000000000000011 ffffffffffffffff CIE "" cf=4 df=-8 ra=14',
        "   LOC           CFA      ",
        "0000000000000000 r15+160  ",
        "0000001d 000000000000001b 0000000000000000 FDE cie=00000000 pc=0000000000001000..0000000000001010",
        "   LOC           CFA      r6    ",
        "0000000000001000 r15+160  c-48  ",
        "000000000000100c r15+160  c-48  ",
    ]


def test_long_augmentation_data_stands_in_lines_of_26() -> None:
    builder = CfiBuilder()
    cie = builder.cie()
    for count in (17, 18, 27):
        builder.fde(cie, start=0, size=0, augmentation_data=bytes(range(count)), padding=0)
    lines = text_of(image_of(builder.build()), raw=True).splitlines()
    numbers = [f"{number:02x}" for number in range(27)]
    at = [place for place, line in enumerate(lines) if line.startswith("  Augmentation data: ")][1:]
    assert lines[at[0]] == "  Augmentation data:     " + " ".join(numbers[:17])
    assert lines[at[1] : at[1] + 2] == ["  Augmentation data:    ", " " + " ".join(numbers[:18])]
    assert lines[at[2] + 1 : at[2] + 3] == [" " + " ".join(numbers[:26]), " 1a"]
