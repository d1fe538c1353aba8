"""Files that sampled processes map, for the tests of recordings."""

from __future__ import annotations

from pathlib import Path

from clew.testing import Cfa, CfiBuilder, ElfBuilder

PAGE = 0x1000
CODE_OFFSET = 0x2000
CODE_ADDRESS = 0x3000
"""Where the file's code is in it, and where it was linked: not the same, as in files of lld and newer linkers."""


def library(path: Path, build_id: bytes, size: int = PAGE) -> Path:
    """Writes a shared library for x86-64: code that does nothing, and call frame information for all of it."""
    elf = ElfBuilder()
    frames_at = CODE_ADDRESS + size
    cfi = CfiBuilder(byte_order="little", address_size=8, address=frames_at)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    cfi.fde(cie, start=CODE_ADDRESS, size=size, instructions=[])
    elf.section(".first", bytes(PAGE), address=PAGE)
    elf.section(".text", b"\x90" * size, address=CODE_ADDRESS, executable=True)
    elf.section(".eh_frame", cfi.build(), address=frames_at)
    elf.segment(1, (".text", ".eh_frame"), flags=5)
    elf.build_id(build_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(elf.build())
    return path
