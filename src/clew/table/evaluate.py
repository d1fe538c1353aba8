"""What a DWARF expression does: the exact definition, that the compiled and the C evaluator are tested against.

The rules are those of DWARF 5 §2.5.1. Every number on the stack is of the *generic type*: as wide as an address,
without a sign of its own, so that arithmetic wraps around (§2.5.1.4). Where the standard leaves something open, this
decides:

- ``div`` is signed and rounds towards zero; the most negative number by -1 is itself. ``mod`` is unsigned. By zero
  either is an error.
- ``abs`` and ``neg`` of the most negative number are that number.
- Comparisons are signed (§2.5.1.5) and give 1 or 0.
- A shift count is unsigned. By the width or more, ``shl`` and ``shr`` give 0 and ``shra`` gives 0 or, of a negative
  number, all ones: what shifting one by one gives.
- Addresses wrap around as all numbers do. A load of fewer bytes than an address has is filled with zeroes (§2.5.1.3).
- The result is the top of the stack at the end; what lies below it is ignored.

A hostile expression may run in a loop or fill the stack, so both are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from clew.arch import ByteOrder
from clew.errors import EvaluationError, UsageError
from clew.memory import Memory
from clew.table.expression import Expression

MAXIMUM_STEPS: Final = 10_000
"""Canonical steps that an evaluation may take."""

MAXIMUM_DEPTH: Final = 256
"""Numbers that the stack may hold, the initial ones included."""

Registers = Mapping[int, int] | Callable[[int], int | None]
"""The values of registers by DWARF number; what is not there, or None, is unknown."""


class UnknownRegisterError(EvaluationError):
    """A register is needed, by an expression or by whoever asks a frame, whose value is not known.

    Attributes:
        register: its DWARF number.
    """

    def __init__(self, register: int) -> None:
        super().__init__(f"the value of register {register} is not known")
        self.register = register


class UnreadableMemoryError(EvaluationError):
    """The expression needs memory that cannot be read.

    Attributes:
        address, size: the bytes that it would have loaded.
    """

    def __init__(self, address: int, size: int) -> None:
        super().__init__(f"the {size} bytes at {address:#x} cannot be read")
        self.address = address
        self.size = size


def evaluate(
    expression: Expression,
    *,
    registers: Registers,
    memory: Memory,
    address_size: int | None = None,
    byte_order: ByteOrder | None = None,
    initial: tuple[int, ...] = (),
) -> int:
    """The number that the expression computes, from 0 to 2^(8 * address_size) - 1.

    Args:
        expression: what to compute.
        registers: the values in the frame being unwound (the callee's); any integers, taken modulo the width.
        memory: the address space that it loads from.
        address_size: must be the expression's own, where given.
        byte_order: of the memory; the expression's own where not given.
        initial: the stack at the start, the top last. A register's expression starts with the CFA on it (DWARF 5
            §6.4.2.3), the CFA's own with nothing.

    Raises:
        UnknownRegisterError, UnreadableMemoryError: what it needs is not there.
        EvaluationError: division by zero, too little on the stack, or one of the bounds.
    """
    if address_size not in (None, expression.address_size):
        raise UsageError(
            f"the expression was read for addresses of {expression.address_size} bytes, not {address_size}"
        )
    look_up = registers.get if isinstance(registers, Mapping) else registers
    bits = 8 * expression.address_size
    mask = (1 << bits) - 1
    stack = [value & mask for value in initial]
    steps = expression.canonical
    position = 0
    for _ in range(MAXIMUM_STEPS + 1):
        if len(stack) > MAXIMUM_DEPTH:
            raise EvaluationError(f"the expression needs a stack of more than {MAXIMUM_DEPTH} numbers")
        if position >= len(steps):
            if not stack:
                raise EvaluationError("the expression leaves nothing on the stack")
            return stack[-1]
        step = steps[position]
        position += 1
        match step:
            case ("push", value):
                stack.append(value)
            case ("register", number, offset):
                content = look_up(number)
                if content is None:
                    raise UnknownRegisterError(number)
                stack.append((content + offset) & mask)
            case ("skip", target):
                position = target
            case ("bra", target):
                if _pop(stack, "bra"):
                    position = target
            case ("pick", depth):
                if depth >= len(stack):
                    raise _underflow("pick")
                stack.append(stack[-1 - depth])
            case ("deref", size):
                address = _pop(stack, "deref")
                loaded = memory.read(address, size)
                if loaded is None:
                    raise UnreadableMemoryError(address, size)
                stack.append(int.from_bytes(loaded, byte_order or expression.byte_order))
            case (("drop" | "swap" | "rot") as name,):
                _rearrange(name, stack)
            case (name,) if name in _UNARY:
                stack.append(_UNARY[name](_signed(_pop(stack, name), bits)) & mask)
            case (name,):
                right = _pop(stack, name)
                left = _pop(stack, name)
                stack.append(_binary(name, left, right, bits) & mask)
    raise EvaluationError(f"the expression takes more than {MAXIMUM_STEPS} steps")


_UNARY: Mapping[str, Callable[[int], int]] = {"abs": abs, "neg": lambda value: -value, "not": lambda value: ~value}


def _binary(name: str, left: int, right: int, bits: int) -> int:
    """``left`` is the former second number of the stack and ``right`` the former top; the result still has to wrap."""
    signed_left, signed_right = _signed(left, bits), _signed(right, bits)
    match name:
        case "plus":
            return left + right
        case "minus":
            return left - right
        case "mul":
            return left * right
        case "div" | "mod":
            if right == 0:
                raise EvaluationError(f"DW_OP_{name} divides by zero")
            if name == "mod":
                return left % right
            quotient = abs(signed_left) // abs(signed_right)
            return quotient if (signed_left < 0) == (signed_right < 0) else -quotient
        case "and":
            return left & right
        case "or":
            return left | right
        case "xor":
            return left ^ right
        case "shl":
            return left << right if right < bits else 0
        case "shr":
            return left >> right if right < bits else 0
        case "shra":
            return signed_left >> min(right, bits)
        case "eq":
            return int(left == right)
        case "ne":
            return int(left != right)
        case "ge":
            return int(signed_left >= signed_right)
        case "gt":
            return int(signed_left > signed_right)
        case "le":
            return int(signed_left <= signed_right)
        case _:  # "lt": Expression has no other steps
            return int(signed_left < signed_right)


def _rearrange(name: str, stack: list[int]) -> None:
    if len(stack) < {"drop": 1, "swap": 2, "rot": 3}[name]:
        raise _underflow(name)
    if name == "drop":
        stack.pop()
    elif name == "swap":
        stack[-2:] = stack[-1], stack[-2]
    else:
        # §2.5.1.3: the top becomes the third, the second the top, the third the second.
        stack[-3:] = stack[-1], stack[-3], stack[-2]


def _pop(stack: list[int], name: str) -> int:
    if not stack:
        raise _underflow(name)
    return stack.pop()


def _underflow(name: str) -> EvaluationError:
    return EvaluationError(f"DW_OP_{name} finds too little on the stack")


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
