"""Random programs against another interpreter, which does what DWARF 5, 6.4.2 says with a dictionary for each row."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.read.dwarf_cfi import CfiSection
from clew.table import (
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    InRegister,
    IsExpression,
    RegisterPlus,
    Rule,
    SameValue,
    Undefined,
)
from clew.testing import Cfa, CfiBuilder, Instruction, Op

EXPRESSIONS = (Op.breg(7, 8), Op.breg(6, -16) + Op.deref, Op.plus_uconst(8), Op.lit(3) + Op.plus)
START, SIZE = 0x1000, 0x80
ALIGNMENT = -8

# A row as the model has it: the CFA, and a dictionary of the registers. Values are tuples: a word and its operands.
Value = tuple[object, ...]


@dataclass
class Model:
    """The whole state of a naive interpreter."""

    location: int = START
    cfa: Value = ()
    registers: dict[int, Value] = field(default_factory=dict)
    initial: dict[int, Value] = field(default_factory=dict)
    stack: list[tuple[Value, dict[int, Value]]] = field(default_factory=list)
    args: int = 0
    rows: list[tuple[int, Value, dict[int, Value], int]] = field(default_factory=list)

    def do(self, word: str, *operands: int) -> None:
        first = operands[0] if operands else 0
        match word:
            case "advance":
                if first:
                    self.rows.append((self.location, self.cfa, dict(self.registers), self.args))
                    self.location += first
            case "def_cfa":
                self.cfa = ("register", first, operands[1])
            case "def_cfa_sf":
                self.cfa = ("register", first, operands[1] * ALIGNMENT)
            case "def_cfa_register":
                self.cfa = ("register", first, self.cfa[2])
            case "def_cfa_offset":
                self.cfa = ("register", self.cfa[1], first)
            case "def_cfa_offset_sf":
                self.cfa = ("register", self.cfa[1], first * ALIGNMENT)
            case "def_cfa_expression":
                self.cfa = ("expression", EXPRESSIONS[first])
            case "offset" | "offset_extended" | "offset_extended_sf":
                self.registers[first] = ("at", operands[1] * ALIGNMENT)
            case "gnu_negative_offset_extended":
                self.registers[first] = ("at", -operands[1] * ALIGNMENT)
            case "val_offset" | "val_offset_sf":
                self.registers[first] = ("is", operands[1] * ALIGNMENT)
            case "undefined" | "same_value":
                self.registers[first] = (word,)
            case "register":
                self.registers[first] = ("in", operands[1])
            case "expression" | "val_expression":
                self.registers[first] = (word, EXPRESSIONS[operands[1]])
            case "restore" | "restore_extended":
                self.registers.pop(first, None)
                if first in self.initial:
                    self.registers[first] = self.initial[first]
            case "remember_state":
                self.stack.append((self.cfa, dict(self.registers)))
            case "restore_state":
                self.cfa, self.registers = self.stack.pop()
            case "gnu_args_size":
                self.args = first
            case _:
                raise AssertionError(word)

    def may(self, word: str) -> bool:
        """Whether an instruction has a meaning here."""
        if word == "restore_state":
            return bool(self.stack)
        if word in ("def_cfa_register", "def_cfa_offset", "def_cfa_offset_sf"):
            return self.cfa[0] == "register"
        return True

    def finish(self, end: int) -> list[tuple[int, int, Value, dict[int, Value], int]]:
        """The rows with their ends, as far as the function goes."""
        every = [*self.rows, (self.location, self.cfa, dict(self.registers), self.args)]
        ends = [row[0] for row in every[1:]] + [end]
        return [(row[0], min(stop, end), *row[1:]) for row, stop in zip(every, ends, strict=True) if row[0] < end]


def as_model(rule: Rule) -> tuple[Value, dict[int, Value]]:
    """A rule of clew's in the model's words."""
    cfa: Value = ()
    if isinstance(rule.cfa, RegisterPlus):
        cfa = ("register", rule.cfa.register, rule.cfa.offset)
    elif isinstance(rule.cfa, CfaExpression):
        cfa = ("expression", rule.cfa.expression.data)
    registers: dict[int, Value] = {}
    for number, term in rule.registers:
        match term:
            case Undefined():
                registers[number] = ("undefined",)
            case SameValue():
                registers[number] = ("same_value",)
            case AtCfa(offset):
                registers[number] = ("at", offset)
            case CfaPlus(offset):
                registers[number] = ("is", offset)
            case InRegister(other):
                registers[number] = ("in", other)
            case AtExpression(expression):
                registers[number] = ("expression", expression.data)
            case IsExpression(expression):
                registers[number] = ("val_expression", expression.data)
    return cfa, registers


REGISTERS = st.sampled_from((0, 3, 6, 7, 16, 31, 63))
WIDE = st.one_of(REGISTERS, st.sampled_from((64, 127, 128, 300, 65535)))
OFFSETS = st.one_of(st.integers(0, 20), st.sampled_from((127, 128, 16383, 1 << 30)))
SIGNED = st.one_of(st.integers(-20, 20), st.sampled_from((-64, -65, 63, 64, 1 << 30, -(1 << 30))))
WHICH = st.integers(0, len(EXPRESSIONS) - 1)
STEPS = st.one_of(
    st.tuples(st.just("advance"), st.sampled_from((0, 1, 1, 2, 3, 7, 40, 63, 64, 100, 300, 70_000))),
    st.tuples(st.sampled_from(("def_cfa",)), WIDE, OFFSETS),
    st.tuples(st.sampled_from(("def_cfa_sf", "offset_extended_sf", "val_offset_sf")), WIDE, SIGNED),
    st.tuples(st.sampled_from(("offset_extended", "val_offset", "gnu_negative_offset_extended")), WIDE, OFFSETS),
    st.tuples(st.sampled_from(("def_cfa_register", "undefined", "same_value", "restore_extended")), WIDE),
    st.tuples(st.sampled_from(("def_cfa_offset", "gnu_args_size")), OFFSETS),
    st.tuples(st.just("def_cfa_offset_sf"), SIGNED),
    st.tuples(st.just("offset"), REGISTERS, OFFSETS),
    st.tuples(st.just("restore"), REGISTERS),
    st.tuples(st.just("register"), WIDE, WIDE),
    st.tuples(st.sampled_from(("expression", "val_expression")), WIDE, WHICH),
    st.tuples(st.just("def_cfa_expression"), WHICH),
    st.tuples(st.sampled_from(("remember_state", "restore_state"))),
)
Step = tuple[str | int, ...]
PROGRAMS = st.lists(STEPS, max_size=25)


def encoded(word: str, operands: list[int]) -> Instruction:
    if word in ("remember_state", "restore_state"):
        return getattr(Cfa, word)  # type: ignore[no-any-return]
    if word in ("expression", "val_expression", "def_cfa_expression"):
        return getattr(Cfa, word)(*operands[:-1], EXPRESSIONS[operands[-1]])  # type: ignore[no-any-return]
    return getattr(Cfa, word)(*operands)  # type: ignore[no-any-return]


def run(program: list[Step], model: Model) -> list[Instruction]:
    """The instructions of a program that have a meaning where they stand; the model has done them."""
    code: list[Instruction] = []
    for word, *operands in program:
        numbers = [int(operand) for operand in operands]
        if model.may(str(word)):
            model.do(str(word), *numbers)
            code.append(encoded(str(word), numbers))
    return code


@given(
    st.lists(STEPS.filter(lambda step: "restore" not in str(step[0]) and step[0] != "advance"), max_size=6),
    st.lists(PROGRAMS, min_size=1, max_size=3),
    st.sampled_from(("x86-64", "s390x")),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_random_programs(initial: list[Step], programs: list[list[Step]], machine: str, eh: bool) -> None:
    big = machine == "s390x"
    cfi = CfiBuilder("eh_frame" if eh else "debug_frame", byte_order="big" if big else "little", address=0x400000)
    start = Model(cfa=("register", 7, 8))
    code = run(initial, start)
    cie = cfi.cie(data_alignment=ALIGNMENT, instructions=[Cfa.def_cfa(7, 8), *code])
    models = []
    for number, program in enumerate(programs):
        model = Model(START + 2 * SIZE * number, start.cfa, dict(start.registers), dict(start.registers))
        models.append(model)
        cfi.fde(cie, start=model.location, size=SIZE, instructions=run(program, model))
    section = CfiSection(cfi.build(), name=".eh_frame" if eh else ".debug_frame", address=0x400000, machine=machine)
    table = section.table()
    assert table.problems == ()
    every = []
    for number, (fde, model) in enumerate(zip(section.fdes(), models, strict=True)):
        wanted = model.finish(START + 2 * SIZE * number + SIZE)
        every += wanted
        assert [(row.start, row.end, *as_model(row.rule), row.args_size) for row in fde.rows()] == wanted
    assert [(row.start, row.end, *as_model(row.rule), row.args_size) for row in table.rows()] == every
