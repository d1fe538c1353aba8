"""Steps by packed tables, in C, against the exact walker's way of applying the same rules."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_steps import MadeUp, apply, find

from clew.arch import Machine
from clew.read.packed import PackedTable
from clew.read.packed.layout import MACHINES, PackedMachine
from clew.table import (
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    Expression,
    InRegister,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Signing,
    Undefined,
    table_of,
)
from clew.target.model import Modules, Target
from clew.walk.apply import apply as exact
from clew.walk.model import End, Interrupted, Trust
from clew.walk.step import Here, Stop, Work
from clew.walk.surroundings import Surroundings
from clew.write.packed import packed

CALLED, INTERRUPTED, OUTERMOST, NO_ROW, UNKNOWN, UNREADABLE, BAD_RULE, NO_PROGRESS, NULL = (
    0,
    1,
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
    -7,
)
PC_X86, SP_X86 = 16, 7

#: The reasons of the exact walker that a status stands for. What cannot be computed has more words there.
REASONS = {
    OUTERMOST: {End.ENTRY},
    UNKNOWN: {End.UNKNOWN_REGISTER, End.BAD_RULE},
    UNREADABLE: {End.UNREADABLE_MEMORY},
    BAD_RULE: {End.BAD_RULE, End.UNKNOWN_REGISTER},
}

BINARY = [
    *("plus", "minus", "mul", "div", "mod", "and", "or", "xor", "shl", "shr", "shra"),
    *("eq", "ne", "ge", "gt", "le", "lt"),
]


def target_of(name: str) -> PackedMachine:
    return next(each for each in MACHINES if each.machine.name == name)


def here(machine: Machine, registers: dict[int, int]) -> Here:
    """A frame with these registers in made-up memory."""
    target = Target(
        "sample",
        machine,
        [],
        MadeUp(),
        Modules([]),
    )
    around = Surroundings(target)
    pc = registers[machine.program_counter or 0]
    return Here(around, Interrupted(pc), Trust.CONTEXT, registers, None, None, None, None, Work())


def assert_same(machine: Machine, rule: Rule, registers: dict[int, int]) -> None:
    """The packed rule does to these registers what the exact walker says."""
    data = packed(table_of(machine, [(0x1000, 0x1100, rule)]))
    expected = exact(here(machine, registers), rule, Trust.CFI)
    for windowed in (False, True):
        status, got = apply(data, int(find(data, np.array([0x1000], np.uint64))[0]), registers, windowed)
        pc = machine.program_counter
        assert pc is not None
        if status >= 0 and isinstance(expected, Stop):
            # Two things are left to who takes the step: a null return address, and one that leads nowhere.
            assert expected.end in (End.NULL_RETURN_ADDRESS, End.NO_PROGRESS), expected
            continue
        if isinstance(expected, Stop):
            assert expected.end in REASONS[status], (status, expected)
            assert got == registers
            continue
        assert status == (INTERRUPTED if isinstance(expected.pc, Interrupted) else CALLED)
        wanted = {
            number: value for number, value in expected.registers.items() if number < target_of(machine.name).registers
        }
        assert got == wanted | {pc: expected.pc.address}


def expressions(machine: Machine) -> st.SearchStrategy[Expression]:
    """Short expressions that mostly find enough on their stack."""
    registers = target_of(machine.name).registers
    push = st.integers(0, (1 << 64) - 1).map(lambda value: [("push", value)])
    small = st.integers(0, 70).map(lambda value: [("push", value)])
    register = st.tuples(st.integers(0, registers - 1), st.integers(-(1 << 40), 1 << 40)).map(
        lambda p: [("register", *p)]
    )
    unary = st.sampled_from(["abs", "neg", "not"]).map(lambda name: [(name,)])
    binary = st.sampled_from(BINARY).flatmap(
        lambda name: st.one_of(small, push, register).map(lambda one: [*one, (name,)])
    )
    load = st.sampled_from([1, 2, 4, 8]).map(lambda size: [("deref", size)])
    stack = st.sampled_from([[("pick", 0)], [("pick", 1)], [("swap",)], [("rot",)], [("drop",)]])
    part = st.one_of(unary, binary, binary, load, stack, small)
    return st.tuples(st.one_of(push, register, register), st.lists(part, max_size=6)).map(
        lambda pair: Expression.from_canonical(
            [*pair[0], *(step for each in pair[1] for step in each)], address_size=8, byte_order="little"
        )
    )


def terms(machine: Machine) -> st.SearchStrategy[RegisterRule]:
    registers = target_of(machine.name).registers
    offsets = st.one_of(
        st.integers(-40, 4).map(lambda n: 8 * n), st.integers(-300, 40), st.integers(-(1 << 45), 1 << 45)
    )
    return st.one_of(
        offsets.map(AtCfa),
        offsets.map(AtCfa),
        offsets.map(CfaPlus),
        st.integers(0, registers - 1).map(InRegister),
        st.just(SameValue()),
        st.just(Undefined()),
        expressions(machine).map(AtExpression),
        expressions(machine).map(IsExpression),
    )


@st.composite
def rules(draw: st.DrawFn, machine: Machine) -> Rule:
    target = target_of(machine.name)
    cfa = draw(
        st.one_of(
            st.tuples(st.integers(0, target.registers - 1), st.integers(-64, 1 << 34)).map(lambda p: RegisterPlus(*p)),
            st.just(RegisterPlus(machine.stack_pointer, 64)),
            expressions(machine).map(CfaExpression),
        )
    )
    plain = draw(st.booleans())
    some = st.integers(-30, -1).map(lambda n: AtCfa(8 * n)) if plain else terms(machine)
    usual = [number for number in range(target.registers) if target.saved >> number & 1]
    numbers = st.sampled_from(usual) if plain else st.integers(0, target.registers - 1)
    named = draw(st.dictionaries(numbers, some, max_size=8))
    if draw(st.booleans()):
        named.setdefault(machine.return_address, AtCfa(-8))
    named.pop(machine.program_counter or 0, None) if machine.name == "aarch64" else None
    signed = draw(st.sampled_from(list(Signing))) if machine.name == "aarch64" else Signing.NONE
    return Rule(cfa, tuple(sorted(named.items())), machine.return_address, draw(st.booleans()), signed)


@pytest.mark.parametrize("name", ["x86-64", "aarch64"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_step_is_exact(name: str, data: st.DataObject) -> None:
    target = target_of(name)
    rule = data.draw(rules(target.machine))
    seed = data.draw(st.integers(0, 1 << 32))
    some = random.Random(seed)
    registers = {
        number: some.choice([some.getrandbits(64), some.getrandbits(40), some.getrandbits(20) * 8])
        for number in range(target.registers)
        if some.random() < 0.8 or number in (target.pc, target.machine.stack_pointer)
    }
    assert_same(target.machine, rule, registers)


def test_plt_stub() -> None:
    # ld's .eh_frame of a PLT: the CFA is rsp + 8, and 8 more from the 11th byte of a stub on, where the push is done.
    x86 = target_of("x86-64").machine
    expression = Expression(bytes.fromhex("770880003f1a3b2a332422"), address_size=8, byte_order="little")
    rule = Rule(CfaExpression(expression), ((16, AtCfa(-8)),), 16)
    packed_rule = PackedTable(packed(table_of(x86, [(0, 64, rule)]))).parts["rules"][1]
    assert packed_rule["flags"] >> 4 == 11
    assert not len(PackedTable(packed(table_of(x86, [(0, 64, rule)]))).parts["steps"])
    for pc in range(0x1000, 0x1020):
        assert_same(x86, rule, {PC_X86: pc, SP_X86: 0x3000})


def test_loaded_cfa() -> None:
    # The frame of a signal: the CFA is the rsp that the kernel stored, and so is every register.
    x86 = target_of("x86-64").machine
    cfa = Expression(b"\x77\xa0\x01\x06", address_size=8, byte_order="little")
    at = [
        (number, AtExpression(Expression(bytes((0x77, 0x10 + number)), address_size=8, byte_order="little")))
        for number in range(17)
    ]
    rule = Rule(CfaExpression(cfa), tuple(at), 16, signal_frame=True)
    data = packed(table_of(x86, [(0, 16, rule)]))
    assert not len(PackedTable(data).parts["steps"])
    assert_same(x86, rule, {PC_X86: 0x1000, SP_X86: 0x3000})


def test_return_address_in_another_column() -> None:
    # AArch64's out-of-line helpers are called with the return address in x15, which their CIE names.
    arm = target_of("aarch64").machine
    rule = Rule(RegisterPlus(31, 0), (), 15)
    registers = {31: 0x3000, 32: 0x1000, 15: 0x4444, 30: 0x5555}
    data = packed(table_of(arm, [(0x1000, 0x1010, rule)]))
    status, got = apply(data, 1, registers, False)
    assert (status, got[32], got[30]) == (CALLED, 0x4444, 0x5555)
