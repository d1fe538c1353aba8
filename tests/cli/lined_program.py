"""A program that stands still, or fails, in functions that were inlined; and what gdb says of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

INLINE = "static inline __attribute__((always_inline))"
OUTLINE = "__attribute__((noinline, noclone))"

SOURCE = rf"""#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int here;

static void say(void) {{ puts("ready"); fflush(stdout); }}

{INLINE} int innermost(int n) {{
    pause(); /* innermost */
    return n + here;
}}

{INLINE} int middle(int n) {{
    here++;
    return innermost(n * 2) + 1; /* middle */
}}

{OUTLINE} static int outer(int n) {{
    here = n;
    return middle(n + 1) * 3; /* outer */
}}

/* What it calls does not return, so that nothing of it follows. */
{OUTLINE} __attribute__((noreturn)) static void last(int n) {{
    here = n;
    for (;;) outer(n); /* last */
}}

{OUTLINE} static void ends_with_a_call(int n) {{
    here = n;
    last(n + 1); /* the call */
}}

{INLINE} void trap(int n) {{
    here = n;
    __builtin_trap(); /* trap */
}}

{OUTLINE} static void fails(int n) {{
    trap(n + 1); /* fails */
}}

/* A function whose first instruction fails: the one before it ends right there. */
void at_once(void);
__asm__(".text\n.type before,@function\nbefore:\n nop\n ret\n.size before, .-before\n"
        ".type at_once,@function\nat_once:\n.cfi_startproc\n ud2\n.cfi_endproc\n.size at_once, .-at_once\n");

static void handler(int number) {{
    here = number;
    say();
    for (;;) outer(number); /* handler */
}}

int main(int argc, char **argv) {{
    if (!strcmp(argv[1], "crash")) fails(argc);
    if (!strcmp(argv[1], "handled")) {{
        signal(SIGILL, handler);
        at_once(); /* main, at once */
    }}
    if (!strcmp(argv[1], "trapped")) {{
        signal(SIGILL, handler);
        fails(argc); /* main, fails */
    }}
    say();
    ends_with_a_call(argc); /* main */
    return 0;
}}
"""

LINE = {
    match[1]: number
    for number, line in enumerate(SOURCE.splitlines(), 1)
    if (match := re.search(r"; /\* (.+) \*/$", line))
}


class Source(NamedTuple):
    """A function as a stack tells it."""

    function: str
    file: str
    line: int
    inlined: bool = False


#: The frames of the program where it stands.
WHOLE = [
    Source("innermost", "lines.c", LINE["innermost"], True),
    Source("middle", "lines.c", LINE["middle"], True),
    Source("outer", "lines.c", LINE["outer"]),
    Source("last", "lines.c", LINE["last"]),
    Source("ends_with_a_call", "lines.c", LINE["the call"]),
    Source("main", "lines.c", LINE["main"]),
]


def compiled(folder: Path, *options: str) -> Path:
    """The program with its debug information."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source, program = folder / "lines.c", folder / "lines"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-g", "-Wl,--build-id", *options, "-o", program, source], check=True, cwd=folder)
    return program


def crashed(program: Path) -> Path:
    """A core of the program, where an instruction in an inlined function failed."""
    core = program.parent / "crash"
    gdb(str(program), "run crash", f"generate-core-file {core}")
    if not core.exists():
        pytest.skip("gdb cannot write a core here")
    return core


def gdb(*arguments: str) -> str:
    """What gdb prints for a program, a core or a process and some commands."""
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    # The program, perhaps with a core; then commands, which have spaces.
    files = [each for each in arguments if " " not in each and each != "bt"]
    commands = ["set width 0", "set print frame-arguments none", *(each for each in arguments if each not in files)]
    wanted = ["gdb", "-nx", "-batch", *(part for each in commands for part in ("-ex", each)), *files]
    environment = {key: value for key, value in os.environ.items() if key != "DEBUGINFOD_URLS"}
    done = subprocess.run(wanted, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return done.stdout


FRAME = re.compile(r"#\d+ +(0x[0-9a-f]+ in )?(\S.*?) \(.*\) at (\S+):(\d+)")


def gdb_stack(text: str, file: str) -> list[tuple[str, int]]:
    """The functions and lines of a source file in gdb's backtrace."""
    # Of a core, gdb shows the first frame before it is asked.
    lines = [line.strip() for line in text.splitlines() if line.startswith("#")]
    begin = max((number for number, line in enumerate(lines) if line.startswith("#0 ")), default=0)
    frames = [FRAME.fullmatch(line) for line in lines[begin:]]
    return [(each[2], int(each[4])) for each in frames if each is not None and os.path.basename(each[3]) == file]


def sources(thread: dict[str, Any], module: str = "lines") -> list[Source]:
    """The functions of a thread that are in a module, as far as they have lines."""
    return [
        Source(
            frame.get("function", ""), os.path.basename(frame.get("file", "")), frame.get("line", 0), frame["inlined"]
        )
        for frame in thread["frames"]
        if os.path.basename(frame.get("module", "")) == module and "line" in frame
    ]


def plain(found: list[Source]) -> list[tuple[str, int]]:
    """Functions as the source calls them, without their arguments, and lines, as gdb has them."""
    return [(each.function.partition("(")[0].removesuffix(".cold"), each.line) for each in found]
