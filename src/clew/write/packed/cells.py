"""Rules that need more than a packed rule has room for: cells, and the steps of their expressions."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TypeAlias

from clew.read.packed import layout
from clew.read.packed.layout import PackedMachine
from clew.table import (
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    Expression,
    InRegister,
    InvalidExpression,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Signing,
    Undefined,
)
from clew.table.expression import Step
from clew.table.resolver import stack_pointer_term
from clew.table.rule import AnyExpression

Steps: TypeAlias = tuple[Step, ...]

_RULE = struct.Struct("<iBBHII16s")
_CELL = struct.Struct("<BBHi")
_STEP = struct.Struct("<BBHi")

_I4 = range(-(1 << 31), 1 << 31)
_MOST_RECORDS = 1 << 24
"""Cells or steps of one table; real ones have a few dozen. What comes then is not computed."""

# A stub of the PLT, whose CFA is 8 more from some place on: breg7 8, breg16 0, lit15, and, lit, ge, lit3, shl, plus.
_STUB_HEAD = (("register", 7, 8), ("register", 16, 0), ("push", 15), ("and",))
_STUB_TAIL = (("ge",), ("push", 3), ("shl",), ("plus",))


@dataclass
class CellPacker:
    """Packs rules into cells; cells and expressions that are the same are written once.

    Attributes:
        target: the machine.
        cells, steps: the packed records.
    """

    target: PackedMachine
    cells: bytearray = field(default_factory=bytearray)
    steps: bytearray = field(default_factory=bytearray)
    _runs: dict[bytes, int] = field(default_factory=dict)
    _expressions: dict[tuple[object, ...], tuple[int, int] | None] = field(default_factory=dict)

    def pack(self, rule: Rule) -> bytes:
        """The 32 bytes of a rule."""
        if not rule.information:
            return bytes(_RULE.size)
        machine, registers = self.target.machine, self.target.registers
        kind, from_register, offset, stub, head = self._cfa(rule)
        same = self.target.same
        flags = layout.SIGNAL if rule.signal_frame else 0
        if rule.signing is not Signing.NONE:
            flags |= layout.SIGNED
        column = rule[rule.return_address]
        if isinstance(column, Undefined):
            flags |= layout.OUTERMOST
        terms = [(number, term) for number, term in rule.registers if number < registers]
        sp = machine.stack_pointer
        above = stack_pointer_term(machine, rule)
        if above != CfaPlus(0) and rule[sp] is None:
            terms.append((sp, above))
        for number, term in terms:
            same = same | 1 << number if isinstance(term, SameValue) else same & ~(1 << number)
        flags |= stub << layout.STUB_SHIFT
        plain = self._plain(terms) if head is None and rule.return_address == machine.return_address else None
        if plain is not None:
            saved, base, slot = plain
            return _RULE.pack(offset, kind << 6 | from_register, flags, base, saved, same & 0xFFFFFFFF, slot)
        run = [] if head is None else [head]
        for number, term in terms:
            # A stack pointer that is lost is not to be taken for one that no rule names, which is the CFA.
            if not isinstance(term, SameValue | Undefined) or number == sp:
                run.append(self._cell(number, term))
        if rule.return_address != machine.return_address and not flags & layout.OUTERMOST:
            run.append(self._return(rule, column))
        if not run:
            return _RULE.pack(offset, kind << 6 | from_register, flags, 0, 0, same & 0xFFFFFFFF, bytes(16))
        slot = struct.pack("<IB11x", self._run(run), len(run))
        return _RULE.pack(offset, kind << 6 | from_register, flags | layout.CELLS, 0, 0, same & 0xFFFFFFFF, slot)

    def _plain(self, terms: list[tuple[int, RegisterRule]]) -> tuple[int, int, bytes] | None:
        """What a rule without cells says of registers in memory: their bits, the base, and the slots; None if it cannot."""
        sp = self.target.machine.stack_pointer
        words: dict[int, int] = {}
        for number, term in terms:
            if isinstance(term, AtCfa) and self.target.saved >> number & 1 and term.offset < 0 and not term.offset & 7:
                words[number] = -term.offset >> 3
            elif number == sp or not isinstance(term, SameValue | Undefined):
                return None
        if not words:
            return 0, 0, bytes(16)
        base, farthest = min(words.values()), max(words.values())
        if farthest > 0xFFFF or farthest - base > 255:
            return None
        slot = bytearray(16)
        for number, word in words.items():
            slot[number & 15] = word - base
        slot[sp & 15] = farthest - base
        return sum(1 << number for number in words), base, bytes(slot)

    def _run(self, run: list[bytes]) -> int:
        """The number of the first of some cells."""
        data = b"".join(run)
        known = self._runs.get(data)
        if known is None:
            known = self._runs[data] = len(self.cells) // _CELL.size
            self.cells += data
        return known

    def _cfa(self, rule: Rule) -> tuple[int, int, int, int, bytes | None]:
        """Kind, register, offset, and place in a stub of the CFA, and the cell of its expression if it needs one."""
        cfa = rule.cfa
        if isinstance(cfa, RegisterPlus):
            if cfa.register < self.target.registers and cfa.offset in _I4:
                return layout.CFA_REGISTER, cfa.register, cfa.offset, 0, None
            if cfa.register < self.target.registers:
                far: Steps = (("register", cfa.register, 0), ("push", cfa.offset % (1 << 64)), ("plus",))
                return layout.CFA_EXPRESSION, 0, 0, 0, self._steps_cell(layout.CELL_OF_CFA, layout.IS_EXPRESSION, far)
        if isinstance(cfa, CfaExpression) and isinstance(cfa.expression, Expression):
            steps = cfa.expression.canonical
            loaded = _loaded(steps)
            if loaded is not None and loaded[0] < self.target.registers and loaded[1] in _I4:
                return layout.CFA_LOADED, *loaded, 0, None
            if self.target.number == 1 and len(steps) == 9 and steps[:4] == _STUB_HEAD and steps[5:] == _STUB_TAIL:
                name, place = steps[4][0], steps[4][-1]
                if name == "push" and isinstance(place, int) and 0 < place < 16:
                    return layout.CFA_REGISTER, 7, 8, place, None
            return layout.CFA_EXPRESSION, 0, 0, 0, self._steps_cell(layout.CELL_OF_CFA, layout.IS_EXPRESSION, steps)
        return layout.CFA_EXPRESSION, 0, 0, 0, _CELL.pack(layout.CELL_OF_CFA, layout.BAD, 0, 0)

    def _return(self, rule: Rule, column: RegisterRule | None) -> bytes:
        """The cell of the pc, where the return address is in an unusual column."""
        if column is None or isinstance(column, SameValue):
            # Where no rule says otherwise, the value is where the CIE says that it is.
            return self._register_cell(self.target.pc, rule.return_address)
        return self._cell(self.target.pc, column)

    def _register_cell(self, register: int, other: int) -> bytes:
        if other < self.target.registers:
            return _CELL.pack(register, layout.IN_REGISTER, other, 0)
        return _CELL.pack(register, layout.BAD, 0, 0)

    def _cell(self, register: int, term: RegisterRule) -> bytes:
        match term:
            case SameValue():
                return self._register_cell(register, register)
            case AtCfa(offset) | CfaPlus(offset):
                at = isinstance(term, AtCfa)
                if offset in _I4:
                    return _CELL.pack(register, layout.AT_CFA if at else layout.CFA_PLUS, 0, offset)
                far = (("push", offset % (1 << 64)), ("plus",))
                return self._steps_cell(register, layout.AT_EXPRESSION if at else layout.IS_EXPRESSION, far)
            case InRegister(other):
                return self._register_cell(register, other)
            case AtExpression(expression):
                return self._expression_cell(register, layout.AT_EXPRESSION, expression)
            case IsExpression(expression):
                return self._expression_cell(register, layout.IS_EXPRESSION, expression)
            case _:
                return _CELL.pack(register, layout.BAD, 0, 0)

    def _expression_cell(self, register: int, kind: int, expression: AnyExpression) -> bytes:
        if isinstance(expression, InvalidExpression):
            return _CELL.pack(register, layout.BAD, 0, 0)
        steps = expression.canonical
        if kind == layout.AT_EXPRESSION and len(steps) == 1 and len(steps[0]) == 3:
            _, other, offset = steps[0]
            if other < self.target.registers and offset in _I4:
                return _CELL.pack(register, layout.AT_REGISTER, other, offset)
        return self._steps_cell(register, kind, expression.canonical)

    def _steps_cell(self, register: int, kind: int, steps: Steps) -> bytes:
        place = self._expressions.get(steps, ())
        if place == ():
            place = self._expressions[steps] = self._write(steps)
        if not place:
            return _CELL.pack(register, layout.BAD, 0, 0)
        return _CELL.pack(register, kind, place[1], place[0])

    def _write(self, steps: Steps) -> tuple[int, int] | None:
        """The number of an expression's first step and how many there are; None if a packed table cannot say it."""
        numbers = layout.STEP_NUMBERS
        pieces: list[list[tuple[int, int, int]]] = []
        for step in steps:
            name, operands = step[0], [each for each in step[1:] if isinstance(each, int)]
            number = numbers[str(name)]
            match name:
                case "push":
                    pieces.append(_push(operands[0]))
                case "register":
                    if operands[0] >= self.target.registers:
                        return None
                    if operands[1] in _I4:
                        pieces.append([(number, operands[0], operands[1])])
                    else:
                        far = [(number, operands[0], 0), *_push(operands[1] % (1 << 64)), (numbers["plus"], 0, 0)]
                        pieces.append(far)
                case "deref" | "pick":
                    pieces.append([(number, operands[0], 0)])
                case "bra" | "skip":
                    pieces.append([(number, 0, operands[0])])
                case _:
                    pieces.append([(number, 0, 0)])
        # Branches go to the index of a step; some have become more than one.
        places = [0]
        for piece in pieces:
            places.append(places[-1] + len(piece))
        if places[-1] > layout.MOST_STEPS or len(self.steps) // _STEP.size > _MOST_RECORDS:
            return None
        first = len(self.steps) // _STEP.size
        for name_of, piece in zip(steps, pieces, strict=True):
            for number, operand, value in piece:
                target = places[value] if name_of[0] in ("bra", "skip") else value
                self.steps += _STEP.pack(number, operand, 0, target)
        return first, places[-1]


def _loaded(steps: Steps) -> tuple[int, int] | None:
    """The register and offset of an expression that loads the word there."""
    if len(steps) == 2 and len(steps[0]) == 3 and steps[1] == ("deref", 8):
        return steps[0][1], steps[0][2]
    return None


def _push(value: int) -> list[tuple[int, int, int]]:
    """The steps that push a number of 64 bits."""
    low = value & 0xFFFFFFFF
    low -= (low & 0x80000000) << 1
    push = (layout.STEP_NUMBERS["push"], 0, low)
    if low % (1 << 64) == value:
        return [push]
    high = value >> 32
    return [push, (layout.STEP_NUMBERS["high"], 0, high - ((high & 0x80000000) << 1))]
