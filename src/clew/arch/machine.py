"""What a machine is: its registers by DWARF number, and what its ABI says of those that a rule does not name."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

ByteOrder = Literal["little", "big"]


class Default(enum.Enum):
    """What becomes of a register that the rule in force does not name (DWARF 5 §6.4.1: left to the ABI)."""

    SAME_VALUE = "same value"
    """The caller's register holds what the callee's does."""
    CFA = "cfa"
    """The caller's register is the canonical frame address."""
    UNKNOWN = "unknown"
    """The call may have overwritten it, or the ABI does not say."""


class Dialect(enum.Enum):
    """Whose meaning the call frame instructions have that the standard leaves to vendors (DW_CFA_lo_user and above,
    and 0x1d, which MIPS took from the standard's own range)."""

    GENERIC = "generic"
    AARCH64 = "aarch64"
    SPARC = "sparc"
    MIPS = "mips"


# AArch64: aadwarf64 "Call frame instructions". SPARC and MIPS: GCC's documentation of its DWARF extensions.
_VENDOR_INSTRUCTIONS: Mapping[tuple[Dialect, int], str] = {
    (Dialect.AARCH64, 0x2B): "DW_CFA_AARCH64_set_ra_state",  # ULEB128 state, SLEB128 factored offset
    (Dialect.AARCH64, 0x2C): "DW_CFA_AARCH64_negate_ra_state_with_pc",
    (Dialect.AARCH64, 0x2D): "DW_CFA_AARCH64_negate_ra_state",
    (Dialect.SPARC, 0x2D): "DW_CFA_GNU_window_save",
    (Dialect.MIPS, 0x1D): "DW_CFA_MIPS_advance_loc8",  # 8-byte delta
}


def vendor_instruction(dialect: Dialect, opcode: int) -> str | None:
    """The name of a call frame instruction that only this dialect has, or None.

    >>> vendor_instruction(Dialect.AARCH64, 0x2D), vendor_instruction(Dialect.GENERIC, 0x2D)
    ('DW_CFA_AARCH64_negate_ra_state', None)
    """
    return _VENDOR_INSTRUCTIONS.get((dialect, opcode))


# A number so written stands for itself where no register has that name; the length keeps hostile text cheap.
_NUMBERED = re.compile(r"r(0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, eq=False, kw_only=True)
class Machine:
    """A processor with the ABI that its unwind tables assume. Equal when name, address size and byte order are.

    Attributes:
        name: what clew calls it, such as ``x86-64``.
        synonyms: other names that people and formats give it, in lower case.
        elf_machines: the ``e_machine`` values that mean it.
        bits: the width of an address.
        byte_order: of its data in memory; for a machine that has both, the file's.
        names: the field's own name of each DWARF register number that has one.
        aliases: further names of registers, such as ``fp``.
        stack_pointer, frame_pointer: DWARF numbers.
        program_counter: the DWARF number by which an expression can name the pc, if there is one.
        return_address: the usual return-address column; each CIE names its own.
        link_register: where a call leaves the return address, on a machine that does not push it. It keeps its value
            only until the function calls another: above the first frame, only a rule can tell where it went.
        callee_saved: registers that keep their value where no rule names them: those that the ABI makes every function
            preserve or that it reserves, and the link register.
        sp_default: what the caller's stack pointer is where no rule names it.
        code_alignment: every instruction's address is a multiple of this many bytes.
        return_address_offset: what to add to the return-address register's value to get where the call returns to.
        address_mask: the bits of a code pointer that are address; the others say something else (the instruction set,
            the addressing mode). The mask for pointer authentication is not a fact of the machine but of the process.
        cfa_dialect: whose vendor call frame instructions its tables have.
        readelf: the names that GNU readelf 2.40 prints, where it prints one.
        readelf_names: how many registers readelf's table for this machine has; 0 where it has none.
    """

    name: str
    synonyms: tuple[str, ...] = ()
    elf_machines: tuple[int, ...]
    bits: int
    byte_order: ByteOrder
    names: Mapping[int, str] = field(repr=False)
    aliases: Mapping[str, int] = field(default_factory=dict, repr=False)
    stack_pointer: int
    frame_pointer: int | None = None
    program_counter: int | None = None
    return_address: int
    link_register: int | None = None
    callee_saved: frozenset[int] = field(repr=False)
    sp_default: Default = Default.CFA
    code_alignment: int = 1
    return_address_offset: int = 0
    address_mask: int = field(default=-1, repr=False)
    cfa_dialect: Dialect = Dialect.GENERIC
    readelf: Mapping[int, str] = field(default_factory=dict, repr=False)
    readelf_names: int = field(default=0, repr=False)
    _numbers: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        numbers = {name: number for number, name in self.names.items()}
        numbers.update((alias, number) for alias, number in self.aliases.items() if alias not in numbers)
        object.__setattr__(self, "_numbers", numbers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Machine):
            return NotImplemented
        return (self.name, self.bits, self.byte_order) == (other.name, other.bits, other.byte_order)

    def __hash__(self) -> int:
        return hash((self.name, self.bits, self.byte_order))

    @property
    def address_size(self) -> int:
        """Bytes in an address."""
        return self.bits // 8

    def register_name(self, number: int) -> str:
        """The field's own name of a register; ``r`` and the number where it has none.

        :meth:`register_number` reads every name that this returns back to the same number.
        """
        return self.names.get(number) or f"r{number}"

    def register_number(self, name: str) -> int | None:
        """The number of a register by any of its names, or None where this machine has no such register."""
        number = self._numbers.get(name)
        if number is not None:
            return number
        match = _NUMBERED.fullmatch(name)
        if match is None or int(match[1]) in self.names:
            return None
        return int(match[1])

    def readelf_name(self, number: int) -> str | None:
        """The name that GNU readelf 2.40 prints for a register of this machine, or None where it prints ``rN``."""
        return self.readelf.get(number)

    def default(self, register: int) -> Default:
        """What becomes of a register that the rule does not name."""
        if register == self.stack_pointer:
            return self.sp_default
        return Default.SAME_VALUE if register in self.callee_saved else Default.UNKNOWN

    def return_target(self, value: int) -> int:
        """Where a call returns to, given the value of the return-address register: masked, and the offset added.

        Signed return addresses (AArch64 pointer authentication) have to be stripped before.
        """
        return ((value & self.address_mask) + self.return_address_offset) & ((1 << self.bits) - 1)


def numbered(*runs: tuple[int, str, Iterable[int]] | tuple[int, str]) -> dict[int, str]:
    """A register table: each run starts at a DWARF number, with a prefix and the numerals to follow it, or with names.

    >>> numbered((0, "x", range(2)), (31, "sp pc"))
    {0: 'x0', 1: 'x1', 31: 'sp', 32: 'pc'}
    """
    table: dict[int, str] = {}
    for run in runs:
        names = run[1].split() if len(run) == 2 else [f"{run[1]}{numeral}" for numeral in run[2]]
        table.update(enumerate(names, run[0]))
    return table


def registers(*parts: int | tuple[int, int]) -> frozenset[int]:
    """A set of register numbers, from numbers and inclusive ranges.

    >>> sorted(registers(3, (6, 8)))
    [3, 6, 7, 8]
    """
    numbers: set[int] = set()
    for part in parts:
        numbers.update((part,) if isinstance(part, int) else range(part[0], part[1] + 1))
    return frozenset(numbers)
