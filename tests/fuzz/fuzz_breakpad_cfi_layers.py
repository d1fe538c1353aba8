"""``STACK CFI`` read from any text and written from any table: what a rule says and what its record says are the same.

Records are evaluated by tests/write/stack_cfi_evaluator.py, which knows nothing of clew; rules by clew's definition of DWARF.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "write"))

import fuzz_cfi_layers
from stack_cfi_evaluator import Failure, Records, caller

from clew.arch import Machine, machine_named
from clew.errors import EvaluationError
from clew.read.breakpad.cfi import read_cfi
from clew.table import (
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    Expression,
    InRegister,
    IsExpression,
    RegisterPlus,
    Rule,
    SameValue,
    Table,
    Undefined,
    evaluate,
    meaning,
)
from clew.table.postfix_registers import register_name
from clew.write.breakpad.cfi import stack_cfi

#: Rows of a table that are evaluated.
MOST = 24

Values = dict[str, int | None]
END = 16


class Memory:
    """Every address has bytes, of its own."""

    def read(self, address: int, size: int) -> bytes:
        return bytes((address + i) * 2654435761 >> 7 & 0xFF for i in range(size))


def read_text(blob: bytes) -> None:
    """A text into a table, and that into a text again."""
    machine = machine_named(fuzz_cfi_layers.MACHINES[blob[0] & 7] if blob else "x86-64")
    text = blob[1:]
    table = read_cfi(text, machine)
    assert (table.start[1:] > table.start[:-1]).all()
    assert len(table.rule) == len(table.start)
    assert not len(table) or table.rule[-1] == 0
    assert len(table.ranges) <= text.count(b"INIT")
    lines = text.count(b"\n") + 1
    for problem in table.problems:
        assert problem.line is None or 1 <= problem.line <= lines
        str(problem)
    if table.lost:
        assert any(problem.lost for problem in table.problems)
    check(table)


def write_section(blob: bytes) -> None:
    """A section of call frame information into a text."""
    data, choices = fuzz_cfi_layers.decode(blob)
    check(choices.section(data).table())


def check(table: Table) -> None:
    """What the rows say, the records say; and so do the rows that are read from these."""
    made = stack_cfi(table)
    if made.records > 5000:
        return
    text = b"".join(made)
    records = Records.parse(text.decode())
    assert sum(len(rows) for _, _, rows in records.blocks) == made.records
    assert len(records.blocks) == made.initials
    again = read_cfi(text, table.machine)
    lost = any(one.lost for one in made.unsaid)
    wide = {problem.message for problem in again.problems}
    # DWARF has no operators for some of what postfix can say, such as general unsigned division.
    # A return address column that is not the machine's leaves that one a register like others.
    known = ("is unknown", "besides .ra")
    assert all(any(one in message for one in known) for message in wide), wide
    for row in islice(table.rows(), MOST):
        if row.start == row.end:
            continue
        rules = records.at(row.start)
        if rules is None:
            assert lost, (hex(row.start), row.rule)
            continue
        there = again.lookup(row.start)
        assert there is not None
        for seed in (1, 0x1234567):
            registers = _registers(row.rule, table.machine, seed)
            said = _by_records(rules, table.machine, registers)
            _agree(_by_rule(row.rule, table.machine, registers), said, not made.unsaid, row.rule, rules)
            _agree(_by_rule(there.rule, table.machine, registers), said, not wide, there.rule, rules)


def _agree(ours: Values, said: Values, whole: bool, rule: Rule, rules: dict[str, str]) -> None:
    for name, value in said.items():
        mine = ours.get(name)
        if name == ".ra":
            # Below this walkers end, whatever it is.
            mine, value = (END if known is not None and known < 4096 else known for known in (mine, value))
        if mine != value:
            # An expression may compute in vain what cannot be computed; a register that is not sayable is lost.
            assert value is None or mine is None, (name, mine, value, rule, rules)
            assert value is not None or not whole, (name, mine, value, rule, rules)


def _registers(rule: Rule, machine: Machine, seed: int) -> dict[int, int]:
    """Values for the usual registers and for those that a rule speaks of."""
    numbers = {*range(34), machine.stack_pointer, rule.return_address}
    terms: list[object] = [rule.cfa, *(term for _, term in rule.registers)]
    for term in terms:
        number = getattr(term, "register", None)
        if number is not None:
            numbers.add(number)
        expression = getattr(term, "expression", None)
        if isinstance(expression, Expression):
            numbers.update(step[1] for step in expression.canonical if step[0] == "register" and len(step) > 1)
    numbers.update(number for number, _ in rule.registers)
    mask = (1 << machine.bits) - 1
    return {number: (number + 3) * 0x9E3779B97F4A7C15 * seed & mask for number in numbers}


def _by_records(rules: dict[str, str], machine: Machine, registers: dict[int, int]) -> Values:
    named = {register_name(machine, number): value for number, value in registers.items()}
    preserved = frozenset(register_name(machine, number) for number in machine.callee_saved)
    size = machine.address_size

    def load(address: int) -> int:
        return int.from_bytes(Memory().read(address, size), machine.byte_order)

    pointer = register_name(machine, machine.stack_pointer)
    try:
        out = caller(rules, named, load, preserved=preserved, stack_pointer=pointer, bits=machine.bits)
    except Failure:
        return {}
    # Which register holds the return address the records do not say.
    return out


def _by_rule(rule: Rule, machine: Machine, registers: dict[int, int]) -> Values:
    mask = (1 << machine.bits) - 1

    def computed(expression: object, *initial: int) -> int | None:
        if not isinstance(expression, Expression):
            return None
        try:
            return evaluate(expression, registers=registers, memory=Memory(), initial=initial)
        except EvaluationError:
            return None

    def load(address: int | None) -> int | None:
        if address is None:
            return None
        data = Memory().read(address & mask, machine.address_size)
        return int.from_bytes(data, machine.byte_order)

    match rule.cfa:
        case RegisterPlus(register, offset):
            cfa: int | None = registers[register] + offset & mask
        case CfaExpression(expression):
            cfa = computed(expression)
        case _:
            cfa = None
    out: Values = {".cfa": cfa}
    if cfa is None:
        return out
    for number in registers:
        value: int | None = None
        match meaning(rule, number, machine):
            case Undefined() if number == rule.return_address:
                value = END
            case SameValue():
                value = registers[number]
            case AtCfa(offset):
                value = load(cfa + offset)
            case CfaPlus(offset):
                value = cfa + offset & mask
            case InRegister(register):
                value = registers.get(register)
            case AtExpression(expression):
                value = load(computed(expression, cfa))
            case IsExpression(expression):
                value = computed(expression, cfa)
        out[".ra" if number == rule.return_address else register_name(machine, number)] = value
    return out
