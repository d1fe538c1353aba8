"""Scanning the stack: only where asked for, and only what looks like a return address."""

from __future__ import annotations

from walking import CODE, STACK, pcs, target, trusts, walk, words

from clew.table import AtCfa, RegisterPlus, Rule, Undefined
from clew.walk import End

LEAF = Rule(RegisterPlus(7, 16), ((16, AtCfa(-8)),), 16)
LAST = Rule(RegisterPlus(7, 8), ((16, Undefined()),), 16)
STALE, A, B = CODE + 0x185, CODE + 0x205, CODE + 0x305
ROWS = [
    (CODE + 0x180, CODE + 0x190, LEAF),
    (CODE + 0x200, CODE + 0x210, LEAF),
    (CODE + 0x300, CODE + 0x310, LAST),
]


def text(*returns: int) -> bytes:
    data = bytearray(0x1000)
    for each in returns:
        data[each - CODE - 5] = 0xE8
    return bytes(data)


def test_only_what_leads_on() -> None:
    # A stale return address, whose frame would end in nothing; one without a call before it; the real one.
    memory = {CODE: text(STALE, A, B), STACK: words("x86-64", 5, STALE, 0, 0, CODE + 0x50, A, 0, B, 0)}
    it = target("x86-64", memory, ROWS)
    registers = {"rsp": STACK, "rbp": 3}
    assert walk(it, CODE + 0x10, registers).end is End.NO_RULE
    stack = walk(it, CODE + 0x10, registers, scan=True)
    assert (pcs(stack), trusts(stack)) == ([CODE + 0x10, A, B], ["context", "cfi_scan", "cfi"])
    assert (stack.end, stack.frames[1].registers[7]) == (End.ENTRY, STACK + 48)
    assert [read.address for read in stack.frames[0].reads] == [STACK + 40]


def test_without_rows_a_call_is_all_there_is() -> None:
    memory = {CODE: text(A, B), STACK: words("x86-64", 5, A, 0, B, 0)}
    stack = walk(target("x86-64", memory, []), CODE + 0x10, {"rsp": STACK, "rbp": 3}, scan=True)
    assert (pcs(stack), trusts(stack)) == ([CODE + 0x10, A, B], ["context", "scan", "scan"])
    assert stack.end is End.NO_RULE


def test_where_the_stack_pointer_cannot_be_known_it_stays_unknown() -> None:
    data = bytearray(0x1000)
    data[0x204:0x208] = data[0x304:0x308] = bytes.fromhex("00000094")
    memory = {CODE: bytes(data), STACK: words("aarch64", 5, CODE + 0x208, 0, CODE + 0x308, 0)}
    stack = walk(target("aarch64", memory, []), CODE + 0x10, {"sp": STACK, "x29": 3}, scan=True)
    assert pcs(stack) == [CODE + 0x10, CODE + 0x208, CODE + 0x308]
    assert 31 not in stack.frames[1].registers


def test_a_damaged_rule_does_not_stop_it_but_a_whole_stack_does() -> None:
    rows = [*ROWS, (CODE + 0x10, CODE + 0x18, Rule(RegisterPlus(11, 8), ((16, AtCfa(-8)),), 16))]
    memory = {CODE: text(A, B), STACK: words("x86-64", A, 0, B, 0)}
    assert pcs(walk(target("x86-64", memory, rows), CODE + 0x10, {"rsp": STACK}, scan=True)) == [CODE + 0x10, A, B]
    assert pcs(walk(target("x86-64", memory, rows), CODE + 0x304, {"rsp": STACK}, scan=True)) == [CODE + 0x304]


def test_it_does_not_leave_the_stack() -> None:
    memory = {CODE: text(A), STACK: words("x86-64", 0, 0, 0, A)}
    it = target("x86-64", memory, [], limits=(STACK, STACK + 24))
    assert len(walk(it, CODE + 0x10, {"rsp": STACK}, scan=True).frames) == 1
    assert walk(it, CODE + 0x10, {}, scan=True).end is End.NO_RULE
