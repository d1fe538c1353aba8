"""Stacks that makecontext made: what the first function returns to, by glibc's code for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from walking import CODE, STACK, pcs, target, walk, words

from clew.table import AtCfa, RegisterPlus, Rule, Table, table_of
from clew.table.table import RangeColumns, Ranges
from clew.walk import End

PUSHED = Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16)
# mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi; je; call (setcontext); mov %rax,%rdi; call (exit); hlt
START = bytes.fromhex("4889dc 488b3c24 4885ff 7408 e8bfa10400 4889c7 e817e8ffff f4")


def functions(*bounds: tuple[int, int]) -> Table:
    """A table in which each function has one row, that of its start."""
    table = table_of("x86-64", [(start, end, PUSHED) for start, end in bounds])
    starts, ends = (np.array(column, np.uint64) for column in zip(*bounds, strict=True))
    rest = (np.zeros(len(bounds), code) for code in ("u4", "u8", "i4", "u1"))
    return replace(table, ranges=Ranges(RangeColumns(starts, ends, *rest), (".eh_frame",), [0]))


@pytest.mark.parametrize("before", ["padding", "a function"])
@pytest.mark.parametrize("head", ["", "f30f1efa"])
def test_the_stack_begins_where_it_returns_to(before: str, head: str) -> None:
    """The row that holds one byte before says that there is more, and so does that of the code itself."""
    start = CODE + 0x40
    code = bytes.fromhex(head) + START
    rows = [(CODE, CODE + 0x20), (start, start + len(code))]
    if before == "a function":
        rows.insert(1, (CODE + 0x20, start))
    memory = {STACK: words("x86-64", start, CODE + 0x10, 1), CODE: bytes(0x40) + code}
    it = target("x86-64", memory, functions(*rows))
    stack = walk(it, CODE + 4, {"rsp": STACK, "rbp": 1})
    assert (pcs(stack), stack.end) == ([CODE + 4, start], End.ENTRY)


@pytest.mark.parametrize("inside", [0x11, 0x19])
def test_it_ends_there_also_when_the_first_function_has_returned(inside: int) -> None:
    """In the calls of setcontext and of exit, nothing of the stack is left."""
    start = CODE + 0x40
    rows = [(CODE, CODE + 0x20), (start, start + len(START))]
    memory = {STACK: words("x86-64", start + inside, 0, CODE + 0x10), CODE: bytes(0x40) + START}
    stack = walk(target("x86-64", memory, functions(*rows)), CODE + 4, {"rsp": STACK})
    assert (pcs(stack), stack.end) == ([CODE + 4, start + inside], End.ENTRY)
