"""The rows of system libraries as llvm-dwarfdump prints them, and as clew has them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.image import Image
from clew.read.dwarf_cfi import Fde
from clew.read.frames import frame_sections
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
    Undefined,
)

DWARFDUMP = next(
    (
        path
        for name in ("llvm-dwarfdump", *(f"llvm-dwarfdump-{n}" for n in range(22, 13, -1)))
        if (path := shutil.which(name))
    ),
    None,
)
LIBRARIES = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libz.so.1",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
    "/lib/x86_64-linux-gnu/libdl.so.2",
)
#: LLVM's names of x86-64's registers, by DWARF number.
NAMES = [*(["RAX", "RDX", "RCX", "RBX", "RSI", "RDI", "RBP", "RSP"]), *(f"R{n}" for n in range(8, 16)), "RIP"]

pytestmark = pytest.mark.skipif(DWARFDUMP is None, reason="llvm-dwarfdump of LLVM is not installed")


def peer_rows(path: str) -> Iterator[tuple[int, str]]:
    """(address, text) of each row that it prints, but for those outside of their functions."""
    assert DWARFDUMP is not None
    done = subprocess.run([DWARFDUMP, "--eh-frame", path], check=True, capture_output=True, text=True, timeout=120)
    inside = range(0)
    for line in done.stdout.splitlines():
        if match := re.search(r" FDE cie=\S+ pc=([0-9a-f]+)\.\.\.([0-9a-f]+)$", line):
            inside = range(int(match[1], 16), int(match[2], 16))
        elif (match := re.fullmatch(r"  0x([0-9a-f]+): (CFA=.*)", line)) and int(match[1], 16) in inside:
            yield int(match[1], 16), match[2]


def names(fde: Fde) -> set[str]:
    """The names of an FDE's instructions."""
    return {instruction.name for instruction in fde.instructions()}


def text(rule: Rule) -> str:
    """A rule as LLVM writes it."""
    registers = ", ".join(f"{NAMES[number]}={term(what)}" for number, what in rule.registers)
    return f"CFA={cfa(rule)}" + (f": {registers}" if registers else "")


def cfa(rule: Rule) -> str:
    match rule.cfa:
        case RegisterPlus(register, offset):
            return NAMES[register] + plus(offset)
        case CfaExpression(expression):
            return postfix(expression)
        case _:
            return "unspecified"


def term(rule: RegisterRule) -> str:
    match rule:
        case Undefined():
            return "undefined"
        case SameValue():
            return "same"
        case AtCfa(offset):
            return f"[CFA{plus(offset)}]"
        case CfaPlus(offset):
            return f"CFA{plus(offset)}"
        case InRegister(register):
            return NAMES[register]
        case AtExpression(expression):
            return f"[{postfix(expression)}]"
        case IsExpression(expression):
            return postfix(expression)
        case _:
            return "?"


def plus(offset: int) -> str:
    return f"{offset:+d}" if offset else ""


def postfix(expression: object) -> str:
    assert isinstance(expression, Expression)
    parts = []
    for operation in expression.operations:
        if operation.name.startswith("DW_OP_breg"):
            (offset,) = operation.operands
            parts.append(f"{operation.name} {NAMES[operation.opcode - 0x70]}{offset:+d}")
        else:
            parts.append(" ".join([operation.name, *(f"{operand:#x}" for operand in operation.operands)]))
    return ", ".join(parts)


@pytest.mark.parametrize("path", LIBRARIES)
def test_rows(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"there is no {path} on this system")
    with Image.open(path) as image:
        (section,) = [section for section in frame_sections(image) if section.eh]
        ours = [(row.start, text(row.rule)) for fde in section.fdes() for row in fde.rows()]
        restored = [range(fde.start, fde.stop) for fde in section.fdes() if "DW_CFA_restore_state" in names(fde)]
        assert {row.start: text(row.rule) for row in section.table().rows()} == dict(ours)
    theirs = list(peer_rows(path))
    assert [address for address, _ in ours] == [address for address, _ in theirs]
    differences = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    # LLVM 14's DW_CFA_restore_state leaves the CFA as it was, other than DWARF 5, 6.4.2.4 has it ("the set of rules for
    # every register" with the CFA among them, as all unwinders do): there, the registers must be the same.
    for (address, one), (_, other) in differences:
        assert any(address in range_ for range_ in restored), (hex(address), one, other)
        assert one.partition(": ")[2] == other.partition(": ")[2]
    assert len(ours) - len(differences) > len(ours) // 2
