"""Rules are numbered: equal ones once, different ones apart, and no more of them than the input's size warrants."""

from __future__ import annotations

from clew.native.expressionbook import ExpressionBook
from clew.native.rulebook import Rulebook
from clew.read.dwarf_cfi import CfiSection
from clew.table import AtExpression, RegisterPlus, SameValue
from clew.testing import Cfa, CfiBuilder, Instruction, Op


def section(instructions: list[Instruction]) -> CfiSection:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    cfi.fde(cie, start=0x1000, size=0x40000000, instructions=instructions)
    return CfiSection(cfi.build(), address=0x2000)


def test_a_new_book_has_the_rule_that_says_nothing() -> None:
    book = Rulebook(100)
    heads = book.heads([0])
    assert (book.count, book.cell_count) == (1, 0)
    assert [int(column[0]) for column in heads] == [0, 0, 0, 16, 0, 0]
    assert [len(column) for column in book.cells()] == [0, 0, 0]
    assert book.budget == (1 << 18) + 200


def test_equal_rules_are_one_whichever_way_they_were_reached() -> None:
    one = [Cfa.advance(1), Cfa.offset(3, 2), Cfa.offset(6, 3)]
    other = [Cfa.advance(1), Cfa.offset(6, 3), Cfa.same_value(3), Cfa.offset_extended(3, 2)]
    there_and_back = [Cfa.advance(1), Cfa.restore(3), Cfa.restore(6), Cfa.def_cfa_offset(16), Cfa.def_cfa(7, 8)]
    table = section([*one, *there_and_back, *other]).table()
    assert table.rule.tolist() == [1, 2, 1, 2, 0]
    assert len(table.rules) == 3


def test_thousands_of_rules_are_told_apart() -> None:
    """More than the first table of slots, the first columns, and the steps that are remembered."""
    count = 20_000
    table = section([b"\x41" + Cfa.def_cfa_offset(8 * n + 16) for n in range(count)]).table()
    assert table.rule.tolist() == [*range(1, count + 2), 0]
    for number in (1, 2, 1023, 1024, 5000, count + 1):
        assert table.rules[number].cfa == RegisterPlus(7, 8 * number)


def test_many_registers_stay_sorted() -> None:
    order = [*range(500, 400, -1), *range(60), 65535, *range(300, 360)]
    table = section([Cfa.same_value(register) for register in order]).table()
    assert [register for register, _ in table.rules[1].registers] == sorted(order)
    assert {rule for _, rule in table.rules[1].registers} == {SameValue()}


def test_the_budget_bounds_cells() -> None:
    """Each rule has one register more than the last: without a bound, input of n bytes has rules of n² cells."""
    hostile = section([b"\x41" + Cfa.same_value(register) for register in range(100, 20_000)])
    table = hostile.table()
    assert [problem.message for problem in table.problems] == [
        "the section has more different rules than its size warrants"
    ]
    assert len(table) == 0


def test_the_budget_bounds_work() -> None:
    """A large rule, and as many steps as bytes that each begin with copying it."""
    large = [Cfa.same_value(register) for register in range(100, 800)]
    steps = [Cfa.restore_extended(20_000 + 37 * n % 40_000) for n in range(100_000)]
    (problem,) = section([*large, *steps]).table().problems
    assert problem.message == "the section's rules take more work than its size warrants"


def test_what_exceeds_the_budget_costs_no_other_function() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    cfi.fde(cie, start=0x1000, size=0x10, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(16)])
    cfi.fde(
        cie, start=0x10000, size=0x10000, instructions=[b"\x41" + Cfa.same_value(register) for register in range(9000)]
    )
    cfi.fde(cie, start=0x30000, size=0x10, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(16)])
    table = CfiSection(cfi.build(), address=0x2000).table()
    assert table.lost == 1
    assert table.lookup(0x10000) is None
    for address in (0x1001, 0x30001):
        row = table.lookup(address)
        assert row is not None
        assert row.rule.cfa == RegisterPlus(7, 16)


def test_expressions_are_told_apart_and_equal_ones_are_one() -> None:
    count = 3000
    expressions = [Op.constu(n) for n in range(count)] * 2
    table = section([b"\x41" + Cfa.expression(3, expression) for expression in expressions]).table()
    assert table.rule.tolist() == [1, *range(2, count + 2), *range(2, count + 2), 0]
    rule = table.rules[2 + 1234][3]
    assert isinstance(rule, AtExpression)
    assert rule.expression.data == Op.constu(1234)


def test_an_expression_book_begins_empty() -> None:
    assert ExpressionBook(b"abc").count == 0
