"""``STACK CFI`` records into tables: the document's example, and what real and damaged files have besides."""

from __future__ import annotations

import pytest

from clew.arch import machine_named
from clew.errors import Problem
from clew.read.breakpad.cfi import read_cfi, read_cfi_runs
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
    Rule,
    SameValue,
    Table,
    Undefined,
)
from clew.testing import Op

X86_64, I386, ARM, S390X = (machine_named(name) for name in ("x86-64", "i386", "arm", "s390x"))
HEAD = "STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^"
PLAIN = Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16)


def read(*lines: str) -> Table:
    return read_cfi("\n".join([*lines, ""]).encode(), X86_64)


def rows(table: Table) -> list[tuple[int, int, Rule]]:
    return [(row.start, row.end, row.rule) for row in table]


def told(table: Table) -> list[tuple[int | None, str, bool]]:
    return [(problem.line, problem.message, problem.lost) for problem in table.problems]


def test_the_example_of_the_document() -> None:
    """symbol_files.md, "STACK CFI records", with the registers of ARM; its machine has instructions of one byte."""
    table = read_cfi(
        b"STACK CFI INIT 1000 17 .cfa: sp .ra: .cfa ^\n"
        b"STACK CFI      1001 .cfa: sp 16 +\n"
        b"STACK CFI      1002 r0: .cfa 4 - ^\n"
        b"STACK CFI      100b .cfa: sp 20 +\n"
        b"STACK CFI      1015 r0: r0\n"
        b"STACK CFI      1016 .cfa: sp\n",
        ARM,
    )
    ra = (14, AtCfa(0))

    def at(offset: int, *registers: tuple[int, AtCfa | SameValue]) -> Rule:
        return Rule(RegisterPlus(13, offset), (*registers, ra), 14)

    assert rows(table) == [
        (0x1000, 0x1001, at(0)),
        (0x1001, 0x1002, at(16)),
        (0x1002, 0x100B, at(16, (0, AtCfa(-4)))),
        (0x100B, 0x1015, at(20, (0, AtCfa(-4)))),
        (0x1015, 0x1016, at(20, (0, SameValue()))),
        (0x1016, 0x1017, at(0, (0, SameValue()))),
    ]
    assert table.problems == ()
    assert [(one.start, one.end, one.entry, one.source) for one in table.ranges] == [(0x1000, 0x1017, 1, "STACK CFI")]


def test_the_other_example_of_the_document() -> None:
    """Its return address has the register's name, as files had before ``.ra``."""
    table = read_cfi(
        b"STACK CFI INIT 804c4b0 40 .cfa: $esp 4 + $eip: .cfa 4 - ^\nSTACK CFI 804c4b1 .cfa: $esp 8 + $ebp: .cfa 8 - ^",
        I386,
    )
    assert rows(table) == [
        (0x804C4B0, 0x804C4B1, Rule(RegisterPlus(4, 4), ((8, AtCfa(-4)),), 8)),
        (0x804C4B1, 0x804C4F0, Rule(RegisterPlus(4, 8), ((5, AtCfa(-8)), (8, AtCfa(-4))), 8)),
    ]
    assert [problem.lost for problem in table.problems] == [False, False]


@pytest.mark.parametrize(
    ("text", "term"),
    [
        (".cfa -16 + ^", AtCfa(-16)),
        (".cfa 16 - ^", AtCfa(-16)),
        (".cfa ^", AtCfa(0)),
        (".cfa", CfaPlus(0)),
        (".cfa 8 +", CfaPlus(8)),
        ("$rbx", SameValue()),
        ("rbx", SameValue()),
        ("$r12", InRegister(12)),
        (".undef", Undefined()),
        ("$rbp 24 + ^", AtExpression(Expression(Op.breg(6, 24), address_size=8, byte_order="little"))),
        ("$rbp 24 +", IsExpression(Expression(Op.breg(6, 24), address_size=8, byte_order="little"))),
        (
            ".cfa 8 - 64 @",
            IsExpression(Expression(Op.lit(8) + Op.minus + b"\x09\xc0" + Op.and_, address_size=8, byte_order="little")),
        ),
    ],
)
def test_terms(text: str, term: object) -> None:
    table = read(f"{HEAD} $rbx: {text}")
    assert table.problems == ()
    found = table.lookup(0x1000)
    assert found is not None
    assert found.rule[3] == term


def test_return_addresses() -> None:
    def of(text: str, machine: str = "x86-64", sp: str = "$rsp") -> tuple[object, list[bool]]:
        table = read_cfi(f"STACK CFI INIT 0 4 .cfa: {sp} 8 + .ra: {text}\n".encode(), machine_named(machine))
        row = table.lookup(0)
        assert row is not None
        return row.rule[row.rule.return_address], [problem.lost for problem in table.problems]

    assert of(".cfa -8 + ^") == (AtCfa(-8), [])
    # Where walkers end: clew's own text, what others might write, and the document's word for a value that is lost.
    for end in ("16", "0", "4095", ".undef"):
        assert of(end) == (Undefined(), [])
    assert isinstance(of("4096")[0], IsExpression)
    assert of("x30", "aarch64", "sp") == (SameValue(), [])
    assert of("$rdx") == (InRegister(1), [])
    # Breakpad's dumper writes this where the return address is in its register again.
    assert of(".ra", "aarch64", "sp") == (SameValue(), [False])


