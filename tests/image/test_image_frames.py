"""Finding .eh_frame and .eh_frame_hdr by sections and by segments."""

from __future__ import annotations

import pytest

from clew.image import Image, elf
from clew.testing.elf import ElfBuilder

FRAMES = bytes(range(16))


def builder(header: bytes, *, sections: bool, byte_order: elf.ByteOrder = "little", bits: int = 64) -> ElfBuilder:
    """.eh_frame_hdr at 0x2000, .eh_frame at 0x2020, in one segment."""
    made = ElfBuilder(section_headers=sections, byte_order=byte_order, bits=bits)
    made.section(".eh_frame_hdr", header, address=0x2000)
    made.section(".eh_frame", FRAMES, address=0x2020)
    made.segment(elf.PT_LOAD, [".eh_frame_hdr", ".eh_frame"])
    made.segment(elf.PT_GNU_EH_FRAME, [".eh_frame_hdr"])
    return made


# Version 1, encoding of the pointer, of the count and of the table (not there), the pointer.
PCREL = b"\1\x1b\xff\xff" + (0x2020 - 0x2004).to_bytes(4, "little")


def test_by_sections() -> None:
    image = Image.from_bytes(builder(PCREL, sections=True).build())
    assert image.eh_frame() == (0x2020, FRAMES)
    assert image.eh_frame_hdr() == (0x2000, PCREL)


@pytest.mark.parametrize(
    ("header", "byte_order", "bits"),
    [
        (PCREL, "little", 64),
        (b"\1\x3b\xff\xff" + (0x20).to_bytes(4, "big"), "big", 64),  # datarel sdata4
        (b"\1\x00\xff\xff" + (0x2020).to_bytes(8, "little"), "little", 64),  # absptr
        (b"\1\x00\xff\xff" + (0x2020).to_bytes(4, "big"), "big", 32),
        (b"\1\x1c\xff\xff" + (0x1C).to_bytes(8, "big"), "big", 64),  # pcrel sdata8
        (b"\1\x02\xff\xff" + (0x2020).to_bytes(2, "little"), "little", 32),  # udata2
    ],
)
def test_by_segments_alone(header: bytes, byte_order: elf.ByteOrder, bits: int) -> None:
    image = Image.from_bytes(builder(header, sections=False, byte_order=byte_order, bits=bits).build())
    assert image.sections == ()
    assert image.eh_frame_hdr() == (0x2000, header)
    assert image.eh_frame() == (0x2020, FRAMES)
    assert image.problems == []


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"\2\x1b\xff\xff" + bytes(4), "does not say"),
        (b"\1\xff\xff\xff" + bytes(4), "does not say"),
        (b"\1\x1b", "does not say"),
        (b"\1\x9b\xff\xff" + bytes(4), "0x9b is not read"),
        (b"\1\x01\xff\xff" + bytes(4), "0x1 is not read"),
        (b"\1\x1b\xff\xff\0", "cut short"),
        (b"\1\x1b\xff\xff\xff\xff\xff\x7f", "no part of the file"),
    ],
)
def test_headers_that_lead_nowhere(header: bytes, message: str) -> None:
    image = Image.from_bytes(builder(header, sections=False).build())
    assert image.eh_frame() is None
    assert message in str(image.problems[0])


def test_none() -> None:
    image = Image.from_bytes(ElfBuilder().build())
    assert image.eh_frame() is None
    assert image.eh_frame_hdr() is None
    assert image.problems == []


def test_a_damaged_section_is_a_problem() -> None:
    made = ElfBuilder()
    made.section(".eh_frame", b"too short", flags=elf.SHF_COMPRESSED)
    image = Image.from_bytes(made.build())
    assert image.eh_frame() is None
    assert "compression header" in str(image.problems[0])
