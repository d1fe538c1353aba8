"""Rules as steps of the compiled walker, and rows with the step that each takes."""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from clew.arch import Default, Machine
from clew.native.modulemap import ModuleMap
from clew.native.stepbook import (
    AT_CFA,
    CFA_PLUS,
    IN_REGISTER,
    OUTERMOST,
    SAME_VALUE,
    SIGNED,
    SLOTS,
    UNDEFINED,
    StepBook,
)
from clew.native.stepper import Stepper
from clew.native.steptable import StepTable
from clew.table import (
    AtCfa,
    CfaExpression,
    CfaPlus,
    InRegister,
    RegisterPlus,
    Rule,
    SameValue,
    Signing,
    Table,
    Undefined,
)
from clew.table.resolver import forgets_the_plt
from clew.table.rule import CfaRule
from clew.target.model import Module
from clew.walk.bottom import GO_BOTTOMS
from clew.walk.go_files import go_functions, is_go
from clew.walk.go_rules import go_rule
from clew.walk.go_stacks import GO_STACKS
from clew.walk.known_code import KnownCode
from clew.walk.surroundings import Surroundings
from clew.walk.widths import register_width

Facts = tuple[int, bool, int, int, bool, int, int, int, bool]
"""What a :class:`Stepper` has to know of a machine."""

_NEVER = -1

_HIGHEST = (1 << 64) - 1

# What linkers write for the PLT of x86-64, whose stubs have 16 bytes and push a number on the way (ld's elf_x86_64_eh_frame_plt):
# breg7 8, breg16 0, lit15, and, lit10 or lit11, ge, lit3, shl, plus.
_PLT = re.compile(rb"\x77\x08\x80\x00\x3f\x1a([\x31-\x3f])\x2a\x33\x24\x22", re.DOTALL)

_MOST_SETS = 10_000
"""Sets of known registers that are remembered. Real stacks have a few dozen."""


def _base(cfa: CfaRule | None, machine: Machine) -> tuple[RegisterPlus, int] | None:
    """A CFA as a register plus an offset, and the place in a stub of the PLT from which on it is 8 more; None for others."""
    if isinstance(cfa, RegisterPlus):
        return cfa, 0
    if isinstance(cfa, CfaExpression) and machine.name == "x86-64":
        match = _PLT.fullmatch(cfa.expression.data)
        if match is not None:
            return RegisterPlus(7, 8), match[1][0] - 0x30
    return None


@lru_cache(maxsize=32)
def slots_of(machine: Machine) -> dict[int, int]:
    """The slot of each register that steps can tell, by its DWARF number: those that are as wide as an address."""
    first = [machine.stack_pointer, machine.return_address, machine.program_counter, machine.link_register]
    wanted = {number for number in first if number is not None}
    wanted.update(sorted(machine.callee_saved))
    for number in [*range(SLOTS), *sorted(machine.names)]:
        # One slot stays free for the pc of machines that have no number for it.
        if len(wanted) < SLOTS - 1 and register_width(machine, number) == machine.address_size:
            wanted.add(number)
    usable = [number for number in sorted(wanted) if register_width(machine, number) == machine.address_size]
    return {number: slot for slot, number in enumerate(usable[: SLOTS - 1])}


def _rule(table: Table, module: Module, row: int) -> Rule:
    """The rule of a row as the walkers take it."""
    rule = table.rules[int(table.rule[row])]
    return go_rule(module, table, int(table.start[row]), rule) if is_go(module) else rule


def _is_special_in_go(table: Table, module: Module, row: int, start: int, end: int) -> bool:
    """Whether a row from start to end of a file of Go's is for a strategy before the table, or not the same all along."""
    rule = table.rules[int(table.rule[row])]
    if isinstance(rule[rule.return_address], Undefined):
        return True
    # Rows of two functions may have become one; what Go's ABI adds depends on the function.
    last = max(start, end - 1)
    before, after = np.searchsorted(table.ranges.start, np.array([start, last], np.uint64), "right")
    if before != after or table.range_at(start) != table.range_at(last):
        return True
    return any(go_functions(module, names).meet(start, end) for names in (GO_BOTTOMS, GO_STACKS))


