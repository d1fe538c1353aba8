"""Other people's profilers with the preload shim: gperftools' and jemalloc's get the stacks that they get without it."""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.inprocess import PRELOAD

PROGRAM = r"""
#include <stdlib.h>
__attribute__((noinline)) static void *deep(int n) { void *p = n ? deep(n - 1) : malloc(4096); __asm__ volatile(""); return p; }
int main(void) { for (int k = 0; k < 200; k++) deep(k % 20); }
"""


def library(name: str) -> str:
    found = glob.glob(f"/usr/lib/*-linux-gnu/{name}")
    if not found:
        pytest.skip(f"needs {name}")
    if not PRELOAD.exists() or platform.machine() != "x86_64" or shutil.which("setarch") is None:
        pytest.skip("needs the preload shim, on x86-64, and setarch")
    return found[0]


def stacks(folder: Path, allocator: str, environment: dict[str, str], shim: bool) -> set[tuple[str, ...]]:
    """The stacks of a heap profile, as addresses of the program's own and of libc's: without those of the profiler."""
    program = folder / "program"
    if not program.exists():
        source = folder / "program.c"
        source.write_text(PROGRAM)
        subprocess.run(["cc", "-O1", "-o", str(program), str(source)], check=True)
    out = folder / ("with" if shim else "without")
    out.mkdir()
    preload = f"{PRELOAD}:{allocator}" if shim else allocator
    values = {name: value.replace("OUT", str(out / "heap")) for name, value in environment.items()}
    subprocess.run(
        ["setarch", "-R", str(program)],
        env={**os.environ, **values, "LD_PRELOAD": preload},
        check=True,
        capture_output=True,
        timeout=60,
    )
    text = "".join(path.read_text() for path in out.iterdir())
    found = re.findall(r"@((?: 0x[0-9a-f]+)+)", text)
    # Where the program lies when addresses are not chosen at random.
    own = (tuple(address for address in line.split() if address.startswith("0x55555")) for line in found)
    return {each for each in own if each}


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("libtcmalloc.so.4", {"HEAPPROFILE": "OUT"}),
        ("libjemalloc.so.2", {"MALLOC_CONF": "prof:true,prof_final:true,lg_prof_sample:0,prof_prefix:OUT"}),
    ],
)
def test_heap_profiles(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    allocator = library(name)
    alone = stacks(tmp_path, allocator, environment, False)
    assert len(alone) >= 20
    assert max(map(len, alone)) >= 20
    assert stacks(tmp_path, allocator, environment, True) == alone


def test_processor_profile(tmp_path: Path) -> None:
    profiler = library("libprofiler.so.0")
    source = tmp_path / "burn.c"
    source.write_text("int main(void) { volatile double x = 0; for (int i = 0; i < 60000000; i++) x += i; }")
    subprocess.run(["cc", "-O1", "-o", str(tmp_path / "burn"), str(source)], check=True)
    environment = {**os.environ, "CPUPROFILE": str(tmp_path / "out"), "LD_PRELOAD": f"{PRELOAD}:{profiler}"}
    run = subprocess.run(
        [str(tmp_path / "burn")], env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    assert re.search(r"interrupts/evictions/bytes = [1-9]", run.stderr), run.stderr
