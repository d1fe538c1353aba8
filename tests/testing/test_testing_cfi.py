"""The builder of call frame information, against bytes written out by hand from the standards."""

from __future__ import annotations

import pytest

from clew.testing import (
    MOTOROLA_88000,
    MOTOROLA_88000_ROWS,
    Cfa,
    CfiBuilder,
    Op,
    PointerEncoder,
    eh_frame_hdr,
    motorola_88000,
    sleb,
    uleb,
)


def h(text: str) -> bytes:
    return bytes.fromhex(text)


# DWARF 5, figures 22 and 23: the examples of LEB128.
@pytest.mark.parametrize(
    ("value", "data"),
    [(2, "02"), (127, "7f"), (128, "8001"), (129, "8101"), (12857, "b964"), ((1 << 64) - 1, "ff" * 9 + "01")],
)
def test_uleb(value: int, data: str) -> None:
    assert uleb(value) == h(data)


@pytest.mark.parametrize(
    ("value", "data"),
    [(2, "02"), (-2, "7e"), (127, "ff00"), (-127, "817f"), (128, "8001"), (-128, "807f"), (-129, "ff7e")],
)
def test_sleb(value: int, data: str) -> None:
    assert sleb(value) == h(data)


def test_leb_padding() -> None:
    assert uleb(0, size=3) == h("808000")
    assert sleb(-1, size=3) == h("ffff7f")
    assert sleb(64, size=2) == h("c000")
    with pytest.raises(ValueError):
        uleb(-1)


# DWARF 5, table 7.29; LSB 5, 10.5.1; aadwarf64, 4.4.
@pytest.mark.parametrize(
    ("instruction", "data"),
    [
        (Cfa.nop, "00"),
        (Cfa.advance(63), "7f"),
        (Cfa.advance(64), "0240"),
        (Cfa.offset_extended(200, 300), "05c801ac02"),
        (Cfa.restore_extended(17), "0611"),
        (Cfa.undefined(16), "0710"),
        (Cfa.same_value(3), "0803"),
        (Cfa.register(16, 2), "091002"),
        (Cfa.remember_state, "0a"),
        (Cfa.restore_state, "0b"),
        (Cfa.def_cfa(7, 128), "0c078001"),
        (Cfa.def_cfa_register(6), "0d06"),
        (Cfa.def_cfa_offset(16), "0e10"),
        (Cfa.def_cfa_expression(Op.breg(7, 8) + Op.deref), "0f03770806"),
        (Cfa.expression(3, Op.plus_uconst(8)), "1003022308"),
        (Cfa.offset_extended_sf(16, -2), "11107e"),
        (Cfa.def_cfa_sf(7, -1), "12077f"),
        (Cfa.def_cfa_offset_sf(-2), "137e"),
        (Cfa.val_offset(7, 2), "140702"),
        (Cfa.val_offset_sf(7, -2), "15077e"),
        (Cfa.val_expression(18, Op.breg(18, -8)), "1612028278"),
        (Cfa.aarch64_set_ra_state(0, -4), "2b007c"),
        (Cfa.aarch64_negate_ra_state_with_pc, "2c"),
        (Cfa.aarch64_negate_ra_state, "2d"),
        (Cfa.gnu_window_save, "2d"),
        (Cfa.gnu_args_size(16), "2e10"),
        (Cfa.gnu_negative_offset_extended(8, 1), "2f0801"),
        (Cfa.offset(16, 1), "9001"),
        (Cfa.restore(8), "c8"),
    ],
)
def test_instruction(instruction: bytes, data: str) -> None:
    assert instruction == h(data)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="six bits"):
        Cfa.offset(64, 1)
    with pytest.raises(ValueError, match="six bits"):
        Cfa.advance_loc(-1)
    with pytest.raises(ValueError, match="1 bytes"):
        Cfa.advance_loc1(256)
    with pytest.raises(ValueError):
        Op.lit(32)


# DWARF 5, table 7.9.
def test_operations() -> None:
    assert Op.addr(0x10, 4, "big") == h("0300000010")
    assert [Op.const(1, n) for n in (1, 2, 4, 8)] == [h("0801"), h("0a0100"), h("0c01000000"), h("0e01" + "00" * 7)]
    assert Op.const(-1, 2, signed=True, byte_order="big") == h("0bffff")
    assert Op.constu(300) + Op.consts(-1) == h("10ac02117f")
    assert Op.dup + Op.drop + Op.over + Op.pick(2) + Op.swap + Op.rot + Op.xderef == h("121314150216 17 18")
    assert Op.abs + Op.and_ + Op.div + Op.minus + Op.mod + Op.mul == h("191a1b1c1d1e")
    assert Op.neg + Op.not_ + Op.or_ + Op.plus + Op.plus_uconst(1) == h("1f2021222301")
    assert Op.shl + Op.shr + Op.shra + Op.xor + Op.bra(-3) + Op.eq == h("2425262728fdff29")
    assert Op.ge + Op.gt + Op.le + Op.lt + Op.ne + Op.skip(1) == h("2a2b2c2d2e2f0100")
    assert Op.lit(31) + Op.reg(31) + Op.breg(31, 0) + Op.regx(40) + Op.bregx(46, -1) == h("4f6f8f009028922e7f")
    assert Op.deref_size(1) + Op.nop + Op.push_object_address + Op.call_frame_cfa + Op.stack_value == h("940196979c9f")


