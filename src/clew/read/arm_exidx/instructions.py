"""The unwinding instructions of the Exception Handling ABI for the Arm Architecture (EHABI32, IHI 0038), table 4.

They are bytes, and run on a *virtual stack pointer*, vsp, which starts as the callee's sp and ends as the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clew.errors import FormatError

SP, LR, PC = 13, 14, 15

# aadwarf32, "DWARF register names".
_RA_AUTH_CODE = 143
_WCGR = 104
_WR = 112
_D = 256


@dataclass(frozen=True, slots=True)
class Add:
    """vsp += ``amount``, which is negative for a subtraction."""

    amount: int

    def __str__(self) -> str:
        return f"vsp = vsp {'+' if self.amount >= 0 else '-'} {abs(self.amount)}"


@dataclass(frozen=True, slots=True)
class SetTo:
    """vsp = a general register."""

    register: int

    def __str__(self) -> str:
        return f"vsp = r{self.register}"


@dataclass(frozen=True, slots=True)
class Pop:
    """Registers are loaded from vsp on, lowest first, and vsp moves behind them.

    Attributes:
        registers: DWARF numbers, rising.
        width: bytes in each.
        extra: bytes that vsp moves further, as ``FSTMX`` writes a word of its own.
    """

    registers: tuple[int, ...]
    width: int = 4
    extra: int = 0

    def __str__(self) -> str:
        return f"pop {{{', '.join(map(_name, self.registers))}}}"


@dataclass(frozen=True, slots=True)
class Finish:
    """The end; what follows is padding."""

    def __str__(self) -> str:
        return "finish"


@dataclass(frozen=True, slots=True)
class Refuse:
    """The frame cannot be unwound."""

    def __str__(self) -> str:
        return "refuse to unwind"


@dataclass(frozen=True, slots=True)
class Authenticate:
    """vsp, as it is here, is what the return address's authentication code was made with. Nothing moves."""

    def __str__(self) -> str:
        return "vsp as modifier for PAC validation"


Instruction = Add | SetTo | Pop | Finish | Refuse | Authenticate


def _name(register: int) -> str:
    if register >= _D:
        return f"D{register - _D}"
    if register == _RA_AUTH_CODE:
        return "ra_auth_code"
    if register >= _WR:
        return f"wR{register - _WR}"
    return f"wCGR{register - _WCGR}" if register >= _WCGR else f"r{register}"


def _mask(first: int, bits: int) -> tuple[int, ...]:
    return tuple(first + bit for bit in range(bits.bit_length()) if bits >> bit & 1)


def _run(base: int, first: int, count: int, limit: int) -> tuple[int, ...] | None:
    return tuple(range(base + first, base + first + count)) if first + count <= limit else None


def decode(data: bytes) -> Iterator[tuple[int, bytes, Instruction]]:
    """The instructions in these bytes: offset, bytes and meaning of each. Those behind a *finish* are given as well.

    Raises:
        FormatError: one is cut, reserved, or not defined.
    """
    at = 0
    while at < len(data):
        size, instruction = _one(data, at)
        if instruction is None:
            raise FormatError(
                f"the unwinding instruction {data[at : at + size].hex(' ')} is not defined, or cut", offset=at
            )
        yield at, data[at : at + size], instruction
        at += size


def _one(data: bytes, at: int) -> tuple[int, Instruction | None]:
    opcode = data[at]
    second = data[at + 1] if at + 1 < len(data) else None
    if opcode < 0x80:
        amount = ((opcode & 0x3F) << 2) + 4
        return 1, Add(-amount if opcode & 0x40 else amount)
    if opcode < 0x90:
        if second is None:
            return 2, None
        bits = (opcode & 0xF) << 8 | second
        return 2, Pop(_mask(4, bits)) if bits else Refuse()
    if opcode < 0xA0:
        register = opcode & 0xF
        # 13 and 15 are prefixes of moves between registers, which nobody has defined.
        return 1, None if register in (SP, PC) else SetTo(register)
    if opcode < 0xB0:
        saved = tuple(range(4, 5 + (opcode & 7)))
        return 1, Pop((*saved, LR) if opcode & 8 else saved)
    if opcode == 0xB2:
        return _large_add(data, at)
    return _special(opcode, second)


def _large_add(data: bytes, at: int) -> tuple[int, Instruction | None]:
    value = shift = 0
    for size in range(1, 6):
        if at + size >= len(data):
            break
        byte = data[at + size]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            # More than the address space is no stack.
            return 1 + size, Add(0x204 + (value << 2)) if value < 1 << 30 else None
    return min(6, len(data) - at), None


def _special(opcode: int, second: int | None) -> tuple[int, Instruction | None]:
    """Those from 0xb0 on, but for 0xb2."""
    low = opcode & 7
    if opcode == 0xB0:
        return 1, Finish()
    if opcode == 0xB4:
        return 1, Pop((_RA_AUTH_CODE,))
    if opcode == 0xB5:
        return 1, Authenticate()
    if 0xB8 <= opcode < 0xC0:
        return 1, Pop(tuple(range(_D + 8, _D + 9 + low)), 8, 4)
    if 0xC0 <= opcode < 0xC6:
        return 1, Pop(tuple(range(_WR + 10, _WR + 11 + low)), 8)
    if 0xD0 <= opcode < 0xD8:
        return 1, Pop(tuple(range(_D + 8, _D + 9 + low)), 8)
    if opcode not in (0xB1, 0xB3, 0xC6, 0xC7, 0xC8, 0xC9):
        return 1, None
    if second is None:
        return 2, None
    first, count = second >> 4, (second & 0xF) + 1
    registers: tuple[int, ...] | None
    match opcode:
        case 0xB1 | 0xC7:
            # A mask of four, which may not be empty.
            registers = _mask(0 if opcode == 0xB1 else _WCGR, second) if 0 < second < 16 else None
            return 2, None if registers is None else Pop(registers)
        case 0xC6:
            registers = _run(_WR, first, count, 16)
        case 0xC8:
            registers = _run(_D, 16 + first, count, 32)
        case _:
            registers = _run(_D, first, count, 32)
    return 2, None if registers is None else Pop(registers, 8, 4 if opcode == 0xB3 else 0)
