"""Call frame information: ``.eh_frame`` and ``.debug_frame`` (DWARF 5, 6.4; LSB 5, 10.5).

Three layers, each public and lazily iterable: entries (CIEs and FDEs), their instructions, and the rows that the instructions
make. A :class:`~clew.table.Table` of all rows comes from the compiled core.

>>> from clew.read.dwarf_cfi import CfiSection
>>> from clew.testing import CfiBuilder, Cfa
>>> cfi = CfiBuilder(address=0x2000)
>>> cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
>>> _ = cfi.fde(cie, start=0x1000, size=0x20, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(16)])
>>> section = CfiSection(cfi.build(), address=0x2000)
>>> [entry.kind for entry in section.entries()]
['CIE', 'FDE']
>>> print(section.table().lookup(0x1001).rule.text(section.machine))
cfa = rsp+16  rip = *(cfa-8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew._lazy import lazily

if TYPE_CHECKING:
    from clew.read.dwarf_cfi.entries import Cie, Entry, Fde, Terminator
    from clew.read.dwarf_cfi.header import EhFrameHeader, HeaderEntry
    from clew.read.dwarf_cfi.instructions import Instruction, instruction_name
    from clew.read.dwarf_cfi.origins import Explanation, Origin, explain
    from clew.read.dwarf_cfi.section import CfiSection

_HOMES = {
    "clew.read.dwarf_cfi.entries": (
        "Cie",
        "Entry",
        "Fde",
        "Terminator",
    ),
    "clew.read.dwarf_cfi.origins": (
        "Explanation",
        "Origin",
        "explain",
    ),
    "clew.read.dwarf_cfi.header": (
        "EhFrameHeader",
        "HeaderEntry",
    ),
    "clew.read.dwarf_cfi.instructions": (
        "Instruction",
        "instruction_name",
    ),
    "clew.read.dwarf_cfi.section": ("CfiSection",),
}

__all__ = [
    "CfiSection",
    "Cie",
    "EhFrameHeader",
    "Entry",
    "Explanation",
    "Fde",
    "HeaderEntry",
    "Instruction",
    "Origin",
    "Terminator",
    "explain",
    "instruction_name",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
