"""What it means for two rules, and for two tables, to differ: defaults filled in, address by address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.arch import machine_named
from clew.errors import UsageError
from clew.table import (
    AtCfa,
    CfaPlus,
    Difference,
    InRegister,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Signing,
    Undefined,
    compare,
    differ,
    meaning,
    table_of,
)

X86, S390 = machine_named("x86-64"), machine_named("s390x")
CFA = RegisterPlus(7, 8)
RAX, RBX, RSP, RIP = 0, 3, 7, 16


def rule(*registers: tuple[int, RegisterRule], return_address: int = RIP) -> Rule:
    return Rule(CFA, tuple(sorted(registers, key=lambda pair: pair[0])), return_address)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (rule(), rule()),
        (rule(), rule((RBX, SameValue()))),  # preserved by the ABI
        (rule(), rule((RSP, CfaPlus(0)))),  # the caller's stack pointer is the CFA
        (rule(), rule((RAX, Undefined()))),  # lost either way
        (rule((RBX, SameValue()), (RAX, Undefined())), rule((RSP, CfaPlus(0)))),
        (Rule(CFA, key_b=True), Rule(CFA)),  # which key does not matter where nothing is signed
    ],
)
def test_the_same_in_other_words(a: Rule, b: Rule) -> None:
    assert differ(a, b, X86) == differ(b, a, X86) == ()


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        (rule(), Rule(RegisterPlus(7, 16), (), RIP), [("cfa", "rsp+8", "rsp+16")]),
        (rule(), Rule(None, (), RIP), [("cfa", "rsp+8", "unknown")]),
        (rule(), rule((RBX, Undefined())), [("rbx", "rbx", "undefined")]),
        (rule(), rule((RBX, AtCfa(-16))), [("rbx", "rbx", "*(cfa-16)")]),
        (rule(), rule((RSP, SameValue())), [("rsp", "cfa", "rsp")]),
        (rule(), rule((RSP, Undefined())), [("rsp", "cfa", "undefined")]),
        (rule(), rule((RAX, SameValue())), [("rax", "-", "rax")]),
        (rule((RAX, Undefined())), rule((RAX, SameValue())), [("rax", "-", "rax")]),
        # Unspecified is not undefined: only the latter ends the stack.
        (rule(), rule((RIP, Undefined())), [("rip", "-", "undefined")]),
        (rule((RIP, AtCfa(-8))), rule((RIP, Undefined())), [("rip", "*(cfa-8)", "undefined")]),
        (rule(), rule(return_address=3), [("return address", "rip", "rbx")]),
        (rule(), Rule(CFA, (), RIP, signal_frame=True), [("signal frame", "no", "yes")]),
        (rule(), Rule(CFA, (), RIP, signing=Signing.SIGNED), [("signing", "none", "signed")]),
        (
            Rule(CFA, signing=Signing.SIGNED),
            Rule(CFA, signing=Signing.SIGNED, key_b=True),
            [("signing", "signed", "signed, key B")],
        ),
        (Rule(None, information=False), rule(), [("rule", "-", "cfa = rsp+8")]),
        (
            rule((RBX, AtCfa(-16)), (RIP, AtCfa(-8))),
            rule((RBX, AtCfa(-24)), (RIP, InRegister(2))),
            [("rbx", "*(cfa-16)", "*(cfa-24)"), ("rip", "*(cfa-8)", "rcx")],
        ),
    ],
)
def test_differences_of_rules(a: Rule, b: Rule, found: list[tuple[str, str, str]]) -> None:
    assert list(differ(a, b, X86)) == found
    assert list(differ(b, a, X86)) == [(what, right, left) for what, left, right in found]


def test_the_stack_pointer_of_s390x_keeps_its_value() -> None:
    assert differ(Rule(RegisterPlus(15, 160)), Rule(RegisterPlus(15, 160), ((15, SameValue()),)), S390) == ()
    assert meaning(Rule(None), 15, S390) == SameValue()


def test_meanings() -> None:
    assert meaning(rule(), RBX, X86) == SameValue()
    assert meaning(rule(), RSP, X86) == CfaPlus(0)
    assert meaning(rule(), RAX, X86) is None
    assert meaning(rule((RAX, Undefined())), RAX, X86) is None
    assert meaning(rule((RBX, Undefined())), RBX, X86) == Undefined()
    assert meaning(rule((RIP, Undefined())), RIP, X86) == Undefined()
    assert meaning(rule((RAX, Undefined()), return_address=RAX), RAX, X86) == Undefined()


def offset(number: int) -> Rule:
    return Rule(RegisterPlus(7, number))


def cfas(a: list[tuple[int, int, Rule]], b: list[tuple[int, int, Rule]]) -> list[tuple[int, int, str, str, str]]:
    return [
        (found.start, found.end, found.register, found.a, found.b)
        for found in compare(table_of(X86, a), table_of(X86, b))
    ]


def test_rows_may_be_cut_differently() -> None:
    assert cfas([(0, 8, offset(8)), (8, 16, offset(8))], [(0, 4, offset(8)), (4, 16, offset(8))]) == []


def test_what_only_one_table_has() -> None:
    assert cfas([(0, 16, offset(8))], [(4, 8, offset(8))]) == [
        (0, 4, "rule", "cfa = rsp+8", "-"),
        (8, 16, "rule", "cfa = rsp+8", "-"),
    ]
    assert cfas([], [(4, 8, offset(8))]) == [(4, 8, "rule", "-", "cfa = rsp+8")]
    assert cfas([], []) == []


def test_neighbours_that_say_the_same_are_one() -> None:
    a = [(0, 4, offset(8)), (4, 8, offset(8)), (8, 12, offset(16))]
    b = [(0, 8, offset(24)), (8, 12, offset(16))]
    assert cfas(a, b) == [(0, 8, "cfa", "rsp+8", "rsp+24")]


def test_a_difference_that_ceases_and_returns_is_two() -> None:
    a = [(0, 12, offset(8))]
    b = [(0, 4, offset(16)), (4, 8, offset(8)), (8, 12, offset(16))]
    assert [found[:2] for found in cfas(a, b)] == [(0, 4), (8, 12)]


def test_differences_come_in_the_order_of_their_addresses() -> None:
    """Also where one begins before others and ends after them."""

    def row(cfa: int, rbx: int) -> Rule:
        return Rule(RegisterPlus(7, cfa), ((RBX, AtCfa(rbx)),))

    a = [(0, 40, row(8, -16))]
    b = [
        (0, 8, row(16, -16)),
        (8, 12, row(16, -24)),
        (12, 16, row(16, -16)),
        (16, 20, row(16, -24)),
        (20, 40, row(8, -24)),
    ]
    assert [(start, end, what) for start, end, what, _, _ in cfas(a, b)] == [
        (0, 20, "cfa"),
        (8, 12, "rbx"),
        (16, 40, "rbx"),
    ]


def test_tables_of_different_machines() -> None:
    with pytest.raises(UsageError, match="different machines"):
        list(compare(table_of("x86-64", []), table_of("aarch64", [])))


def test_json() -> None:
    assert Difference(16, 32, "cfa", "rsp+8", "-").to_json() == {
        "start": "0x10",
        "end": "0x20",
        "register": "cfa",
        "a": "rsp+8",
        "b": "-",
    }


TERMS = st.sampled_from((Undefined(), SameValue(), AtCfa(-8), AtCfa(-16), CfaPlus(0), InRegister(2)))
RULES = st.builds(
    lambda cfa, registers, signal: Rule(RegisterPlus(7, cfa), tuple(sorted(registers.items())), RIP, signal),
    st.sampled_from((8, 16)),
    st.dictionaries(st.sampled_from((RAX, RBX, RSP, RIP)), TERMS, max_size=3),
    st.booleans(),
)
ROWS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), RULES), max_size=8)


def laid_out(rows: list[tuple[int, int, Rule]]) -> list[tuple[int, int, Rule]]:
    out, at = [], 0
    for size, gap, what in rows:
        out.append((at, at + size, what))
        at += size + gap
    return out


@given(ROWS)
def test_a_table_does_not_differ_from_itself(rows: list[tuple[int, int, Rule]]) -> None:
    table = table_of(X86, laid_out(rows))
    assert list(compare(table, table)) == []
    assert list(compare(table, table.normalise(padding=1))) == []


@given(ROWS, ROWS)
def test_against_every_address(a: list[tuple[int, int, Rule]], b: list[tuple[int, int, Rule]]) -> None:
    one, two = table_of(X86, laid_out(a)), table_of(X86, laid_out(b))
    found = list(compare(one, two))
    assert [difference.start for difference in found] == sorted(difference.start for difference in found)
    nothing = Rule(None, information=False)
    for address in range(90):
        rows = [table.lookup(address) for table in (one, two)]
        left, right = (nothing if row is None else row.rule for row in rows)
        here = {(d.register, d.a, d.b) for d in found if d.start <= address < d.end}
        assert here == set(differ(left, right, X86))
    mirrored = sorted((d.start, d.end, d.register, d.b, d.a) for d in found)
    assert mirrored == sorted((d.start, d.end, d.register, d.a, d.b) for d in compare(two, one))
