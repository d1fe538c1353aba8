"""Compiled unwinders do what the walker does: every term of a rule, both back ends, both interfaces, local and remote memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from compiled_runs import MIDDLE, compiled, expected, frame_of, run

from clew.arch import Machine, machine_named
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
    table_of,
)
from clew.table.expression import Step
from clew.write.compiled import Outcome, abi_of
from clew.write.compiled.abi import AbiName

X86_64 = machine_named("x86-64")
AARCH64 = machine_named("aarch64")
CFA = RegisterPlus(7, 8)
RIP = 16, AtCfa(-8)
INVALID = InvalidExpression(b"\xff", "unknown operator")

BOTH = pytest.mark.parametrize("backend", ["asm", "c"])
INTERFACES = pytest.mark.parametrize(
    ("abi", "deref"), [("full", False), ("full", True), ("paper", False), ("paper", True)]
)


def expression(*steps: Step) -> Expression:
    return Expression.from_canonical(steps, address_size=8, byte_order="little")


def rule(
    *registers: tuple[int, RegisterRule],
    cfa: RegisterPlus | CfaExpression | None = CFA,
    ra: int = 16,
    signal: bool = False,
) -> Rule:
    return Rule(cfa, tuple(sorted(registers, key=lambda one: one[0])), ra, signal)


def value(*steps: Step) -> Rule:
    """A rule that has an expression's value in rbx."""
    return rule(RIP, (3, IsExpression(expression(*steps))))


def table(rules: Sequence[Rule], machine: Machine = X86_64) -> Table:
    """A row of 16 bytes for each rule."""
    return table_of(machine, [(16 * turn, 16 * turn + 16, each) for turn, each in enumerate(rules, 0x100)])


def check(
    rules: Sequence[Rule],
    folder: Path,
    backend: str,
    abi: AbiName,
    deref: bool,
    *,
    unknown: Sequence[int] = (),
    holes: bool = False,
    machine: Machine = X86_64,
) -> list[list[int]]:
    """Compares each rule with the walker; what the compiled unwinder does."""
    registers = frame_of(machine, unknown)
    interface = abi_of(machine, abi)
    data = compiled(table(rules, machine), backend, abi, deref)
    addresses = [16 * turn for turn in range(0x100, 0x100 + len(rules))]
    found = run(data, interface, addresses, registers, folder, deref=deref, holes=holes).tolist()
    for each, is_now in zip(rules, found, strict=True):
        wanted = expected(each, interface, registers, holes=holes)
        assert is_now[: len(wanted)] == wanted, each.text(machine)
        if len(wanted) == 1:
            pc = interface.registers.index(interface.pc)
            assert is_now[1] >> interface.known[pc] & 1
            assert is_now[2 + pc] == 0
    return found


