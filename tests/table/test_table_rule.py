"""Rules: their equations, remarks and JSON, and rules that are made only when asked for."""

from __future__ import annotations

import numpy as np
import pytest

from clew.arch import machine_named
from clew.table import (
    NO_INFORMATION,
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
    RuleColumns,
    Rules,
    SameValue,
    Signing,
    Undefined,
)
from clew.testing import Op

X86 = machine_named("x86-64")


def expression(data: bytes) -> Expression:
    return Expression(data, address_size=8, byte_order="little")


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (Undefined(), "undefined"),
        (SameValue(), "rbp"),
        (AtCfa(0), "*(cfa)"),
        (AtCfa(-16), "*(cfa-16)"),
        (AtCfa(16), "*(cfa+16)"),
        (CfaPlus(0), "cfa"),
        (CfaPlus(-8), "cfa-8"),
        (InRegister(3), "rbx"),
        (InRegister(300), "r300"),
        (AtExpression(expression(Op.plus_uconst(8))), "*(cfa + 8)"),
        (IsExpression(expression(Op.plus_uconst(8))), "cfa + 8"),
        (AtExpression(InvalidExpression(b"\x50", "no meaning")), "*(invalid expression 50)"),
        (IsExpression(InvalidExpression(bytes(20), "long")), "invalid expression " + "00 " * 15 + "00 …"),
        (Architectural(), "architectural"),
    ],
)
def test_register_terms(term: RegisterRule, text: str) -> None:
    assert term.equation("rbp", X86) == text
    assert dict(Rule(None, ((6, term),)).equations(X86)) == {"cfa": "unknown", "rbp": text}


def test_cfa_terms() -> None:
    assert RegisterPlus(7, 0).equation(X86) == "rsp"
    assert RegisterPlus(7, -8).equation(X86) == "rsp-8"
    assert CfaExpression(expression(Op.breg(7, 8) + Op.deref)).equation(X86) == "*(rsp + 8)"


def test_text_and_remarks() -> None:
    rule = Rule(RegisterPlus(31, 16), ((30, AtCfa(-8)),), 30, True, Signing.SIGNED_WITH_PC, True)
    arm = machine_named("aarch64")
    assert rule.text(arm) == "cfa = sp+16  x30 = *(cfa-8)  (signal frame)  (return address signed with pc, key B)"
    assert NO_INFORMATION.text(arm) == "(no information)"
    assert list(NO_INFORMATION.equations(arm)) == []


def test_json() -> None:
    arm = machine_named("aarch64")
    rule = Rule(RegisterPlus(31, 16), ((29, AtCfa(-16)),), 30)
    terms = {
        "cfa": {"kind": "register_plus", "register": "sp", "offset": 16},
        "x29": {"kind": "at_cfa", "offset": -16},
    }
    plain = {"cfa": "sp+16", "registers": {"x29": "*(cfa-16)"}, "terms": terms, "return_address": "x30"}
    assert rule.to_json(arm) == plain
    signed = Rule(RegisterPlus(31, 16), ((29, AtCfa(-16)),), 30, True, Signing.SIGNED, False)
    assert signed.to_json(arm) == {**plain, "signal_frame": True, "signing": "signed", "key": "A"}
    assert Rule(None).to_json(arm)["cfa"] is None
    assert NO_INFORMATION.to_json(arm) == {"information": False}


def test_a_register_of_a_rule() -> None:
    rule = Rule(None, ((3, SameValue()), (6, AtCfa(-16))))
    assert (rule[3], rule[6], rule[7]) == (SameValue(), AtCfa(-16), None)


def test_rules_are_equal_when_they_say_the_same() -> None:
    one = Rule(CfaExpression(expression(Op.breg(7, 8))), ((3, SameValue()),), 16)
    same = Rule(CfaExpression(expression(Op.nop + Op.breg(7, 8))), ((3, SameValue()),), 16)
    assert one == same
    assert hash(one) == hash(same)
    for other in (Rule(one.cfa, one.registers, 17), Rule(one.cfa, (), 16), Rule(None, one.registers, 16)):
        assert one != other


def columns() -> RuleColumns:
    """Three rules: nothing; rsp+8 with two registers; an expression, signed."""
    return RuleColumns(
        np.array([0, 1, 2], np.uint8),
        np.array([0, 7, 0], np.uint32),
        np.array([0, 8, 1], np.int64),
        np.array([16, 16 << 8, 30 << 8 | 1 | 2 | 4 | 8], np.uint32),
        np.array([0, 0, 2], np.uint32),
        np.array([0, 2, 2], np.uint32),
        np.array([6, 16, 3, 5], np.uint32),
        np.array([1, 3, 6, 7], np.uint8),
        np.array([0, -8, 0, 1], np.int64),
        [Op.plus_uconst(8), Op.breg(7, 0)],
    )


def test_rules_of_columns() -> None:
    rules = Rules(X86, columns())
    assert len(rules) == 3
    assert rules[0] is NO_INFORMATION
    assert rules[1] == Rule(RegisterPlus(7, 8), ((6, Undefined()), (16, AtCfa(-8))), 16)
    plus, register = expression(Op.plus_uconst(8)), expression(Op.breg(7, 0))
    assert rules[2] == Rule(
        CfaExpression(register),
        ((3, AtExpression(plus)), (5, IsExpression(register))),
        30,
        True,
        Signing.SIGNED_WITH_PC,
        True,
    )


def test_rules_are_made_once_and_only_when_asked_for() -> None:
    broken = columns()
    rules = Rules(X86, broken)
    assert rules[1] is rules[1]
    # A rule whose cells do not exist is no matter to the others.
    broken.cfa_kind[0] = 9
    broken.context[0] = 0
    assert rules[0].cfa is None
    assert rules[2] is rules[-1]


def test_rules_are_a_sequence() -> None:
    rules = Rules(X86, columns())
    assert list(rules) == [rules[0], rules[1], rules[2]] == rules[:]
    assert rules[-2] is rules[1]
    assert rules[np.uint32(1)] is rules[1]
    assert rules[5:] == []
    assert rules.index(rules[2]) == 2
    for index in (3, -4, 1000):
        with pytest.raises(IndexError):
            rules[index]


def test_rules_of_objects() -> None:
    given = [NO_INFORMATION, Rule(RegisterPlus(7, 8))]
    rules = Rules(X86, rules=given)
    assert (len(rules), list(rules)) == (2, given)
    with pytest.raises(IndexError):
        rules[2]
