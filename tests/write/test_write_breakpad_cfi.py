"""``STACK CFI`` text, written out by hand next to the rows that it is of; whole libraries are in tests/peers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_cfi_evaluator import Records

from clew.arch import Machine, machine_named
from clew.image import Image
from clew.read.breakpad.cfi import read_cfi
from clew.read.frames import read_table
from clew.table import (
    Architectural,
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
    Table,
    Undefined,
    compare,
    table_of,
)
from clew.table.rule import parse_expression
from clew.testing import Cfa, CfiBuilder, ElfBuilder, Op
from clew.write.breakpad import cfi
from clew.write.breakpad.cfi import StackCfi, stack_cfi

X86_64 = machine_named("x86-64")
CALLED = RegisterPlus(7, 8)
RIP = 16, AtCfa(-8)


def rule(cfa: RegisterPlus | CfaExpression | None, *registers: tuple[int, RegisterRule], ra: int = 16) -> Rule:
    return Rule(cfa, tuple(sorted(registers, key=lambda one: one[0])), ra)


def lines(made: StackCfi) -> list[str]:
    text = b"".join(made).decode()
    assert text.endswith("\n") or not text
    records = Records.parse(text)
    assert sum(len(rows) for _, _, rows in records.blocks) == made.records
    assert len(records.blocks) == made.initials
    return text.splitlines()


def of(*rules: Rule, machine: str = "x86-64") -> list[str]:
    """The records of rows of four bytes each from 0x1000 on, without what stands before the rules."""
    table = table_of(machine, [(0x1000 + 4 * turn, 0x1004 + 4 * turn, one) for turn, one in enumerate(rules)])
    return [" ".join(line.split()[5 if "INIT" in line else 3 :]) for line in lines(stack_cfi(table))]


def built(*functions: tuple[int, int, list[bytes]], base: int = 0) -> Image:
    """A library with an FDE for each (start, size, instructions)."""
    cfi = CfiBuilder(address=0x8000 + base)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    for start, size, instructions in functions:
        cfi.fde(cie, start=start + base, size=size, instructions=instructions)
    elf = ElfBuilder(machine=62)
    elf.section(".eh_frame", cfi.build(), address=0x8000 + base)
    return Image.from_bytes(elf.build())


def test_a_function_with_a_frame_pointer() -> None:
    image = built(
        # push %rbp; mov %rsp,%rbp; push %rbx; ...; pop %rbx; pop %rbp; ret
        (
            0x1000,
            0x20,
            [
                *(Cfa.advance(1), Cfa.def_cfa_offset(16), Cfa.offset(6, 2)),
                *(Cfa.advance(3), Cfa.def_cfa_register(6)),
                *(Cfa.advance(1), Cfa.offset(3, 3)),
                *(Cfa.advance(0x10), Cfa.restore(3)),
                *(Cfa.advance(1), Cfa.restore(6), Cfa.def_cfa(7, 8)),
            ],
        ),
        (0x1020, 0x10, []),
        (0x1040, 0x10, [Cfa.advance(4), Cfa.def_cfa_offset(24)]),
    )
    made = stack_cfi(read_table(image))
    assert lines(made) == [
        "STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI 1001 .cfa: $rsp 16 + $rbp: .cfa -16 + ^",
        "STACK CFI 1004 .cfa: $rbp 16 +",
        "STACK CFI 1005 $rbx: .cfa -24 + ^",
        "STACK CFI 1015 $rbx: $rbx",
        "STACK CFI 1016 .cfa: $rsp 8 + $rbp: $rbp",
        "STACK CFI INIT 1020 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI INIT 1040 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI 1044 .cfa: $rsp 24 +",
    ]
    assert (made.records, made.initials, made.unsaid) == (9, 3, ())
    # The text can be made again.
    assert lines(made) == lines(made)


def test_a_normalised_table_has_an_init_at_each_function_as_well() -> None:
    table = read_table(built((0x1000, 0x1C, []), (0x1020, 0x10, [Cfa.advance(4), Cfa.def_cfa_offset(24)])))
    normal = table.normalise()
    assert [(row.start, row.end) for row in normal] == [(0x1000, 0x1024), (0x1024, 0x1030)]
    assert lines(stack_cfi(normal)) == [
        "STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI INIT 1020 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI 1024 .cfa: $rsp 24 +",
    ]


def test_addresses_count_from_where_the_module_is_loaded() -> None:
    table = read_table(built((0x1000, 0x10, []), base=0x400000))
    assert lines(stack_cfi(table, base=0x400000)) == ["STACK CFI INIT 1000 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^"]
    made = stack_cfi(table, base=0x401001)
    assert lines(made) == []
    assert [(one.rows, one.examples, one.lost) for one in made.unsaid] == [(1, (0x401000,), True)]


def test_functions_inside_of_others() -> None:
    """The inner one's records end where it does, and the outer one goes on with its own."""
    image = built((0x1000, 0x40, [Cfa.advance(4), Cfa.def_cfa_offset(16)]), (0x1010, 0x10, []))
    table = read_table(image)
    assert lines(stack_cfi(table)) == [
        "STACK CFI INIT 1000 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI 1004 .cfa: $rsp 16 +",
        "STACK CFI INIT 1010 30 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI 1020 .cfa: $rsp 16 +",
    ]


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (AtCfa(-16), "$rbx: .cfa -16 + ^"),
        (AtCfa(0), "$rbx: .cfa 0 + ^"),
        (CfaPlus(8), "$rbx: .cfa 8 +"),
        (CfaPlus(0), "$rbx: .cfa"),
        (InRegister(12), "$rbx: $r12"),
        (Undefined(), "$rbx: .undef"),
        (SameValue(), ""),
        (AtExpression(Expression(Op.breg(6, 24), address_size=8, byte_order="little")), "$rbx: $rbp 24 + ^"),
        (IsExpression(Expression(Op.lit(8) + Op.minus, address_size=8, byte_order="little")), "$rbx: .cfa 8 -"),
    ],
)
def test_terms(term: RegisterRule, text: str) -> None:
    head = ".cfa: $rsp 8 + .ra: .cfa -8 + ^"
    assert of(rule(CALLED, RIP, (3, term))) == [f"{head} {text}".strip()]
    # As a change, and back to what it is where nothing names it.
    changes = of(rule(CALLED, RIP), rule(CALLED, RIP, (3, term)), rule(CALLED, RIP))
    assert changes == ([head, text, "$rbx: $rbx"] if text else [head])


