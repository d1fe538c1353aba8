"""A Table as it is compiled: leaves, which are addresses from which on one body holds, and the few different bodies.

A body is a rule with nothing left to ask: defaults of the ABI are filled in, registers that the frame has not are gone, and
what the walkers do with the rest (:mod:`clew.walk`) is spelled out. Two rules that do the same become one body.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.arch import Default
from clew.errors import Error, UsageError
from clew.table import (
    Architectural,
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
    Table,
    Undefined,
)
from clew.table.resolver import stack_pointer_term
from clew.write.compiled.abi import PAPER, Abi, Outcome

Term = AtCfa | CfaPlus | InRegister | AtExpression | IsExpression
"""The terms that are left: their expressions can be read."""

MAXIMUM_RULES = 1 << 16
"""More different rules than any real file has by far; hostile ones may have as many as rows."""


@dataclass(frozen=True, slots=True)
class Body:
    """What is done at the addresses of some rows.

    The outcome is the first that applies: ``outcome``; why the CFA cannot be had; why the return address cannot be had.
    A register of ``terms`` that cannot be had is unknown in the caller, and nothing more.

    Attributes:
        outcome: what is answered without looking at the frame; None where there is something to compute.
        cfa: the canonical frame address.
        return_address: the caller's pc; None where the rule does not say it (``BAD_RULE``).
        terms: (DWARF number, term) of registers that get a value, sorted; the pc is not among them.
        keeps: DWARF numbers of registers that stay as they are, known or not. All others become unknown.
        missing: what is answered where the return address is in a register that is not known.
        signal: whether the caller was interrupted.
        strip: whether the return address may carry an authentication code (AArch64).
    """

    outcome: Outcome | None
    cfa: RegisterPlus | CfaExpression | None = None
    return_address: Term | None = None
    terms: tuple[tuple[int, Term], ...] = ()
    keeps: tuple[int, ...] = ()
    missing: Outcome = Outcome.UNKNOWN_REGISTER
    signal: bool = False
    strip: bool = False

    def expressions(self) -> list[tuple[Expression, bool]]:
        """The expressions in the order in which they are needed, each with whether it starts with the CFA on its stack."""
        found: list[tuple[Expression, bool]] = []
        for term in (self.cfa, self.return_address, *(term for _, term in self.terms)):
            expression = getattr(term, "expression", None)
            if isinstance(expression, Expression):
                found.append((expression, term is not self.cfa))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is compiled.

    Attributes:
        abi: the interface.
        start (u8): addresses from which on a body holds, sorted; the last body is that of no row.
        body (u4): its number.
        bodies: the bodies. The first is that of addresses without a row.
        rules: for each body, the text of a rule that it comes from, and how many rows of the Table use it.
    """

    abi: Abi
    start: npt.NDArray[np.uint64]
    body: npt.NDArray[np.uint32]
    bodies: tuple[Body, ...]
    rules: tuple[tuple[str, int], ...]

    @property
    def end(self) -> int:
        """The address behind the last that has a row."""
        return int(self.start[-1]) if len(self.start) else 0

    @property
    def base(self) -> int:
        """The first address that has a row."""
        return int(self.start[0]) if len(self.start) else 0


def plan(table: Table, abi: Abi) -> Plan:
    """What a table becomes. It is normalised first: padding between functions belongs to what is before it.

    Raises:
        UsageError: the table is of another machine than the interface.
        Error: it has more different rules than any real table.
    """
    if table.machine != abi.machine:
        raise UsageError(f"the table is of {table.machine.name}, and the interface of {abi.machine.name}")
    table = table if table.normalised else table.normalise()
    used, counts = np.unique(table.rule, return_counts=True)
    if len(used) > MAXIMUM_RULES:
        raise Error(f"the table has {len(used):,} different rules, and at most {MAXIMUM_RULES:,} are compiled")
    bodies: dict[Body, int] = {NO_ROW: 0}
    texts: list[tuple[str, int]] = [("no row", 0)]
    number_of = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.uint32)
    for number, count in zip(used.tolist(), counts.tolist(), strict=True):
        rule = table.rules[number]
        turn = bodies.setdefault(body_of(rule, abi), len(bodies))
        number_of[number] = turn
        if turn == len(texts):
            texts.append((rule.text(abi.machine), count))
        else:
            texts[turn] = texts[turn][0], texts[turn][1] + count
    start, body = table.start, number_of[table.rule]
    keep = np.ones(len(body), bool)
    keep[1:] = body[1:] != body[:-1]
    # Before the first row, there is none.
    keep[:1] = body[:1] != 0
    return Plan(abi, start[keep], body[keep], tuple(bodies), tuple(texts))


NO_ROW = Body(Outcome.NO_ROW)


def body_of(rule: Rule, abi: Abi) -> Body:
    """What is done where a rule holds."""
    if not rule.information:
        return NO_ROW
    column = rule.return_address
    named = dict(rule.registers)
    if isinstance(named.get(column), Undefined):
        return Body(Outcome.OUTERMOST)
    cfa = rule.cfa
    if cfa is None or (isinstance(cfa, CfaExpression) and isinstance(cfa.expression, InvalidExpression)):
        return Body(Outcome.BAD_RULE)
    terms: list[tuple[int, Term]] = []
    keeps: list[int] = []
    for number in abi.registers:
        if number == abi.pc:
            continue
        term = named[number] if number in named else _default(number, rule, abi)
        found = _term(term, number)
        if found is None or (isinstance(found, InRegister) and abi.bit(found.register) is None):
            continue
        if found == InRegister(number):
            keeps.append(number)
        else:
            terms.append((number, found))
    strip = abi.machine.name == "aarch64" and (rule.signal_frame or rule.signing is not Signing.NONE)
    # The paper's context has no word for it.
    signal = rule.signal_frame and abi.name != PAPER
    found = _return_address(rule, abi)
    return Body(None, cfa, found, tuple(terms), tuple(keeps), _missing(rule, abi), signal, strip)


def _return_address(rule: Rule, abi: Abi) -> Term | None:
    column = rule.return_address
    term = rule[column]
    if term is not None:
        return _term(term, column)
    machine = abi.machine
    match machine.default(column):
        case Default.CFA:
            return CfaPlus(0)
        case Default.UNKNOWN if column in (machine.return_address, machine.program_counter):
            return None
        case _:
            # Where the default is unknown: helpers of compilers are called with the return address in a register that the
            # CIE names.
            return InRegister(column)


def _missing(rule: Rule, abi: Abi) -> Outcome:
    """Who cannot know where the return address is has a bad rule; who knows, an unknown register."""
    column = rule.return_address
    said = rule[column] is not None or abi.machine.default(column) is not Default.UNKNOWN
    return Outcome.UNKNOWN_REGISTER if said else Outcome.BAD_RULE


def _default(number: int, rule: Rule, abi: Abi) -> RegisterRule:
    """The term of a register that the rule does not name."""
    machine = abi.machine
    match machine.default(number):
        case Default.CFA:
            return stack_pointer_term(machine, rule)
        case Default.SAME_VALUE:
            return SameValue()
        case _:
            # A return address in a register of the CIE's own choice is not lost.
            return SameValue() if number == rule.return_address != machine.return_address else Undefined()


def _term(term: RegisterRule, register: int) -> Term | None:
    """A term without what is another's special case; None for a register that is lost."""
    match term:
        case SameValue():
            return InRegister(register)
        case AtExpression(InvalidExpression()) | IsExpression(InvalidExpression()) | Undefined() | Architectural():
            return None
        case _:
            return term
