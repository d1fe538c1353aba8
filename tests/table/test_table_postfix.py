"""Expressions in Breakpad's postfix language: against an evaluator of its own, and the other way against DWARF's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "write"))

from stack_cfi_evaluator import Failure
from stack_cfi_evaluator import evaluate as postfix_value

from clew.arch import Machine, machine_named
from clew.errors import EvaluationError, FormatError
from clew.table import Expression, evaluate
from clew.table.expression import Step
from clew.table.postfix import from_postfix, literal, to_postfix
from clew.table.postfix_registers import register_name, register_number
from clew.testing import Op

X86_64, I386, POWERPC = (machine_named(name) for name in ("x86-64", "i386", "powerpc"))

ARITHMETIC = ["plus", "minus", "mul", "div", "mod", "and", "or", "xor", "shl", "shr", "shra"]
BINARY = [*ARITHMETIC, "eq", "ge", "gt", "le", "lt", "ne"]


class Memory:
    """Every address has bytes, of its own."""

    def read(self, address: int, size: int) -> bytes:
        return bytes((address + i) * 2654435761 >> 7 & 0xFF for i in range(size))


def expression(machine: Machine, *steps: Step) -> Expression:
    return Expression.from_canonical(steps, address_size=machine.address_size, byte_order=machine.byte_order)


def said(machine: Machine, *steps: Step, cfa: bool = True) -> str | None:
    return to_postfix(expression(machine, *steps), machine, cfa=cfa)


def value(text: str, machine: Machine, registers: dict[int, int], cfa: int) -> int | None:
    """What the text is by the other evaluator."""
    size = machine.address_size
    names = {register_name(machine, number): content for number, content in registers.items()}

    def load(address: int) -> int:
        return int.from_bytes(Memory().read(address, size), machine.byte_order)

    try:
        return postfix_value(text, {**names, ".cfa": cfa}, load, machine.bits)
    except Failure:
        return None


def dwarf(of: Expression, registers: dict[int, int], cfa: int) -> int | None:
    """What the expression is by clew's definition of DWARF's operators."""
    try:
        return evaluate(of, registers=registers, memory=Memory(), initial=(cfa,))
    except EvaluationError:
        return None


@pytest.mark.parametrize(
    ("data", "constant", "text"),
    [
        # The PLT of GNU ld and of lld on x86-64; with -z ibtplt; on x32.
        (Op.breg(7, 8) + Op.breg(16, 0) + Op.lit(15), 11, "$rsp 8 + $rip 16 % 5 + 16 / 8 * +"),
        (Op.breg(7, 8) + Op.breg(16, 0) + Op.lit(15), 9, "$rsp 8 + $rip 16 % 7 + 16 / 8 * +"),
    ],
)
def test_the_cfa_of_a_plt(data: bytes, constant: int, text: str) -> None:
    data += Op.and_ + Op.lit(constant) + Op.ge + Op.lit(3) + Op.shl + Op.plus
    plt = Expression(data, address_size=8, byte_order="little")
    assert to_postfix(plt, X86_64, cfa=False) == text
    assert from_postfix(text.split(), X86_64, cfa=False) == plt
    for pc in range(0x1000, 0x1040):
        expected = 0x7FFE_0000 + 8 + (8 if pc % 16 >= constant else 0)
        assert value(text, X86_64, {7: 0x7FFE_0000, 16: pc}, 0) == expected


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 11, 15])
@pytest.mark.parametrize("name", ["ge", "gt", "le", "lt", "eq", "ne"])
def test_comparisons_of_low_bits_at_all_residues(name: str, bound: int) -> None:
    steps: tuple[Step, ...] = ("register", 16, 0), ("push", 15), ("and",), ("push", bound), (name,)
    text = said(X86_64, *steps)
    assert text is not None
    assert len(text.split()) <= 13
    for pc in range(64):
        residue = pc % 16
        expected = {
            "ge": residue >= bound,
            "gt": residue > bound,
            "le": residue <= bound,
            "lt": residue < bound,
            "eq": residue == bound,
            "ne": residue != bound,
        }[name]
        assert value(text, X86_64, {16: pc}, 0) == expected, (text, pc)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([("push", 8), ("plus",)], ".cfa 8 +"),
        ([("push", (1 << 64) - 8), ("plus",)], ".cfa -8 +"),
        ([("register", 6, -16), ("deref", 8)], "$rbp -16 + ^"),
        ([("register", 6, 0), ("push", (1 << 64) - 64), ("and",)], "$rbp 64 @"),
        ([("register", 6, 0), ("push", 0xFF0), ("and",)], "$rbp 4096 % 16 @"),
        ([("register", 6, 0), ("push", 3), ("shl",)], "$rbp 8 *"),
        ([("register", 6, 0), ("push", 3), ("shr",)], "$rbp 8 /"),
        ([("register", 6, 0), ("push", 63), ("shr",)], "$rbp -9223372036854775808 /"),
        ([("register", 6, 0), ("push", 7), ("or",)], "$rbp 8 @ 7 +"),
        ([("register", 6, 0), ("neg",)], "0 $rbp -"),
        ([("register", 6, 0), ("not",)], "-1 $rbp -"),
        ([("register", 6, 0), ("deref", 4)], "$rbp ^ 4294967296 %"),
        ([("register", 6, 0), ("pick", 1), ("minus",)], "$rbp .cfa -"),
        ([("push", 6), ("push", 7), ("mul",), ("drop",)], ".cfa"),
        ([("register", 6, 0), ("register", 3, 0), ("swap",), ("minus",)], "$rbx $rbp -"),
    ],
)
def test_what_is_said(steps: list[Step], text: str) -> None:
    assert said(X86_64, *steps) == text


@pytest.mark.parametrize(
    "steps",
    [
        [("register", 6, 0), ("register", 3, 0), ("and",)],
        [("register", 6, 0), ("register", 3, 0), ("shl",)],
        [("register", 6, 0), ("push", 0b1010101010), ("and",)],
        [("skip", 0)],
        [("register", 6, 0), ("deref", 8), ("bra", 0)],
        [("drop",), ("drop",)],
        [("drop",)],
        [("pick", 7)],
        [("plus",)],
        [("register", 6, 0)] + 12 * [("pick", 0), ("plus",)],
    ],
)
def test_what_has_no_form(steps: list[Step]) -> None:
    assert said(X86_64, *steps) is None


def test_a_branch_without_loads_is_a_sum() -> None:
    # rbx ? rbp : cfa
    text = said(X86_64, ("register", 3, 0), ("bra", 3), ("skip", 4), ("register", 6, 0))
    assert text is not None
    for condition in (0, 1, 2, 1 << 63, (1 << 64) - 1):
        assert value(text, X86_64, {3: condition, 6: 66}, 77) == (66 if condition else 77)


EDGES = (0, 1, 2, 3, 7, 8, 11, 15, 16, 0xFF, 0xFFF0, 0x7FFFFFFF, 0x80000000, (1 << 32) - 1, 1 << 63, (1 << 64) - 16)
numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, (1 << 64) - 1), st.integers(0, 40))


@st.composite
def programs(draw: st.DrawFn) -> tuple[Machine, list[Step]]:
    """A machine, and steps that find what they need on a stack that begins with the CFA."""
    machine = draw(st.sampled_from((X86_64, I386, POWERPC)))
    mask = (1 << machine.bits) - 1
    steps: list[Step] = []
    depth = 1
    for _ in range(draw(st.integers(1, 8))):
        choice = draw(st.integers(0, 5))
        if choice <= 1:
            steps.append(("push", draw(numbers) & mask))
            depth += 1
        elif choice == 2:
            steps.append(("register", draw(st.sampled_from((3, 5))), draw(st.sampled_from((0, 8, -16)))))
            depth += 1
        elif choice == 3:
            one = st.sampled_from(("abs", "neg", "not", "deref", "deref", "pick"))
            name = draw(one)
            if name == "deref":
                steps.append(("deref", draw(st.integers(1, machine.address_size))))
            elif name == "pick":
                steps.append(("pick", draw(st.integers(0, depth - 1))))
                depth += 1
            else:
                steps.append((name,))
        elif depth >= 2:
            steps.append((draw(st.sampled_from(BINARY)),))
            depth -= 1
    return machine, steps


@settings(max_examples=400, deadline=None)
@given(programs(), numbers, numbers, numbers)
def test_both_ways_mean_the_same(program: tuple[Machine, list[Step]], first: int, second: int, cfa: int) -> None:
    machine, steps = program
    mask = (1 << machine.bits) - 1
    registers = {3: first & mask, 5: second & mask}
    made = expression(machine, *steps)
    text = to_postfix(made, machine, cfa=True)
    if text is None:
        return
    expected = dwarf(made, registers, cfa & mask)
    found = value(text, machine, registers, cfa & mask)
    # What DWARF computes in vain, and fails at, the text need not have.
    if expected is not None:
        assert found == expected, text
    try:
        back = from_postfix(text.split(), machine, cfa=True)
    except FormatError:
        return
    assert dwarf(back, registers, cfa & mask) == found, (text, back)


tokens = st.lists(
    st.one_of(
        st.sampled_from(["+", "-", "*", "/", "%", "@", "^", ".cfa", "$rbx", "$rbp", "16", "8", "1", "0", "-8"]),
        numbers.map(str),
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=400, deadline=None)
@given(tokens, numbers, numbers, numbers)
def test_any_text_is_read_for_what_it_says(text: list[str], first: int, second: int, cfa: int) -> None:
    try:
        read = from_postfix(text, X86_64, cfa=True)
    except FormatError:
        return
    try:
        # Text that others wrote may have literals that only Breakpad takes.
        expected = value(" ".join(text), X86_64, {3: first, 6: second}, cfa)
    except AssertionError:
        return
    if "@" in text and expected is None:
        # Breakpad aligns to anything, rust-minidump fails.
        return
    assert dwarf(read, {3: first, 6: second}, cfa) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("+", "too little"),
        ("8 ^ +", "too little"),
        ("^", "too little"),
        ("", "leaves 0"),
        ("8 8", "leaves 2"),
        ("$rbx 8 =", "there is no ="),
        ("$nothing", r"there is no \$nothing"),
        (".undef", "there is no .undef"),
        ("18446744073709551616", "does not fit"),
        ("9" * 5000, "does not fit"),
        ("$rbx 12 @", "no power of two"),
        ("$rbx $rbp /", "no operator"),
    ],
)
def test_text_that_means_nothing(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        from_postfix(text.split(), X86_64, cfa=True)


@pytest.mark.parametrize("text", ["$rbx 0 /", "$rbx 0 %", "8 0 /", "0 0 %"])
def test_division_by_zero_is_read_and_has_no_value(text: str) -> None:
    read = from_postfix(text.split(), X86_64, cfa=True)
    assert dwarf(read, {3: 5}, 0) is None


def test_the_cfa_is_not_there_for_itself() -> None:
    with pytest.raises(FormatError, match=r"there is no \.cfa"):
        from_postfix([".cfa", "8", "+"], X86_64, cfa=False)


def test_unsigned_division_is_exact() -> None:
    top = (1 << 64) - 1
    for divisor in (3, 7, 10, 1000, (1 << 61) + 1):
        read = from_postfix(["$rbx", str(divisor), "/"], X86_64, cfa=True)
        for number in (0, 1, divisor - 1, divisor, 2 * divisor - 1, top, top - divisor, 1 << 63, (1 << 63) - 1):
            assert dwarf(read, {3: number}, 0) == number // divisor


def test_literals() -> None:
    assert literal("007", 64) == 7
    assert literal("-1", 32) == 0xFFFFFFFF
    assert literal("4294967295", 32) == 0xFFFFFFFF
    assert [literal(text, 32) for text in ("4294967296", "-4294967296", "+1", "1_0", "0x10", "", "-", "٣")] == 8 * [
        None
    ]


@pytest.mark.parametrize(
    ("machine", "number", "name"),
    [
        ("x86-64", 16, "$rip"),
        ("i386", 4, "$esp"),
        ("arm", 13, "sp"),
        ("arm", 11, "r11"),
        ("aarch64", 29, "x29"),
        ("riscv64", 2, "sp"),
        ("riscv64", 40, "f8"),
        ("mips", 29, "$sp"),
        ("mips64", 8, "$t0"),
        ("powerpc64", 1, "$r1"),
        ("s390x", 15, "$r15"),
        ("x86-64", 200, "$r200"),
    ],
)
def test_names_of_registers(machine: str, number: int, name: str) -> None:
    assert register_name(machine_named(machine), number) == name
    assert register_number(machine_named(machine), name) == number


def test_names_that_others_write() -> None:
    arm = machine_named("aarch64")
    assert register_number(arm, "$x19") == register_number(arm, "x19") == 19
    assert register_number(arm, "unnamed_register34") == 34
    assert register_number(X86_64, "rbx") == 3
    assert register_number(X86_64, "$nothing") is None
