"""A function and its tables as a shared object that a dynamic linker loads (gABI chapters 4 and 5, without a linker's help)."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack

from clew.image.elf import (
    EM_X86_64,
    ET_DYN,
    PF_R,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_EH_FRAME,
    PT_GNU_STACK,
    PT_LOAD,
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_HASH,
    SHT_PROGBITS,
    SHT_STRTAB,
)
from clew.write.assembler.frames import HELPERS, eh_frame, eh_frame_hdr
from clew.write.assembler.function import Assembled

_PAGE = 0x1000
_HEADER, _SEGMENT, _SECTION, _SYMBOL = 64, 56, 64, 24
_SEGMENTS = 6
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT = 4, 5, 6, 10, 11
_ALLOC, _WRITE, _EXECUTE = 2, 1, 4


@dataclass(slots=True)
class _Section:
    """A section as its header tells of it."""

    name: str
    type: int
    flags: int
    data: bytes
    at: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 16
    entry: int = 0


def shared_object(assembled: Assembled) -> bytes:
    """The shared object: read-only tables, code, and what the dynamic linker wants, each with its own permissions.

    The dynamic section is writable, as dynamic linkers relocate it in place.
    """
    symbols = (assembled.symbol, "clew_unwind_information")
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in symbols)
    dynsym = _Section(".dynsym", SHT_DYNSYM, _ALLOC, bytes(_SYMBOL * 3), link=2, info=1, entry=_SYMBOL)
    dynstr = _Section(".dynstr", SHT_STRTAB, _ALLOC, strings, alignment=1)
    # One bucket, which chains both symbols.
    table = pack("<6I", 1, 3, 1, 0, 2, 0)
    hashes = _Section(".hash", SHT_HASH, _ALLOC, table, link=1, entry=4)
    rodata = _Section(".rodata", SHT_PROGBITS, _ALLOC, assembled.data)
    ends = sorted({0, assembled.code.labels[HELPERS], len(assembled.code.data)})
    # How to undo the frames of the function itself takes as many bytes wherever it is.
    length = len(eh_frame(assembled.code.frames, ends, 0))
    frames = _Section(".eh_frame", SHT_PROGBITS, _ALLOC, bytes(length), alignment=8)
    search = _Section(".eh_frame_hdr", SHT_PROGBITS, _ALLOC, bytes(len(eh_frame_hdr(b"", ends, 0, 0))), alignment=4)
    text = _Section(".text", SHT_PROGBITS, _ALLOC | _EXECUTE, bytes(len(assembled.code.data)), alignment=_PAGE)
    dynamic = _Section(".dynamic", SHT_DYNAMIC, _ALLOC | _WRITE, bytes(16 * 6), link=2, alignment=_PAGE, entry=16)
    names = _Section(".shstrtab", SHT_STRTAB, 0, b"", alignment=1)
    sections = [dynsym, dynstr, hashes, rodata, search, frames, text, dynamic, names]
    names.data = b"\0" + b"".join(section.name.encode() + b"\0" for section in sections)
    place = _HEADER + _SEGMENTS * _SEGMENT
    for section in sections:
        place += -place % section.alignment
        section.at = place
        place += len(section.data)
    text.data = assembled.code.finish({name: rodata.at + at - text.at for name, at in assembled.places.items()})
    frames.data = eh_frame(assembled.code.frames, ends, text.at - frames.at)
    search.data = eh_frame_hdr(frames.data, ends, frames.at - search.at, text.at - search.at)
    dynsym.data = bytes(_SYMBOL) + b"".join(
        pack("<IBBHQQ", strings.index(name.encode() + b"\0"), 1 << 4 | kind, 0, index, address, size)
        for name, kind, index, address, size in (
            (symbols[0], 2, 7, text.at, len(text.data)),
            (symbols[1], 1, 4, rodata.at + assembled.places[symbols[1]], len(assembled.information.pack())),
        )
    )
    entries = (_DT_HASH, hashes.at), (_DT_STRTAB, dynstr.at), (_DT_SYMTAB, dynsym.at), (_DT_STRSZ, len(strings))
    dynamic.data = b"".join(pack("<QQ", *entry) for entry in (*entries, (_DT_SYMENT, _SYMBOL), (0, 0)))
    headers = place + -place % 8
    out = bytearray(headers)
    for section in sections:
        out[section.at : section.at + len(section.data)] = section.data
    out[:_HEADER] = _header(headers, len(sections) + 1)
    out[_HEADER : _HEADER + _SEGMENTS * _SEGMENT] = _segments(search, frames, text, dynamic)
    return bytes(out) + bytes(_SECTION) + b"".join(_section_header(section, names.data) for section in sections)


def _header(sections: int, count: int) -> bytes:
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    kind = pack("<HHIQQQI", ET_DYN, EM_X86_64, 1, 0, _HEADER, sections, 0)
    sizes = pack("<HHHHHH", _HEADER, _SEGMENT, _SEGMENTS, _SECTION, count, count - 1)
    return ident + kind + sizes


def _segments(search: _Section, frames: _Section, text: _Section, dynamic: _Section) -> bytes:
    def segment(kind: int, flags: int, at: int, size: int, alignment: int) -> bytes:
        return pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, alignment)

    return b"".join(
        (
            segment(PT_LOAD, PF_R, 0, frames.at + len(frames.data), _PAGE),
            segment(PT_LOAD, PF_R | PF_X, text.at, len(text.data), _PAGE),
            segment(PT_LOAD, PF_R | PF_W, dynamic.at, len(dynamic.data), _PAGE),
            segment(PT_DYNAMIC, PF_R | PF_W, dynamic.at, len(dynamic.data), 8),
            segment(PT_GNU_EH_FRAME, PF_R, search.at, len(search.data), 4),
            segment(PT_GNU_STACK, PF_R | PF_W, 0, 0, 16),
        )
    )


def _section_header(section: _Section, names: bytes) -> bytes:
    name = names.index(b"\0" + section.name.encode() + b"\0") + 1
    address = section.at if section.flags & _ALLOC else 0
    return pack(
        "<IIQQQQIIQQ",
        name,
        section.type,
        section.flags,
        address,
        section.at,
        len(section.data),
        section.link,
        section.info,
        section.alignment,
        section.entry,
    )
