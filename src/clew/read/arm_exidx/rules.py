"""Unwinding instructions as a rule of the table: the CFA is the virtual stack pointer at the end."""

from __future__ import annotations

from dataclasses import dataclass

from clew.arch import Machine
from clew.errors import FormatError
from clew.read.arm_exidx.instructions import LR, PC, SP, Add, Finish, Pop, Refuse, SetTo, decode
from clew.table import AtCfa, AtExpression, CfaExpression, Expression, RegisterPlus, RegisterRule, Rule, Undefined
from clew.table.expression import Step

CANNOT_UNWIND = Rule(None, ((LR, Undefined()),), LR)
"""What a function says of which it is known that nobody called it."""

_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class _Place:
    """An address: a register of the callee's plus an offset, or what is in memory at another place, plus an offset."""

    base: int | _Place
    offset: int = 0
    depth: int = 0

    def steps(self) -> list[Step]:
        if isinstance(self.base, int):
            return [("register", self.base, self.offset)]
        return [*self.base.steps(), ("deref", 4), ("push", self.offset % (1 << 32)), ("plus",)]

    def moved(self, amount: int) -> _Place:
        return _Place(self.base, self.offset + amount, self.depth)

    def loaded(self) -> _Place:
        """What is in memory here."""
        if self.depth >= _DEEPEST:
            raise FormatError("the stack pointer is loaded from the stack too often")
        return _Place(self, 0, self.depth + 1)


def rule_of(data: bytes, machine: Machine) -> Rule | None:
    """The rule that unwinding instructions come to, or None where they refuse to unwind.

    Where the stack pointer is popped, or set to a register, what was popped before is at an address of its own. A pc
    that is popped is the return address; otherwise lr is.

    >>> from clew.arch import machine_named
    >>> rule_of(bytes.fromhex("02afb0"), machine_named("arm")).text(machine_named("arm"))[:25]
    'cfa = sp+48  r4 = *(cfa-3'

    Raises:
        FormatError: an instruction cannot be read, or what they do has no meaning.
    """
    vsp = _Place(SP)
    saved: dict[int, _Place] = {}
    for _, _, instruction in decode(data):
        match instruction:
            case Finish():
                break
            case Refuse():
                return None
            case Add(amount):
                vsp = vsp.moved(amount)
            case SetTo(register):
                vsp = saved[register].loaded() if register in saved else _Place(register)
            case Pop(registers, width, extra):
                for register in registers:
                    saved[register] = vsp
                    vsp = vsp.moved(width)
                vsp = vsp.moved(extra)
                if SP in registers:
                    vsp = saved.pop(SP).loaded()
            case _:
                pass
    terms: list[tuple[int, RegisterRule]] = []
    for register, place in sorted(saved.items()):
        if place.base == vsp.base:
            terms.append((register, AtCfa(place.offset - vsp.offset)))
        else:
            terms.append((register, AtExpression(_expression(place, machine))))
    if isinstance(vsp.base, int):
        cfa: RegisterPlus | CfaExpression = RegisterPlus(vsp.base, vsp.offset)
    else:
        cfa = CfaExpression(_expression(vsp, machine))
    return Rule(cfa, tuple(terms), PC if PC in saved else LR)


def _expression(place: _Place, machine: Machine) -> Expression:
    return Expression.from_canonical(place.steps(), address_size=4, byte_order=machine.byte_order)
