"""Packed rules as rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clew.arch import Default
from clew.errors import FormatError, UsageError
from clew.read.packed import layout
from clew.read.packed.checks import first_cell
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
from clew.table.rule import NO_INFORMATION, AnyExpression, CfaRule


def rule_of(target: PackedMachine, rule: Any, parts: Mapping[str, Any]) -> Rule:
    """A packed rule as a rule. Registers that do what they do by default are not named, but for the return address."""
    kind, flags, saved, same = int(rule["cfa"]) >> 6, int(rule["flags"]), int(rule["saved"]), int(rule["same"])
    if kind == layout.CFA_NONE:
        return NO_INFORMATION
    machine = target.machine
    cells = parts["cells"][first_cell(rule) :][: int(rule["slot"][4])] if flags & layout.CELLS else parts["cells"][:0]
    named: dict[int, RegisterRule] = {}
    for number in range(target.registers):
        default = machine.default(number)
        if saved >> number & 1:
            named[number] = AtCfa(-8 * (int(rule["base"]) + int(rule["slot"][number & 15])))
        elif same >> number & 1 and default is not Default.SAME_VALUE:
            named[number] = SameValue()
        elif not same >> number & 1 and default is Default.SAME_VALUE:
            named[number] = Undefined()
    cfa: CfaRule | None = _cfa(target, kind, rule)
    for cell in cells:
        register = int(cell["reg"])
        if register == layout.CELL_OF_CFA:
            expression = _expression(target, cell, parts)
            cfa = CfaExpression(expression)
        else:
            named[register] = _term(target, cell, parts)
    return_address = machine.return_address
    if machine.program_counter in named and machine.program_counter != return_address:
        # The return address was in a column of its own.
        return_address = target.pc
    if flags & layout.OUTERMOST:
        named[return_address] = Undefined()
    signing = Signing.SIGNED if flags & layout.SIGNED else Signing.NONE
    made = Rule(cfa, _sorted(named), return_address, bool(flags & layout.SIGNAL), signing)
    sp = machine.stack_pointer
    if sp not in named and stack_pointer_term(machine, made) != CfaPlus(0):
        # It is the CFA here, although a rule that does not name it would be taken for one of those that mean another.
        made = replace(made, registers=_sorted({**named, sp: CfaPlus(0)}))
    return made


def _sorted(named: Mapping[int, RegisterRule]) -> tuple[tuple[int, RegisterRule], ...]:
    return tuple(sorted(named.items(), key=lambda pair: pair[0]))


def _cfa(target: PackedMachine, kind: int, rule: Any) -> CfaRule | None:
    """The CFA of a rule that has no cell for it."""
    register, offset, stub = int(rule["cfa"]) & 63, int(rule["cfa_offset"]), int(rule["flags"]) >> layout.STUB_SHIFT
    if kind == layout.CFA_REGISTER and stub:
        steps: tuple[Step, ...] = (
            *(("register", register, offset), ("register", target.pc, 0), ("push", 15), ("and",)),
            *(("push", stub), ("ge",), ("push", 3), ("shl",), ("plus",)),
        )
        return CfaExpression(_made(steps))
    if kind == layout.CFA_REGISTER:
        return RegisterPlus(register, offset)
    if kind == layout.CFA_LOADED:
        return CfaExpression(_made((("register", register, offset), ("deref", 8))))
    return None


def _made(steps: tuple[Step, ...]) -> AnyExpression:
    try:
        return Expression.from_canonical(steps, address_size=8, byte_order="little")
    except (UsageError, FormatError) as error:
        return InvalidExpression(b"", error.message)


def _term(target: PackedMachine, cell: Any, parts: Mapping[str, Any]) -> RegisterRule:
    kind, other, value = int(cell["kind"]), int(cell["other"]), int(cell["value"])
    if kind == layout.AT_CFA:
        return AtCfa(value)
    if kind == layout.CFA_PLUS:
        return CfaPlus(value)
    if kind == layout.IN_REGISTER and other == int(cell["reg"]) and not value:
        return SameValue()
    if kind == layout.IN_REGISTER:
        return InRegister(other) if not value else IsExpression(_made((("register", other, value),)))
    if kind == layout.AT_REGISTER:
        return AtExpression(_made((("register", other, value),)))
    if kind == layout.AT_EXPRESSION:
        return AtExpression(_expression(target, cell, parts))
    if kind == layout.IS_EXPRESSION:
        return IsExpression(_expression(target, cell, parts))
    return IsExpression(InvalidExpression(b"", "the packed table does not have it"))


def _expression(target: PackedMachine, cell: Any, parts: Mapping[str, Any]) -> AnyExpression:
    """The expression of a cell."""
    if int(cell["kind"]) == layout.BAD:
        return InvalidExpression(b"", "the packed table does not have it")
    steps = parts["steps"][int(cell["value"]) :][: int(cell["other"])]
    # The high half of a number is a step of its own here, and a part of the one before there.
    places: list[int] = []
    out: list[Step] = []
    for step in steps:
        name, operand, value = layout.STEP_NAMES[int(step["kind"])], int(step["operand"]), int(step["value"])
        places.append(len(out))
        match name:
            case "high" if out and out[-1][0] == "push" and len(out[-1]) == 2:
                out[-1] = ("push", out[-1][1] & 0xFFFFFFFF | (value & 0xFFFFFFFF) << 32)
            case "high":
                mask, high = ("push", 0xFFFFFFFF), ("push", (value & 0xFFFFFFFF) << 32)
                out += (mask, ("and",), high, ("or",))
            case "push":
                out.append(("push", value % (1 << 64)))
            case "register":
                out.append(("register", operand, value))
            case "deref" | "pick":
                out.append((name, operand))
            case "bra" | "skip":
                out.append((name, value))
            case _:
                out.append((name,))
    places.append(len(out))
    moved = tuple((step[0], places[step[1]]) if len(step) == 2 and step[0] in ("bra", "skip") else step for step in out)
    return _made(moved)
