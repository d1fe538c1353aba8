"""What a row says: how to get the caller's registers from the callee's, in a closed algebra (DWARF 5, 6.4.1).

All terms are evaluated from the callee's registers at once; a load has the width of the register that it fills. A register
that a rule does not name takes its machine's default (:meth:`clew.arch.Machine.default`): *unspecified* is not *undefined*.

====================  ================  ========================
term                  equation          instruction
====================  ================  ========================
``Undefined()``       r' is lost        ``DW_CFA_undefined``
``SameValue()``       r' = r            ``DW_CFA_same_value``
``AtCfa(n)``          r' = \\*(cfa + n)  ``DW_CFA_offset``
``CfaPlus(n)``        r' = cfa + n      ``DW_CFA_val_offset``
``InRegister(q)``     r' = q            ``DW_CFA_register``
``AtExpression(e)``   r' = \\*e(cfa)     ``DW_CFA_expression``
``IsExpression(e)``   r' = e(cfa)       ``DW_CFA_val_expression``
``Architectural()``   the machine knows ``augmenter``
====================  ================  ========================
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from clew.arch import Machine
from clew.errors import FormatError, Problem
from clew.table.expression import Expression


@dataclass(frozen=True, slots=True)
class InvalidExpression:
    """An expression that cannot be read: what its rule says is not known, and why.

    Attributes:
        data: its bytes.
        reason: what is wrong with them.
    """

    data: bytes
    reason: str

    def infix(self, machine: Machine, initial: tuple[str, ...] = ("cfa",)) -> str:
        """The bytes; there is no equation."""
        return f"invalid expression {self.data[:16].hex(' ')}{' …' if len(self.data) > 16 else ''}"


AnyExpression: TypeAlias = Expression | InvalidExpression


@dataclass(frozen=True, slots=True)
class Undefined:
    """The caller's value is lost."""

    def equation(self, register: str, machine: Machine) -> str:
        return "undefined"


@dataclass(frozen=True, slots=True)
class SameValue:
    """The caller's value is the callee's."""

    def equation(self, register: str, machine: Machine) -> str:
        return register


@dataclass(frozen=True, slots=True)
class AtCfa:
    """The caller's value is in memory at the CFA plus ``offset`` bytes."""

    offset: int

    def equation(self, register: str, machine: Machine) -> str:
        return f"*(cfa{_plus(self.offset)})"


@dataclass(frozen=True, slots=True)
class CfaPlus:
    """The caller's value is the CFA plus ``offset``."""

    offset: int

    def equation(self, register: str, machine: Machine) -> str:
        return f"cfa{_plus(self.offset)}"


@dataclass(frozen=True, slots=True)
class InRegister:
    """The caller's value is in another register of the callee, by DWARF number."""

    register: int

    def equation(self, register: str, machine: Machine) -> str:
        return machine.register_name(self.register)


@dataclass(frozen=True, slots=True)
class AtExpression:
    """The caller's value is in memory at the address that an expression gives; it starts with the CFA on its stack."""

    expression: AnyExpression

    def equation(self, register: str, machine: Machine) -> str:
        return f"*({self.expression.infix(machine)})"


@dataclass(frozen=True, slots=True)
class IsExpression:
    """The caller's value is what an expression gives; it starts with the CFA on its stack."""

    expression: AnyExpression

    def equation(self, register: str, machine: Machine) -> str:
        return self.expression.infix(machine)


@dataclass(frozen=True, slots=True)
class Architectural:
    """The machine's own means recover the caller's value; no table format that clew reads says so."""

    def equation(self, register: str, machine: Machine) -> str:
        return "architectural"


RegisterRule: TypeAlias = (
    Undefined | SameValue | AtCfa | CfaPlus | InRegister | AtExpression | IsExpression | Architectural
)


@dataclass(frozen=True, slots=True)
class RegisterPlus:
    """A CFA that is a register's value plus ``offset`` bytes."""

    register: int
    offset: int

    def equation(self, machine: Machine) -> str:
        return f"{machine.register_name(self.register)}{_plus(self.offset)}"


@dataclass(frozen=True, slots=True)
class CfaExpression:
    """A CFA that an expression gives; it starts with an empty stack."""

    expression: AnyExpression

    def equation(self, machine: Machine) -> str:
        return self.expression.infix(machine, ())


CfaRule: TypeAlias = RegisterPlus | CfaExpression


class Signing(enum.Enum):
    """Whether the return address carries a pointer authentication code (AArch64; aadwarf64, RA_SIGN_STATE)."""

    NONE = "none"
    SIGNED = "signed"
    SIGNED_WITH_PC = "signed with pc"


