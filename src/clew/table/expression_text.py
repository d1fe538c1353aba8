"""Expressions for people: as operators in postfix order, and as equations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from clew.arch import Machine
from clew.table import operators

if TYPE_CHECKING:
    from clew.table.expression import Step

_LONGEST = 400
"""Characters in the longest part of an equation; ``dup`` can double it with every byte of the expression."""

_ATOM, _PRODUCT, _SUM, _OTHER = range(4)

_BINARY = {
    "and": "&",
    "div": "/",
    "mod": "%",
    "or": "|",
    "shl": "<<",
    "shr": ">>",
    "xor": "^",
    "eq": "==",
    "ge": ">=",
    "gt": ">",
    "le": "<=",
    "lt": "<",
    "ne": "!=",
}


class _Term(NamedTuple):
    """A piece of an equation, and what holds it together on the outside."""

    text: str
    kind: int = _ATOM
    number: int | None = None

    def within(self, *kinds: int) -> str:
        """The text as part of a larger one that leaves terms of these kinds, and atoms, without parentheses."""
        return self.text if self.kind == _ATOM or self.kind in kinds else f"({self.text})"


def postfix(operations: Iterable[tuple[str, int, tuple[int, ...]]], machine: Machine) -> str:
    """Operators with their operands, given as name, opcode and operands, separated by semicolons.

    The form is that of GNU readelf, but for registers, which have the field's own names.
    """
    return "; ".join(_operation(*operation, machine) for operation in operations)


def _operation(name: str, opcode: int, operands: tuple[int, ...], machine: Machine) -> str:
    if opcode == operators.BREGX:
        return f"{name}: {operands[0]} ({machine.register_name(operands[0])}) {operands[1]}"
    if operators.BREG0 <= opcode < operators.BREG0 + 32:
        return f"{name} ({machine.register_name(opcode - operators.BREG0)}): {operands[0]}"
    if name == "DW_OP_addr":
        return f"{name}: {operands[0]:x}"
    return f"{name}: {operands[0]}" if operands else name


def infix(steps: tuple[Step, ...], address_size: int, machine: Machine, initial: tuple[str, ...]) -> str | None:
    """Canonical steps as an equation, or None where there is none that a person would read."""
    stack = [_Term(name) for name in initial]
    for step in steps:
        if not _push_result(step, stack, address_size, machine):
            return None
        if stack and len(stack[-1].text) > _LONGEST:
            return None
    return stack[-1].text if stack else None


def _push_result(step: Step, stack: list[_Term], address_size: int, machine: Machine) -> bool:
    match step:
        case ("push", value):
            stack.append(_number(value, address_size))
        case ("register", number, offset):
            stack.append(
                _sum(_Term(machine.register_name(number)), _number(offset % (1 << 8 * address_size), address_size))
            )
        case ("pick", depth) if depth < len(stack):
            stack.append(stack[-1 - depth])
        case ("deref", size) if stack:
            star = "*" if size == address_size else f"*{size}"
            stack[-1] = _Term(f"{star}({stack[-1].text})")
        case ("abs",) if stack:
            stack[-1] = _Term(f"abs({stack[-1].text})")
        case ("neg" | "not",) if stack:
            sign = "-" if step[0] == "neg" else "~"
            inner = _Term(stack[-1].text, _OTHER) if (stack[-1].number or 0) < 0 else stack[-1]
            stack[-1] = _Term(f"{sign}{inner.within()}", _OTHER)
        case ("drop",) if stack:
            stack.pop()
        case ("swap",) if len(stack) >= 2:
            stack[-2:] = stack[-1], stack[-2]
        case ("rot",) if len(stack) >= 3:
            stack[-3:] = stack[-1], stack[-3], stack[-2]
        case (name,) if len(stack) >= 2 and name not in ("drop", "swap", "rot", "abs", "neg", "not"):
            right = stack.pop()
            stack[-1] = _combine(name, stack[-1], right)
        case _:
            return False
    return True


def _combine(name: str, left: _Term, right: _Term) -> _Term:
    if name == "plus":
        return _sum(left, right)
    if name == "minus":
        if right.number is not None and right.number < 0:
            return _Term(f"{left.within(_PRODUCT, _SUM)} + {right.text[1:]}", _SUM)
        return _Term(f"{left.within(_PRODUCT, _SUM)} - {right.within(_PRODUCT)}", _SUM)
    if name == "mul":
        return _Term(f"{left.within(_PRODUCT)} * {right.within()}", _PRODUCT)
    if name == "shra":
        return _Term(f"shra({left.text}, {right.text})")
    return _Term(f"{left.within()} {_BINARY[name]} {right.within()}", _OTHER)


def _sum(left: _Term, right: _Term) -> _Term:
    if right.number == 0:
        return left
    if right.number is not None and right.number < 0:
        return _Term(f"{left.within(_PRODUCT, _SUM)} - {right.text[1:]}", _SUM)
    return _Term(f"{left.within(_PRODUCT, _SUM)} + {right.within(_PRODUCT, _SUM)}", _SUM)


def _number(value: int, address_size: int) -> _Term:
    """A number: in decimal up to 4095, and as a negative one from minus 65,536 on."""
    if (1 << 8 * address_size) - value <= min(1 << 16, 1 << (8 * address_size - 1)):
        value -= 1 << 8 * address_size
    return _Term(str(value) if abs(value) < 1 << 12 else f"{value:#x}", _ATOM, value)
