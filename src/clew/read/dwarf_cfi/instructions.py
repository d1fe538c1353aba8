"""Call frame instructions: names, operands, text (DWARF 5, 6.4.2 and 7.24, and the vendors' additions)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.arch import Dialect, Machine, vendor_instruction
from clew.errors import FormatError
from clew.native.cursor import Malformed
from clew.native.pointers import Pointers
from clew.table.rule import parse_expression

if TYPE_CHECKING:
    from clew.read.dwarf_cfi.entries import Cie

# Operands: r register, u unsigned, s signed LEB128; n, f the same times the data alignment factor; m as n, negated; b block;
# 1 2 4 8 a delta of so many bytes times the code alignment factor; a an address; l the low bits: a delta; L: a register.
_INSTRUCTIONS: dict[int, tuple[str, str]] = {
    0x40: ("advance_loc", "l"),
    0x80: ("offset", "Ln"),
    0xC0: ("restore", "L"),
    0x00: ("nop", ""),
    0x01: ("set_loc", "a"),
    0x02: ("advance_loc1", "1"),
    0x03: ("advance_loc2", "2"),
    0x04: ("advance_loc4", "4"),
    0x05: ("offset_extended", "rn"),
    0x06: ("restore_extended", "r"),
    0x07: ("undefined", "r"),
    0x08: ("same_value", "r"),
    0x09: ("register", "rr"),
    0x0A: ("remember_state", ""),
    0x0B: ("restore_state", ""),
    0x0C: ("def_cfa", "ru"),
    0x0D: ("def_cfa_register", "r"),
    0x0E: ("def_cfa_offset", "u"),
    0x0F: ("def_cfa_expression", "b"),
    0x10: ("expression", "rb"),
    0x11: ("offset_extended_sf", "rf"),
    0x12: ("def_cfa_sf", "rf"),
    0x13: ("def_cfa_offset_sf", "f"),
    0x14: ("val_offset", "rn"),
    0x15: ("val_offset_sf", "rf"),
    0x16: ("val_expression", "rb"),
    0x1D: ("MIPS_advance_loc8", "8"),
    0x2B: ("AARCH64_set_ra_state", "us"),
    0x2C: ("AARCH64_negate_ra_state_with_pc", ""),
    0x2D: ("GNU_window_save", ""),
    0x2E: ("GNU_args_size", "u"),
    0x2F: ("GNU_negative_offset_extended", "rm"),
}
_VENDORS = frozenset({0x1D, 0x2B, 0x2C, 0x2D})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One call frame instruction.

    Attributes:
        offset, end: where it stands in its section.
        opcode: the opcode, without the operand in its low bits where it is one of the three that have one.
        name: as the standard writes it, ``DW_CFA_…``.
        operands: registers, offsets in bytes and moves in bytes, that is with the alignment factors applied; addresses.
        block: the bytes of an expression.
    """

    offset: int
    end: int
    opcode: int
    name: str
    operands: tuple[int, ...] = ()
    block: bytes | None = None

    def text(self, machine: Machine) -> str:
        """The instruction with its operands, registers by name.

        >>> from clew.arch import machine_named
        >>> Instruction(0, 2, 0x80, "DW_CFA_offset", (6, -16)).text(machine_named("x86-64"))
        'DW_CFA_offset rbp -16'
        """
        kinds = _INSTRUCTIONS[self.opcode][1]
        parts = [self.name]
        for kind, value in zip(kinds.replace("b", ""), self.operands, strict=True):
            if kind in "rL":
                parts.append(machine.register_name(value))
            else:
                parts.append(f"{value:#x}" if kind == "a" else str(value))
        if self.block is not None:
            initial = () if self.opcode == 0x0F else ("cfa",)
            parts.append(f"({parse_expression(self.block, machine).infix(machine, initial)})")
        return " ".join(parts)


def instruction_name(opcode: int, dialect: Dialect) -> str | None:
    """The name of an opcode on a machine of this dialect, or None where it has none."""
    if opcode in _VENDORS:
        return vendor_instruction(dialect, opcode)
    known = _INSTRUCTIONS.get(opcode)
    return None if known is None else f"DW_CFA_{known[0]}"


def read_instructions(data: memoryview, start: int, end: int, cie: Cie) -> Iterator[Instruction]:
    """The instructions in ``data[start:end]``, one after the other.

    Raises:
        FormatError: at an opcode that the machine does not have, or an operand that is cut or too large.
    """
    section = cie.section
    cursor = Pointers(data, section.address, section.byte_order == "big", cie.address_size, *section.bases)
    cursor.pos, cursor.end = start, end
    while cursor.pos < end:
        at = cursor.pos
        byte = data[at]
        opcode = byte & 0xC0 or byte
        name = instruction_name(opcode, section.machine.cfa_dialect)
        if name is None:
            raise FormatError(
                f"the call frame instruction {opcode:#04x} is not defined for {section.machine.name}",
                section=section.name,
                offset=at,
            )
        cursor.pos = at + 1
        operands: list[int] = []
        block: bytes | None = None
        try:
            for kind in _INSTRUCTIONS[opcode][1]:
                if kind == "b":
                    size = cursor.read_uleb()
                    if size > end - cursor.pos:
                        raise Malformed("the expression runs past the end of the entry")
                    block = bytes(data[cursor.pos : cursor.pos + size])
                    cursor.pos += size
                else:
                    operands.append(_operand(cursor, kind, byte, cie))
        except Malformed as error:
            raise FormatError(f"{name}: {error}", section=section.name, offset=at) from None
        yield Instruction(at, cursor.pos, opcode, name, tuple(operands), block)


def _operand(cursor: Pointers, kind: str, byte: int, cie: Cie) -> int:
    match kind:
        case "L":
            return byte & 0x3F
        case "l":
            return (byte & 0x3F) * cie.code_alignment
        case "r" | "u":
            return cursor.read_uleb()
        case "s":
            return cursor.read_sleb()
        case "n":
            return cursor.read_uleb() * cie.data_alignment
        case "m":
            return -cursor.read_uleb() * cie.data_alignment
        case "f":
            return cursor.read_sleb() * cie.data_alignment
        case "a":
            return cursor.read_encoded(cie.fde_encoding, cie.address_size)
        case _:
            return cursor.read_fixed(int(kind)) * cie.code_alignment