def test_motorola_88000() -> None:
    assert motorola_88000().build() == MOTOROLA_88000
    assert len(MOTOROLA_88000) == 0x28 + 0x2C
    assert [row[0] for row in MOTOROLA_88000_ROWS] == [0, 4, 8, 12, 16, 20, 68, 72, 76, 80]


def test_late_operands_follow_the_byte_order_and_the_pointer_encoding() -> None:
    cfi = CfiBuilder(byte_order="big", address_size=4, address=0x100)
    cie = cfi.cie(fde_encoding=0x1B, padding=0)
    program = [Cfa.advance(0x100), Cfa.advance(0x10000), Cfa.mips_advance_loc8(1), Cfa.set_loc(0x1100)]
    fde = cfi.fde(cie, start=0x1000, size=0x1000, instructions=program, padding=0)
    # Length, CIE pointer, start and range take 16 bytes, the augmentation length one; set_loc's operand is 18 bytes on.
    here = 0x100 + fde.offset + 17 + 3 + 5 + 9 + 1
    data = h("030100 0400010000 1d0000000000000001 01") + (0x1100 - here).to_bytes(4, "big")
    assert cfi.build()[fde.offset + 17 :] == data


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        (0x00, "3412000000000000"),
        (0x01, "b424"),
        (0x02, "3412"),
        (0x03, "34120000"),
        (0x04, "3412000000000000"),
        (0x08, "3412000000000000"),
        (0x09, "b424"),
        (0x0A, "3412"),
        (0x0B, "34120000"),
        (0x0C, "3412000000000000"),
        (0x1B, "31f2ffff"),  # 0x1234 - 0x2003
        (0x1C, "31f2ffffffffffff"),
        (0x2A, "34fe"),  # 0x1234 - 0x1400
        (0x3B, "34f3ffff"),  # 0x1234 - 0x1f00
        (0x49, "34"),  # 0x1234 - 0x1200
        (0x50, "0000000000" + "3412000000000000"),  # from 0x2003 to the next multiple of 8
        (0x9B, "31f2ffff"),  # indirect says nothing about the bytes
        (0xFF, ""),
    ],
)
def test_pointer_encodings(encoding: int, data: str) -> None:
    encoder = PointerEncoder(text_base=0x1400, data_base=0x1F00)
    assert encoder.encode(0x1234, encoding, 0x2003, 0x1200) == h(data)


def test_pointers_wrap_around_the_address_space() -> None:
    assert PointerEncoder(address_size=4).encode(0xFFFFFFF0, 0x1B, 0x10) == h("e0ffffff")
    assert PointerEncoder(address_size=4, byte_order="big").encode(0x10, 0x10, 0xFFFFFFF0) == h("00000020")
    with pytest.raises(ValueError, match="fit"):
        PointerEncoder().encode(0x1_0000_0000, 0x1B, 0)
    with pytest.raises(ValueError, match="null"):
        PointerEncoder().encode(0x10, 0x1B, 0x10)
    for undefined in (0x05, 0x60, 0x7B):
        with pytest.raises(ValueError, match="encoding"):
            PointerEncoder().encode(0x10, undefined, 0x20)


def test_augmentation_letters_bring_their_data() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(augmentation="zPLR", personality=(0x9B, 0x3000), lsda_encoding=0x1B, padding=0)
    fde = cfi.fde(cie, start=0x1000, size=16, lsda=0x4000, padding=0)
    bare = cfi.fde(cie, start=0x1010, size=16, padding=0)
    data = cfi.build()
    # Version, letters, factors and column take 9 bytes behind 8 of the header; the pointer stands at 0x2000 + 19.
    assert data[17 : fde.offset] == h("07 9b") + (0x3000 - 0x2013).to_bytes(4, "little") + h("1b 1b")
    here = 0x2000 + fde.offset + 17
    assert data[fde.offset + 16 : bare.offset] == h("04") + (0x4000 - here).to_bytes(4, "little")
    assert data[bare.offset + 16 :] == h("04 00000000"), "no LSDA is a null pointer, not a distance"


