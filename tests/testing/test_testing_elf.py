"""The ELF builder: what its users may rely on, byte by byte where a standard says so."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from clew.errors import UsageError
from clew.image import Image, elf
from clew.testing.elf import ElfBuilder


def test_the_header_of_an_empty_file() -> None:
    data = ElfBuilder(type=elf.ET_REL, flags=5, os_abi=3).build()
    # gABI, "ELF Header": e_ident, then type, machine, version, entry, phoff, shoff, flags, and six half words.
    assert data[:16] == b"\x7fELF\2\1\1\3" + bytes(8)
    fields = struct.unpack_from("<HHIQQQIHHHHHH", data, 16)
    assert fields[:3] == (elf.ET_REL, 62, 1)
    assert fields[6:] == (5, 64, 56, 0, 64, 2, 1)
    assert len(data) == fields[5] + 2 * 64


def test_big_endian_of_32_bits() -> None:
    data = ElfBuilder(bits=32, byte_order="big", machine=20).build()
    assert data[:7] == b"\x7fELF\1\2\1"
    assert struct.unpack_from(">HHI", data, 16) == (elf.ET_DYN, 20, 1)


def test_sections_keep_their_order_and_alignment() -> None:
    builder = ElfBuilder(type=elf.ET_REL)
    assert builder.section(".a", b"1", alignment=1) == 1
    assert builder.section(".b", b"2", alignment=64) == 2
    image = Image.from_bytes(builder.build())
    assert [section.name for section in image.sections] == ["", ".a", ".b", ".shstrtab"]
    assert image.sections[2].offset % 64 == 0


def test_loaded_sections_agree_with_their_addresses_modulo_a_page() -> None:
    builder = ElfBuilder()
    builder.section(".text", b"1", address=0x401234, executable=True)
    builder.section(".data", b"2", address=0x403008, flags=elf.SHF_WRITE)
    image = Image.from_bytes(builder.build())
    assert [(each.offset - each.address) % 0x1000 for each in image.segments] == [0, 0]
    assert [each.flags for each in image.segments] == [elf.PF_R | elf.PF_X, elf.PF_R | elf.PF_W]


def test_a_segment_of_several_sections() -> None:
    builder = ElfBuilder()
    builder.section(".text", b"1234", address=0x1000, executable=True)
    builder.section(".rodata", b"56", address=0x1010)
    builder.section(".bss", address=0x1020, size=8)
    builder.segment(elf.PT_LOAD, [".text", ".rodata", ".bss"], flags=7)
    [segment] = Image.from_bytes(builder.build()).segments
    assert (segment.address, segment.file_size, segment.memory_size, segment.flags) == (0x1000, 0x12, 0x28, 7)
    assert segment.data == b"1234" + bytes(12) + b"56"


def test_a_segment_without_sections() -> None:
    builder = ElfBuilder()
    builder.segment(elf.PT_GNU_STACK, flags=6, alignment=16)
    [segment] = Image.from_bytes(builder.build()).segments
    assert (segment.type, segment.flags, segment.memory_size, segment.alignment) == (elf.PT_GNU_STACK, 6, 0, 16)


def test_local_symbols_come_first() -> None:
    builder = ElfBuilder()
    builder.symbol("global", 1)
    builder.symbol("local", 2, binding=elf.STB_LOCAL)
    image = Image.from_bytes(builder.build())
    assert image.symbols().names(range(3)) == ["", "local", "global"]
    section = image.section(".symtab")
    assert section is not None
    assert section.info == 2


@pytest.mark.parametrize(
    ("bits", "machine", "info"),
    [
        (32, 3, struct.pack("<I", 1 << 8 | 2)),
        (64, 62, struct.pack("<Q", 1 << 32 | 2)),
        # MIPS64: the symbol, no special symbol, no third and no second type, the type.
        (64, 8, struct.pack("<I", 1) + b"\0\0\0\2"),
    ],
)
def test_relocations(bits: int, machine: int, info: bytes) -> None:
    builder = ElfBuilder(bits=bits, machine=machine, type=elf.ET_REL)
    builder.section(".debug_info", bytes(16))
    builder.symbol("s", 0, section=".debug_info")
    builder.relocation(".rela.debug_info", 8, 2, "s", -1)
    builder.relocation(".rel.debug_info", 8, 2, 1)
    image = Image.from_bytes(builder.build())
    rela, rel = image.section(".rela.debug_info"), image.section(".rel.debug_info")
    assert rela is not None
    assert rel is not None
    word = "<Q" if bits == 64 else "<I"
    assert rel.raw == struct.pack(word, 8) + info
    assert rela.raw == struct.pack(word, 8) + info + b"\xff" * (bits // 8)
    assert (rela.info, image.sections[rela.link].name, rela.type, rel.type) == (1, ".symtab", 4, 9)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("section", {"name": ".a", "link": ".missing"}),
        ("symbol", {"name": "a", "section": ".missing"}),
        ("relocation", {"section": ".rela.missing", "offset": 0, "type": 1}),
    ],
)
def test_names_that_are_missing(method: str, arguments: dict[str, Any]) -> None:
    builder = ElfBuilder()
    getattr(builder, method)(**arguments)
    with pytest.raises(UsageError, match="missing") as caught:
        builder.build()
    assert caught.value.hint is not None


def test_a_symbol_that_is_missing() -> None:
    builder = ElfBuilder(type=elf.ET_REL)
    builder.section(".a", b"1")
    builder.relocation(".rela.a", 0, 1, "missing")
    with pytest.raises(UsageError, match="no symbol missing"):
        builder.build()


def test_sections_that_cannot_share_a_segment() -> None:
    builder = ElfBuilder()
    builder.section(".a", b"1234", address=0x1000)
    builder.section(".b", b"5678", address=0x1002)
    builder.segment(elf.PT_LOAD, [".a", ".b"])
    with pytest.raises(UsageError, match="cannot be placed"):
        builder.build()


def test_it_can_be_built_twice() -> None:
    builder = ElfBuilder(large_numbers=True)
    builder.section(".text", b"1", address=0x1000, executable=True)
    builder.symbol("f", 0x1000, section=".text")
    builder.build_id(b"id")
    assert builder.build() == builder.build()
