"""The dynamic section, and the dynamic symbol table without section headers (gABI chapter 5, "Dynamic Section")."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from clew.errors import Error, Problem
from clew.image import elf
from clew.image.layout import range_at

if TYPE_CHECKING:
    from clew.image.image import Image


def read_dynamic(image: Image) -> dict[int, int]:
    """The first value of each tag, up to ``DT_NULL``; of the dynamic segment, else of the dynamic section."""
    data = memoryview(b"")
    for segment in image.segments:
        if segment.type == elf.PT_DYNAMIC:
            # In a debug file the segment has no bytes of its own, though its header may say so.
            data = image.bytes_at(segment.address, segment.file_size) or data
            break
    else:
        for section in image.sections:
            if section.type == elf.SHT_DYNAMIC:
                try:
                    data = section.expanded
                except Error as error:
                    image.report(Problem(error.message, section=section.name))
                break
    record = image.header.layout.dynamic
    values: dict[int, int] = {}
    for tag, value in record.iter_unpack(data[: len(data) - len(data) % record.size]):
        if tag == elf.DT_NULL:
            break
        values.setdefault(tag, value)
    return values


def dynamic_address(image: Image, tag: int) -> int | None:
    """The address that a tag gives, as the file has it, or None.

    A dynamic loader turns some of these addresses into those in memory, so in a loaded image both forms occur.
    """
    address = image.dynamic.get(tag)
    if address is None or not image.load_bias:
        return address
    linked = (address - image.load_bias) % (1 << image.elf_class)
    loads = [segment for segment in image.segments if segment.type == elf.PT_LOAD]
    if any(segment.address <= address < segment.end for segment in loads):
        return address
    return linked if any(segment.address <= linked < segment.end for segment in loads) else address


def dynamic_bytes(image: Image, tag: int, size: int | None = None) -> memoryview:
    """The bytes that a tag's address points to: ``size`` of them, or up to the end of their segment; else none."""
    address = dynamic_address(image, tag)
    there = range_at(image.loaded_ranges, address) if address is not None else None
    if address is None or there is None:
        return memoryview(b"")
    left = there[1] - address
    return image.source.slice(address - there[0] + there[2], left if size is None else min(size, left))


def symbol_tables(image: Image) -> tuple[memoryview, memoryview]:
    """The dynamic symbols and their string table, found through the dynamic section; both may be empty.

    Nothing there says how many symbols there are, but the hash tables do.
    """
    strings = dynamic_bytes(image, elf.DT_STRTAB, image.dynamic.get(elf.DT_STRSZ, 0))
    size = image.header.layout.symbol_size
    count = _count_by_hash(image)
    if count is None:
        count = _count_by_gnu_hash(image)
    symbols = dynamic_bytes(image, elf.DT_SYMTAB, (count or 0) * size)
    if len(symbols) < (count or 0) * size:
        image.report(Problem(f"the file holds {len(symbols) // size} of its {count} dynamic symbols"))
    return symbols, strings


def _count_by_hash(image: Image) -> int | None:
    # The words are 32 bits wide but on Alpha and 64-bit s390, whose ABIs made them 64.
    wide = image.elf_class == 64 and image.e_machine in (elf.EM_ALPHA, elf.EM_S390)
    record = Struct(image.header.layout.prefix + ("QQ" if wide else "II"))
    data = dynamic_bytes(image, elf.DT_HASH, record.size)
    return int(record.unpack(data)[1]) if len(data) == record.size else None


def _count_by_gnu_hash(image: Image) -> int | None:
    """One more than the highest symbol in the table: the end of the chain that starts last."""
    import numpy as np

    data = dynamic_bytes(image, elf.DT_GNU_HASH)
    prefix = image.header.layout.prefix
    if len(data) < 16:
        return None
    bucket_count, first, bloom_words, _ = Struct(prefix + "IIII").unpack_from(data)
    start = 16 + bloom_words * image.address_size
    words = np.frombuffer(data[: len(data) & ~3], f"{prefix}u4")[start // 4 :]
    if bucket_count > len(words):
        image.report(Problem("the table that counts the dynamic symbols is cut short"))
        return None
    last = int(words[:bucket_count].max()) if bucket_count else 0
    if last < first:
        return int(first)
    # Bit 0 marks the end of a chain.
    ends = np.flatnonzero(words[bucket_count + last - first :] & 1)
    if not len(ends):
        image.report(Problem("the table that counts the dynamic symbols is cut short"))
        return None
    return last + int(ends[0]) + 1
