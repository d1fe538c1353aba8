"""How a packed table lies in memory: what ``native/packed.h`` says, for Python.

The header file is the definition; a test holds the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from clew.arch import Default, Machine
from clew.arch.aarch64 import AARCH64
from clew.arch.x86_64 import X86_64
from clew.native.packed_rows import BUCKET_BITS as BUCKET_BITS
from clew.native.packed_rows import PAGE_BITS as PAGE_BITS
from clew.native.packed_rows import PAGE_BUCKETS
from clew.native.packed_rows import ROW_PADDING as ROW_PADDING

MAGIC: Final = b"clw-pack"
VERSION: Final = 1

MOST_SEGMENTS: Final = 64
MOST_STEPS: Final = 1024
MOST_DEPTH: Final = 16
"""Numbers on the stack of an expression."""
MOST_CELLS: Final = 64

PAGE_STRIDE: Final = PAGE_BUCKETS + 1
"""Buckets of a page, that of its last row included."""

ESCAPED: Final = 0xFFFF
CELL_OF_CFA: Final = 255

DAMAGED: Final = "remove it and make it anew: clew compile --backend packed FILE"
"""What to do about a table that is not sound."""

PARTS: Final = ("segments", "pages", "buckets", "rows", "escapes", "rules", "cells", "steps")

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u2"),
        ("machine", "u1"),
        ("build_id_size", "u1"),
        ("checksum", "<u4"),
        ("size", "<u8"),
        *((name, [("offset", "<u4"), ("count", "<u4")]) for name in PARTS),
        ("build_id", "V32"),
        ("source", "<u8"),
    ]
)
CHECKED_FROM: Final = 16
"""Where the bytes begin that the checksum is of."""

SEGMENT = np.dtype([("start", "<u8"), ("size", "<u8"), ("page", "<u4"), ("pages", "<u4"), ("reserved", "<u8")])
ESCAPE = np.dtype([("row", "<u4"), ("rule", "<u4")])
RULE = np.dtype(
    [
        ("cfa_offset", "<i4"),
        ("cfa", "u1"),
        ("flags", "u1"),
        ("base", "<u2"),
        ("saved", "<u4"),
        ("same", "<u4"),
        ("slot", "u1", 16),
    ]
)
CELL = np.dtype([("reg", "u1"), ("kind", "u1"), ("other", "<u2"), ("value", "<i4")])
STEP = np.dtype([("kind", "u1"), ("operand", "u1"), ("reserved", "<u2"), ("value", "<i4")])

RECORDS: Final = {
    "segments": SEGMENT,
    "pages": np.dtype("<u4"),
    "buckets": np.dtype("<u2"),
    "rows": np.dtype("<u4"),
    "escapes": ESCAPE,
    "rules": RULE,
    "cells": CELL,
    "steps": STEP,
}
"""The records of each part."""

# enum clew_cfa
CFA_NONE, CFA_REGISTER, CFA_LOADED, CFA_EXPRESSION = range(4)
# enum clew_rule_flags
SIGNAL, OUTERMOST, SIGNED, CELLS = 1, 2, 4, 8
STUB_SHIFT: Final = 4
# enum clew_cell_kind
AT_CFA, CFA_PLUS, IN_REGISTER, AT_REGISTER, AT_EXPRESSION, IS_EXPRESSION, BAD = range(1, 8)

#: enum clew_step_kind: PUSH, HIGH and on, by the names that :attr:`clew.table.Expression.canonical` has for most.
STEP_NAMES: Final = (
    "",
    *("push", "high", "register", "deref", "pick", "skip", "bra"),
    *("drop", "swap", "rot", "abs", "neg", "not"),
    *("plus", "minus", "mul", "div", "mod", "and", "or", "xor", "shl", "shr", "shra"),
    *("eq", "ne", "ge", "gt", "le", "lt"),
)
STEP_NUMBERS: Final = {name: number for number, name in enumerate(STEP_NAMES)}


@dataclass(frozen=True)
class PackedMachine:
    """A machine that packed tables are made for.

    Attributes:
        machine: its registers.
        number: enum clew_machine.
        registers: how many a frame has.
        saved: a bit for each register that a rule without cells may say is in memory.
    """

    machine: Machine
    number: int
    registers: int
    saved: int

    @property
    def same(self) -> int:
        """A bit for each register that keeps its value where no rule names it."""
        kept = (number for number in range(self.registers) if self.machine.default(number) is Default.SAME_VALUE)
        return sum(1 << number for number in kept)

    @property
    def pc(self) -> int:
        """The register's number that holds the pc."""
        assert self.machine.program_counter is not None
        return self.machine.program_counter


def _bits(*runs: tuple[int, int]) -> int:
    return sum(1 << number for low, high in runs for number in range(low, high + 1))


MACHINES: Final = (
    PackedMachine(X86_64, 1, 17, _bits((3, 3), (6, 6), (12, 16))),
    PackedMachine(AARCH64, 2, 33, _bits((19, 30))),
)


def packed_machine(machine: Machine) -> PackedMachine | None:
    """What packed tables know of a machine; None if they are not made for it."""
    return next((target for target in MACHINES if target.machine == machine), None)
