"""What is measured: files of this machine, their call frame information in memory, and clew's part with it."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.arch import Machine
    from clew.table import Table


@dataclass(frozen=True)
class Cfi:
    """A section of call frame information, copied into memory, and what its pointers stand on."""

    data: bytes
    name: str
    address: int
    machine: Machine
    text: int | None
    got: int | None


def libc() -> str:
    """The C library that this very process runs on."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            # Mapped to be run: others may be mapped to be read.
            if " r-xp " in line and (found := re.search(r"(/\S*/(?:libc[.-]|ld-musl)\S*)$", line)):
                return found[1]
    raise SystemExit("no C library is mapped here: name a file by --file")


def libllvm() -> str | None:
    """A libLLVM of this machine, the usual large example; None where there is none."""
    return min(glob.glob("/usr/lib/*/libLLVM*.so*"), default=None)


def load(path: str) -> Cfi:
    """The ``.eh_frame`` (else ``.debug_frame``) of a file."""
    from clew.arch import machine_for
    from clew.image import Image

    with Image.open(path) as image:
        machine = machine_for(image.e_machine, image.elf_class, image.byte_order)
        name = ".eh_frame"
        found = image.eh_frame()
        if found is None:
            name = ".debug_frame"
            section = image.section(name)
            if section is None:
                raise SystemExit(f"{path}: no call frame information")
            found = section.address, section.data
        address, data = found
        return Cfi(bytes(data), name, address, machine, image.text_address(), image.got_address())


def decode(cfi: Cfi) -> Table:
    """What is measured of clew: from a section's bytes to the sorted Table of all its rows."""
    from clew.read.dwarf_cfi import CfiSection

    section = CfiSection(
        cfi.data, name=cfi.name, address=cfi.address, machine=cfi.machine, text_base=cfi.text, data_base=cfi.got
    )
    return section.table()
