"""The frames of compiled unwinders themselves can be undone: libgcc walks from the parameter that loads to who called."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from compiled_runs import compiled
from test_compiled_terms import ARITHMETIC, BRANCHES, PLAIN, SHAPES, expression, rule, table

from clew.arch import machine_named
from clew.image import Image
from clew.read.frames import read_table
from clew.table import AtCfa, AtExpression, CfaExpression, InRegister, IsExpression, compare
from clew.write.assembler import assemble, shared_object
from clew.write.compiled import Information, abi_of, plan

RIP = 16, AtCfa(-8)
LOADS = [
    rule(RIP, (3, AtCfa(-16)), (6, AtCfa(-24))),
    rule(
        RIP,
        cfa=CfaExpression(
            expression(("register", 7, 0), ("deref", 8), ("push", 0), ("mul",), ("register", 7, 8), ("plus",))
        ),
    ),
    rule(RIP, (3, InRegister(6)), (12, AtExpression(expression(("push", 16), ("minus",))))),
    rule(RIP, (12, IsExpression(expression(("push", 1), ("push", 2), ("register", 7, 8), ("deref", 4))))),
    rule((16, AtExpression(expression(("push", 8), ("minus",))))),
    rule(RIP, (3, IsExpression(expression(("push", 7), ("push", 1), ("bra", 3), ("register", 7, 0), ("deref", 2))))),
]

PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
struct frame { uint64_t known, r[17]; };
static int loads, whole;
bool load(void *argument, uintptr_t address, uintptr_t *value)
{
    void *found[32];
    int count = backtrace(found, 32);
    loads++;
    for (int i = 0; i < count; i++) {
        Dl_info info;
        if (dladdr(found[i], &info) && info.dli_sname && !strcmp(info.dli_sname, "caller"))
            whole++;
    }
    memcpy(value, (void *)address, sizeof *value);
    return true;
}
__attribute__((noinline)) int caller(void *function, struct frame *frame, uint64_t pc)
{
    int status = ((int (*)(void *, uint64_t, void *, void *))function)(frame, pc, load, 0);
    __asm__ volatile("");
    return status;
}
int main(int count, char **arguments)
{
    void *object = dlopen(arguments[1], RTLD_NOW), *function = dlsym(object, "clew_unwind");
    static char memory[4096];
    for (int row = 0; row < %d; row++) {
        struct frame frame = {0x1ffff, {0}};
        for (int i = 0; i < 17; i++) frame.r[i] = (uintptr_t)memory + 2048;
        loads = whole = 0;
        int status = caller(function, &frame, 0x1000 + 16 * row);
        printf("%%d %%d %%d\n", status, loads, whole);
    }
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_libgcc_walks_through(tmp_path: Path) -> None:
    (tmp_path / "object.so").write_bytes(compiled(table(LOADS), "asm", "full", True))
    (tmp_path / "it.c").write_text(PROGRAM % len(LOADS))
    subprocess.run(["gcc", "-O1", "-rdynamic", "-o", tmp_path / "it", tmp_path / "it.c", "-ldl"], check=True)
    done = subprocess.run(
        [tmp_path / "it", tmp_path / "object.so"], capture_output=True, text=True, check=True, timeout=60
    )
    found = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert [status for status, _, _ in found] == [0] * len(LOADS)
    assert [loads for _, loads, _ in found] == [3, 2, 2, 2, 1, 2]
    assert all(loads == whole for _, loads, whole in found)


@pytest.mark.skipif(shutil.which("as") is None or shutil.which("ld") is None, reason="no binutils")
@pytest.mark.parametrize("deref", [False, True])
def test_the_section_is_what_the_assembler_writes(deref: bool, tmp_path: Path) -> None:
    """GNU's assembler makes ``.eh_frame`` of the directives in the source; both say the same at each instruction."""
    made = plan(table([*PLAIN, *ARITHMETIC, *SHAPES, *BRANCHES, *LOADS]), abi_of(machine_named("x86-64")))
    about = Information.of(made.abi, 62, deref, made.base, made.end, None)
    function = assemble(made, about, deref=deref)
    ours = Image.from_bytes(shared_object(function))
    section = ours.section(".text")
    assert section is not None
    # The same jumps as ours, which are always long, and the same place.
    text = "\n".join(_long_jumps(line) for line in function.text())
    (tmp_path / "it.s").write_text(text + "\n")
    subprocess.run(["as", "-o", tmp_path / "it.o", tmp_path / "it.s"], check=True)
    command = [
        "ld",
        "-shared",
        f"--section-start=.text={section.address:#x}",
        "-o",
        tmp_path / "it.so",
        tmp_path / "it.o",
    ]
    subprocess.run(command, check=True)
    theirs = Image.open(tmp_path / "it.so")
    assert list(compare(read_table(ours), read_table(theirs))) == []
    assert not ours.problems
    table_ours = read_table(ours)
    assert [(one.start, one.end) for one in table_ours.ranges] == [
        (one.start, one.end) for one in read_table(theirs).ranges
    ]
    assert table_ours.ranges[0].start == section.address


def _long_jumps(line: str) -> str:
    name, _, target = line.strip().partition(" ")
    short = target.startswith(("in_expression_", "unknown_", "not_all", "sixteen_more"))
    return f"\t{{disp32}} {name} {target}" if name.startswith("j") and target != "rax" and not short else line