def test_the_stack_pointer_that_is_not_named_is_the_cfa() -> None:
    table = read_cfi(b"STACK CFI INIT 0 4 .cfa: $r15 160 + .ra: $r14\n", S390X)
    row = table.lookup(0)
    assert row is not None
    assert row.rule[15] == CfaPlus(0)


def test_text_around_the_records() -> None:
    table = read_cfi(
        b"MODULE Linux x86_64 0 a\r\nPUBLIC 10 0 f\r\nSTACK WIN 4 0 0\r\n"
        b"  STACK\tCFI   INIT  1000  20   .cfa: $rsp   8 +  .ra: .cfa -8 + ^  \r\r\nINFO x\nSTACK CFI 1004 .cfa: $rsp 16 +",
        X86_64,
    )
    assert rows(table)[0] == (0x1000, 0x1004, PLAIN)
    assert len(rows(table)) == 2
    assert table.problems == ()
    assert table.ranges[0].entry == 4


def test_runs_go_on_where_the_last_one_ended() -> None:
    runs = [
        (HEAD.encode() + b"\n", 7),
        (memoryview(b"STACK CFI 1004 .cfa: $rsp 16 +\nSTACK CFI 3000 .cfa: $rsp 8 +\n"), 19),
    ]
    table = read_cfi_runs(runs, X86_64)
    assert [(start, end) for start, end, _ in rows(table)] == [(0x1000, 0x1004), (0x1004, 0x1020)]
    assert told(table) == [(20, "it is not in the range of its INIT; the record is left out", True)]


@pytest.mark.parametrize(
    ("lines", "line", "sentence", "lost", "starts"),
    [
        ([HEAD, "STACK CFI 1004"], 2, "the record has no rules", False, [0x1000, 0x1004]),
        (["STACK CFI 1004 .cfa: $rsp 16 +", HEAD], 1, "there is no INIT record before", True, [0x1000]),
        ([HEAD, "STACK CFI 1020 .cfa: $rsp 16 +"], 2, "not in the range", True, [0x1000]),
        ([HEAD, "STACK CFI fff .cfa: $rsp 16 +"], 2, "not in the range", True, [0x1000]),
        ([HEAD, "STACK CFI 1000 .cfa: $rsp 16 +"], 2, "has the address of the one before", False, [0x1000]),
        ([HEAD, "STACK CFI 1008 $rbx: .cfa", "STACK CFI 1004 $rbx: .cfa"], 3, "a higher", False, [0x1000, 0x1004, 0x1008]),
        ([HEAD, HEAD], 2, "overlaps", True, [0x1000]),
        (["STACK CFI INIT 1010 20 .cfa: $rsp 8 + .ra: .cfa ^", HEAD], 1, "overlaps", True, [0x1000]),
        (["STACK CFI INIT 2000 0 .cfa: $rsp 8 + .ra: .cfa ^", HEAD], 1, "the range is empty", False, [0x1000]),
        (["STACK CFI INIT ffffffffffffffff 1 .cfa: $rsp .ra: .cfa ^", HEAD], 1, "beyond the last address", True, [0x1000]),
        (["STACK CFI INIT 10000000000000000 1 .cfa: $rsp .ra: .cfa ^", HEAD], 1, "cannot be read", True, [0x1000]),
        (["STACK CFI INIT 0x10 1 .cfa: $rsp .ra: .cfa ^", HEAD], 1, "cannot be read", True, [0x1000]),
        (["STACK CFI INIT 10", HEAD], 1, "cannot be read", True, [0x1000]),
        (["STACK CFI", HEAD], 1, "cannot be read", True, [0x1000]),
        ([HEAD, "STACK CFI 1004 8 + .cfa: $rsp 16 +"], 2, "8 + stands before any register's name", True, [0x1000, 0x1004]),
        ([HEAD, "STACK CFI 1004 $foo: $rax .cfa: $rsp 16 +"], 2, "there is no register $foo", True, [0x1000, 0x1004]),
        ([HEAD, "STACK CFI 1004 .cfa: $rsp 8 + .cfa: $rsp 16 +"], 2, ".cfa has two rules", False, [0x1000, 0x1004]),
        (["STACK CFI INIT 10 4 .ra: .cfa ^", HEAD], 1, "there is no rule for .cfa", True, [0x1000]),
        (["STACK CFI INIT 10 4 .cfa: $rsp", HEAD], 1, "there is no rule for .ra", True, [0x1000]),
        ([f"{HEAD} $rip: $rbx"], 1, "besides .ra; it is left out", True, [0x1000]),
        ([f"{HEAD} $rbx: $rax .undef"], 1, "has .undef among other tokens", False, [0x1000]),
    ],
)  # fmt: skip
def test_oddities(lines: list[str], line: int, sentence: str, lost: bool, starts: list[int]) -> None:
    table = read(*lines)
    assert len(table.problems) == 1, table.problems
    problem = table.problems[0]
    assert sentence in problem.message
    assert (problem.line, problem.lost) == (line, lost)
    assert str(problem).startswith(f"line {line}: ")
    assert [start for start, _, _ in rows(table)] == starts
    assert table.lost == lost