def test_signal_frame_and_key_take_no_data() -> None:
    cfi = CfiBuilder()
    cfi.cie(augmentation="zRSB", padding=0, augmentation_data=b"\xaa")
    assert cfi.build() == h("10000000 00000000 01 7a52534200 01 78 10 02 1b aa")


def test_long_augmentation_data_move_their_pointer() -> None:
    cfi = CfiBuilder()
    cie = cfi.cie(augmentation="zLR", lsda_encoding=0x1B, padding=0)
    fde = cfi.fde(cie, start=0x1000, size=16, lsda=0x4000, augmentation_data=bytes(200), padding=0)
    here = fde.offset + 18
    assert cfi.build()[fde.offset + 16 :] == h("cc01") + (0x4000 - here).to_bytes(4, "little") + bytes(200)


def test_cie_behind_its_fde() -> None:
    for kind, pointer in (("eh_frame", "ecffffff"), ("debug_frame", "18000000")):
        cfi = CfiBuilder(kind)  # type: ignore[arg-type]
        cie = cfi.cie(later=True, augmentation="")
        fde = cfi.fde(cie, start=0x1000, size=16)
        assert cie.offset is None
        with pytest.raises(ValueError, match="not placed"):
            cfi.build()
        cfi.place(cie)
        assert (fde.offset, cie.offset) == (0, 24)
        assert cfi.build()[4:8] == h(pointer)
        with pytest.raises(ValueError, match="already"):
            cfi.place(cie)


def test_dwarf64() -> None:
    cfi = CfiBuilder(dwarf64=True)
    cie = cfi.cie(padding=0)
    cfi.fde(cie, start=0x1000, size=1, padding=0)
    data = cfi.build()
    assert data[:20] == h("ffffffff 1100000000000000 0000000000000000")
    assert data[29:49] == h("ffffffff 1100000000000000") + (29 + 12).to_bytes(8, "little")
    cfi = CfiBuilder("debug_frame", dwarf64=True)
    cfi.cie(version=3, padding=0)
    assert cfi.build()[:20] == h("ffffffff 0d00000000000000 ffffffffffffffff")


def test_version_decides_the_fields() -> None:
    def body(**kwargs: int) -> bytes:
        cfi = CfiBuilder("debug_frame", address_size=4)
        cfi.cie(return_address=200, padding=0, **kwargs)  # type: ignore[arg-type]
        return cfi.build()[8:]

    assert body(version=1) == h("01 00 01 78 c8")
    assert body(version=3) == h("03 00 01 78 c801")
    assert body(version=4, address_size=2, segment_size=4) == h("04 00 02 04 01 78 c801")


def test_segment_selector_stands_before_the_start() -> None:
    cfi = CfiBuilder("debug_frame", address_size=4)
    cie = cfi.cie(version=4, segment_size=2)
    fde = cfi.fde(cie, start=0x1000, size=16, segment=7, padding=0)
    assert cfi.build()[fde.offset + 8 :] == h("0700 00100000 10000000")


def test_fields_can_lie() -> None:
    cfi = CfiBuilder()
    cie = cfi.cie(augmentation="eh", length=0xFFFFFFF0, padding=0)
    fde = cfi.fde(cie, start=0, size=0, cie_pointer=0xDEAD, length=1)
    cfi.raw(b"\x01")
    cfi.terminator()
    data = cfi.build()
    assert data[:20] == h("f0ffffff 00000000 01 656800 0000000000000000")
    assert data[fde.offset : fde.offset + 8] == h("01000000 adde0000")
    assert data[-5:] == h("01 00000000")


def test_search_header() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie()
    fdes = [cfi.fde(cie, start=start, size=16) for start in (0x1100, 0x1000)]
    entries = cfi.search_table()
    assert entries == [(0x1100, 0x2000 + fdes[0].offset), (0x1000, 0x2000 + fdes[1].offset)]
    header = eh_frame_hdr(entries, address=0x3000, eh_frame=0x2000)
    assert header[:12] == h("011b033b fcefffff 02000000")
    assert [int.from_bytes(header[i : i + 4], "little", signed=True) for i in (12, 20)] == [
        0x1000 - 0x3000,
        0x1100 - 0x3000,
    ]
    unordered = eh_frame_hdr(entries, address=0x3000, eh_frame=0x2000, ordered=False, count=9, version=2)
    assert unordered[:12] == h("021b033b fcefffff 09000000")
    assert (unordered[12:20], unordered[20:]) == (header[20:], header[12:20])
    assert eh_frame_hdr(entries, count_encoding=0xFF, table_encoding=0xFF, eh_frame=0x10) == h("011bffff 0c000000")
