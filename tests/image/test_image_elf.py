"""Headers, sections, segments and addresses, of every class and byte order."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew.image
from clew.errors import Error, FormatError, NotFoundError, UsageError
from clew.image import Image, elf, open_image
from clew.testing.elf import ElfBuilder

LAYOUTS = list(itertools.product((32, 64), ("little", "big")))


@pytest.mark.parametrize(("bits", "byte_order"), LAYOUTS)
@pytest.mark.parametrize("large", [False, True])
def test_every_layout_reads_alike(bits: int, byte_order: elf.ByteOrder, large: bool) -> None:
    builder = ElfBuilder(
        machine=8, bits=bits, byte_order=byte_order, entry=0x1010, flags=0x70001007, large_numbers=large
    )
    builder.section(".text", b"\1\2\3\4", address=0x1000, executable=True, alignment=16)
    builder.section(".data", b"\5\6", address=0x3000, flags=elf.SHF_WRITE)
    builder.section(".bss", size=0x20, address=0x4000, flags=elf.SHF_WRITE)
    builder.section(".comment", b"hello", entry_size=1, info=7, link=".data")
    image = Image.from_bytes(builder.build(), "a name")

    assert (image.name, image.elf_class, image.byte_order) == ("a name", bits, byte_order)
    assert (image.type, image.e_machine, image.entry, image.flags) == (elf.ET_DYN, 8, 0x1010, 0x70001007)
    assert image.address_size == bits // 8
    assert [section.name for section in image.sections] == ["", ".text", ".data", ".bss", ".comment", ".shstrtab"]
    assert [section.index for section in image.sections] == list(range(6))
    text, comment, bss = image.section(".text"), image.section(".comment"), image.section(".bss")
    assert text is not None
    assert comment is not None
    assert bss is not None
    assert (text.address, text.size, text.alignment, text.type) == (0x1000, 4, 16, elf.SHT_PROGBITS)
    assert text.flags == elf.SHF_ALLOC | elf.SHF_EXECINSTR
    assert text.data == b"\1\2\3\4" == text.raw
    assert (comment.link, comment.info, comment.entry_size, comment.data) == (2, 7, 1, b"hello")
    assert not bss.has_data
    assert (bss.size, len(bss.data)) == (0x20, 0)
    assert [(each.type, each.address, each.memory_size, each.flags) for each in image.segments] == [
        (elf.PT_LOAD, 0x1000, 4, elf.PF_R | elf.PF_X),
        (elf.PT_LOAD, 0x3000, 2, elf.PF_R | elf.PF_W),
        (elf.PT_LOAD, 0x4000, 0x20, elf.PF_R | elf.PF_W),
    ]
    assert image.segments[0].data == b"\1\2\3\4"
    assert image.code_ranges() == [(0x1000, 0x1004)]
    assert image.bytes_at(0x1001, 2) == b"\2\3"
    assert image.bytes_at(0x1001, 4) is None
    assert image.bytes_at(0x4000, 1) is None  # Zero when the program starts, but not in the file.
    assert image.text_address() == 0x1000
    assert image.got_address() is None
    assert image.section_addresses()[1] == 0x1000
    assert text.layout_address == 0x1000
    assert image.section(".missing") is None
    assert image.problems == []


def test_a_section_that_is_not_compressed_is_not_copied() -> None:
    data = bytearray(ElfBuilder().build())
    builder = ElfBuilder()
    builder.section(".eh_frame", b"abcd", address=0x2000)
    data = bytearray(builder.build())
    section = Image.from_bytes(data).section(".eh_frame")
    assert section is not None
    view = section.data
    data[section.offset] = ord("A")
    assert view == b"Abcd"
    with pytest.raises(TypeError):
        view[0] = 0


def test_a_file_is_mapped_and_closed(tmp_path: Path) -> None:
    builder = ElfBuilder()
    builder.section(".text", b"\1\2", address=0x1000, executable=True)
    path = tmp_path / "a.out"
    path.write_bytes(builder.build())
    with open_image(path) as image:
        section = image.section(".text")
        assert section is not None
        held = section.data
        assert image.name == str(path)
    assert held == b"\1\2"
    with pytest.raises(UsageError, match="closed"):
        _ = section.raw
    image.close()


def test_files_that_are_no_images(tmp_path: Path) -> None:
    def error(path: Path | str) -> Error:
        with pytest.raises(Error) as caught:
            Image.open(path)
        assert caught.value.file is not None
        return caught.value

    assert isinstance(error(tmp_path / "missing"), NotFoundError)
    assert isinstance(error("a\0b"), NotFoundError)
    assert "directory" in str(error(tmp_path))
    (tmp_path / "empty").touch()
    assert "empty" in str(error(tmp_path / "empty"))
    (tmp_path / "windows.exe").write_bytes(b"MZ\x90\0")
    assert "PE file" in str(error(tmp_path / "windows.exe"))
    (tmp_path / "text").write_bytes(b"hello")
    assert "not an ELF file" in str(error(tmp_path / "text"))
    if Path("/proc/version").exists():  # A file that says it has no bytes, and cannot be mapped.
        assert "not an ELF file" in str(error("/proc/version"))
    os.mkfifo(tmp_path / "fifo")
    assert "regular" in str(error(tmp_path / "fifo"))
    if os.geteuid():
        (tmp_path / "secret").touch(0)
        assert "may not read" in str(error(tmp_path / "secret"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF\2\1\1", "cut short"),
        (b"\x7fELF\3\1\1" + bytes(60), "class 3"),
        (b"\x7fELF\2\3\1" + bytes(60), "byte order 3"),
        (b"\x7fELF\2\1\1" + bytes(40), "cut short"),
        (b"", "not an ELF file"),
    ],
)
def test_headers_that_are_none(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Image.from_bytes(data)


def test_what_cannot_be_read_is_a_problem_and_the_rest_remains() -> None:
    builder = ElfBuilder()
    builder.section(".text", b"\1\2\3\4", address=0x1000, executable=True)
    data = builder.build()
    # The section headers are last: .text, whose header is the second, survives the loss of the third.
    image = Image.from_bytes(data[:-10])
    assert len(image.sections) == 2
    assert image.sections[1].data == b"\1\2\3\4"
    assert str(image.problems[0]).endswith("the file holds 2 of its 3 section headers")
    assert image.code_ranges() == [(0x1000, 0x1004)]

    builder = ElfBuilder(type=elf.ET_REL)
    builder.section(".eh_frame", b"abc", size=1 << 40)
    image = Image.from_bytes(builder.build())
    section = image.section(".eh_frame")
    assert section is not None
    assert bytes(section.raw[:3]) == b"abc"
    assert len(section.raw) < 1000
    assert "of the section's 1099511627776 bytes" in str(image.problems[0])


def changed(data: bytes, **fields: int) -> Image:
    """The file with other fields in its header."""
    header = Image.from_bytes(data).header
    for name, value in fields.items():
        setattr(header, name, value)
    layout = header.layout
    record = layout.header.pack(
        *(header.type, header.machine, header.version, header.entry, header.segment_offset, header.section_offset),
        *(header.flags, layout.header.size, header.segment_size, header.segment_count),
        *(header.section_size, header.section_count, header.names_index),
    )
    return Image.from_bytes(data[:16] + record[16:] + data[layout.header.size :])


@pytest.mark.parametrize(
    ("fields", "sections", "segments", "message"),
    [
        ({"section_offset": 0}, 0, 1, "said to have 3 sections, but not where"),
        ({"segment_offset": 0}, 3, 0, "said to have 1 segments, but not where"),
        ({"section_size": 63}, 0, 1, "entries of 63 bytes are too small for the section headers"),
        ({"segment_size": 8}, 3, 0, "entries of 8 bytes are too small for the program headers"),
        ({"section_offset": 1 << 40, "section_count": 0}, 0, 1, "the section headers lie outside the file"),
        ({"section_offset": 1 << 40, "names_index": 0xFFFF}, 0, 1, "holds 0 of its 3 section headers"),
        ({"names_index": 0}, 3, 1, "the sections have no names"),
        ({"names_index": 0xFF05}, 3, 1, "the sections have no names"),
        ({"segment_count": 0xFFFF}, 3, 13, "of its 65535 program headers"),
    ],
)
def test_headers_that_lie(fields: dict[str, int], sections: int, segments: int, message: str) -> None:
    builder = ElfBuilder()
    builder.section(".text", bytes(300), address=0x1000, executable=True)
    image = changed(builder.build(), **fields)
    assert len(image.sections) == sections
    assert image.sections == () or image.sections[1].size == 300
    assert (len(image.segments) > 1) if segments > 1 else (len(image.segments) == segments)
    image.section(".text")
    assert any(message in str(problem) for problem in image.problems), image.problems


def test_entries_that_are_larger_than_they_need_be() -> None:
    builder = ElfBuilder()
    builder.section(".text", b"abc", address=0x1000, executable=True)
    data = builder.build()
    header = Image.from_bytes(data).header
    wide = b"".join(data[start : start + 64] + b"12345678" for start in range(header.section_offset, len(data), 64))
    image = changed(data[: header.section_offset] + wide, section_size=72)
    section = image.section(".text")
    assert section is not None
    assert section.data == b"abc"
    assert image.problems == []


def test_segments_that_follow_one_another_are_one_range() -> None:
    builder = ElfBuilder()
    builder.section(".a", b"abcd", address=0x1000)
    builder.section(".b", b"efgh", address=0x1004)
    builder.section(".c", b"ijkl", address=0x3000)
    image = Image.from_bytes(builder.build())
    assert image.bytes_at(0x1002, 4) == b"cdef"
    assert image.bytes_at(0x1002, -1) is None
    assert len(image.loaded_ranges) == 2
    assert repr(image.segments[0]) == "Segment(type=0x1, address=0x1000, size=0x4)"


def test_a_hole_over_several_segments() -> None:
    builder = ElfBuilder()
    for index, name in enumerate((".a", ".b", ".c")):
        builder.section(name, b"x" * 16, address=0x1000 + 0x1000 * index)
    builder.section(".absent", address=0x1008, size=0x1800)
    builder.section(".more", address=0x300C, size=4)
    for name in (".a", ".b", ".c"):
        builder.segment(elf.PT_LOAD, [name])
    image = Image.from_bytes(builder.build())
    assert [(start, end) for start, end, _ in image.loaded_ranges] == [(0x1000, 0x1008), (0x3000, 0x300C)]


def test_a_debug_file_has_no_bytes_where_its_segments_claim_some() -> None:
    builder = ElfBuilder()
    builder.section(".text", b"\1\2\3\4", address=0x1000, executable=True)
    builder.section(".rodata", b"\5\6", address=0x1004)
    builder.segment(elf.PT_LOAD, [".text", ".rodata"], flags=elf.PF_R | elf.PF_X)
    data = bytearray(builder.build())
    assert Image.from_bytes(data).bytes_at(0x1000, 6) == b"\1\2\3\4\5\6"
    header = Image.from_bytes(data).header
    data[header.section_offset + header.section_size + 4] = elf.SHT_NOBITS
    image = Image.from_bytes(data)
    assert image.bytes_at(0x1000, 1) is None
    assert image.bytes_at(0x1004, 2) == b"\5\6"
    assert image.bytes_at(0x1003, 2) is None


def test_segments_that_overlap_have_the_bytes_of_the_first() -> None:
    builder = ElfBuilder()
    builder.section(".a", b"aaaa", address=0x1000, executable=True)
    builder.section(".b", b"bbbb", address=0x1002, executable=True)
    image = Image.from_bytes(builder.build())
    assert image.bytes_at(0x1000, 4) == b"aaaa"
    assert image.bytes_at(0x1004, 2) == b"bb"
    assert image.code_ranges() == [(0x1000, 0x1006)]
    assert "two segments" in str(image.problems[0])


def test_an_object_file_is_laid_out_without_overlaps() -> None:
    builder = ElfBuilder(type=elf.ET_REL)
    builder.section(".data", bytes(5), flags=elf.SHF_ALLOC | elf.SHF_WRITE, alignment=8)
    builder.section(".text", bytes(range(0x13)), executable=True, alignment=16)
    builder.section(".text.unlikely", b"\xcc", executable=True, alignment=1)
    builder.section(".text.f", b"\x90\xc3", executable=True, alignment=16)
    builder.section(".comment", b"none")
    builder.section(".bss", size=0x10, flags=elf.SHF_ALLOC | elf.SHF_WRITE, alignment=32)
    builder.section(".odd", b"?", flags=elf.SHF_ALLOC, alignment=3)
    image = Image.from_bytes(builder.build())
    addresses = {image.sections[index].name: address for index, address in image.section_addresses().items()}
    # Code first, in the order of the file, from 0 on: 0x13 bytes, 1 byte, then 2 bytes aligned to 16.
    assert addresses[".text"] == 0
    assert addresses[".text.unlikely"] == 0x13
    assert addresses[".text.f"] == 0x20
    # The data follows: 5 bytes aligned to 8, 0x10 bytes aligned to 32.
    assert addresses[".data"] == 0x28
    assert addresses[".bss"] == 0x40
    assert addresses[".odd"] == 0x50
    assert addresses[".comment"] == 0
    assert "not a power of two" in str(image.problems[0])
    assert image.code_ranges() == [(0, 0x14), (0x20, 0x22)]
    assert image.bytes_at(0x20, 2) == b"\x90\xc3"
    assert image.bytes_at(0x12, 1) == b"\x12"
    assert image.bytes_at(0x40, 1) is None
    assert image.text_address() == 0


def test_sections_that_do_not_fit_into_the_address_space() -> None:
    builder = ElfBuilder(type=elf.ET_REL, bits=32)
    builder.section(".bss", size=0xFFFFFFF0, flags=elf.SHF_ALLOC)
    builder.section(".more", bytes(0x20), flags=elf.SHF_ALLOC)
    image = Image.from_bytes(builder.build())
    assert image.section_addresses() == dict.fromkeys(range(len(image.sections)), 0)
    assert "do not fit" in str(image.problems[0])


def test_the_global_offset_table() -> None:
    builder = ElfBuilder()
    builder.section(".got", bytes(8), address=0x3000)
    assert Image.from_bytes(builder.build()).got_address() == 0x3000
    builder.section(".got.plt", bytes(8), address=0x3100)
    assert Image.from_bytes(builder.build()).got_address() == 0x3100
    record = builder.layout.dynamic
    builder.section(".dynamic", record.pack(elf.DT_PLTGOT, 0x3200) + bytes(16), type=elf.SHT_DYNAMIC, address=0x4000)
    assert Image.from_bytes(builder.build()).got_address() == 0x3200


def test_names_are_found_as_bytes() -> None:
    builder = ElfBuilder()
    builder.section(".text", b"a")
    builder.section(".text.b", b"b")
    builder.section(".text", b"c")
    builder.section("caf\udce9", b"d")
    image = Image.from_bytes(builder.build())
    section = image.section(".text")
    assert section is not None
    assert section.data == b"a"
    assert image.section(".tex") is None
    assert image.sections[4].name == "caf\\xe9"
    assert image.section("\ud800") is None
    assert "'.text.b'" in repr(image.sections[2])
    assert "machine 62" in repr(image)


def test_problems_are_few_and_told_once() -> None:
    builder = ElfBuilder(type=elf.ET_REL)
    for index in range(1500):
        builder.section(f".{index}", bytes(1), flags=elf.SHF_ALLOC, alignment=3)
    image = Image.from_bytes(builder.build())
    image.section_addresses()
    assert len(image.problems) == 1000


def test_importing_the_room_does_not_load_numpy() -> None:
    code = (
        "import sys, clew.image; assert 'numpy' not in sys.modules\n"
        "image = clew.image.open_image(sys.executable); image.section('.eh_frame'); image.build_id\n"
        "assert 'numpy' not in sys.modules; clew.image.SymbolTable; assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="Missing"):
        clew.image.Missing  # noqa: B018
