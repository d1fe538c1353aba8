"""What a file is called in Breakpad's world: the identifiers, the architecture and the name of a ``MODULE`` record.

Crash dumps name the modules of a program by these, and symbol files are found by them, so they are exactly those that
Breakpad's own ``dump_syms`` and its crash handlers make (``common/linux/file_id.cc`` and ``dump_symbols.cc``):

- The *identifier* is the build id, all of it. Without one, it is a hash of the first page of ``.text``: 16 bytes.
- The *code id* is the identifier in hexadecimal, upper case.
- The *debug id* is a GUID and an age. The GUID is the first 16 bytes of the identifier, padded with zeros, its three first
  fields (of 4, 2 and 2 bytes) byte-swapped whatever the file's byte order; the age is ``0``. 33 digits, upper case.
"""

from __future__ import annotations

import posixpath
from functools import reduce
from operator import xor

from clew.image import elf
from clew.image.dynamic import dynamic_bytes
from clew.image.image import Image
from clew.image.section import string_at, text

GUID_SIZE = 16
HASHED = 4096
"""How many bytes of ``.text`` are hashed at most."""

NO_ID = "0" * 33
"""The debug id of a file that has none."""

#: dump_symbols.cc, ElfArchitecture: by e_machine alone, so MIPS and RISC-V are called the same in 32 and 64 bits.
_ARCHITECTURES = {
    2: "sparc",
    3: "x86",
    8: "mips",
    20: "ppc",
    21: "ppc64",
    22: "s390",
    40: "arm",
    43: "sparcv9",
    62: "x86_64",
    183: "arm64",
    243: "riscv",
}


def identifier(image: Image) -> bytes | None:
    """The bytes that identify a file: its build id, else the hash of its code; None where there is neither.

    The hash is the exclusive or of the blocks of 16 bytes that begin in the first :data:`HASHED` bytes of ``.text``. Breakpad
    takes the last block whole, though the section may end in it; so what follows there in the file is part of the hash, and
    behind the end of the file zeros, which is what a mapping has there.
    """
    if image.build_id is not None:
        return image.build_id
    for section in image.sections:
        if section.is_named(b".text") and section.type == elf.SHT_PROGBITS and section.size:
            size = -(-min(section.size, HASHED) // GUID_SIZE) * GUID_SIZE
            code = bytes(image.source.slice(section.offset, size))
            if not code:
                return None
            code += bytes(-len(code) % GUID_SIZE)
            blocks = (int.from_bytes(code[at : at + GUID_SIZE], "big") for at in range(0, len(code), GUID_SIZE))
            return reduce(xor, blocks).to_bytes(GUID_SIZE, "big")
    return None


def debug_id(identifier: bytes | None) -> str:
    """The debug id of an identifier, as in ``MODULE`` records and minidumps; all zeros for None.

    >>> debug_id(bytes.fromhex("1234567890"))
    '785634120090000000000000000000000'
    """
    guid = (identifier or b"")[:GUID_SIZE].ljust(GUID_SIZE, b"\0")
    fields = (guid[3::-1], guid[5:3:-1], guid[7:5:-1], guid[8:])
    return b"".join(fields).hex().upper() + "0"


def code_id(identifier: bytes | None) -> str | None:
    """The code id of an identifier, as in ``INFO CODE_ID`` records; None for None.

    >>> code_id(bytes.fromhex("1234abcd"))
    '1234ABCD'
    """
    return None if identifier is None else identifier.hex().upper()


def load_address(image: Image) -> int:
    """The address, in the file's own numbering, that its first segment is loaded at: addresses in symbol files count from it."""
    return min((segment.address for segment in image.segments if segment.type == elf.PT_LOAD), default=0)


def architecture(image: Image) -> str:
    """The machine as ``dump_syms`` calls it; ``unknown`` where it has no name for it.

    The document has only the first few of these names; the others are what is written.
    """
    return _ARCHITECTURES.get(image.e_machine, "unknown")


def module_name(image: Image) -> str:
    """The name of the module: the shared object's own (``DT_SONAME``), else the last component of the file's path."""
    offset = image.dynamic.get(elf.DT_SONAME)
    if offset is not None:
        name = text(string_at(dynamic_bytes(image, elf.DT_STRTAB), offset))
        if name:
            return posixpath.basename(name) or name
    return posixpath.basename(image.name) or image.name