class Steps:
    """The steps of one machine's tables. Walkers of several targets may share them, if files are shared as well."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.mask = (1 << machine.bits) - 1
        self.slots = slots_of(machine)
        self.numbers = {slot: number for number, slot in self.slots.items()}
        self.book = StepBook()
        self._numbers: dict[Rule, int] = {}
        # As long as somebody else has the tables.
        self._tables: WeakKeyDictionary[Table, StepTable[None]] = WeakKeyDictionary()
        # Numbers and slots of the registers that are known, by their bits.
        self._pairs: dict[int, list[tuple[int, int]]] = {}
        self._steppers: dict[tuple[Facts, bool], Stepper] = {}
        self.known_code = KnownCode(machine)

    @property
    def count(self) -> int:
        """How many slots there are, that of the pc included."""
        return len(self.slots) + 1

    @property
    def possible(self) -> bool:
        """Whether the machine's stack pointer can be told: those of x32 and of AArch64's ILP32 are wider than an address.

        On 32-bit Arm, rows are not true at every instruction; the general walker looks at the code, too.
        """
        return self.machine.stack_pointer in self.slots and self.machine.name != "arm"

    @property
    def pc_slot(self) -> int:
        """The slot of the pc."""
        pc = self.machine.program_counter
        return len(self.slots) if pc is None else self.slots.get(pc, len(self.slots))

    def keep(self) -> int:
        """A bit for each slot that keeps its value where no rule names it."""
        kept = (slot for number, slot in self.slots.items() if self.machine.default(number) is Default.SAME_VALUE)
        return sum(1 << slot for slot in kept)

    def stepper(self, facts: Facts, with_registers: bool) -> Stepper:
        """A stepper; the same for the same facts, so that only one walk can be under way with it."""
        found = self._steppers.get((facts, with_registers))
        if found is None:
            found = self._steppers[facts, with_registers] = Stepper(self.book, self.count, facts, with_registers)
        return found

    def pairs(self, known: int) -> list[tuple[int, int]]:
        """(DWARF number, slot) of the registers whose slots' bits are set."""
        found = self._pairs.get(known)
        if found is None:
            found = [(number, slot) for slot, number in self.numbers.items() if known >> slot & 1]
            if len(self._pairs) < _MOST_SETS:
                self._pairs[known] = found
        return found

    def table(self, table: Table) -> StepTable[None]:
        """A table's rows."""
        found = self._tables.get(table)
        if found is None:
            found = self._tables[table] = StepTable(None, table.start)
        return found

    def resolve(self, table: Table, module: Module, row: int, around: Surroundings) -> int:
        """The number of the step that a row takes, or -1 where it is for the general walker."""
        number = int(table.rule[row])
        if not number:
            return _NEVER
        step = self._step(_rule(table, module, row))
        if step <= 0 or self._is_special(table, module, row, around):
            return _NEVER
        return step

    def _step(self, rule: Rule) -> int:
        known = self._numbers.get(rule)
        if known is None:
            known = self._numbers[rule] = self._encode(rule)
        return known

    def _encode(self, rule: Rule) -> int:
        machine, slots = self.machine, self.slots
        base = _base(rule.cfa, machine)
        if rule.signal_frame or base is None or base[0].register not in slots or forgets_the_plt(machine, rule):
            return _NEVER
        cfa, plt = base
        if rule.return_address not in slots or machine.return_address_offset:
            return _NEVER
        cells: list[tuple[int, int, int]] = []
        flags = SIGNED if rule.signing is not Signing.NONE else 0
        named = False
        for register, term in rule.registers:
            if register not in slots:
                return _NEVER
            named = named or register == rule.return_address
            match term:
                case Undefined():
                    cell = (UNDEFINED, 0)
                    if register == rule.return_address:
                        flags |= OUTERMOST
                case SameValue():
                    cell = (SAME_VALUE, 0)
                    if register == rule.return_address and machine.link_register != register:
                        return _NEVER
                case AtCfa(offset):
                    cell = (AT_CFA, offset)
                case CfaPlus(offset):
                    cell = (CFA_PLUS, offset)
                case InRegister(other) if other in slots:
                    cell = (IN_REGISTER, slots[other])
                case _:
                    return _NEVER
            if not -(1 << 62) < cell[1] < 1 << 62:
                return _NEVER
            cells.append((slots[register], *cell))
        if not named and machine.default(rule.return_address) is Default.UNKNOWN:
            return _NEVER
        if not -(1 << 62) < cfa.offset < 1 << 62:
            return _NEVER
        return self.book.add(slots[cfa.register], cfa.offset, slots[rule.return_address], flags, cells, plt)

    def _is_special(self, table: Table, module: Module, row: int, around: Surroundings) -> bool:
        """Whether a strategy that comes before the table may apply to an address of a row."""
        start = int(table.start[row])
        end = int(table.start[row + 1]) if row + 1 < len(table.start) else start
        return (is_go(module) and _is_special_in_go(table, module, row, start, end)) or self.known_code.beside(
            table, module, start, end, around
        )

    def encode(self, registers: Mapping[int, int]) -> list[tuple[int, int]] | None:
        """(slot, value) of registers; None where one of them has no slot."""
        slots, mask = self.slots, self.mask
        try:
            return [(slots[number], value & mask) for number, value in registers.items()]
        except KeyError:
            return None


class ModuleRows:
    """The rows of a target's modules, as a stepper takes them.

    Args:
        steps: what the rows take.
        around: the target.

    Attributes:
        modules: the modules by number.
        map: the modules by address, for a stepper.
    """

    def __init__(self, steps: Steps, around: Surroundings) -> None:
        self._steps = steps
        self._around = around
        self.modules = list(around.modules)
        self._numbers = {module: number for number, module in enumerate(self.modules)}
        self._rules: dict[tuple[int, int], Rule] = {}
        # What lies beyond the addresses that there are stays in order.
        starts, ends = (
            np.array([min(max(value, 0), _HIGHEST) for value in column], np.uint64)
            for column in ([each.start for each in self.modules], [each.end for each in self.modules])
        )
        biases = np.array([each.bias & _HIGHEST for each in self.modules], np.uint64)
        self.map = ModuleMap(weakref.proxy(self), starts, ends, biases)

    def load(self, index: int) -> StepTable[None] | None:
        """The rows of the module with this number; the compiled core asks."""
        table = self.modules[index].table
        return None if table is None else self._steps.table(table)

    def resolve(self, rows: StepTable[None], index: int, row: int) -> int:
        """The step of a row; the compiled core asks."""
        return self._steps.resolve(self._table(index), self.modules[index], row, self._around)

    def number(self, module: Module | None) -> int:
        """The number of a module, or -1."""
        return -1 if module is None else self._numbers.get(module, -1)

    def rule(self, module: int, row: int) -> Rule:
        """The rule of a row, by the numbers of module and row."""
        rule = self._rules.get((module, row))
        if rule is None:
            rule = self._rules[module, row] = _rule(self._table(module), self.modules[module], row)
        return rule

    def _table(self, module: int) -> Table:
        table = self.modules[module].table
        assert table is not None
        return table
