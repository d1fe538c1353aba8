"""Notes: named, typed pieces of information beside the program (gABI chapter 5, "Note Section")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from clew.errors import Problem
from clew.image.elf import NT_GNU_BUILD_ID, PT_NOTE, SHT_NOTE

if TYPE_CHECKING:
    from clew.image.image import Image


@dataclass(frozen=True, slots=True)
class Note:
    """One note.

    Attributes:
        name: who defined the type, for example ``b"GNU"``; without the null byte that ends it in the file.
        type: its type, whose meaning depends on the name.
        description: the contents.
    """

    name: bytes
    type: int
    description: bytes


def _tables(image: Image) -> Iterator[tuple[str | None, int, memoryview, int]]:
    """Name, file offset, bytes and alignment of everything that holds notes."""
    # Headers that all point to the same bytes must not make them be read once for each.
    budget = 2 * image.source.size
    sections = [section for section in image.sections if section.type == SHT_NOTE and section.size]
    for section in sections:
        budget -= len(section.raw)
        if budget < 0:
            image.report(Problem("the notes overlap; the rest of them is not read", section=section.name))
            return
        yield section.name, section.offset, section.raw, section.alignment
    if sections:
        return
    for segment in image.segments:
        if segment.type == PT_NOTE:
            budget -= len(segment.data)
            if budget < 0:
                image.report(Problem("the notes overlap; the rest of them is not read", offset=segment.offset))
                return
            yield None, segment.offset, segment.data, segment.alignment


def read_notes(image: Image) -> Iterator[Note]:
    """Every note of the image, in the file's order. What is cut or malformed ends its table and becomes a problem."""
    record = Struct(image.header.layout.prefix + "III")
    for section, start, data, alignment in _tables(image):
        # The gABI aligns 64-bit notes to 8, everybody to 4, but GNU property notes, whose alignment says 8.
        alignment = 8 if alignment == 8 else 4
        position = 0
        while position + record.size <= len(data):
            name_size, size, kind = record.unpack_from(data, position)
            name_start = position + record.size
            description_start = name_start + name_size + -(name_start + name_size) % alignment
            if description_start + size > len(data):
                offset = position if section else start + position
                image.report(Problem("a note is cut short or its sizes are wrong", section=section, offset=offset))
                break
            name = bytes(data[name_start : name_start + name_size]).rstrip(b"\0")
            yield Note(name, kind, bytes(data[description_start : description_start + size]))
            position = description_start + size + -(description_start + size) % alignment


def build_id(image: Image) -> bytes | None:
    """The first GNU build id among the notes, or None."""
    for note in read_notes(image):
        if note.type == NT_GNU_BUILD_ID and note.name == b"GNU" and note.description:
            return note.description
    return None
