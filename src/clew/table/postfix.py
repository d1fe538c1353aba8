"""Expressions in Breakpad's postfix language, from DWARF's operators and into them.

The language, as the processors evaluate it (src/processor/postfix_evaluator-inl.h): tokens between spaces; decimal
literals with an optional ``-``; registers; ``.cfa``; ``+ - * / %`` on unsigned numbers of a register's width that wrap
around; ``x n @``, which clears the bits of x below the power of two n; ``^``, which loads a register's width. The left
operand is the one that was pushed first. ``/ 0`` and ``% 0`` fail. One number is left at the end. (rust-minidump computes
with 64 bits for 32-bit machines, too: that differs only where a number is divided or remaindered after it wrapped around.)

How DWARF's operators are said with these is in :mod:`clew.table.postfix_terms`. The way back knows what that writes and
what people write: ``x 16 %`` becomes ``and 15``, ``x 16 % 5 + 16 /`` the comparison that it is. Both ways the result
means the same; it need not be the same text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clew.arch import Machine
from clew.errors import FormatError
from clew.table.expression import Expression, Step
from clew.table.postfix_registers import register_name, register_number
from clew.table.postfix_terms import Arithmetic, Term, Unsayable

_MOST_STEPS = 2000
_MOST_FORKS = 6

_NUMBER = re.compile(r"(-?)0*([0-9]{1,20})")


def to_postfix(expression: Expression, machine: Machine, *, cfa: bool) -> str | None:
    """The expression in Breakpad's language, or None where that cannot say it.

    >>> from clew.arch import machine_named
    >>> x86 = machine_named("x86-64")
    >>> plt = bytes.fromhex("77088000 3f1a 3b2a 3324 22".replace(" ", ""))
    >>> to_postfix(Expression(plt, address_size=8, byte_order="little"), x86, cfa=False)
    '$rsp 8 + $rip 16 % 5 + 16 / 8 * +'

    What it cannot say: bitwise operators with a mask of many runs of ones or none that is known, shifts by numbers that are
    not known, loops, branches around loads, and what would take more than :data:`clew.table.postfix_terms.LONGEST` tokens.
    A value of fewer bytes than an address is cut out of a whole one, of which the other bytes have to be readable, too.

    Args:
        machine: whose registers it names. Its addresses have to be as wide as the expression's.
        cfa: whether it starts with the CFA on its stack: all but the CFA's own do.
    """
    if expression.address_size != machine.address_size:
        return None
    said = _Saying(expression, machine)
    stack = (said.arithmetic.register(".cfa"),) if cfa else ()
    try:
        return " ".join(said.run(0, stack, 0).tokens)
    except Unsayable:
        return None


class _Saying:
    """One expression on its way into text."""

    def __init__(self, expression: Expression, machine: Machine) -> None:
        self.steps = expression.canonical
        self.machine = machine
        self.arithmetic = Arithmetic(8 * expression.address_size, expression.byte_order == "big")
        self.taken = 0

    def run(self, position: int, start: Sequence[Term], forks: int) -> Term:
        """What is left on the stack when the steps from ``position`` on are done."""
        stack = list(start)
        while position < len(self.steps):
            self.taken += 1
            if self.taken > _MOST_STEPS or len(stack) > 256:
                raise Unsayable
            step = self.steps[position]
            position += 1
            match step:
                case ("skip", target):
                    position = target
                case ("bra", target):
                    condition = self._pop(stack)
                    if condition.number is not None:
                        position = target if condition.number else position
                    elif forks == _MOST_FORKS:
                        raise Unsayable
                    else:
                        there = self.run(target, stack, forks + 1)
                        return self.arithmetic.choose(condition, there, self.run(position, stack, forks + 1))
                case _:
                    self._step(step, stack)
        return self._pop(stack)

    def _step(self, step: Step, stack: list[Term]) -> None:
        do = self.arithmetic
        match step:
            case ("push", value):
                stack.append(do.number(value))
            case ("register", number, offset):
                term = do.register(register_name(self.machine, number))
                stack.append(do.plus(term, do.number(offset)) if offset else term)
            case ("pick", depth):
                if depth >= len(stack):
                    raise Unsayable
                stack.append(stack[-1 - depth])
            case ("deref", size):
                stack.append(do.load(self._pop(stack), size))
            case ("drop",):
                # What is dropped need not be computed, even where that would fail.
                self._pop(stack)
            case ("swap",) if len(stack) >= 2:
                stack[-2:] = stack[-1], stack[-2]
            case ("rot",) if len(stack) >= 3:
                stack[-3:] = stack[-1], stack[-3], stack[-2]
            case ("swap" | "rot",):
                raise Unsayable
            case ("abs" | "neg" | "not",):
                stack.append(do.unary(step[0], self._pop(stack)))
            case _:
                right = self._pop(stack)
                stack.append(do.binary(step[0], self._pop(stack), right))

    @staticmethod
    def _pop(stack: list[Term]) -> Term:
        if not stack:
            raise Unsayable
        return stack.pop()


def literal(token: str, bits: int) -> int | None:
    """The number, from 0 to below 2^bits, that a token is; None where it is none or does not fit.

    >>> literal("-8", 32), literal("4294967296", 32), literal("$esp", 32)
    (4294967288, None, None)
    """
    match = _NUMBER.fullmatch(token)
    if match is None:
        return None
    value = int(match[2])
    if value >> bits:
        return None
    return (-value if match[1] else value) & ((1 << bits) - 1)


def from_postfix(tokens: Sequence[str], machine: Machine, *, cfa: bool) -> Expression:
    """The expression that does what these tokens say.

    Args:
        machine: whose registers they name.
        cfa: whether ``.cfa`` means something; then the expression starts with the CFA on its stack.

    Raises:
        FormatError: a token means nothing, operands are missing or left over, or DWARF has no operators for it: a division
            of unsigned numbers by one that is not known, an alignment to what is no power of two.
    """
    bare = cfa and tokens[:1] == [".cfa"] and tokens.count(".cfa") == 1
    reading = _Reading(machine, cfa, bare)
    for token in tokens:
        reading.token(token)
    if len(reading.stack) != 1:
        raise FormatError(f"the expression leaves {len(reading.stack)} values, not one")
    return Expression.from_canonical(reading.steps, address_size=machine.address_size, byte_order=machine.byte_order)


@dataclass(slots=True)
class _Value:
    """A number on the stack: the step that its own steps begin with, its bounds, and what may become of it.

    ``addend`` is (the bounds' upper end before, the constant) where the last step added a constant.
    """

    first: int
    low: int
    high: int
    addend: tuple[int, int] | None = None

    @property
    def number(self) -> int | None:
        return self.low if self.low == self.high else None


class _Reading:
    """Tokens on their way into canonical steps."""

    def __init__(self, machine: Machine, cfa: bool, bare: bool) -> None:
        self.machine = machine
        self.cfa = cfa
        # With one .cfa, at the beginning, it is the CFA itself that is computed with; else it stays below.
        self.bare = bare
        self.bits = machine.bits
        self.mask = (1 << machine.bits) - 1
        self.half = 1 << (machine.bits - 1)
        self.steps: list[Step] = []
        self.stack: list[_Value] = []

    def token(self, token: str) -> None:
        steps, stack = self.steps, self.stack
        if token == "^":
            if not stack:
                raise FormatError("^ finds too little on the stack")
            steps.append(("deref", self.machine.address_size))
            stack[-1] = _Value(stack[-1].first, 0, self.mask)
        elif token in ("+", "-", "*", "/", "%", "@"):
            if len(stack) < 2:
                raise FormatError(f"{token} finds too little on the stack")
            right = stack.pop()
            stack[-1] = self._binary(token, stack[-1], right)
        elif token == ".cfa" and self.cfa:
            if not self.bare:
                if len(stack) > 255:
                    raise FormatError("the expression needs more of a stack than DWARF reaches into")
                steps.append(("pick", len(stack)))
            stack.append(_Value(len(steps) - (not self.bare), 0, self.mask))
        elif (number := literal(token, self.bits)) is not None:
            steps.append(("push", number))
            stack.append(_Value(len(steps) - 1, number, number))
        elif _NUMBER.fullmatch(token) or token.removeprefix("-").isdecimal():
            raise FormatError(f"the number {token[:24]} does not fit a register")
        else:
            register = register_number(self.machine, token)
            if register is None:
                raise FormatError(f"there is no {token[:40]}")
            steps.append(("register", register, 0))
            stack.append(_Value(len(steps) - 1, 0, self.mask))

    def _binary(self, token: str, a: _Value, b: _Value) -> _Value:
        low, high = 0, self.mask
        addend = None
        known = b.number
        match token:
            case "+":
                low, high = a.low + b.low, a.high + b.high
                if known is not None and self.steps[a.first : -1] == [(*self._register(a), 0)]:
                    self.steps[a.first :] = [(*self._register(a), known - ((known & self.half) << 1))]
                else:
                    addend = None if known is None else (a.high, known)
                    self.steps.append(("plus",))
            case "-":
                low, high = a.low - b.high, a.high - b.low
                self.steps.append(("minus",))
            case "*":
                low, high = a.low * b.low, a.high * b.high
                if a.high <= 1 and known is not None and known > 1 and known & (known - 1) == 0:
                    # Linkers scale the outcome of a comparison by a shift; assembler for arrays multiplies.
                    self.steps[-1:] = [("push", known.bit_length() - 1), ("shl",)]
                else:
                    self.steps.append(("mul",))
            case "%":
                if known is not None and known > 1 and known & (known - 1) == 0:
                    self.steps[-1:] = [("push", known - 1), ("and",)]
                else:
                    self.steps.append(("mod",))
                high = min(a.high, b.high - 1)
            case "@":
                if known is not None and (known == 0 or known & (known - 1)):
                    raise FormatError(f"{known} is no power of two to align to")
                self.steps[-1:] = [("push", -known & self.mask)] if known is not None else [self.steps[-1], ("neg",)]
                self.steps.append(("and",))
                high = a.high
            case _:
                low, high = self._divide(a, b)
        if not 0 <= low <= high <= self.mask:
            low, high = 0, self.mask
        if low == high:
            # Only a literal counts as known: its one step can be taken back.
            low, high = 0, max(high, 1)
        return _Value(a.first, low, high, addend)

    def _register(self, value: _Value) -> tuple[str, int]:
        step = self.steps[value.first]
        return ("register", step[1]) if step[0] == "register" and len(step) == 3 else ("", 0)

    def _divide(self, a: _Value, b: _Value) -> tuple[int, int]:
        """The steps of an unsigned division, where DWARF's is signed."""
        steps, known = self.steps, b.number
        if known is not None and known > 1 and known & (known - 1) == 0:
            added = a.addend
            if added is not None and added[0] < known <= self.half and 1 <= known - added[1] <= known:
                # (x + (M - c)) / M for x below M: x >= c. The steps are: x, push M - c, plus, push M.
                steps[-3:] = [("push", known - added[1]), ("ge",)]
                return 0, 1
            steps[-1:] = [("push", known.bit_length() - 1), ("shr",)]
            return a.low // known, a.high // known
        if known in (0, 1) or (a.high < self.half and b.high < self.half):
            steps.append(("div",))
            return (0, a.high) if known != 0 else (0, self.mask)
        if known is None or known >= self.half >> 1:
            raise FormatError("DWARF has no operator for this division of unsigned numbers")
        # q = (x >> 1) / d << 1 is the quotient or one less than it; it is one less where x - q * d is not below d.
        steps[-1:] = [("pick", 0), ("push", 1), ("shr",), ("push", known), ("div",), ("push", 1), ("shl",)]
        steps += [("swap",), ("pick", 1), ("push", known), ("mul",), ("minus",), ("push", known), ("ge",), ("plus",)]
        return a.low // known, a.high // known
