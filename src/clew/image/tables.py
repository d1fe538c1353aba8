"""The ELF header and the two tables it points to, read from bytes that may say anything.

A file whose tables are damaged keeps what can be read of them; what is lost becomes a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from clew.errors import FormatError, Problem
from clew.image.elf import LAYOUTS, MAGIC, PN_XNUM, SHN_LORESERVE, SHN_XINDEX, ByteOrder, Header
from clew.image.source import Source

Report = Callable[[Problem], None]

OTHER_FORMATS = (
    (b"MZ", "a PE file (Windows)"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O file (macOS)"),
    (b"\xce\xfa\xed\xfe", "a Mach-O file (macOS)"),
    (b"\xca\xfe\xba\xbe", "a Mach-O universal file or a Java class"),
    (b"!<arch>\n", "an archive of object files"),
    (b"MDMP", "a minidump"),
    (b"MODULE ", "a Breakpad symbol file"),
    (b"\x1f\x8b", "compressed with gzip"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
)


CLASSES: Final = {1: 32, 2: 64}
ORDERS: Final[dict[int, ByteOrder]] = {1: "little", 2: "big"}


def read_header(source: Source) -> Header:
    """The ELF header.

    Raises:
        FormatError: the bytes are not an ELF file, or too few.
    """
    data = bytes(source.slice(0, 64))
    if not data.startswith(MAGIC):
        for magic, kind in OTHER_FORMATS:
            if data.startswith(magic):
                raise FormatError(f"this is not an ELF file but {kind}", file=source.name)
        raise FormatError("this is not an ELF file", file=source.name, hint="`file` may tell what it is")
    if len(data) < 16:
        raise FormatError("the ELF header is cut short", file=source.name, offset=len(data))
    bits, order = CLASSES.get(data[4]), ORDERS.get(data[5])
    if bits is None:
        raise FormatError(f"unknown ELF class {data[4]}", file=source.name, offset=4)
    if order is None:
        raise FormatError(f"unknown byte order {data[5]}", file=source.name, offset=5)
    layout = LAYOUTS[bits, order]
    if len(data) < layout.header.size:
        raise FormatError("the ELF header is cut short", file=source.name, offset=len(data))
    return Header(layout, data)


def _records(
    source: Source, record: Struct, offset: int, stride: int, count: int, what: str, report: Report
) -> Iterator[tuple[int, ...]]:
    """The entries of a table, as many as the file holds."""
    if stride < record.size:
        report(Problem(f"entries of {stride} bytes are too small for the {what} headers", offset=offset))
        return iter(())
    data = source.slice(offset, count * stride)
    # The last entry may be stored without its padding.
    there = (len(data) + stride - record.size) // stride
    if there < count:
        report(Problem(f"the file holds {there} of its {count} {what} headers", offset=offset))
        count = there
    if stride == record.size:
        return record.iter_unpack(data[: count * stride])
    return (record.unpack_from(data, index * stride) for index in range(count))


def first_section(source: Source, header: Header) -> tuple[int, ...] | None:
    """The fields of section 0, which holds the numbers that are too large for the ELF header (gABI, "ELF Header")."""
    record = header.layout.section
    data = source.slice(header.section_offset, record.size) if header.section_offset else b""
    return record.unpack(data) if len(data) == record.size else None


def read_sections(source: Source, header: Header, report: Report) -> Iterator[tuple[int, ...]]:
    """The fields of every section header, in order."""
    count = header.section_count
    if not header.section_offset:
        if count:
            report(Problem(f"the file is said to have {count} sections, but not where", lost=True))
        return iter(())
    if not count:
        first = first_section(source, header)
        count = first[5] if first is not None else 0
        if first is None:
            report(Problem("the section headers lie outside the file", offset=header.section_offset))
    record = header.layout.section
    return _records(source, record, header.section_offset, header.section_size, count, "section", report)


def names_index(source: Source, header: Header) -> int:
    """The index of the section that holds the names of sections; 0 for none."""
    if header.names_index == SHN_XINDEX:
        first = first_section(source, header)
        return first[6] if first is not None else 0
    return header.names_index if header.names_index < SHN_LORESERVE else 0


def read_segments(source: Source, header: Header, report: Report) -> Iterator[tuple[int, ...]]:
    """The fields of every program header, in order."""
    count = header.segment_count
    if not header.segment_offset or not count:
        if count:
            report(Problem(f"the file is said to have {count} segments, but not where", lost=True))
        return iter(())
    if count == PN_XNUM:
        first = first_section(source, header)
        # Without a section 0 the number is taken for what it is.
        count = first[7] if first is not None and first[7] else count
    record = header.layout.segment
    return _records(source, record, header.segment_offset, header.segment_size, count, "program", report)
