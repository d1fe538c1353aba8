"""Generates the functions whose frames are walked: shared libraries in C, the same ones each time.

Each library has 400 functions with four calls each, so that five of them have 8,000 return addresses. A function picks the
next one by a random number that it was given. Frames are between 0 and 1000 bytes large, 0 to 5 values live across the calls,
and one in 25 has a size that is not known before, so that it needs a frame pointer.
"""

from __future__ import annotations

import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from contenders import Unavailable
from paper_build import first_error

LIBRARIES = 5
FUNCTIONS = 400
CALLS = 4
KINDS = {"plain": "-fomit-frame-pointer", "framed": "-fno-omit-frame-pointer"}
"""Builds, by the name of their table in programs/inprocess/stacks.c."""

_HEAD = f"""\
#include <alloca.h>
#include <stdint.h>
#include <string.h>

typedef long function(uint64_t seed, int depth, long value);
extern function *TABLE[];
extern long leaf(void);
extern void keep(void *what);

/* The next number of a linear congruential sequence (Knuth, MMIX). */
#define NEXT(seed) ((seed) * 6364136223846793005u + 1442695040888963407u)
#define COUNT {LIBRARIES * FUNCTIONS}
"""


def function(number: int, source: random.Random) -> str:
    """One function in C."""
    live = source.randint(0, 5)
    buffer = source.choice([0, 0, 16, 40, 100, 300, 1000])
    dynamic = source.random() < 0.04
    lines = [f"static __attribute__((noinline)) long f{number}(uint64_t seed, int depth, long value)", "{"]
    result = ["result"]
    if buffer:
        lines += [f"    char buffer[{buffer}];", "    memset(buffer, (int)value, sizeof buffer);", "    keep(buffer);"]
        result.append("buffer[0]")
    if dynamic:
        lines += ["    char *more = alloca(16 + (seed & 127));", "    more[0] = 1;", "    keep(more);"]
        result.append("more[0]")
    for index in range(live):
        factor, shift = source.randint(3, 99), source.randint(1, 40)
        lines.append(f"    long live{index} = value * {factor} + (long)(seed >> {shift});")
        result.append(f"live{index}")
    lines += [
        "    long result;",
        "    if (depth <= 0)",
        "        return leaf() + 1;",
        "    uint64_t next = NEXT(seed);",
        "    function *called = TABLE[(next >> 33) % COUNT];",
        f"    switch ((seed >> 20) % {CALLS}) {{",
    ]
    for index in range(CALLS):
        added = source.randint(1, 1000)
        lines.append(f"    case {index}: result = called(next, depth - 1, value + {index}) + {added}; break;")
    lines += ["    default: __builtin_unreachable();", "    }", f"    return {' + '.join(result)};", "}", ""]
    return "\n".join(lines)


def library(number: int, source: random.Random) -> str:
    """One library in C. Its ``fill`` enters its functions in the table."""
    parts = [_HEAD, *(function(each, source) for each in range(FUNCTIONS))]
    entries = [f"    TABLE[{number * FUNCTIONS + each}] = f{each};" for each in range(FUNCTIONS)]
    return "\n".join([*parts, "void fill(void)", "{", *entries, "}", ""])


def build(folder: Path) -> None:
    """Builds all libraries of both kinds.

    Raises:
        Unavailable: they do not compile here.
    """
    source = random.Random(7)
    commands = []
    for number in range(LIBRARIES):
        text = folder / f"functions{number}.c"
        text.write_text(library(number, source))
        for kind, option in KINDS.items():
            command = ["gcc", "-O2", "-fPIC", "-shared", "-Wl,--build-id", option, f"-DTABLE={kind}_functions"]
            commands.append([*command, "-o", str(folder / f"{kind}{number}.so"), str(text)])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for error in pool.map(_run, commands):
            if error:
                raise Unavailable(f"the functions to walk do not compile here: {error}")


def _run(command: list[str]) -> str:
    """What a compiler complains of; nothing where it does its work."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return first_error(done.stderr) if done.returncode else ""