def test_a_register_that_calls_do_not_preserve() -> None:
    head = ".cfa: $rsp 8 + .ra: .cfa -8 + ^"
    plain, saved = rule(CALLED, RIP), rule(CALLED, RIP, (0, AtCfa(-16)))
    assert of(plain, saved, plain) == [head, "$rax: .cfa -16 + ^", "$rax: .undef"]
    assert of(saved, rule(CALLED, RIP, (0, Undefined()))) == [f"{head} $rax: .cfa -16 + ^", "$rax: .undef"]
    # What everybody takes for granted is not said.
    assert of(rule(CALLED, RIP, (0, Undefined()))) == [head]
    assert of(rule(CALLED, RIP, (0, SameValue()))) == [f"{head} $rax: $rax"]


def test_the_stack_pointer() -> None:
    head = ".cfa: $rsp 8 + .ra: .cfa -8 + ^"
    plain, kept = rule(CALLED, RIP), rule(CALLED, RIP, (7, InRegister(8)))
    assert of(plain, kept, plain) == [head, "$rsp: $r8", "$rsp: .cfa"]
    assert of(rule(CALLED, RIP, (7, CfaPlus(0)))) == [head]
    assert of(rule(CALLED, RIP, (7, SameValue()))) == [f"{head} $rsp: $rsp"]
    # Of s390x it is not the CFA, but what it was: readers take it for the CFA unless they are told.
    s390 = Rule(RegisterPlus(15, 160), ((14, AtCfa(-48)),), 14)
    assert of(s390, machine="s390x") == [".cfa: $r15 160 + .ra: .cfa -48 + ^ $r15: $r15"]
    moved = Rule(RegisterPlus(11, 160), ((14, AtCfa(-48)), (15, AtCfa(-40))), 14)
    assert of(s390, moved, s390, machine="s390x")[1:] == [
        ".cfa: $r11 160 + $r15: .cfa -40 + ^",
        ".cfa: $r15 160 + $r15: $r15",
    ]


