"""CIEs, FDEs and terminators: every version, width, byte order and augmentation (DWARF 5, 6.4.1; LSB 5, 10.6.1)."""

from __future__ import annotations

from typing import Literal

import pytest

from clew.read.dwarf_cfi import CfiSection, Cie, Fde, Terminator
from clew.table import RegisterPlus, Signing
from clew.testing import Cfa, CfiBuilder

START = [Cfa.def_cfa(7, 8), Cfa.offset(16, 1)]


def kinds(section: CfiSection) -> list[str]:
    return [entry.kind for entry in section.entries()]


def messages(section: CfiSection) -> list[str]:
    return [problem.message for problem in section.problems]


def test_an_empty_section() -> None:
    section = CfiSection(b"")
    assert (list(section.entries()), len(section), section.problems) == ([], 0, ())
    table = section.table()
    assert (len(table), len(table.ranges), table.lookup(0)) == (0, 0, None)


def test_fields_of_the_bytes_written_out() -> None:
    """The bytes of clew.testing's own example, field by field."""
    data = bytes.fromhex(
        "14000000 00000000 01 7a5200 01 78 10 01 1b 0c0708 9001 0000"
        "14000000 1c000000 e0efffff 20000000 00 41 0e10 00000000"
    )
    section = CfiSection(data, address=0x2000)
    cie, fde = section.entries()
    assert isinstance(cie, Cie)
    assert isinstance(fde, Fde)
    assert (cie.offset, cie.end, cie.program, cie.version, cie.augmentation) == (0, 0x18, 0x11, 1, "zR")
    assert (cie.code_alignment, cie.data_alignment, cie.return_address) == (1, -8, 16)
    assert (cie.augmentation_data, cie.fde_encoding) == (b"\x1b", 0x1B)
    assert (cie.lsda_encoding, cie.personality_encoding, cie.personality) == (0xFF, 0xFF, 0)
    assert (cie.signal_frame, cie.key_b, cie.tagged, cie.opaque, cie.error) == (False, False, False, False, None)
    assert (fde.offset, fde.end, fde.program, fde.cie, fde.lsda) == (0x18, 0x30, 0x29, cie, 0)
    assert (fde.start, fde.stop) == (0x1000, 0x1020)


@pytest.mark.parametrize("kind", ["eh_frame", "debug_frame"])
@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("machine", ["x86-64", "i386", "s390x", "dwarf-example"])
def test_versions_widths_and_byte_orders(
    kind: Literal["eh_frame", "debug_frame"], version: int, dwarf64: bool, machine: str
) -> None:
    big, size = machine in ("s390x", "dwarf-example"), 8 if machine in ("x86-64", "s390x") else 4
    cfi = CfiBuilder(kind, byte_order="big" if big else "little", address_size=size, address=0x2000, dwarf64=dwarf64)
    cie = cfi.cie(version=version, return_address=14, data_alignment=-4, code_alignment=2, instructions=START)
    cfi.fde(cie, start=0x1000, size=0x40, instructions=[Cfa.advance(300), Cfa.advance(3), Cfa.def_cfa_offset(16)])
    cfi.fde(cie, start=0x1100, size=0x40)
    section = CfiSection(cfi.build(), name=f".{kind}", address=0x2000, machine=machine)
    assert section.problems == ()
    assert kinds(section) == ["CIE", "FDE", "FDE"]
    (found,) = section.cies
    assert (found.version, found.return_address, found.code_alignment, found.data_alignment) == (version, 14, 2, -4)
    assert (found.address_size, found.segment_size) == (size, 0)
    assert [(fde.start, fde.stop) for fde in section.fdes()] == [(0x1000, 0x1040), (0x1100, 0x1140)]
    assert [(row.start, row.end) for row in section.table().rows()] == [(0x1000, 0x1040), (0x1100, 0x1140)]


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("segment_size", [0, 1, 2, 4, 8])
def test_address_and_segment_sizes_of_version_4(size: int, segment_size: int) -> None:
    """A CIE's own address size counts, not the file's."""
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(address_size=size, segment_size=segment_size, instructions=START)
    cfi.fde(cie, start=0x1000, size=0x10, segment=5 if segment_size else 0)
    section = CfiSection(cfi.build(), name=".debug_frame")
    (fde,) = section.fdes()
    assert (fde.start, fde.stop, fde.cie.address_size, fde.cie.segment_size) == (0x1000, 0x1010, size, segment_size)
    assert [(row.start, row.end) for row in fde.rows()] == [(0x1000, 0x1010)]


