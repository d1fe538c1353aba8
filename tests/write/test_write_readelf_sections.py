"""Which sections GNU readelf lists, what it says of the others, and how wide it takes the file's addresses to be."""

from __future__ import annotations

import pytest

from clew.errors import Problem
from clew.image import Image
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.write.readelf import frames_text, readelf_fails


def text_of(image: Image, problems: list[Problem] | None = None) -> str:
    return b"".join(frames_text(image, problems=problems)).decode()


def image_of(data: bytes, name: str = ".debug_frame") -> Image:
    """A shared library with one frame section."""
    elf = ElfBuilder()
    elf.section(name, data)
    return Image.from_bytes(elf.build())


def test_sections_that_are_not_listed() -> None:
    elf = ElfBuilder()
    elf.section(".debug_frame.dwo", b"\0\0\0\0")
    elf.section(".eh_frame", b"")
    elf.section(".debug_frame", size=8)
    elf.section(".eh_frame_hdr", b"\0\0\0\0")
    elf.section(".zdebug_frame\x07\u00e9", b"\0\0\0\0")
    problems: list[Problem] = []
    image = Image.from_bytes(elf.build())
    assert text_of(image, problems) == (
        "Unrecognized debug section: .debug_frame.dwo\n"
        "\nSection '.eh_frame' has no debugging data.\n"
        "section '.debug_frame' has the NOBITS type - its contents are unreliable.\n"
        "Unrecognized debug section: .zdebug_frame^G<C3><A9>\n"
    )
    assert [problem.section for problem in problems][:2] == [".debug_frame.dwo", ".debug_frame"]
    assert readelf_fails(image)
    assert not readelf_fails(image_of(b""))
    assert not readelf_fails(image_of(b"\xff"))


def test_no_frame_section_no_text() -> None:
    elf = ElfBuilder()
    elf.section(".text", b"\xc3", executable=True)
    assert text_of(Image.from_bytes(elf.build())) == ""


def test_compressed_sections() -> None:
    builder = CfiBuilder("debug_frame")
    builder.fde(builder.cie(version=3), start=0x1000, size=16, instructions=[Cfa.advance_loc(1)])
    data = builder.build()
    elf = ElfBuilder()
    elf.section(".debug_frame", data, compress="zlib")
    elf.section(".zdebug_frame", data, compress="zdebug")
    plain = text_of(image_of(data))
    assert text_of(Image.from_bytes(elf.build())) == plain + plain.replace(".debug_frame", ".zdebug_frame")


def test_damaged_compression_is_a_problem() -> None:
    elf = ElfBuilder()
    elf.section(".debug_frame", bytes(24) + b"junk", flags=0x800)
    problems: list[Problem] = []
    assert text_of(Image.from_bytes(elf.build()), problems) == ""
    assert [problem.section for problem in problems] == [".debug_frame"]


@pytest.mark.parametrize(
    ("machine", "bits", "flags", "digits"),
    [
        (8, 32, 0x4000, 16),  # MIPS, EABI64
        (8, 32, 0x3000, 8),  # EABI32
        (46, 32, 0x800000, 4),  # H8/300
        (46, 32, 0x820000, 8),  # H8S
        (120, 32, 0x75, 4),  # M16C
        (120, 32, 0x78, 8),  # M32C
        (62, 32, 0, 8),  # x32
    ],
)
def test_address_sizes_that_are_not_the_class(machine: int, bits: int, flags: int, digits: int) -> None:
    builder = CfiBuilder("debug_frame", address_size=digits // 2)
    cie = builder.cie(version=3, padding=0)
    builder.fde(cie, start=0x1000, size=16, padding=0)
    elf = ElfBuilder(machine=machine, bits=bits, flags=flags)
    elf.section(".debug_frame", builder.build())
    line = text_of(Image.from_bytes(elf.build())).splitlines()
    assert line[5].endswith(f"FDE cie=00000000 pc={0x1000:0{digits}x}..{0x1010:0{digits}x}")
