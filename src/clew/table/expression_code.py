"""Canonical steps into the bytes of a DWARF expression, each in its shortest form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clew.arch import ByteOrder
from clew.errors import UsageError
from clew.table import operators

if TYPE_CHECKING:
    from clew.table.expression import Step

_PLAIN_CODES = {name: opcode for opcode, name in operators.PLAIN.items()}
_BRANCHES = {"bra": operators.BRA, "skip": operators.SKIP}


def uleb(value: int) -> bytes:
    """A number from 0 on as unsigned LEB128 (DWARF 5 §7.6)."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def sleb(value: int) -> bytes:
    """A number as signed LEB128 (DWARF 5 §7.6)."""
    encoded = bytearray()
    while not -0x40 <= value < 0x40:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value & 0x7F)
    return bytes(encoded)


def encode(steps: tuple[Step, ...], address_size: int, byte_order: ByteOrder) -> bytes:
    """The bytes of an expression that does ``steps`` (see :attr:`clew.table.expression.Expression.canonical`).

    Raises:
        UsageError: a step is unknown, a number does not fit, or a branch is longer than its operand can say.
    """
    targets = {step[1] for step in steps if step[0] in _BRANCHES and len(step) == 2}
    pieces = [_piece(step, address_size, byte_order) for step in steps]
    for index in range(len(steps) - 1):
        # An addition of a constant has an operator of its own, unless a branch lands between the two steps.
        step = steps[index]
        if step[0] == "push" and len(step) == 2 and steps[index + 1] == ("plus",) and index + 1 not in targets:
            addition = bytes((operators.PLUS_UCONST,)) + uleb(step[1])
            if len(addition) <= len(pieces[index]) + 1:
                pieces[index : index + 2] = addition, b""
    offsets = [0]
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    for index, step in enumerate(steps):
        if step[0] in _BRANCHES and len(step) == 2:
            pieces[index] = _branch(step[0], step[1], offsets, index, byte_order)
    return b"".join(pieces)


def _branch(name: str, target: int, offsets: list[int], index: int, byte_order: ByteOrder) -> bytes:
    if not 0 <= target < len(offsets):
        raise UsageError(f"a {name} cannot go to step {target} of {len(offsets) - 1}")
    displacement = offsets[target] - offsets[index] - 3
    if not -0x8000 <= displacement < 0x8000:
        raise UsageError(f"a {name} cannot go {displacement} bytes far")
    return bytes((_BRANCHES[name],)) + displacement.to_bytes(2, byte_order, signed=True)


def _piece(step: Step, address_size: int, byte_order: ByteOrder) -> bytes:
    modulus = 1 << 8 * address_size
    match step:
        case ("push", value) if 0 <= value < modulus:
            return _push(value, address_size, byte_order)
        case ("register", number, offset) if 0 <= number < 1 << 64 and -modulus // 2 <= offset < modulus // 2:
            head = bytes((operators.BREG0 + number,)) if number < 32 else bytes((operators.BREGX,)) + uleb(number)
            return head + sleb(offset)
        case ("deref", size) if 1 <= size <= address_size:
            return bytes((operators.DEREF,)) if size == address_size else bytes((operators.DEREF_SIZE, size))
        case ("pick", depth) if 0 <= depth < 256:
            return {0: bytes((operators.DUP,)), 1: bytes((operators.OVER,))}.get(
                depth, bytes((operators.PICK, depth & 0xFF))
            )
        case ("bra" | "skip", _):
            return bytes(3)
        case (name,) if name in _PLAIN_CODES:
            return bytes((_PLAIN_CODES[name],))
    raise UsageError(f"an expression has no step {step!r}")


def _push(value: int, address_size: int, byte_order: ByteOrder) -> bytes:
    if value < 32:
        return bytes((operators.LIT0 + value,))
    negative = value - (1 << 8 * address_size)
    for log, size in enumerate((1, 2, 4, 8)):
        # const1u is 0x08, const1s 0x09, and so on for each width; a narrow signed one is sign-extended.
        unsigned: Literal[0, 1]
        for unsigned, number in ((1, value), (0, negative)):
            low, high = (0, 1 << 8 * size) if unsigned else (-(1 << 8 * size - 1), 0)
            if low <= number < high:
                opcode = 0x08 + 2 * log + (1 - unsigned)
                return bytes((opcode,)) + number.to_bytes(size, byte_order, signed=not unsigned)
    raise UsageError(f"the number {value:#x} does not fit an address")  # unreachable: eight bytes hold every address