def test_return_address_columns_of_more_than_a_byte() -> None:
    cfi = CfiBuilder("debug_frame")
    cfi.fde(cfi.cie(version=3, return_address=1000, instructions=START), start=0x1000, size=1)
    assert CfiSection(cfi.build(), name=".debug_frame").table().rules[1].return_address == 1000
    with_one_byte = CfiBuilder()
    with_one_byte.cie(version=1, return_address=0x90)
    assert CfiSection(with_one_byte.build()).cies[0].return_address == 0x90, "version 1 has a byte, not a LEB128"


def test_every_augmentation_letter() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(
        augmentation="zPLRSBG", personality=(0x9B, 0x1800), lsda_encoding=0x1B, instructions=[Cfa.def_cfa(31, 0)]
    )
    cfi.fde(cie, start=0x1000, size=0x10, lsda=0x1900)
    cfi.fde(cie, start=0x1010, size=0x10)
    section = CfiSection(cfi.build(), address=0x2000, machine="aarch64")
    (found,) = section.cies
    assert (found.personality_encoding, found.personality, found.lsda_encoding) == (0x9B, 0x1800, 0x1B)
    assert (found.signal_frame, found.key_b, found.tagged) == (True, True, True)
    assert [fde.lsda for fde in section.fdes()] == [0x1900, 0], "a null LSDA pointer is none"
    table = section.table()
    rule = table.rules[1]
    assert (rule.signal_frame, rule.key_b, rule.signing) == (True, True, Signing.NONE)
    here = table.range_at(0x1008)
    assert here is not None
    assert (here.lsda, here.personality, here.source) == (0x1900, 0x1800, ".eh_frame")


@pytest.mark.parametrize("order", ["zRLPSBG", "zGBSPLR", "zLRSP", "zBPRL"])
def test_letters_may_come_in_any_order(order: str) -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(augmentation=order, personality=(0x00, 0x1800), lsda_encoding=0x00, instructions=START)
    cfi.fde(cie, start=0x1000, size=0x10, lsda=0x1900)
    section = CfiSection(cfi.build(), address=0x2000)
    assert section.problems == ()
    (fde,) = section.fdes()
    assert (fde.start, fde.lsda, fde.cie.personality) == (0x1000, 0x1900, 0x1800)


def test_personality_may_be_omitted() -> None:
    cfi = CfiBuilder(address=0x2000)
    cfi.fde(cfi.cie(augmentation="zPR", instructions=START), start=0x1000, size=0x10)
    section = CfiSection(cfi.build(), address=0x2000)
    assert (section.problems, section.cies[0].personality) == ((), 0)
    assert section.fde(0).start == 0x1000


