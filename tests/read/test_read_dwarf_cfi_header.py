"""``.eh_frame_hdr``: fields, encodings, and what it says when it is cut (LSB 5, 10.6.2)."""

from __future__ import annotations

from itertools import islice

import pytest

from clew.errors import FormatError
from clew.read.dwarf_cfi import CfiSection, EhFrameHeader, HeaderEntry
from clew.testing import Cfa, CfiBuilder, eh_frame_hdr

PAIRS = [(0x1000, 0x2018), (0x1040, 0x2038), (0x1100, 0x2058)]


def test_the_usual_form() -> None:
    """``011b033b``: pc-relative pointer, unsigned count, table relative to the header, four bytes each."""
    data = bytes.fromhex("01 1b 03 3b fcefffff 01000000 00e0ffff 18f0ffff")
    header = EhFrameHeader.parse(data, address=0x3000)
    assert (header.version, header.eh_frame, header.count, header.table_encoding) == (1, 0x2000, 1, 0x3B)
    assert list(header.entries()) == [HeaderEntry(0x1000, 0x2018)]


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("table", [0x3B, 0x0B, 0x03, 0x3C, 0x1B, 0x00, 0x04])
@pytest.mark.parametrize("count", [0x02, 0x03, 0x04, 0x01])
def test_encodings(byte_order: str, size: int, table: int, count: int) -> None:
    data = eh_frame_hdr(
        PAIRS,
        address=0x3000,
        eh_frame=0x2000,
        byte_order=byte_order,  # type: ignore[arg-type]
        address_size=size,
        count_encoding=count,
        table_encoding=table,
    )
    header = EhFrameHeader.parse(data, address=0x3000, byte_order=byte_order, address_size=size)  # type: ignore[arg-type]
    assert (header.eh_frame, header.count) == (0x2000, 3)
    assert [(entry.start, entry.fde) for entry in header.entries()] == PAIRS


def test_what_is_left_out() -> None:
    bare = EhFrameHeader.parse(b"\x01\xff\xff\xff", address=0)
    assert (bare.eh_frame, bare.count, list(bare.entries())) == (None, None, [])
    no_table = EhFrameHeader.parse(eh_frame_hdr([], eh_frame=0x2000, table_encoding=0xFF), address=0)
    assert list(no_table.entries()) == []


def test_it_leads_to_the_entries() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    for start in (0x1100, 0x1000):
        cfi.fde(cie, start=start, size=0x10)
    header = EhFrameHeader.parse(eh_frame_hdr(cfi.search_table(), address=0x3000, eh_frame=0x2000), address=0x3000)
    assert header.eh_frame == 0x2000
    fdes = {fde.offset: fde.start for fde in CfiSection(cfi.build(), address=0x2000).fdes()}
    assert {entry.fde - header.eh_frame: entry.start for entry in header.entries()} == fdes
    assert [entry.start for entry in header.entries()] == [0x1000, 0x1100]


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_versions(version: int) -> None:
    with pytest.raises(FormatError, match=f"its version is {version}, not 1"):
        EhFrameHeader.parse(eh_frame_hdr(PAIRS, version=version, address=0x3000, eh_frame=0x2000), address=0x3000)


@pytest.mark.parametrize("size", range(12))
def test_cut_headers(size: int) -> None:
    data = eh_frame_hdr(PAIRS, address=0x3000, eh_frame=0x2000)
    with pytest.raises(FormatError) as caught:
        EhFrameHeader.parse(data[:size], address=0x3000)
    assert caught.value.section == ".eh_frame_hdr"


@pytest.mark.parametrize("cut", [1, 4, 8, 23])
def test_a_table_that_is_cut(cut: int) -> None:
    data = eh_frame_hdr(PAIRS, address=0x3000, eh_frame=0x2000)
    header = EhFrameHeader.parse(data[:-cut], address=0x3000)
    whole = (24 - cut) // 8
    entries = header.entries()
    assert len(list(islice(entries, whole))) == whole
    with pytest.raises(FormatError, match=f"the table states 3 lines and ends in line {whole}"):
        next(entries)


@pytest.mark.parametrize("encoding", [0x05, 0x6B, 0x2B, 0x51])
def test_encodings_that_make_no_sense(encoding: int) -> None:
    data = bytearray(eh_frame_hdr(PAIRS, address=0x3000, eh_frame=0x2000))
    data[3] = encoding
    with pytest.raises(FormatError, match="line 0"):
        list(EhFrameHeader.parse(bytes(data), address=0x3000).entries())
    data[1] = encoding
    with pytest.raises(FormatError):
        EhFrameHeader.parse(bytes(data), address=0x3000)


def test_a_count_beyond_everything_is_read_as_far_as_it_goes() -> None:
    data = eh_frame_hdr(PAIRS, address=0x3000, eh_frame=0x2000, count=(1 << 64) - 1, count_encoding=0x04)
    entries = EhFrameHeader.parse(data, address=0x3000).entries()
    assert [entry.start for entry in islice(entries, 3)] == [start for start, _ in PAIRS]
    with pytest.raises(FormatError, match="line 3"):
        next(entries)