PLAIN = [
    rule(RIP),
    rule(RIP, (6, AtCfa(-16)), (3, AtCfa(-24)), (12, AtCfa(-32)), (15, AtCfa(-0x8000)), cfa=RegisterPlus(6, 16)),
    rule(RIP, (12, AtCfa(-24)), cfa=RegisterPlus(10, 0)),
    rule(RIP, (3, CfaPlus(0)), (6, CfaPlus(24)), (14, CfaPlus(-(1 << 40))), (13, CfaPlus(1 << 31))),
    # All at once from the old frame.
    rule(RIP, (3, InRegister(12)), (12, InRegister(3)), (6, InRegister(7)), (7, InRegister(6))),
    # As in glibc's vfork and swapcontext.
    rule((16, InRegister(2)), (7, InRegister(8))),
    rule((16, CfaPlus(0x20))),
    rule((16, InRegister(40))),
    rule((16, InRegister(6)), (6, InRegister(20)), (3, InRegister(99))),
    rule((16, Undefined())),
    rule((16, Undefined()), cfa=None),
    rule(RIP, (3, Undefined()), (0, SameValue()), (6, SameValue())),
    rule((16, SameValue())),
    rule((16, Architectural())),
    rule(RIP, (6, Architectural())),
    rule(RIP, cfa=None),
    rule(cfa=CFA),
    rule(ra=3),
    rule(ra=2),
    rule(ra=7),
    rule((49, AtCfa(-8)), ra=49),
    # Vector registers, which the frame does not have.
    rule(RIP, (17, AtCfa(-64)), (18, Undefined())),
    rule(RIP, cfa=RegisterPlus(17, 8)),
    rule(RIP, cfa=CfaExpression(INVALID)),
    rule((16, AtExpression(INVALID))),
    rule((16, IsExpression(INVALID))),
    rule(RIP, (3, AtExpression(INVALID)), (6, IsExpression(INVALID))),
    rule(RIP, cfa=CfaExpression(expression(("register", 7, 8), ("register", 16, 0), ("push", 8), ("and",), ("plus",)))),
    rule(RIP, cfa=CfaExpression(expression(("register", 10, -8), ("deref", 8)))),
    rule(RIP, cfa=CfaExpression(expression(("plus",)))),
    rule((16, AtExpression(expression(("push", 8), ("minus",))))),
    rule((16, IsExpression(expression(("register", 6, 4))))),
    rule((16, IsExpression(expression(("register", 60, 4))))),
    rule((16, AtExpression(expression()))),
    # A signal's frame: everything is in memory.
    rule(
        *((n, AtExpression(expression(("register", 7, 40 + 8 * n)))) for n in range(17)),
        cfa=CfaExpression(expression(("register", 7, 160), ("deref", 8))),
        signal=True,
    ),
    rule(RIP, (3, AtExpression(expression(("push", 24), ("minus",)))), (12, AtCfa(-40)), (13, InRegister(3))),
]

M = 1 << 63
UNARY = ("abs", "neg", "not")
BINARY = (
    "plus",
    "minus",
    "mul",
    "div",
    "mod",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "shra",
    "eq",
    "ne",
    "ge",
    "gt",
    "le",
    "lt",
)
ARITHMETIC = [
    value(("push", a), ("push", b), (name,))
    for name in BINARY
    for a, b in [
        (7, 3),
        (M, (1 << 64) - 1),
        ((1 << 64) - 8, 3),
        (5, 64),
        (M, 70),
        (3, 0),
        (1 << 40, 1 << 33),
        (9, 9),
        (M, 1 << 63),
    ]
] + [value(("push", a), (name,)) for name in UNARY for a in (0, 5, M, (1 << 64) - 5)]

SHAPES = [
    value(("swap",)),
    value(("push", 1), ("swap",)),
    value(("push", 1), ("push", 2), ("rot",)),
    value(("push", 1), ("push", 2), ("rot",), ("drop",)),
    value(("push", 1), ("push", 2), ("rot",), ("drop",), ("drop",)),
    value(("push", 1), ("rot",)),
    value(("push", 1), ("push", 2), ("pick", 2)),
    value(("push", 1), ("push", 2), ("pick", 3)),
    value(("drop",)),
    value(("drop",), ("drop",)),
    *(value(("register", 6, 3), ("deref", size)) for size in range(1, 9)),
    *(value(*[("push", 1)] * count) for count in (255, 256)),
    value(*[("push", 1), ("drop",)] * 5000),
    value(*[("push", 1), ("drop",)] * 5000, ("push", 1)),
]