def test_unknown_letters_behind_z_are_skipped_by_length() -> None:
    """What came before them counts, and what takes no data behind them."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(augmentation="zRXS", augmentation_data=b"\x01\x02\x03", instructions=START)
    cfi.fde(cie, start=0x1000, size=0x10, augmentation_data=b"\xff\xff", instructions=[Cfa.def_cfa_offset(24)])
    section = CfiSection(cfi.build(), address=0x2000)
    assert section.problems == ()
    assert section.cies[0].augmentation_data == b"\x1b\x01\x02\x03"
    row = section.table().lookup(0x1000)
    assert row is not None
    assert (row.rule.cfa, row.rule.signal_frame) == (RegisterPlus(7, 24), True)


def test_addresses_whose_encoding_stands_behind_an_unknown_letter_are_not_guessed() -> None:
    cfi = CfiBuilder(address=0x2000)
    cfi.fde(cfi.cie(augmentation="zXR", instructions=START), start=0x1000, size=0x10)
    section = CfiSection(cfi.build(), address=0x2000)
    assert messages(section) == [
        "this CIE cannot be used: its augmentation b'zXR' has R behind a letter that is unknown",
        "its CIE cannot be used",
    ]
    assert len(section) == 0


@pytest.mark.parametrize("augmentation", ["q", "Sz", "mips", "R"])
def test_an_unknown_augmentation_without_length_keeps_the_ranges(augmentation: str) -> None:
    """The ranges of FDEs can be read, and nothing else (DWARF 5, 6.4.1)."""
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(augmentation=augmentation, instructions=START)
    cfi.fde(cie, start=0x1000, size=0x10, instructions=[Cfa.def_cfa_offset(24)])
    section = CfiSection(cfi.build(), name=".debug_frame")
    assert [problem.message for problem in section.problems] == [
        f"this CIE cannot be used: its augmentation {augmentation.encode()!r} is unknown and has no length"
    ]
    (fde,) = section.fdes()
    assert (fde.start, fde.stop, fde.cie.opaque) == (0x1000, 0x1010, True)
    assert (list(fde.rows()), list(fde.instructions())) == ([], [])
    table = section.table()
    assert [(range_.start, range_.end) for range_ in table.ranges] == [(0x1000, 0x1010)]
    assert table.lookup(0x1000) is None
    assert list(table.rows()) == []


def test_gcc_2_augmentation() -> None:
    """``eh`` brings the address of an exception table, which is skipped."""
    cfi = CfiBuilder()
    cfi.fde(cfi.cie(augmentation="eh", instructions=START), start=0x1000, size=0x10)
    section = CfiSection(cfi.build())
    assert section.problems == ()
    assert [(row.start, str(row.rule.cfa)) for row in section.fde(0).rows()] == [(0x1000, str(RegisterPlus(7, 8)))]


def test_armcc_augmentation_has_no_data() -> None:
    cfi = CfiBuilder("debug_frame", address_size=4)
    cfi.fde(cfi.cie(augmentation="armcc+", instructions=START), start=0x1000, size=0x10)
    section = CfiSection(cfi.build(), name=".debug_frame", machine="arm")
    assert (section.problems, len(section.table().ranges)) == ((), 1)


@pytest.mark.parametrize("kind", ["eh_frame", "debug_frame"])
@pytest.mark.parametrize("dwarf64", [False, True])
def test_a_cie_behind_its_fdes(kind: Literal["eh_frame", "debug_frame"], dwarf64: bool) -> None:
    cfi = CfiBuilder(kind, address=0x2000, dwarf64=dwarf64)
    cie = cfi.cie(instructions=START, later=True)
    cfi.fde(cie, start=0x1000, size=0x10)
    other = cfi.cie(return_address=3, instructions=START)
    cfi.fde(other, start=0x1010, size=0x10)
    cfi.fde(cie, start=0x1020, size=0x10)
    cfi.place(cie)
    section = CfiSection(cfi.build(), name=f".{kind}", address=0x2000)
    assert section.problems == ()
    assert kinds(section) == ["FDE", "CIE", "FDE", "FDE", "CIE"]
    assert [row.rule.return_address for row in section.table().rows()] == [16, 3, 16]
    assert [entry.offset for entry in section.entries()] == sorted(entry.offset for entry in section.entries())


def test_terminators_in_the_middle() -> None:
    """Linkers that merge sections leave them there; the entries behind them count."""
    cfi = CfiBuilder(address=0x2000)
    cfi.fde(cfi.cie(instructions=START), start=0x1000, size=0x10)
    middle = cfi.offset
    cfi.terminator()
    cfi.fde(cfi.cie(instructions=START), start=0x1010, size=0x10)
    end = cfi.offset
    cfi.terminator()
    cfi.terminator()
    section = CfiSection(cfi.build(), address=0x2000)
    assert section.problems == ()
    assert kinds(section) == ["CIE", "FDE", "terminator", "CIE", "FDE", "terminator"]
    ends = [entry for entry in section.entries() if isinstance(entry, Terminator)]
    assert ends == [Terminator(middle, middle + 4), Terminator(end, end + 8)], "zeros that follow one another are one"
    assert len(section.table().ranges) == 2


@pytest.mark.parametrize("size", [4, 8, 400, 4096])
@pytest.mark.parametrize("name", [".eh_frame", ".debug_frame"])
def test_a_section_of_zeros(size: int, name: str) -> None:
    section = CfiSection(bytes(size), name=name)
    assert (list(section.entries()), section.problems) == ([Terminator(0, size)], ())
    assert len(section.table()) == 0


@pytest.mark.parametrize("size", [5, 6, 7])
def test_zeros_that_are_no_whole_number_of_lengths(size: int) -> None:
    section = CfiSection(bytes(size))
    assert kinds(section) == ["terminator"]
    assert messages(section) == ["the section ends inside an entry's length"]


def test_a_cie_that_nothing_names() -> None:
    cfi = CfiBuilder()
    cfi.cie(instructions=START)
    section = CfiSection(cfi.build())
    assert kinds(section) == ["CIE"]
    assert [str(instruction.name) for instruction in section.cies[0].instructions()][:2] == [
        "DW_CFA_def_cfa",
        "DW_CFA_offset",
    ]
    assert len(section.table()) == 0


def test_the_kind_follows_the_name_unless_told() -> None:
    cfi = CfiBuilder("debug_frame")
    cfi.fde(cfi.cie(instructions=START), start=0x1000, size=0x10)
    for options in ({"name": ".debug_frame"}, {"name": ".zdebug_frame"}, {"name": "frames", "eh": False}):
        assert len(CfiSection(cfi.build(), **options)) == 1  # type: ignore[arg-type]
    assert len(CfiSection(cfi.build(), name=".eh_frame")) == 0


@pytest.mark.parametrize("encoding", [0x00, 0x03, 0x04, 0x08, 0x0B, 0x0C, 0x01, 0x1B, 0x1C, 0x2B, 0x3C, 0x50])
def test_fde_encodings(encoding: int) -> None:
    """The start in that encoding; the size in its format, relative to nothing."""
    cfi = CfiBuilder(address=0x2001, text_base=0x800, data_base=0x3000)
    cie = cfi.cie(fde_encoding=encoding, instructions=START)
    cfi.fde(cie, start=0x1000, size=0x30)
    cfi.fde(cie, start=0x1040, size=0x30)
    section = CfiSection(cfi.build(), address=0x2001, text_base=0x800, data_base=0x3000)
    assert section.problems == ()
    assert [(fde.start, fde.stop) for fde in section.fdes()] == [(0x1000, 0x1030), (0x1040, 0x1070)]


@pytest.mark.parametrize("encoding", [0x1B, 0x0B])
def test_a_size_is_not_signed(encoding: int) -> None:
    cfi = CfiBuilder(address=0x2000)
    cfi.fde(cfi.cie(fde_encoding=encoding, instructions=START), start=0x1000, size=0xF0000000)
    assert CfiSection(cfi.build(), address=0x2000).fde(0).stop == 0xF0001000


@pytest.mark.parametrize("encoding", [0x1B, 0x1C, 0x2B])
def test_a_null_start_stays_null(encoding: int) -> None:
    """What a linker left of a dropped function: zero, and not the place of the field."""
    data = bytearray.fromhex("14000000 00000000 017a5200 01781001 1b0c0708 90010000 1c000000 1c000000")
    data[0x10] = encoding
    data += bytes(0x18)
    section = CfiSection(bytes(data), address=0x2000, text_base=0x800)
    assert [fde.start for fde in section.fdes()] == [0]


def test_lsda_relative_to_the_function() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(augmentation="zLR", lsda_encoding=0x4B, instructions=START)
    cfi.fde(cie, start=0x1000, size=0x10, lsda=0x1900)
    assert CfiSection(cfi.build(), address=0x2000).fde(0).lsda == 0x1900


def test_looking_up_fdes_by_address() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=START)
    for start, size in ((0x1000, 0x100), (0x1040, 0x20), (0x1200, 0x10)):
        cfi.fde(cie, start=start, size=size)
    section = CfiSection(cfi.build(), address=0x2000)
    assert [fde.start for fde in section.fdes_at(0x1050)] == [0x1000, 0x1040], "the one that counts is the last"
    assert [fde.start for fde in section.fdes_at(0x1060)] == [0x1000]
    for address in (0xFFF, 0x1100, 0x1210, -1, 1 << 64, 1 << 80):
        assert section.fdes_at(address) == []