def test_the_return_address() -> None:
    # _start: nobody called it. Both processors end at a return address below 4096, and go on behind .undef.
    assert of(rule(CALLED, (16, Undefined()))) == [".cfa: $rsp 8 + .ra: 16"]
    assert of(rule(CALLED, RIP), rule(CALLED, (16, Undefined())))[1:] == [".ra: 16"]
    assert of(rule(CALLED, (16, InRegister(2)))) == [".cfa: $rsp 8 + .ra: $rcx"]
    # In the link register until it is saved.
    leaf, saved = Rule(RegisterPlus(31, 0), (), 30), Rule(RegisterPlus(31, 16), ((29, AtCfa(-16)), (30, AtCfa(-8))), 30)
    assert of(leaf, saved, leaf, machine="aarch64") == [
        ".cfa: sp 0 + .ra: x30",
        ".cfa: sp 16 + .ra: .cfa -8 + ^ x29: .cfa -16 + ^",
        ".cfa: sp 0 + .ra: x30 x29: x29",
    ]
    # RISC-V's millicode is called by way of t0.
    assert of(Rule(RegisterPlus(2, 0), (), 5), machine="riscv64") == [".cfa: sp 0 + .ra: t0"]
    # A signal frame of ARM restores both.
    both = Rule(RegisterPlus(13, 0), ((14, AtCfa(88)), (15, AtCfa(92))), 15)
    table = table_of("arm", [(0, 4, both)])
    made = stack_cfi(table)
    assert lines(made) == ["STACK CFI INIT 0 4 .cfa: sp 0 + .ra: .cfa 92 + ^ lr: .cfa 88 + ^"]
    assert list(compare(table, read_cfi(b"".join(made), table.machine))) == []
    # Another column than usual: then the usual register is one like others.
    assert of(rule(CALLED, (2, AtCfa(-8)), ra=2)) == [".cfa: $rsp 8 + .ra: .cfa -8 + ^"]


def test_the_plt() -> None:
    data = Op.breg(7, 8) + Op.breg(16, 0) + Op.lit(15) + Op.and_ + Op.lit(11) + Op.ge + Op.lit(3) + Op.shl + Op.plus
    cfa = CfaExpression(Expression(data, address_size=8, byte_order="little"))
    assert of(rule(RegisterPlus(7, 16), RIP), rule(cfa, RIP)) == [
        ".cfa: $rsp 16 + .ra: .cfa -8 + ^",
        ".cfa: $rsp 8 + $rip 16 % 5 + 16 / 8 * +",
    ]


def test_what_cannot_be_said_is_counted() -> None:
    loop = Expression(Op.skip(-3), address_size=8, byte_order="little")
    bad = parse_expression(b"\xff", X86_64)
    good = rule(CALLED, RIP)
    rows = [
        good,
        rule(None, RIP),
        rule(CfaExpression(loop), RIP),
        rule(CfaExpression(bad), RIP),
        rule(CALLED),
        rule(CALLED, (16, IsExpression(loop))),
        good,
        rule(CALLED, RIP, (3, AtCfa(-16))),
        rule(CALLED, RIP, (3, AtExpression(loop))),
        rule(CALLED, RIP, (3, IsExpression(bad)), (6, Architectural())),
        Rule(CALLED, (RIP,), 16, signal_frame=True),
        Rule(CALLED, (RIP,), 16, signing=Signing.SIGNED),
    ]
    made = stack_cfi(table_of("x86-64", [(4 * turn, 4 * turn + 4, one) for turn, one in enumerate(rows)]))
    assert lines(made) == [
        "STACK CFI INIT 0 4 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI INIT 18 18 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI 1c $rbx: .cfa -16 + ^",
        "STACK CFI 20 $rbx: .undef",
        "STACK CFI 24 $rbp: .undef",
        "STACK CFI 28 $rbx: $rbx $rbp: $rbp",
    ]
    unsaid = {one.reason: (one.rows, one.examples, one.lost) for one in made.unsaid}
    assert unsaid == {
        "the row has no CFA": (1, (4,), True),
        "the CFA's expression has no form in postfix": (1, (8,), True),
        "the CFA's expression cannot be read": (1, (12,), True),
        "nothing is known of the return address": (1, (16,), True),
        "the return address's expression has no form in postfix": (1, (20,), True),
        "a register's expression has no form in postfix": (1, (32,), False),
        "a register's expression cannot be read": (1, (36,), False),
        "only the machine knows where the register is": (1, (36,), False),
        "the frame is a signal's: its caller's address is that of an instruction to come": (1, (40,), False),
        "the return address is signed": (1, (44,), False),
    }


