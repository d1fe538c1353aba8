"""Addresses: where an object file's sections would go, and which bytes and which code are where."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from clew.errors import Error, Problem
from clew.image.elf import ET_REL, PF_X, PT_LOAD, SHF_TLS, SHT_NOBITS

if TYPE_CHECKING:
    from clew.image.image import Image
    from clew.image.section import Section
    from clew.image.tables import Report


def lay_out(sections: Sequence[Section], bits: int, report: Report) -> dict[int, int]:
    """An address for every section of an object file, in the order of their indices; see :meth:`Image.section_addresses`."""
    addresses = {section.index: 0 for section in sections}
    here = 0
    for section in sorted(sections, key=lambda section: not section.executable):
        if not section.allocated:
            continue
        alignment = section.alignment
        if alignment & (alignment - 1):
            report(Problem(f"the alignment {alignment} is not a power of two", section=section.name, lost=False))
            alignment = 1
        start = here + -here % alignment if alignment else here
        if start + section.size > 1 << bits:
            report(Problem("the sections do not fit into the address space", section=section.name))
            continue
        addresses[section.index] = start
        here = start + section.size
    return addresses


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same ranges sorted, with those that overlap or touch made one."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((start, end))
    return result


def code_ranges(image: Image) -> list[tuple[int, int]]:
    """Where machine code is; see :meth:`Image.code_ranges`."""
    limit = 1 << image.elf_class
    loaded = [segment for segment in image.segments if segment.type == PT_LOAD]
    if loaded and image.type != ET_REL:
        ranges = [(segment.address, min(segment.end, limit)) for segment in loaded if segment.flags & PF_X]
    else:
        addresses = image.section_addresses()
        ranges = [
            (addresses[section.index], min(addresses[section.index] + section.size, limit))
            for section in image.sections
            if section.executable and section.allocated
        ]
    return _merged((start, end) for start, end in ranges if start < end)


def loaded_ranges(image: Image) -> list[tuple[int, int, int]]:
    """``(address, end, file offset)`` of everything that the file loads from its own bytes, in the file's order.

    A debug file keeps the program headers of the program but not the bytes they describe: there the section headers
    say ``SHT_NOBITS`` about an address where a segment claims bytes. They are believed.
    """
    loaded: list[tuple[int, int, int]] = []
    for segment in sorted(image.segments, key=lambda segment: segment.address):
        if segment.type != PT_LOAD or not segment.file_size:
            continue
        start, end, offset = segment.address, segment.address + segment.file_size, segment.offset
        if loaded:
            _, previous_end, previous_offset = loaded[-1]
            if start < previous_end:
                image.report(Problem(f"two segments are loaded at {start:#x}", lost=end > previous_end))
                offset += previous_end - start
                start = previous_end
            if start == previous_end and offset == previous_offset + previous_end - loaded[-1][0] and start < end:
                loaded[-1] = loaded[-1][0], end, previous_offset
                continue
        if start < end:
            loaded.append((start, end, offset))
    return list(_without(loaded, absent_ranges(image)))


def absent_ranges(image: Image) -> list[tuple[int, int]]:
    """The addresses for which the section headers say that the file has no bytes."""
    return _merged(
        (section.address, section.address + section.size)
        for section in image.sections
        if section.type == SHT_NOBITS and section.allocated and section.size and not section.flags & SHF_TLS
    )


def _without(ranges: list[tuple[int, int, int]], holes: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """The ranges, both lists sorted and without overlaps, cut where the holes are."""
    first = 0
    for start, end, offset in ranges:
        while first < len(holes) and holes[first][1] <= start:
            first += 1
        index, here = first, start
        while index < len(holes) and holes[index][0] < end:
            if here < holes[index][0]:
                yield here, holes[index][0], offset + here - start
            here = holes[index][1]
            index += 1
        if here < end:
            yield here, end, offset + here - start
        # The last hole may reach into the next range, those before it do not.
        first = max(first, index - 1)


def range_at(ranges: list[tuple[int, int, int]], address: int) -> tuple[int, int, int] | None:
    """The range that contains an address, or None."""
    index = bisect_right(ranges, address, key=lambda each: each[0]) - 1
    return ranges[index] if index >= 0 and address < ranges[index][1] else None


def bytes_at(image: Image, address: int, size: int) -> memoryview | None:
    """The bytes at an address; see :meth:`Image.bytes_at`."""
    if size < 0:
        return None
    if image.type == ET_REL:
        return _object_bytes(image, address, size)
    found = range_at(image.loaded_ranges, address)
    if found is None or address + size > found[1]:
        return None
    data = image.source.slice(address - found[0] + found[2], size)
    return data if len(data) == size else None


def object_ranges(image: Image) -> list[tuple[int, int, int]]:
    """Where the sections of an object file are that have bytes: ``(address, end, section index)``, by address."""
    addresses = image.section_addresses()
    return sorted(
        (addresses[section.index], addresses[section.index] + section.size, section.index)
        for section in image.sections
        if section.allocated and section.has_data and section.size
    )


def _object_bytes(image: Image, address: int, size: int) -> memoryview | None:
    found = range_at(image.loaded_ranges, address)
    if found is None or address + size > found[1]:
        return None
    section = image.sections[found[2]]
    try:
        # In machine code a relocation changes parts of instructions, which the tables of this room do not cover.
        data = section.expanded if section.executable else section.data_at_layout
    except Error as error:
        image.report(Problem(error.message, section=section.name))
        return None
    inside = address - found[0]
    return data[inside : inside + size] if inside + size <= len(data) else None