# sum of 10, 9, …, 1
LOOP: list[Step] = [
    ("push", 0),
    ("push", 10),
    ("pick", 0),
    ("rot",),
    ("plus",),
    ("swap",),
    ("push", 1),
    ("minus",),
    ("pick", 0),
    ("bra", 2),
    ("drop",),
]
BRANCHES = [
    value(*LOOP),
    value(("skip", 0)),
    value(("push", 1), ("skip", 0)),
    value(("push", 1), ("bra", 0)),
    value(("drop",), ("skip", 0)),
    value(("push", 0), ("bra", 0)),
    value(("skip", 1)),
    value(("drop",), ("skip", 2)),
    value(("push", 1), ("bra", 3), ("push", 2), ("push", 4)),
    value(("push", 0), ("bra", 3), ("push", 2), ("push", 4)),
    value(("push", 1), ("bra", 4), ("drop",), ("push", 5), ("plus",)),
    value(("register", 6, 0), ("push", 1), ("bra", 4), ("push", 9), ("deref", 8)),
    value(("push", 1), ("bra", 3), ("register", 50, 0), ("push", 3)),
    value(("push", 0), ("bra", 3), ("register", 50, 0), ("push", 3)),
    # Steps are counted where they are many: 10,000 are allowed.
    value(("push", 3333), ("push", 1), ("minus",), ("pick", 0), ("bra", 1)),
    value(("push", 2499), ("push", 1), ("minus",), ("pick", 0), ("bra", 1)),
    value(("push", 2500), ("push", 1), ("minus",), ("pick", 0), ("bra", 1)),
    rule((16, AtExpression(expression(("push", 0), ("bra", 3), ("push", 8), ("minus",))))),
    rule(RIP, cfa=CfaExpression(expression(("register", 7, 8), ("skip", 3), ("push", 8), ("push", 1), ("bra", 5)))),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@BOTH
@INTERFACES
@pytest.mark.parametrize("unknown", [(), (7,), (6, 2, 10, 3), tuple(range(17))], ids=str)
def test_every_term(backend: str, abi: AbiName, deref: bool, unknown: tuple[int, ...], folder: Path) -> None:
    # The walker always knows the pc.
    check(PLAIN, folder, backend, abi, deref, unknown=[number for number in unknown if number != 16])


@BOTH
@INTERFACES
def test_expressions(backend: str, abi: AbiName, deref: bool, folder: Path) -> None:
    check(ARITHMETIC + SHAPES + BRANCHES, folder, backend, abi, deref)


def test_a_loop_gives_what_it_says(folder: Path) -> None:
    found = check([BRANCHES[0]], folder, "asm", "full", False)
    # rbx is the fourth register.
    assert found[0][2 + 3] == 55


@BOTH
def test_memory_that_cannot_be_read(backend: str, folder: Path) -> None:
    far = [rule((16, AtCfa(1 << 33)), cfa=RegisterPlus(6, -(1 << 45))), rule(RIP, cfa=RegisterPlus(7, 1 << 62))]
    far += [rule(RIP, (12, AtCfa(-(1 << 63))), (13, AtCfa(1 << 40)), (3, AtExpression(expression(("push", 0)))))]
    far += [value(("push", 0), ("deref", size)) for size in range(1, 9)]
    # Blocks of 64 bytes: loads of a few bytes at the end of one that can be read, before one that cannot.
    edges = [value(("push", MIDDLE + 8 * place + 5), ("deref", 3)) for place in range(64)]
    saved = [rule((16, AtCfa(8 * n)), *((r, AtCfa(64 * (n + r))) for r in (3, 6, 12))) for n in range(64)]
    expressions = [rule((16, AtExpression(expression(("push", 64 * n), ("plus",))))) for n in range(16)]
    found = check(far + edges + saved + expressions, folder, backend, "full", True, holes=True)
    assert {row[0] for row in found} == {Outcome.CALLED, Outcome.UNREADABLE & (1 << 64) - 1}


def _random_steps(chance: random.Random) -> list[Step]:
    plain = ["drop", "swap", "rot", *UNARY, *BINARY]
    count = chance.randrange(1, 14)
    steps: list[Step] = []
    for _ in range(count):
        match chance.randrange(10):
            case 0 | 1 | 2:
                steps.append(("push", chance.choice([0, 1, 8, 63, MIDDLE, M, (1 << 64) - 1, chance.getrandbits(64)])))
            case 3 | 4:
                steps.append(("register", chance.choice([0, 3, 6, 7, 16, 17]), chance.randrange(-4096, 4096)))
            case 5:
                steps.append(("deref", chance.randrange(1, 9)))
            case 6:
                steps.append(("pick", chance.randrange(3)))
            case 7 if chance.random() < 0.5:
                steps.append((chance.choice(["bra", "skip"]), chance.randrange(count + 1)))
            case _:
                steps.append((chance.choice(plain),))
    return steps


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_random_rules(backend: str, seed: int, folder: Path) -> None:
    chance = random.Random(seed)

    def term() -> RegisterRule:
        match chance.randrange(7):
            case 0:
                return AtCfa(8 * chance.randrange(-64, 64))
            case 1:
                return CfaPlus(chance.getrandbits(chance.choice([6, 12, 40])))
            case 2:
                return InRegister(chance.randrange(20))
            case 3:
                return chance.choice([Undefined(), SameValue()])
            case 4:
                return AtExpression(expression(*_random_steps(chance)))
            case _:
                return IsExpression(expression(*_random_steps(chance)))

    rules = []
    for _ in range(150):
        cfa: RegisterPlus | CfaExpression = RegisterPlus(chance.choice([3, 6, 7, 10]), 8 * chance.randrange(-50, 50))
        if chance.random() < 0.2:
            cfa = CfaExpression(expression(*_random_steps(chance)))
        named = {number: term() for number in chance.sample(range(16), chance.randrange(6))}
        named[16] = AtCfa(-8) if chance.random() < 0.5 else term()
        rules.append(Rule(cfa, tuple(sorted(named.items())), 16, chance.random() < 0.1))
    check(rules, folder, backend, "full", True, unknown=(2, 14), holes=True)


A_CFA = RegisterPlus(31, 16)
PAC = 0x5A << 48


@pytest.mark.parametrize("deref", [False, True])
def test_aarch64(deref: bool, folder: Path) -> None:
    rules = [
        Rule(A_CFA, ((29, AtCfa(-16)), (30, AtCfa(-8))), 30),
        Rule(A_CFA, (), 30),
        Rule(A_CFA, (), 30, signing=Signing.SIGNED),
        Rule(A_CFA, ((30, AtCfa(-8)),), 30, signing=Signing.SIGNED_WITH_PC, key_b=True),
        Rule(A_CFA, ((19, InRegister(20)), (20, InRegister(19)), (30, InRegister(16))), 30),
        # glibc's _dl_runtime_resolve.
        Rule(A_CFA, ((30, AtCfa(8)),), 30),
        Rule(RegisterPlus(31, -16), ((30, AtCfa(-8)),), 30),
        Rule(A_CFA, (*((n, AtExpression(expression(("register", 31, 8 * n)))) for n in range(33)),), 32, True),
        Rule(A_CFA, (), 15),
        Rule(A_CFA, ((30, Undefined()),), 30),
        Rule(A_CFA, ((64, AtCfa(-24)), (30, AtCfa(-8))), 30),
    ]
    check(rules, folder, "c", "full", deref, machine=AARCH64)


@pytest.mark.parametrize(
    ("link", "pc"),
    [
        (0x0000_1234_5678_9ABC, 0x0000_1234_5678_9ABC),
        (0x0055_1234_5678_9ABC, 0x0000_1234_5678_9ABC),
        (0xAB00_1234_5678_9ABC, 0xAB00_1234_5678_9ABC),
        (0x12D5_1234_5678_9ABC, 0x12FF_1234_5678_9ABC),
    ],
)
def test_aarch64_strips_what_bit_55_is_not(link: int, pc: int, folder: Path) -> None:
    """Linux on AArch64: the code lies in bits 54 to 48, since the top byte is ignored; bit 55 tells which half of the addresses
    it is (Documentation/arch/arm64/pointer-authentication.rst)."""
    signed = Rule(A_CFA, (), 30, signing=Signing.SIGNED)
    registers = {**frame_of(AARCH64), 30: link}
    data = compiled(table([signed, Rule(A_CFA, (), 30)], AARCH64), "c", "full", False)
    found = run(data, abi_of(AARCH64), [0x1000, 0x1010], registers, folder, deref=False).tolist()
    assert [row[2 + 32] for row in found] == [pc, link]
    assert [row[2 + 30] for row in found] == [link, link]
