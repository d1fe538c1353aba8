"""Expressions against GNU readelf, which shows them, and libgcc's unwinder, which evaluates them.

Each expression is the rule of one register in a function of its own. The function calls a C function that unwinds one
frame beyond it and prints what libgcc makes of that register.
"""

from __future__ import annotations

import os
import platform
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.arch import machine_named
from clew.errors import EvaluationError
from clew.memory import BytesMemory
from clew.table.evaluate import evaluate
from clew.table.expression import Expression

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("gcc") or not shutil.which("readelf"),
    reason="needs gcc and readelf on x86-64",
)

WORDS = (0x8877_6655_4433_2211, 0xFEDC_BA98_7654_3210)  # at the stack pointer of each function
RBX = 0xFFFF_FFFF_FFFF_FF85
STACK = 0x7FFF_0000_0000

HARNESS = """
#include <stdio.h>
#include <unwind.h>

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *depth)
{
    if (++*(int *)depth < 3)
        return _URC_NO_REASON;
    printf("%llx\\n", (unsigned long long)_Unwind_GetGR(context, 15));
    return _URC_NORMAL_STOP;
}

__attribute__((noinline)) void grab(void)
{
    int depth = 0;
    _Unwind_Backtrace(frame, &depth);
}

extern void (*const probes[])(void);

int main(void)
{
    for (int i = 0; probes[i]; i++)
        probes[i]();
    return 0;
}
"""

FUNCTION = """
probe{index}:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    push %rbx
    .cfi_offset %rbx, -24
    sub $24, %rsp
    movabs ${first}, %rax
    mov %rax, (%rsp)
    movabs ${second}, %rax
    mov %rax, 8(%rsp)
    mov ${rbx}, %rbx
    .cfi_escape 0x16, 15, {size}, {escape}
    call grab
    mov -8(%rbp), %rbx
    leave
    ret
    .cfi_endproc
"""


def random_expression(source: random.Random) -> bytes:
    """Operators that leave at least one number, with shift counts that C defines."""
    code = bytearray((0x30 + source.randrange(32),))
    depth = 1
    for _ in range(source.randrange(1, 14)):
        choice = source.randrange(12)
        if choice <= 2:
            width = source.choice((1, 2, 4, 8))
            opcode = {1: 0x08, 2: 0x0A, 4: 0x0C, 8: 0x0E}[width] + source.randrange(2)
            code += bytes((opcode,)) + source.randbytes(width)
            depth += 1
        elif choice == 3:
            code += bytes((0x73, source.randrange(128)))  # breg3, rbx
            depth += 1
        elif choice == 4:
            size = source.choice((1, 2, 4, 8))
            load = bytes((0x06,)) if source.randrange(2) and size == 8 else bytes((0x94, size))
            code += bytes((0x92, 7, source.randrange(17 - size))) + load
            depth += 1
        elif choice == 5:
            code += bytes((source.choice((0x19, 0x1F, 0x20)),))
        elif choice == 6:
            code += bytes((0x23, source.randrange(128)))
        elif choice == 7:
            code += bytes((0x30 + source.randrange(32), source.choice((0x24, 0x25, 0x26))))
        elif choice == 8:
            code += source.choice((b"\x12", b"\x96\x15\x00"))
            depth += 1
        elif choice == 9 and depth >= 3:
            code += b"\x17"
        elif choice == 10:
            code += b"\x12\x28\x01\x00\x1f"  # negate what is zero
        elif depth >= 2:
            code += bytes((source.choice((0x1A, 0x1B, 0x1C, 0x1D, 0x1E, 0x21, 0x22, 0x27, *range(0x29, 0x2F))),))
            depth -= 1
    return bytes(code)


def value_of(expression: Expression) -> int | None:
    memory = BytesMemory(b"".join(word.to_bytes(8, "little") for word in WORDS), STACK)
    try:
        return evaluate(expression, registers={3: RBX, 7: STACK}, memory=memory, initial=(STACK + 48,))
    except EvaluationError:
        return None  # divides by zero: libgcc would abort


def test_values_and_text(tmp_path: Path) -> None:
    source = random.Random(20)
    expressions: dict[Expression, int] = {}
    while len(expressions) < 400:
        expression = Expression.parse(random_expression(source), address_size=8, byte_order="little")
        value = value_of(expression)
        if value is not None and len(expression.data) < 128:
            expressions.setdefault(expression, value)
    functions = [
        FUNCTION.format(
            index=index,
            first=WORDS[0],
            second=WORDS[1],
            rbx=RBX - (1 << 64),
            size=len(expression.data),
            escape=", ".join(str(byte) for byte in expression.data),
        )
        for index, expression in enumerate(expressions)
    ]
    table = "".join(f"    .quad probe{index}\n" for index in range(len(functions)))
    (tmp_path / "probes.s").write_text(
        ".text\n" + "".join(functions) + f'.section .data.rel.ro, "aw"\n.globl probes\nprobes:\n{table}    .quad 0\n'
        '.section .note.GNU-stack, "", @progbits\n'
    )
    (tmp_path / "harness.c").write_text(HARNESS)
    program = tmp_path / "probes"
    command: list[str | Path] = ["gcc", "-O1", "-o", program, tmp_path / "harness.c", tmp_path / "probes.s"]
    subprocess.run(command, check=True, timeout=120)

    printed = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert [int(word, 16) for word in printed] == list(expressions.values())

    frames = subprocess.run(
        ["readelf", "-wf", program],
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
        check=True,
        timeout=60,
    ).stdout
    shown = re.findall(r"DW_CFA_val_expression: r15 \(r15\) \((.*)\)$", frames, re.MULTILINE)
    machine = machine_named("x86-64")
    assert shown == [expression.dwarf(machine) for expression in expressions]
