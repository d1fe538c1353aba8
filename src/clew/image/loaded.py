"""An image read back from the memory it is loaded in, such as the vdso, or a library whose file was removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import FormatError, Problem
from clew.image import tables
from clew.image.elf import PT_LOAD, SHT_NOBITS, SHT_STRTAB, Header
from clew.image.segment import Segment
from clew.image.source import Source

if TYPE_CHECKING:
    from clew.memory import Memory

PAGE = 4096
"""The smallest unit in which memory is readable or not, on every machine that Linux runs on."""


class _Reader:
    """Copies runs of memory to their places in the file, and remembers which are there."""

    def __init__(self, memory: Memory, limit: int) -> None:
        self.memory = memory
        self.limit = limit
        self.data = bytearray()
        self.ranges: list[tuple[int, int]] = []

    def copy(self, address: int, offset: int, size: int) -> bool:
        """Copy as much as is readable and within the limit; whether that was all."""
        end = min(offset + size, self.limit)
        complete = end == offset + size
        if offset >= end:
            return complete
        piece = self.memory.read(address, end - offset)
        if piece is not None:
            self._store(offset, piece)
            return complete
        here = offset
        while here < end:
            # Up to the next page boundary of the memory.
            step = min(end - here, PAGE - (address + here - offset) % PAGE)
            piece = self.memory.read(address + here - offset, step)
            if piece is None:
                complete = False
            else:
                self._store(here, piece)
            here += step
        return complete

    def _store(self, offset: int, piece: bytes) -> None:
        end = offset + len(piece)
        if len(self.data) < end:
            self.data.extend(bytes(end - len(self.data)))
        self.data[offset:end] = piece
        self.ranges.append((offset, end))

    def source(self, name: str) -> Source:
        merged: list[tuple[int, int]] = []
        for start, end in sorted(self.ranges):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return Source(name, memoryview(bytes(self.data)), ranges=merged)


def read_loaded(memory: Memory, base: int, name: str, limit: int, report: tables.Report) -> tuple[Source, int, bool]:
    """The file whose first byte is at ``base``, as far as it is loaded; its load bias; whether it has section headers.

    Raises:
        FormatError: there is no ELF header at ``base``, or it cannot be read.
    """
    reader = _Reader(memory, max(limit, 64))
    # A header of the 32-bit class may stand at the very end of what is readable.
    if not (reader.copy(base, 0, 64) or reader.copy(base, 0, 52)):
        raise FormatError(f"the memory at {base:#x} cannot be read", file=name)
    header = tables.read_header(reader.source(name))
    reader.copy(base + header.segment_offset, header.segment_offset, header.segment_count * header.segment_size)
    source = reader.source(name)
    segments = [Segment(source, header.layout.bits, fields) for fields in tables.read_segments(source, header, report)]
    loads = [segment for segment in segments if segment.type == PT_LOAD and segment.file_size]
    # The segment that holds the ELF header tells how far the image was moved.
    first = next((segment for segment in loads if segment.offset == 0), loads[0] if loads else None)
    if first is None:
        raise FormatError(f"the image at {base:#x} has no loaded segment", file=name)
    modulus = 1 << header.layout.bits
    bias = (base - first.address + first.offset) % modulus
    budget = limit
    for segment in loads:
        size = min(segment.file_size, budget)
        budget -= size
        complete = reader.copy((bias + segment.address) % modulus, segment.offset, size)
        if not complete or size < segment.file_size:
            report(Problem("part of a segment is not readable, or beyond the size limit", offset=segment.offset))
    zero = (bias + loads[-1].address - loads[-1].offset) % modulus
    has_sections = _copy_sections(reader, header, name, zero)
    return reader.source(name), bias, has_sections


def _copy_sections(reader: _Reader, header: Header, name: str, zero: int) -> bool:
    """Copy the section headers, and what lies before them, where they were loaded along with the last segment.

    Returns whether they were.

    They are no part of any segment, but of the same pages in the vdso, which is mapped whole. In other images something
    else is there, so they are kept only if they make sense.

    Args:
        zero: where the file's first byte would be if all of it were loaded like the last segment.
    """
    start, size = header.section_offset, header.section_count * header.section_size
    loaded_end = max(end for _, end in reader.ranges)
    if not size or start + size > min(reader.limit, loaded_end + (1 << 16)):
        return False
    attempt = _Reader(reader.memory, reader.limit)
    attempt.data, attempt.ranges = bytearray(reader.data), list(reader.ranges)
    if start + size > loaded_end and not attempt.copy(zero + loaded_end, loaded_end, start + size - loaded_end):
        return False
    source = attempt.source(name)
    sections = list(tables.read_sections(source, header, lambda problem: None))
    names = tables.names_index(source, header)
    sensible = (
        len(sections) == header.section_count
        and sections[0][1:4] == (0, 0, 0)
        and 0 < names < len(sections)
        and sections[names][1] == SHT_STRTAB
        and all(kind == SHT_NOBITS or offset + length <= source.size for _, kind, _, _, offset, length, *_ in sections)
    )
    if sensible:
        reader.data, reader.ranges = attempt.data, attempt.ranges
    return sensible
