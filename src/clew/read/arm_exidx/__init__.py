"""The unwind tables of 32-bit Arm: the Exception Handling ABI's index table.

section = exidx_section(image)
if section is not None:
    table = section.table()
"""

from __future__ import annotations

from clew.read.arm_exidx.image import exidx_section
from clew.read.arm_exidx.instructions import Instruction, decode
from clew.read.arm_exidx.rules import CANNOT_UNWIND, rule_of
from clew.read.arm_exidx.section import CANTUNWIND, ExidxEntry, ExidxSection

__all__ = [
    "CANNOT_UNWIND",
    "CANTUNWIND",
    "ExidxEntry",
    "ExidxSection",
    "Instruction",
    "decode",
    "exidx_section",
    "rule_of",
]
