"""Notes and the build id."""

from __future__ import annotations

import struct

import pytest

from clew.image import Image, Note, elf
from clew.testing.elf import ElfBuilder


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("headers", [False, True])
def test_notes_of_sections_and_of_segments(byte_order: elf.ByteOrder, headers: bool) -> None:
    builder = ElfBuilder(byte_order=byte_order, section_headers=headers)
    builder.note(b"stapsdt", 3, b"hello", address=0x100)
    builder.note(b"", 7, b"")
    builder.build_id(bytes(range(20)), address=0x200)
    builder.segment(elf.PT_NOTE, [".note"])
    builder.segment(elf.PT_NOTE, [".note.gnu.build-id"])
    image = Image.from_bytes(builder.build())
    assert list(image.notes()) == [
        Note(b"stapsdt", 3, b"hello"),
        Note(b"", 7, b""),
        Note(b"GNU", elf.NT_GNU_BUILD_ID, bytes(range(20))),
    ]
    assert image.build_id == bytes(range(20))
    assert image.problems == []


def test_notes_aligned_to_eight() -> None:
    # .note.gnu.property: the description of 12 bytes is padded to 16.
    builder = ElfBuilder()
    builder.note(b"GNU", 5, b"x" * 12, section=".note.gnu.property", alignment=8)
    builder.note(b"GNU", 5, b"y", section=".note.gnu.property", alignment=8)
    image = Image.from_bytes(builder.build())
    assert [note.description for note in image.notes()] == [b"x" * 12, b"y"]


def test_no_build_id() -> None:
    builder = ElfBuilder()
    builder.note(b"Go", 3, b"not that of GNU")
    assert Image.from_bytes(builder.build()).build_id is None


def test_a_note_that_is_cut_ends_its_section() -> None:
    builder = ElfBuilder()
    builder.note(b"one", 1, b"1")
    good = struct.calcsize("III") + 4 + 4
    section = struct.pack("<IIII", 4, 0xFFFFFFFF, 1, 0)
    builder.note(b"two", 1, section)
    data = builder.build()
    image = Image.from_bytes(data.replace(struct.pack("<III", 4, 16, 1), struct.pack("<III", 4, 0x7FFFFFFF, 1)))
    assert list(image.notes()) == [Note(b"one", 1, b"1")]
    assert str(image.problems[0]) == f".note: {good:#x}: a note is cut short or its sizes are wrong"


def test_headers_that_all_point_to_the_same_notes() -> None:
    builder = ElfBuilder()
    builder.section(".pad", bytes(4096))
    builder.note(b"GNU", 1, bytes(4000))
    data = bytearray(builder.build())
    image = Image.from_bytes(bytes(data))
    record = data[image.header.section_offset + 2 * 64 :][:64]
    data[image.header.section_offset :] = bytes(64) + bytes(record) * 5000
    data[60:62] = (5001).to_bytes(2, "little")
    image = Image.from_bytes(data)
    # 328 kilobytes of file are read at most twice over.
    assert len(list(image.notes())) < 200
    assert any("overlap" in str(problem) for problem in image.problems)
