"""Where the rule at an address comes from: the entry, and the instruction that set each part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from clew.errors import FormatError, NotFoundError, Problem
from clew.read.dwarf_cfi.entries import Fde
from clew.read.dwarf_cfi.instructions import Instruction
from clew.read.dwarf_cfi.section import CfiSection
from clew.table import CfaExpression, Row

#: A part of a row that an instruction sets: a register by number, or one of the names below.
Part: TypeAlias = str | int
#: The CFA's register and offset are set apart from each other, and wait while the CFA is an expression.
CFA_REGISTER, CFA_OFFSET, CFA_EXPRESSION = "cfa register", "cfa offset", "cfa expression"
#: Whether the return address is signed (AArch64), and the size of the arguments on the stack.
SIGNING, ARGUMENTS = "signing", "arguments"


@dataclass(frozen=True, slots=True)
class Origin:
    """What set a part of a rule.

    Attributes:
        instruction: the instruction that set it.
        location: the address from which on it was set; None where the CIE set it.
        via: the ``restore`` or ``restore_state`` that brought it back last, if one did.
        via_location: the address from which on that held; None without one.
    """

    instruction: Instruction
    location: int | None
    via: Instruction | None = None
    via_location: int | None = None


#: What set each part, at one point of a program. Never changed, only replaced: remembered states share it.
Origins: TypeAlias = dict[Part, Origin]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rule at an address and where it comes from.

    Attributes:
        address: the address.
        section: where the FDE is.
        fde: the FDE that counts.
        row: the row that holds, as the FDE's program makes it.
        origins: what set each part. A part that no instruction set has no origin: its rule is the ABI's.
        hidden: other FDEs around the address, which do not count; the one that would count next is the first.
        problems: FDEs that would have counted before this one, if they could be read.
    """

    address: int
    section: CfiSection
    fde: Fde
    row: Row
    origins: Origins
    hidden: tuple[Fde, ...] = ()
    problems: tuple[Problem, ...] = ()


def explain(sections: Sequence[CfiSection], address: int) -> Explanation:
    """Explains the rule at an address, as :func:`clew.read.frames.read_table` finds it.

    The first of the sections that has one counts, and in it the FDE that starts last. An FDE whose program makes no sense
    does not count, and is told in the explanation's problems.

    Raises:
        NotFoundError: no FDE covers the address; the hint names the nearest that one does.
        FormatError: none of those that do can be read.
    """
    around = [fde for section in sections for fde in reversed(section.fdes_at(address))]
    failed: list[FormatError] = []
    for index, fde in enumerate(around):
        try:
            row, origins = _trace(fde, address)
        except FormatError as error:
            failed.append(error)
            continue
        problems = tuple(Problem(error.message, error.section, error.offset) for error in failed)
        return Explanation(address, fde.cie.section, fde, row, origins, tuple(around[index + 1 :]), problems)
    if failed:
        raise failed[0]
    near = nearest_fde(sections, address)
    hint = f"the nearest function that has a table is at {near.start:#x}..{near.stop:#x}" if near is not None else None
    raise NotFoundError(f"no unwind table covers {address:#x}", hint=hint)


def nearest_fde(sections: Sequence[CfiSection], address: int) -> Fde | None:
    """The FDE whose range is nearest to an address that none covers, or None where there are none."""
    found = [fde for section in sections if (fde := section.nearest(address)) is not None]
    return min(found, key=lambda fde: max(fde.start - address, address - (fde.stop - 1)), default=None)


def _trace(fde: Fde, address: int) -> tuple[Row, Origins]:
    """The row that an FDE's program makes for an address in its range, and what set each part of it.

    The whole program is run, for one that fails behind the row is left out of the Table too.
    """
    section, cie = fde.cie.section, fde.cie
    if cie.opaque:
        raise FormatError(
            f"its CIE's augmentation {cie.augmentation!r} is not known, so nobody can tell what its instructions mean",
            section=section.name,
            offset=fde.offset,
        )
    initial: Origins = {}
    stack: list[Origins] = []
    steps = section.steps(fde)
    next(steps)  # Runs the CIE's program, and so says whether it makes sense.
    for instruction in cie.instructions():
        initial = _after(instruction, None, initial, {}, stack)
    stack.clear()
    origins, begin, found = initial, fde.start, None
    for step, _, row in steps:
        if found is not None:
            continue
        if row is not None:
            if address < row.end:
                found = row
                continue
            begin = row.end
        if step is not None:
            origins = _after(step, begin, origins, initial, stack)
    assert found is not None, "the rows of an FDE reach from its start to its end"
    # A CFA is one or the other, and the offset of the one waits while it is the other.
    unused = (CFA_REGISTER, CFA_OFFSET) if isinstance(found.rule.cfa, CfaExpression) else (CFA_EXPRESSION,)
    return found, {part: origin for part, origin in origins.items() if part not in unused}


def _after(
    instruction: Instruction, location: int | None, origins: Origins, initial: Origins, stack: list[Origins]
) -> Origins:
    """The origins after an instruction, given those before it and those that the CIE left."""
    match instruction.opcode:
        case 0x0A:  # remember_state
            stack.append(origins)
        case 0x0B if stack:  # restore_state
            return _restored(stack.pop(), origins, instruction, location)
        case 0xC0 | 0x06:  # restore, restore_extended
            register = instruction.operands[0]
            before = initial.get(register)
            if before is None:
                return {part: origin for part, origin in origins.items() if part != register}
            return {**origins, register: Origin(before.instruction, None, instruction, location)}
        case _:
            changed = {part: Origin(instruction, location) for part in _touched(instruction)}
            return {**origins, **changed} if changed else origins
    return origins


def _restored(saved: Origins, origins: Origins, via: Instruction, location: int | None) -> Origins:
    """The origins after ``restore_state``: what differs was brought back, the rest stands as it was set."""
    if saved is origins:
        return origins
    out = {
        part: origin if origins.get(part) == origin else Origin(origin.instruction, origin.location, via, location)
        for part, origin in saved.items()
        if part != ARGUMENTS
    }
    # DW_CFA_GNU_args_size is no part of the remembered state.
    return out | {ARGUMENTS: origins[ARGUMENTS]} if ARGUMENTS in origins else out


def _touched(instruction: Instruction) -> Iterator[Part]:
    """The parts that an instruction sets."""
    match instruction.opcode:
        case 0x0C | 0x12:  # def_cfa, _sf
            yield CFA_REGISTER
            yield CFA_OFFSET
        case 0x0F:  # def_cfa_expression
            yield CFA_EXPRESSION
        case 0x0D:  # def_cfa_register
            yield CFA_REGISTER
        case 0x0E | 0x13:  # def_cfa_offset, _sf
            yield CFA_OFFSET
        case 0x2D if instruction.name == "DW_CFA_GNU_window_save":
            # SPARC's register window: the outs come from the ins, the locals and ins from the stack.
            yield from range(8, 32)
        case 0x2B | 0x2C | 0x2D:  # AArch64: set_ra_state, negate_ra_state_with_pc, negate_ra_state
            yield SIGNING
        case 0x2E:  # GNU_args_size
            yield ARGUMENTS
        case 0x80 | 0x05 | 0x11 | 0x2F:  # offset, offset_extended, _sf, GNU_negative_offset_extended
            yield instruction.operands[0]
        case 0x07 | 0x08 | 0x09 | 0x10 | 0x14 | 0x15 | 0x16:  # undefined, same_value, register, expression, val_…
            yield instruction.operands[0]
