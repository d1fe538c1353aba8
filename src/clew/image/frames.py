"""Where the exception-handling frames are, with and without section headers (LSB Core, "Exception Frames")."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from clew.errors import Error, Problem
from clew.image.elf import ET_REL, PT_GNU_EH_FRAME
from clew.image.layout import range_at

if TYPE_CHECKING:
    from clew.image.image import Image

# Pointer encodings, as far as a linker uses them for eh_frame_ptr (LSB Core, "DWARF Exception Header Encoding").
_FORMATS = {0x2: "H", 0x3: "I", 0x4: "Q", 0xA: "h", 0xB: "i", 0xC: "q"}
_ABSPTR, _PCREL, _DATAREL, _OMIT = 0x00, 0x10, 0x30, 0xFF


def find_eh_frame_hdr(image: Image) -> tuple[int, memoryview] | None:
    """Address and bytes of ``.eh_frame_hdr``; see :meth:`Image.eh_frame_hdr`."""
    for segment in image.segments:
        if segment.type == PT_GNU_EH_FRAME:
            data = image.bytes_at(segment.address, segment.file_size)
            if data:
                return segment.address, data
    return _section(image, ".eh_frame_hdr")


def find_eh_frame(image: Image) -> tuple[int, memoryview] | None:
    """Address and bytes of ``.eh_frame``; see :meth:`Image.eh_frame`."""
    found = _section(image, ".eh_frame")
    if found is not None or image.type == ET_REL:
        return found
    header = find_eh_frame_hdr(image)
    if header is None:
        return None
    address = _eh_frame_pointer(image, *header)
    if address is None:
        return None
    there = range_at(image.loaded_ranges, address)
    data = image.source.slice(address - there[0] + there[2], there[1] - address) if there else memoryview(b"")
    if not data:
        image.report(Problem("it points to no part of the file", section=".eh_frame_hdr"))
        return None
    return address, data


def _section(image: Image, name: str) -> tuple[int, memoryview] | None:
    section = image.section(name)
    if section is None or not section.has_data:
        return None
    try:
        data = section.data
    except Error as error:
        image.report(Problem(error.message, section=name))
        return None
    return (section.address, data) if data else None


def _eh_frame_pointer(image: Image, address: int, data: memoryview) -> int | None:
    """The address that the header gives for ``.eh_frame``: version, three encodings, then the pointer."""
    if len(data) < 4 or data[0] != 1 or data[1] == _OMIT:
        image.report(Problem("it does not say where .eh_frame is", section=".eh_frame_hdr"))
        return None
    application, form = data[1] & 0x70, data[1] & 0x8F
    code = _FORMATS.get(form, "Q" if image.elf_class == 64 else "I") if form in (0, *_FORMATS) else None
    if code is None or application not in (_ABSPTR, _PCREL, _DATAREL):
        image.report(Problem(f"the pointer encoding {data[1]:#x} is not read", section=".eh_frame_hdr"))
        return None
    record = Struct(image.header.layout.prefix + code)
    if len(data) < 4 + record.size:
        image.report(Problem("it is cut short", section=".eh_frame_hdr", offset=len(data)))
        return None
    base = {_ABSPTR: 0, _PCREL: address + 4, _DATAREL: address}[application]
    return int(base + record.unpack_from(data, 4)[0]) % (1 << image.elf_class)
