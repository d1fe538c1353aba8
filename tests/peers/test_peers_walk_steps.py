"""Programs, instruction by instruction: at each, the walk equals the calls that were made and have not returned.

The test keeps a shadow stack of the calls and returns that it sees go by, so that prologues, epilogues, leafs, the PLT, the
dynamic linker's lazy binding, the vdso, signal handlers and their trampolines are all stopped in, with tables and without.
"""

from __future__ import annotations

import signal
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from native_steps import Place, Trace
from native_walks import NATIVE, REASON, built, function, shown

from clew.image import Image
from clew.walk import End, Stack

pytestmark = pytest.mark.skipif(not NATIVE, reason=REASON)

BARE = "-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions"

EXCLUDED = {
    # glibc 2.36, sysdeps/x86_64/addmul_1.S: pushes two registers without a word of CFI.
    "__mpn_addmul_1": "the rule says rsp+8 everywhere, also behind two pushes",
    "__mpn_submul_1": "the rule says rsp+8 everywhere, also behind two pushes",
    # glibc 2.36, sysdeps/x86_64/__longjmp.S, before its last four instructions.
    "__longjmp": "the rules tell where it jumps to, on purpose, and not who called it",
}
"""Functions of the C library whose rules do not tell their caller, by name, and why. Places in them are not compared."""


_TELLING = 160
"""As many bytes tell one of these from the others: two differ in additions and subtractions alone."""


@cache
def _excluded_code() -> dict[bytes, str]:
    """How the functions of :data:`EXCLUDED` begin, by which they are found in a library without their names."""
    with Image.open(built("tour.c", "-O2 -static")) as image:
        found = {}
        for name in EXCLUDED:
            (index,) = image.symbols().find(name)
            size = min(int(image.symbols().size[index]), _TELLING)
            code = image.bytes_at(int(image.symbols().address[index]), size)
            assert code is not None
            found[bytes(code)] = name
        return found


def excluded(place: Place, stack: Stack) -> str | None:
    """The name of the function of :data:`EXCLUDED` that a place is in, or None."""
    module = stack.frames[0].module
    name = function(stack.frames[0])
    if name in EXCLUDED:
        return name
    if module is None or module.table is None or not module.name.startswith("/usr/lib"):
        return None
    there = module.table.range_at(place.thread.pc - module.bias)
    code = None if there is None else place.walker.target.memory.read(there.start + module.bias, _TELLING)
    return next((name for start, name in _excluded_code().items() if code is not None and code.startswith(start)), None)


class Seen:
    """Wants each address once, and those of the program itself as often as the depth of calls there is a new one."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._seen: set[tuple[int, int]] = set()

    def __call__(self, pc: int, depth: int) -> bool:
        own = self.trace.base <= pc < self.trace.base + 0x10000
        key = (pc, depth if own else 0)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


def difference(place: Place, stack: Stack) -> str | None:
    """How a walk differs from what is known, or None."""
    found = [frame.pc for frame in stack.frames[1 : len(place.calls) + 1]]
    if found != place.calls or stack.end is not End.ENTRY:
        return "\n".join([shown(stack), "expected:", *map(repr, place.calls)])
    return None


def leaves_for_handler(place: Place, stack: Stack) -> bool:
    """Whether libgcc's last two instructions are next, pop %rcx; jmp *%rcx, that go to the handler of an exception.

    The frames that it left are gone. The handler is where it says, but it is not where a call returns to: the byte before it
    may be another function's.
    """
    memory, registers = place.walker.target.memory, place.thread.registers
    code = memory.read(place.thread.pc, 3) or b""
    handler = registers[2] if code[:2] == b"\xff\xe1" else None
    if code == b"\x59\xff\xe1":
        handler = int.from_bytes(memory.read(registers[7], 8) or b"", "little")
    name = function(stack.frames[0])
    return name.startswith("_Unwind_R") and len(stack.frames) > 1 and stack.frames[1].pc.address == handler


def compared(trace: Trace) -> Counter[str]:
    """Walks at every place. How many were made in which module, and left out for what; fails at the first that differs."""
    count: Counter[str] = Counter()
    for place in trace.places(Seen(trace)):
        stack = place.walker.walk(place.thread)
        wrong = difference(place, stack)
        if wrong is not None:
            name = excluded(place, stack)
            # Whoever throws overwrites the own frame with that of the handler, and returns there.
            if name is None and (place.overwritten or leaves_for_handler(place, stack)):
                name = "overwritten"
            assert name is not None, wrong
            count[name] += 1
            continue
        module = stack.frames[0].module
        count["?" if module is None else Path(module.name).name] += 1
    assert trace.finished
    return count


@pytest.mark.parametrize(
    "options",
    [
        "-O2",
        f"-O1 -fno-omit-frame-pointer {BARE}",
        "-O2 -no-pie -Wl,-z,lazy",
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                "-O0",
                f"-O0 -static {BARE}",
                "-O2 -static-pie",
                "-O2 -fcf-protection -Wl,-z,lazy,-z,ibtplt",
                "-O3 -mstackrealign",
            )
        ),
    ],
)
def test_every_instruction_of_calls(options: str) -> None:
    count = compared(Trace(built("steps.c", options)))
    assert count.total() > 300
    if "static" not in options:
        assert count["[vdso]"] > 10
    if "lazy" in options:
        assert count["ld-linux-x86-64.so.2"] > 500


@pytest.mark.parametrize(
    "options", ["-O2", f"-O1 -fno-omit-frame-pointer {BARE}", "-O2 -static", "-O2 -no-pie -Wl,-z,lazy"]
)
@pytest.mark.parametrize("every", [*(pytest.param(count, marks=pytest.mark.slow) for count in (1, 7)), 41])
def test_every_instruction_of_signals(options: str, every: int) -> None:
    """A signal after every so many instructions: handlers with and without information, on the stack and on another."""
    signals = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM)
    trace = Trace(built("steps.c", options), "signals", every=every, signals=signals)
    assert compared(trace).total() > 300
    assert trace.delivered > 10


@pytest.mark.slow
@pytest.mark.parametrize("options", ["-O2", "-O2 -static", "-O0 -Wl,-z,lazy"])
def test_every_instruction_of_the_c_library(options: str) -> None:
    count = compared(Trace(built("tour.c", options)))
    assert count.total() > 3000
    # What is left out is what it is said to be: few instructions, and those are wrong.
    left_out = {name: count[name] for name in (*EXCLUDED, "overwritten") if count[name]}
    assert left_out.keys() == EXCLUDED.keys()
    assert 10 < left_out["__mpn_addmul_1"] < 100
    assert left_out["__longjmp"] < 8


@pytest.mark.slow
@pytest.mark.parametrize("options", ["-O2", "-O0 -static-libgcc"])
def test_every_instruction_of_an_exception(options: str) -> None:
    count = compared(Trace(built("steps.cc", options)))
    assert count.total() > 3000
    assert not EXCLUDED.keys() & count.keys()
    assert 0 < count["overwritten"] < 150