@dataclass(frozen=True, slots=True)
class Rule:
    """How to undo one frame, at the addresses of the rows that name it. Immutable; equal rules say the same.

    Attributes:
        cfa: the canonical frame address, or None where the table gives none.
        registers: (DWARF number, rule) for each register that is named, sorted by number.
        return_address: the column whose rule is the return address's.
        signal_frame: whether the frame was interrupted rather than called from: the caller's pc is looked up as it is.
        signing, key_b: pointer authentication of the return address, and whether it is by key B rather than A.
        information: False in the one rule that says that nothing is known here (:data:`NO_INFORMATION`).
    """

    cfa: CfaRule | None
    registers: tuple[tuple[int, RegisterRule], ...] = ()
    return_address: int = 0
    signal_frame: bool = False
    signing: Signing = Signing.NONE
    key_b: bool = False
    information: bool = True

    def __getitem__(self, register: int) -> RegisterRule | None:
        """The rule of a register, or None where it is not named."""
        for number, rule in self.registers:
            if number == register:
                return rule
        return None

    def equations(self, machine: Machine) -> Iterator[tuple[str, str]]:
        """The parts as (left side, right side): ``cfa`` first, then the registers by number.

        >>> from clew.arch import machine_named
        >>> rule = Rule(RegisterPlus(7, 16), ((6, AtCfa(-16)), (16, AtCfa(-8))), return_address=16)
        >>> dict(rule.equations(machine_named("x86-64")))
        {'cfa': 'rsp+16', 'rbp': '*(cfa-16)', 'rip': '*(cfa-8)'}
        """
        if not self.information:
            return
        yield "cfa", "unknown" if self.cfa is None else self.cfa.equation(machine)
        for number, rule in self.registers:
            name = machine.register_name(number)
            yield name, rule.equation(name, machine)

    def remarks(self) -> Iterator[str]:
        """What holds besides the equations, in words."""
        if not self.information:
            yield "no information"
        if self.signal_frame:
            yield "signal frame"
        if self.signing is not Signing.NONE:
            yield f"return address {self.signing.value}{', key B' if self.key_b else ''}"

    def text(self, machine: Machine) -> str:
        """One line: the equations and the remarks.

        >>> from clew.arch import machine_named
        >>> print(Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), return_address=16).text(machine_named("x86-64")))
        cfa = rsp+8  rip = *(cfa-8)
        """
        parts = [f"{left} = {right}" for left, right in self.equations(machine)]
        parts += [f"({remark})" for remark in self.remarks()]
        return "  ".join(parts)

    def invalid(self) -> Iterator[InvalidExpression]:
        """The expressions in this rule that cannot be read."""
        terms: list[object] = [self.cfa, *(rule for _, rule in self.registers)]
        for term in terms:
            expression = getattr(term, "expression", None)
            if isinstance(expression, InvalidExpression):
                yield expression

    def invalid_problems(self) -> list[Problem]:
        """:meth:`invalid` as problems: what the rule says is in part unknown."""
        return [
            Problem(f"the expression {e.data[:16].hex(' ')} of a rule cannot be read: {e.reason}")
            for e in self.invalid()
        ]

    def to_json(self, machine: Machine) -> dict[str, Any]:
        """The rule as JSON values; what is absent is unspecified or the usual case."""
        if not self.information:
            return {"information": False}
        out: dict[str, Any] = {"cfa": None if self.cfa is None else self.cfa.equation(machine)}
        out["registers"] = {left: right for left, right in self.equations(machine) if left != "cfa"}
        out["terms"] = {machine.register_name(number): _term_json(term, machine) for number, term in self.registers}
        if self.cfa is not None:
            out["terms"] = {"cfa": _term_json(self.cfa, machine), **out["terms"]}
        out["return_address"] = machine.register_name(self.return_address)
        if self.signal_frame:
            out["signal_frame"] = True
        if self.signing is not Signing.NONE:
            out["signing"] = self.signing.value
            out["key"] = "B" if self.key_b else "A"
        return out


#: The rule of every address that no FDE covers.
NO_INFORMATION = Rule(None, information=False)


def parse_expression(data: bytes, machine: Machine, address_size: int | None = None) -> AnyExpression:
    """An expression for a rule; one that cannot be read stays, and says why."""
    size = machine.address_size if address_size is None else address_size
    try:
        return Expression.parse(data, address_size=size, byte_order=machine.byte_order)
    except FormatError as error:
        return InvalidExpression(data, error.message)


#: Kinds of terms in JSON, by class.
_KINDS = {
    "Undefined": "undefined",
    "SameValue": "same_value",
    "AtCfa": "at_cfa",
    "CfaPlus": "cfa_plus",
    "InRegister": "in_register",
    "AtExpression": "at_expression",
    "IsExpression": "is_expression",
    "Architectural": "architectural",
    "RegisterPlus": "register_plus",
    "CfaExpression": "expression",
}


def _term_json(term: RegisterRule | CfaRule, machine: Machine) -> dict[str, object]:
    """A term for programs: its kind, and what it has of register, offset and expression (the bytes, in hexadecimal)."""
    out: dict[str, object] = {"kind": _KINDS[type(term).__name__]}
    match term:
        case RegisterPlus(register, offset):
            out |= {"register": machine.register_name(register), "offset": offset}
        case AtCfa(offset) | CfaPlus(offset):
            out["offset"] = offset
        case InRegister(register):
            out["register"] = machine.register_name(register)
        case AtExpression(expression) | IsExpression(expression) | CfaExpression(expression):
            out["expression"] = expression.data.hex()
    return out


def _plus(offset: int) -> str:
    return f"{offset:+d}" if offset else ""
