"""One program, instruction by instruction: at each, the walk equals the calls that were made and have not returned.

The test keeps a shadow stack of the calls and returns that it sees go by, so that prologues, epilogues, leafs, the PLT, the
dynamic linker's lazy binding and the vdso are all stopped in, with tables and without.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.arch import machine_named
from clew.image import Image
from clew.memory import ProcessMemory, process_mappings
from clew.target import Module, Modules, Target, Thread
from clew.walk import End, Stack, Walker

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64", reason="needs gcc, and an x86-64 to step on"
)

SOURCE = """
#include <alloca.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define FUNCTION __attribute__((noinline, noclone))
volatile int v;
FUNCTION int leaf(int a) { return a * 3 + v; }
FUNCTION int compare(const void *a, const void *b) { v++; return leaf(*(int *)a) - leaf(*(int *)b); }
FUNCTION int sort(int n) { int x[4] = {4, 3, n, 1}; qsort(x, 4, sizeof *x, compare); return x[0] + v; }
FUNCTION int lay(int n) { char *p = alloca(n * 16 + 8); memset(p, n, n * 16); int r = sort(n) + p[3]; v += p[1]; return r; }
FUNCTION int recurse(int n) { volatile char b[40]; b[0] = n; int r = n ? recurse(n - 1) : lay(5); return r + b[0]; }
int main(void) {
  struct timespec t;
  int r = recurse(3);
  clock_gettime(CLOCK_MONOTONIC, &t);
  return r & (t.tv_sec & 1);
}
"""

BARE = "-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions"

_PTRACE = ctypes.CDLL(None, use_errno=True).ptrace
_PTRACE.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_TRACEME, _POKE, _CONTINUE, _STEP, _GETREGS, _SETREGS = 0, 4, 7, 9, 12, 13

# struct user_regs_struct, in words: which has what DWARF register.
_ORDER = (15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5)


class Stepped:
    """A child process that is stopped before its first instruction, and goes one at a time."""

    def __init__(self, program: Path) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            _PTRACE(_TRACEME, 0, None, None)
            os.execv(program, [str(program)])
        _, status = os.waitpid(self.pid, 0)
        self.there = os.WIFSTOPPED(status)
        self.memory = ProcessMemory(self.pid)
        self._words = (ctypes.c_uint64 * 27)()

    def step(self) -> None:
        _PTRACE(_STEP, self.pid, None, None)
        _, status = os.waitpid(self.pid, 0)
        self.there = os.WIFSTOPPED(status)

    def run_to(self, address: int) -> None:
        """Goes on until an instruction is reached: with a breakpoint, as start-up takes many."""
        word = int.from_bytes(self.memory.read(address, 8) or b"", "little")
        _PTRACE(_POKE, self.pid, address, word & ~0xFF | 0xCC)
        _PTRACE(_CONTINUE, self.pid, None, None)
        os.waitpid(self.pid, 0)
        _PTRACE(_POKE, self.pid, address, word)
        self.registers()
        assert self._words[16] == address + 1
        self._words[16] = address
        _PTRACE(_SETREGS, self.pid, None, ctypes.byref(self._words))

    def registers(self) -> dict[int, int]:
        _PTRACE(_GETREGS, self.pid, None, ctypes.byref(self._words))
        return {**{n: self._words[i] for i, n in enumerate(_ORDER)}, 16: self._words[16], 7: self._words[19]}

    def target(self) -> Target:
        """All that is mapped now, as modules of files and the vdso."""
        bounds: dict[str, list[int]] = {}
        for mapping in process_mappings(self.pid):
            if mapping.path.startswith("/") or mapping.path == "[vdso]":
                bounds.setdefault(mapping.path, []).extend((mapping.start, mapping.end))
        modules = []
        for path, ends in bounds.items():
            start, end = min(ends), max(ends)
            if path == "[vdso]":
                image = Image.from_memory(self.memory, start, path)
            else:
                image = Image.open(path)
            bias = start if image.type == 3 else 0  # ET_DYN; their first segment is at 0
            modules.append(Module(path, start, end, bias, open_image=lambda image=image: image))
        return Target("process", machine_named("x86-64"), [], self.memory, Modules(modules))

    def close(self) -> None:
        if self.there:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.memory.close()


def is_call(code: bytes) -> bool:
    code = code[1:] if code[:1] in (b"\x41", b"\xf2", b"\x3e") else code
    return code[0] == 0xE8 or (code[0] == 0xFF and code[1] >> 3 & 7 == 2)


def is_return(code: bytes) -> bool:
    code = code[1:] if code[:1] in (b"\xf3", b"\xf2") else code
    return code[0] in (0xC2, 0xC3)


def stacks(program: Path) -> Iterator[tuple[list[int], Stack]]:
    """From main's first instruction to its return, at each instruction that has not been seen: the calls that have not
    returned, innermost first, and the walk. The program's own are taken every time."""
    with Image.open(program) as image:
        (index,) = image.symbols().find("main")
        offset = int(image.symbols().address[index])
        dynamic = image.type == 3
    child = Stepped(program)
    try:
        if not child.there:
            pytest.skip("this system does not let a process be traced")
        base = min(each.start for each in process_mappings(child.pid) if each.path == str(program)) if dynamic else 0
        child.run_to(base + offset)
        walker = Walker(child.target())
        calls: list[int] = []
        seen: set[int] = set()
        while child.there:
            registers = child.registers()
            pc = registers[16]
            if pc not in seen or (dynamic and base <= pc < base + 0x10000):
                seen.add(pc)
                yield list(reversed(calls)), walker.walk(Thread(child.pid, registers, pc))
            code = child.memory.read(pc, 3) or b"\0\0\0"
            child.step()
            if is_call(code):
                word = child.memory.read(child.registers()[7], 8)
                calls.append(int.from_bytes(word or b"", "little"))
            elif is_return(code):
                if not calls:
                    return
                assert calls.pop() == child.registers()[16]
    finally:
        child.close()


@pytest.mark.parametrize(
    "options",
    [
        "-O2",
        "-O0",
        f"-O1 -fno-omit-frame-pointer {BARE}",
        f"-O0 -static {BARE}",
        "-O2 -static-pie",
        "-O2 -no-pie -Wl,-z,lazy",
    ],
)
def test_every_instruction(options: str, tmp_path: Path) -> None:
    source, program = tmp_path / "it.c", tmp_path / "it"
    source.write_text(SOURCE)
    built = subprocess.run(["gcc", "-w", *options.split(), "-o", program, source], check=False, capture_output=True)
    if built.returncode:
        pytest.skip(f"gcc cannot build it with {options}")
    count = 0
    for calls, stack in stacks(program):
        count += 1
        found = [frame.pc.address for frame in stack.frames[1:]]
        here = stack.frames[0].pc.address
        assert found[: len(calls)] == calls, (hex(here), [hex(pc) for pc in found], [hex(pc) for pc in calls])
        assert stack.end is End.ENTRY, (hex(here), stack.detail)
    assert count > 300
