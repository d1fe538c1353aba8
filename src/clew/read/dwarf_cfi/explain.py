"""Where the rule at an address comes from: the entry, and the instruction that set each part."""

from __future__ import annotations

from dataclasses import dataclass

from clew.errors import NotFoundError
from clew.read.dwarf_cfi.entries import Fde
from clew.read.dwarf_cfi.instructions import Instruction
from clew.read.dwarf_cfi.section import CfiSection
from clew.table import Row

#: Parts of a rule: the CFA's register and offset (an expression sets both), a register by number, the signing state.
Part = str | int
CFA_REGISTER, CFA_OFFSET, SIGNING = "cfa register", "cfa offset", "signing"


@dataclass(frozen=True, slots=True)
class Origin:
    """What set a part of a rule.

    Attributes:
        instruction: the instruction that set it.
        location: the address from which on it holds; None where the CIE set it.
        via: the ``restore`` or ``restore_state`` that brought it back, if one did.
    """

    instruction: Instruction
    location: int | None
    via: Instruction | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rule at an address and where it comes from.

    Attributes:
        address: the address.
        section: where the FDE is.
        fde: the FDE that counts.
        row: the row that holds, as the FDE's program makes it.
        origins: what set each part.
        hidden: other FDEs around the address, which do not count.
    """

    address: int
    section: CfiSection
    fde: Fde
    row: Row
    origins: dict[Part, Origin]
    hidden: tuple[Fde, ...] = ()


def explain(sections: list[CfiSection], address: int) -> Explanation:
    """Explains the rule at an address, by the first of the sections that has one.

    Raises:
        NotFoundError: no FDE covers the address; the hint names the nearest that one does.
        FormatError: the FDE's program cannot be run.
    """
    for section in sections:
        found = section.fdes_at(address)
        if found:
            row, origins = _trace(section, found[-1], address)
            return Explanation(address, section, found[-1], row, origins, tuple(found[:-1]))
    nearest = [near for section in sections if (near := section.nearest(address)) is not None]
    hint = None
    if nearest:
        fde = min(nearest, key=lambda fde: min(abs(fde.start - address), abs(fde.stop - 1 - address)))
        hint = f"the nearest function that has a table is at {fde.start:#x}..{fde.stop:#x}"
    raise NotFoundError(f"no unwind table covers {address:#x}", hint=hint)


def _trace(section: CfiSection, fde: Fde, address: int) -> tuple[Row, dict[Part, Origin]]:
    origins: dict[Part, Origin] = {}
    stack: list[dict[Part, Origin]] = []
    if not fde.cie.opaque:
        for instruction in fde.cie.instructions():
            _note(instruction, None, origins, {}, stack)
    initial = dict(origins)
    stack.clear()
    begin = fde.start
    for step, _, row in section.steps(fde):
        if row is not None:
            if address < row.end:
                return row, origins
            begin = row.end
        if step is not None:
            origins = _note(step, begin, origins, initial, stack)
    raise NotFoundError(f"the FDE's program makes no row for {address:#x}", section=section.name, offset=fde.offset)


def _note(
    instruction: Instruction,
    location: int | None,
    origins: dict[Part, Origin],
    initial: dict[Part, Origin],
    stack: list[dict[Part, Origin]],
) -> dict[Part, Origin]:
    """The origins after an instruction."""
    match instruction.opcode:
        case 0x0A:  # remember_state
            stack.append(dict(origins))
        case 0x0B:  # restore_state
            saved = stack.pop() if stack else {}
            # Only what differs was brought back; the rest stands as it was set.
            return {
                part: origin
                if origins.get(part) == origin
                else Origin(origin.instruction, origin.location, instruction)
                for part, origin in saved.items()
            }
        case 0xC0 | 0x06:  # restore
            register = instruction.operands[0]
            if register in initial:
                origins[register] = Origin(initial[register].instruction, None, instruction)
            else:
                origins.pop(register, None)
        case _:
            for part in _touched(instruction):
                origins[part] = Origin(instruction, location)
    return origins


def _touched(instruction: Instruction) -> tuple[Part, ...]:
    """The parts that an instruction sets."""
    match instruction.opcode:
        case 0x0C | 0x12 | 0x0F:  # def_cfa, _sf, _expression
            return (CFA_REGISTER, CFA_OFFSET)
        case 0x0D:  # def_cfa_register
            return (CFA_REGISTER,)
        case 0x0E | 0x13:  # def_cfa_offset, _sf
            return (CFA_OFFSET,)
        case 0x2D if instruction.name == "DW_CFA_GNU_window_save":
            return tuple(range(8, 32))
        case 0x2B | 0x2C | 0x2D:
            return (SIGNING,)
        case 0x05 | 0x07 | 0x08 | 0x09 | 0x10 | 0x11 | 0x14 | 0x15 | 0x16 | 0x2F | 0x80:
            return (instruction.operands[0],)
        case _:
            return ()
