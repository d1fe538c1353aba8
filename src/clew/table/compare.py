"""How two tables differ, in what they mean: by address range and register."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clew.arch import Default, Machine
from clew.errors import UsageError
from clew.table.rule import CfaPlus, RegisterRule, Rule, SameValue, Signing, Undefined
from clew.table.table import Table


@dataclass(frozen=True, slots=True)
class Difference:
    """One disagreement.

    Attributes:
        start, end: the addresses it holds at, ``end`` exclusive.
        register: a register's name; ``cfa``; ``return address``, ``signal frame`` or ``signing`` for what else a rule says;
            ``rule`` where only one table has any.
        a, b: what the tables say, as equations; ``-`` for nothing.
    """

    start: int
    end: int
    register: str
    a: str
    b: str

    def to_json(self) -> dict[str, str]:
        """The contract of ``clew diff --json``."""
        return {
            "start": f"{self.start:#x}",
            "end": f"{self.end:#x}",
            "register": self.register,
            "a": self.a,
            "b": self.b,
        }


def meaning(rule: Rule, register: int, machine: Machine) -> RegisterRule | None:
    """What a rule says of a register once the machine's defaults are filled in; None where nobody says anything.

    *Undefined* and an unknown default both lose the value, so they compare equal, but for the return address: there only
    *undefined* says that the stack ends.
    """
    term = rule[register]
    if term is None:
        default = machine.default(register)
        if default is Default.SAME_VALUE:
            return SameValue()
        if default is Default.CFA:
            return CfaPlus(0)
        return None
    if isinstance(term, Undefined) and register != rule.return_address and machine.default(register) is Default.UNKNOWN:
        return None
    return term


def differ(a: Rule, b: Rule, machine: Machine) -> tuple[tuple[str, str, str], ...]:
    """How two rules differ: (register, what a says, what b says) triples; empty where they mean the same."""
    if a == b:
        return ()
    if a.information != b.information:
        return (("rule", a.text(machine) if a.information else "-", b.text(machine) if b.information else "-"),)
    out: list[tuple[str, str, str]] = []

    def note(what: str, say: Callable[[Rule], str]) -> None:
        out.append((what, say(a), say(b)))

    if a.cfa != b.cfa:
        note("cfa", lambda rule: "unknown" if rule.cfa is None else rule.cfa.equation(machine))
    for register in sorted({number for rule in (a, b) for number, _ in rule.registers}):
        terms = [meaning(rule, register, machine) for rule in (a, b)]
        if terms[0] != terms[1]:
            name = machine.register_name(register)
            left, right = ("-" if term is None else term.equation(name, machine) for term in terms)
            out.append((name, left, right))
    if a.return_address != b.return_address:
        note("return address", lambda rule: machine.register_name(rule.return_address))
    if a.signal_frame != b.signal_frame:
        note("signal frame", lambda rule: "yes" if rule.signal_frame else "no")
    if (a.signing, a.signing is not Signing.NONE and a.key_b) != (b.signing, b.signing is not Signing.NONE and b.key_b):
        note("signing", lambda rule: rule.signing.value + (", key B" if rule.key_b else ""))
    return tuple(out)


def compare(a: Table, b: Table) -> Iterator[Difference]:
    """Differences in the order of their addresses; neighbours that say the same are one.

    The tables may cut their rows differently; only what holds at each address counts. Rules are compared in pairs, once a
    pair (there are few rules), and addresses by the million in numpy.

    Raises:
        UsageError: the tables are for different machines.
    """
    if a.machine != b.machine:
        raise UsageError(f"the tables are for different machines: {a.machine.name} and {b.machine.name}")
    starts = np.unique(np.concatenate((a.start, b.start)))
    if not len(starts):
        return
    pairs = _rules_at(a, starts) << np.uint64(32) | _rules_at(b, starts)
    changes = np.concatenate(([True], pairs[1:] != pairs[:-1]))
    starts, pairs = starts[changes], pairs[changes]
    explain = lru_cache(maxsize=None)(lambda pair: differ(a.rules[pair >> 32], b.rules[pair & 0xFFFFFFFF], a.machine))
    distinct = np.unique(pairs)
    guilty = distinct[[bool(explain(pair)) for pair in distinct.tolist()]]
    where = np.flatnonzero(np.isin(pairs, guilty))
    open_: dict[tuple[str, str, str], list[int]] = {}
    # Done with, but what is still open may begin before the latest of them.
    closed: list[Difference] = []
    latest = 0
    for index in where.tolist():
        start = int(starts[index])
        end = int(starts[index + 1]) if index + 1 < len(starts) else start
        found = explain(int(pairs[index]))
        # What goes on from the range before is made longer; the rest is done with.
        for key in [key for key, (_, reach) in open_.items() if reach != start or key not in found]:
            low, high = open_.pop(key)
            closed.append(Difference(low, high, *key))
            latest = max(latest, low)
        if closed and all(low > latest for low, _ in open_.values()):
            yield from sorted(closed, key=_place)
            closed.clear()
        for key in found:
            open_.setdefault(key, [start, end])[1] = end
    yield from sorted([*closed, *(Difference(low, high, *key) for key, (low, high) in open_.items())], key=_place)


def _place(difference: Difference) -> int:
    return difference.start


def _rules_at(table: Table, addresses: np.ndarray) -> np.ndarray:
    if not len(table.start):
        return np.zeros(len(addresses), np.uint64)
    at = np.searchsorted(table.start, addresses, "right") - 1
    return np.where(at >= 0, table.rule[np.maximum(at, 0)], 0).astype(np.uint64)
