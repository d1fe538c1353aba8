"""What the parts of an ELF file under construction look like as bytes; see :mod:`clew.testing.elf`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from struct import pack
from typing import Literal

from clew.errors import UsageError
from clew.image import elf
from clew.image.elf import Layout

Compression = Literal["zlib", "zstd", "zdebug"]


@dataclass
class Section:
    """A section; ``link`` and ``info`` may be the name of another."""

    name: str
    data: bytes
    type: int
    flags: int
    address: int
    size: int
    alignment: int
    entry_size: int
    link: str | int
    info: str | int
    offset: int = 0


@dataclass
class Symbol:
    """A symbol; its section is an index or a name."""

    name: str
    value: int
    size: int
    section: str | int
    type: int
    binding: int
    other: int


@dataclass
class Segment:
    """A segment, from the first of its sections to the last."""

    type: int
    flags: int
    sections: tuple[str, ...]
    alignment: int


@dataclass
class Relocation:
    """A relocation; its symbol is an index or a name."""

    offset: int
    type: int
    symbol: str | int
    addend: int


def compressed(layout: Layout, data: bytes, method: Compression, alignment: int) -> bytes:
    """The contents of a compressed section, with the header that says how and how large."""
    if method == "zdebug":
        return b"ZLIB" + len(data).to_bytes(8, "big") + zlib.compress(data)
    if method == "zlib":
        number, body = elf.ELFCOMPRESS_ZLIB, zlib.compress(data)
    else:
        import zstandard

        number, body = elf.ELFCOMPRESS_ZSTD, zstandard.ZstdCompressor().compress(data)
    fields = (number, 0, len(data), alignment) if layout.bits == 64 else (number, len(data), alignment)
    return layout.compression.pack(*fields) + body


def symbol_record(layout: Layout, symbol: Symbol, name: int, section: int) -> bytes:
    """One entry of a symbol table: ``name`` is an offset in the table of strings, ``section`` is ``st_shndx``."""
    info = symbol.binding << 4 | symbol.type
    prefix = layout.prefix
    if layout.bits == 64:
        return pack(prefix + "IBBHQQ", name, info, symbol.other, section, symbol.value, symbol.size)
    return pack(prefix + "IIIBBH", name, symbol.value, symbol.size, info, symbol.other, section)


def relocation_record(layout: Layout, machine: int, entry: Relocation, symbol: int, addends: bool) -> bytes:
    """One entry of a relocation section, with its addend or without."""
    bits, prefix = layout.bits, layout.prefix
    if bits == 32:
        info = pack(prefix + "I", symbol << 8 | entry.type)
    elif machine == elf.EM_MIPS:
        # A symbol, a special symbol, and three types from the last to the first, in either byte order.
        info = pack(prefix + "I", symbol) + b"\0" + entry.type.to_bytes(3, "big")
    else:
        info = pack(prefix + "Q", symbol << 32 | entry.type)
    word = "Q" if bits == 64 else "I"
    record = pack(prefix + word, entry.offset) + info
    return record + pack(prefix + word, entry.addend % (1 << bits)) if addends else record


def segment_record(layout: Layout, segment: Segment, parts: list[Section]) -> bytes:
    """One program header, of a segment that holds these sections."""
    if parts:
        first, last = parts[0], parts[-1]
        offset, address = first.offset, first.address
        memory_size = last.address + last.size - address if last.address else last.size
        with_data = [part for part in parts if part.type != elf.SHT_NOBITS]
        file_size = with_data[-1].offset + with_data[-1].size - offset if with_data else 0
    else:
        offset = address = file_size = memory_size = 0
    if layout.bits == 64:
        fields = (segment.type, segment.flags, offset, address, address, file_size, memory_size, segment.alignment)
    else:
        fields = (segment.type, offset, address, address, file_size, memory_size, segment.flags, segment.alignment)
    return layout.segment.pack(*fields)


def padded(data: bytes, alignment: int) -> bytes:
    """The bytes with zeros behind them up to a multiple of the alignment."""
    return data + bytes(-len(data) % alignment)


def index(section: str | int, names: list[str]) -> int:
    """The index of a section given by index or by name."""
    if isinstance(section, int):
        return section
    if section not in names:
        raise UsageError(f"there is no section {section}", hint=f"add a section {section} first")
    return names.index(section)


def string_table(names: list[str]) -> tuple[bytes, dict[str, int]]:
    """A table that holds each name once, and where each is."""
    table = b"\0"
    offsets = {"": 0}
    for name in names:
        if name not in offsets:
            offsets[name] = len(table)
            table += name.encode("utf-8", "surrogateescape") + b"\0"
    return table, offsets