def test_a_table_without_rows() -> None:
    made = stack_cfi(table_of("x86-64", []))
    assert lines(made) == []
    assert (made.records, made.unsaid) == (0, ())


def test_more_changes_than_any_program_has_become_whole_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cfi, "_MOST_CHANGES", 1 << 12)
    many = [rule(CALLED, RIP, *((number, AtCfa(-8 * turn)) for number in range(200, 220))) for turn in range(40)]
    for dense in (cfi._DENSE, 1):
        monkeypatch.setattr(cfi, "_DENSE", dense)
        table = table_of("x86-64", [(4 * turn, 4 * turn + 4, many[turn * 7 % 40]) for turn in range(100)])
        made = stack_cfi(table)
        assert 1 < made.initials < made.records == 100
        assert not made.unsaid
        assert list(compare(table, read_cfi(b"".join(made), table.machine))) == []


def test_more_rules_than_any_program_has_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cfi, "_MOST_CELLS", 30)
    many = [rule(CALLED, RIP, (3, AtCfa(-8 * turn))) for turn in range(40)]
    made = stack_cfi(table_of("x86-64", [(4 * turn, 4 * turn + 4, one) for turn, one in enumerate(many)]))
    assert [(one.rows, one.lost) for one in made.unsaid] == [(29, True)]
    assert made.records == 11


MACHINES = [
    machine_named(name) for name in ("x86-64", "i386", "aarch64", "arm", "riscv64", "mips", "powerpc64", "s390x")
]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Tables of a few rules, all of which the format can say."""
    machine: Machine = draw(st.sampled_from(MACHINES))
    top = 1 << (machine.bits - 1)
    offsets = st.one_of(st.integers(-64, 64).map(lambda n: 8 * n), st.integers(-top, top - 1))
    numbers = [n for n in range(32) if n not in (machine.return_address, machine.program_counter)]
    registers = st.sampled_from(numbers)

    def expression(data: bytes) -> Expression:
        return Expression(data, address_size=machine.address_size, byte_order=machine.byte_order)

    # In the form that is read back, of several that mean the same.
    inner = st.builds(
        lambda n, k: expression(Op.breg(n, 8 * k) + Op.deref + Op.lit(4) + Op.plus), registers, st.integers(1, 9)
    )
    outer = st.builds(lambda k: expression(Op.lit(8) + Op.minus + Op.lit(k) + Op.mul), st.integers(3, 9))
    term: st.SearchStrategy[RegisterRule] = st.one_of(
        st.just(Undefined()),
        st.just(SameValue()),
        offsets.map(AtCfa),
        offsets.map(CfaPlus),
        registers.map(InRegister),
        st.one_of(inner, outer).map(AtExpression),
        st.one_of(inner, outer).map(IsExpression),
    )
    cfa = st.one_of(st.builds(RegisterPlus, registers, offsets), inner.map(CfaExpression))
    returned = st.one_of(st.just(Undefined()), offsets.map(AtCfa), registers.map(InRegister), inner.map(IsExpression))
    rules = []
    for _ in range(draw(st.integers(1, 5))):
        named = draw(st.dictionaries(registers, term, max_size=4))
        # A register in itself has not changed.
        named = {n: SameValue() if one == InRegister(n) else one for n, one in named.items()}
        named[machine.return_address] = draw(returned)
        rules.append(Rule(draw(cfa), tuple(sorted(named.items())), machine.return_address))
    rows = []
    at = draw(st.sampled_from((0, 0x1000, (1 << 64) - 0x2000)))
    for _ in range(draw(st.integers(0, 12))):
        at += draw(st.sampled_from((0, 0, 0, 8)))
        size = draw(st.integers(1, 16))
        rows.append((at, at + size, draw(st.sampled_from(rules))))
        at += size
    return table_of(machine, rows)


@settings(max_examples=300, deadline=None)
@given(tables())
def test_a_table_is_read_again(table: Table) -> None:
    made = stack_cfi(table)
    assert made.unsaid == ()
    again = read_cfi(b"".join(made), table.machine)
    assert again.problems == ()
    assert list(compare(table, again)) == []
    assert list(compare(table.normalise(1), again)) == []
