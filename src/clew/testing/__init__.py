"""Builders of call frame information, of DWARF and of small binary files in memory, for everybody's tests."""

from __future__ import annotations

from clew.testing.cfi import CfiBuilder, Cie, Fde
from clew.testing.cfi_instructions import ByteOrder, Cfa, Instruction, Late, Op, fixed, sleb, uleb
from clew.testing.cfi_pointers import PointerEncoder, eh_frame_hdr
from clew.testing.dwarf import DwarfBuilder
from clew.testing.dwarf_lines import LineProgramBuilder
from clew.testing.elf import ElfBuilder
from clew.testing.examples import MOTOROLA_88000, MOTOROLA_88000_ROWS, motorola_88000

__all__ = [
    "MOTOROLA_88000",
    "MOTOROLA_88000_ROWS",
    "ByteOrder",
    "Cfa",
    "CfiBuilder",
    "Cie",
    "DwarfBuilder",
    "ElfBuilder",
    "Fde",
    "Instruction",
    "Late",
    "LineProgramBuilder",
    "Op",
    "PointerEncoder",
    "eh_frame_hdr",
    "fixed",
    "motorola_88000",
    "sleb",
    "uleb",
]