def test_records_out_of_order_count_at_their_addresses() -> None:
    table = read(
        HEAD, "STACK CFI 1008 .cfa: $rsp 24 +", "STACK CFI 1004 .cfa: $rsp 16 +", "STACK CFI 1004 $rbx: .cfa ^"
    )
    offsets = [rule.cfa.offset for _, _, rule in rows(table) if isinstance(rule.cfa, RegisterPlus)]
    assert offsets == [8, 16, 24]
    assert [3 in dict(rule.registers) for _, _, rule in rows(table)] == [False, True, True]


def test_functions_out_of_order_are_put_into_it() -> None:
    table = read("STACK CFI INIT 2000 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^", HEAD)
    assert [(start, end) for start, end, _ in rows(table)] == [(0x1000, 0x1020), (0x2000, 0x2010)]
    assert [one.entry for one in table.ranges] == [2, 1]
    assert table.problems == ()


def test_functions_side_by_side_have_no_gap() -> None:
    table = read(HEAD, "STACK CFI INIT 1020 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^")
    assert table.start.tolist() == [0x1000, 0x1020, 0x1030]
    assert table.rule.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("$rax 8", "leaves 2 values"),
        ("+", "too little"),
        ("$foo 8 +", "there is no $foo"),
        ("18446744073709551616", "does not fit"),
        ("9" * 5000, "does not fit"),
        ("", "there is no expression"),
        ("$rax 8 =", "there is no ="),
        ("$rax 12 @", "no power of two"),
        (" ".join(3000 * ["1"]), "longer than any"),
    ],
)
def test_an_expression_that_means_nothing_makes_its_register_unknown(text: str, reason: str) -> None:
    table = read(f"{HEAD} $rbx: {text} $rbp: .cfa -16 + ^")
    row = table.lookup(0x1000)
    assert row is not None
    rule = row.rule
    assert rule[6] == AtCfa(-16)
    term = rule[3]
    assert isinstance(term, IsExpression | AtExpression)
    assert isinstance(term.expression, InvalidExpression)
    assert [problem.line for problem in table.problems] == [1]
    assert reason in table.problems[0].message
    assert table.problems[0].message.startswith("the rule of $rbx is unknown: ")
    assert "cannot be read" in rule.invalid_problems()[0].message


@pytest.mark.parametrize("text", ["$rax 0 /", "$rax 0 %"])
def test_division_by_zero_is_an_expression(text: str) -> None:
    table = read(f"{HEAD} $rbx: {text}")
    assert table.problems == ()
    row = table.lookup(0x1000)
    assert row is not None
    assert isinstance(row.rule[3], IsExpression)


def test_a_cfa_that_is_lost_is_not_the_one_before() -> None:
    table = read(HEAD, "STACK CFI 1004 .cfa: .undef")
    row = table.lookup(0x1004)
    assert row is not None
    assert isinstance(row.rule.cfa, CfaExpression)
    assert isinstance(row.rule.cfa.expression, InvalidExpression)


def test_many_oddities_are_counted() -> None:
    table = read(HEAD, *(50 * ["STACK CFI 1"]))
    assert len(table.problems) == 17
    assert table.problems[0].line == 2
    assert "34 more" in table.problems[-1].message
    assert table.lost == 50
    # The names in sentences are the text's own.
    table = read(*(f"STACK CFI INIT {turn:x}0 8 .cfa: $rsp .ra: .cfa ^ $foo{turn}: 8" for turn in range(1000)))
    assert len(table.problems) < 1000
    assert table.lost == 1000
    assert isinstance(table.problems[-1], Problem)


def test_text_with_large_rules_of_its_own_making() -> None:
    """Each record would be a copy of all registers before: what goes beyond the text's size is no information."""
    names = " ".join(f"$r{number}: .cfa" for number in range(200, 5200))
    lines = [f"STACK CFI INIT 1000 10000 .cfa: $rsp 8 + .ra: .cfa -8 + ^ {names}"]
    table = read(*lines, *(f"STACK CFI {0x1000 + turn:x} .cfa: $rsp {turn} +" for turn in range(1, 4000)))
    assert len(table.rules) < 200
    assert "more different rules than its size warrants" in table.problems[0].message
    assert table.lookup(0x1001) is not None
    # What there is no room for is not taken to be what came before it.
    assert table.lookup(0x1F00) is None
