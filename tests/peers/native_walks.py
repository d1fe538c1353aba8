"""Programs that say what they know of their own stacks, and the comparison of that with a walk from outside."""

from __future__ import annotations

import atexit
import os
import platform
import re
import resource
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

from clew.target import Target, Thread
from clew.walk import End, FastWalker, Frame, Interrupted, Stack, Walker

PROGRAMS = Path(__file__).parent / "native_programs"

SAVED = (3, 6, 12, 13, 14, 15)
"""rbx, rbp, r12 to r15: in the order in which the programs print them."""

# struct sigcontext, as far as the programs print it: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
SIGCONTEXT = (8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16, 49)

NATIVE = shutil.which("gcc") is not None and platform.machine() == "x86_64" and platform.system() == "Linux"
REASON = "needs gcc, and an x86-64 Linux to run on"

_folder: list[str] = []


def folder() -> Path:
    """A folder for what is built; it goes with this process."""
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="clew-native-"))
        atexit.register(shutil.rmtree, _folder[0], ignore_errors=True)
    return Path(_folder[0])


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


@cache
def built(source: str, options: str = "-O2", truth: str = "-O1") -> Path:
    """A program of ``native_programs``, with these options; skips where this compiler cannot. ``truth.c`` has its own."""
    compiler = "g++" if source.endswith(".cc") else "gcc"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    name = f"{Path(source).stem}-{len(list(folder().iterdir()))}"
    program, witness = folder() / name, folder() / f"{name}.truth.o"
    for command in (
        ("gcc", *truth.split(), "-c", "-o", witness, PROGRAMS / "truth.c"),
        (compiler, "-w", "-pthread", *options.split(), "-o", program, PROGRAMS / source, witness, "-lm"),
    ):
        done = run(*command)
        if done.returncode:
            pytest.skip(f"{compiler} cannot build it with {options}: {done.stderr.strip().splitlines()[-1:]}")
    return program


@contextmanager
def ready(program: Path, *arguments: str, timeout: float = 20, settled: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The process and its lines, once it has said that it is ready and, if ``settled``, waits."""
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, cwd=folder()) as process:
        try:
            assert process.stdout is not None
            data, deadline = b"", time.monotonic() + timeout
            while b"ready\n" not in data:
                assert time.monotonic() < deadline, data
                if select.select([process.stdout], [], [], 0.5)[0]:
                    piece = os.read(process.stdout.fileno(), 1 << 16)
                    assert piece, f"{program} {arguments} ended early: {data!r}"
                    data += piece
            if settled:
                settle(process.pid)
            yield process.pid, data.decode().splitlines()
        finally:
            process.kill()


def settle(pid: int) -> None:
    """Waits until every thread waits in the kernel."""
    for _ in range(100):
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        if all("\nState:\tS" in (task / "status").read_text() for task in tasks):
            return
        time.sleep(0.01)


def dumped(program: Path, place: Path, *arguments: str, errors: list[str] | None = None) -> tuple[Path, list[str]]:
    """The core that the kernel writes when the program aborts, and the program's lines; skips where there is none.

    What goes to standard error is put into ``errors``.
    """
    place.mkdir(exist_ok=True)

    def unlimited() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)

    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY and os.geteuid():
        pytest.skip("this user may not have cores written")
    done = run(program, *arguments, cwd=place, env={**os.environ, "ABORT": "1"}, preexec_fn=unlimited)
    cores = list(place.glob("core*"))
    if not cores:
        pytest.skip("this kernel does not write cores into the current folder")
    if errors is not None:
        errors.append(done.stderr)
    return cores[0], done.stdout.splitlines()


@dataclass
class Known:
    """A frame as the program knows it.

    Attributes:
        pc, before: where it stands, and whether it was interrupted there.
        sp, saved: its stack pointer, and the callee-saved registers in the order of :data:`SAVED`.
    """

    pc: int
    before: bool
    sp: int
    saved: tuple[int, ...]


@dataclass
class Said:
    """What a program printed: frames by thread, from the caller of the printer out, and the register sets that handlers
    were given, the innermost last."""

    threads: dict[int, list[Known]] = field(default_factory=dict)
    shadows: dict[int, list[int]] = field(default_factory=dict)
    interrupted: list[dict[int, int]] = field(default_factory=list)


def said(lines: Sequence[str]) -> Said:
    """What the lines of a program say."""
    found = Said()
    for line in lines:
        words = line.split()
        if words[:1] == ["frame"]:
            pc, before, sp, *saved = (int(word, 16) for word in words[2:])
            found.threads.setdefault(int(words[1]), []).append(Known(pc, bool(before), sp, tuple(saved)))
        elif words[:1] == ["shadow"]:
            found.shadows[int(words[1])] = [int(word, 16) for word in words[2:]]
        elif words[:1] == ["interrupted"]:
            values = [int(word, 16) for word in words[1:]]
            found.interrupted.append(dict(zip(SIGCONTEXT, values, strict=True)))
    for frames in found.threads.values():
        del frames[0]  # the printer's own
    return found


def function(frame: Frame) -> str:
    """The name of a frame's function, or ``?``."""
    image = None if frame.module is None else frame.module.image
    if frame.module is None or image is None:
        return "?"
    found = image.symbols().at(frame.pc.lookup - frame.module.bias)
    # Without its version, and what compilers add to the names of parts.
    return "?" if found is None else re.split(r"@|\.cold|\.part|\.constprop|\.isra", image.symbols().name(found[0]))[0]


def shown(stack: Stack) -> str:
    """A stack as text, for messages."""
    lines = [f"{each.pc.address:#x} {each.trust.value} {function(each)}" for each in stack.frames[-60:]]
    return "\n".join(["", *lines, f"{stack.end.value}: {stack.detail}"])


def walked(walker: Walker, fast: FastWalker, thread: Thread) -> Stack:
    """The thread's stack, which both walkers find; the fast one notes no reads."""
    stack = walker.walk(thread)
    other = fast.walk(thread)
    assert (other.end, other.detail) == (stack.end, stack.detail)
    assert tuple(other.frames) == tuple(replace(frame, reads=()) for frame in stack.frames), shown(stack)
    return stack


def check_registers(stack: Stack, machine_saved: frozenset[int]) -> None:
    """What a call may overwrite is unknown after a step through anything but a signal's frame."""
    for inner, frame in zip(stack.frames, stack.frames[1:], strict=False):
        if inner.rule is not None and not inner.rule.signal_frame:
            # Functions that let exceptions go on save two more registers, and their rules say so.
            named = {register for register, _ in inner.rule.registers}
            assert set(frame.registers) <= machine_saved | {7, 16} | named, shown(stack)


def check(target: Target, text: Said, *, end: End = End.ENTRY) -> int:
    """Every thread's frames equal what the program said. How many frames were compared."""
    walker, fast, count = Walker(target), FastWalker(target), 0
    threads = {thread.id: thread for thread in target.threads}
    assert text.threads.keys() <= threads.keys()
    for number, known in text.threads.items():
        stack = walked(walker, fast, threads[number])
        frames = stack.frames[-len(known) :]
        message = shown(stack)
        assert len(stack.frames) > len(known), message
        assert [each.pc.address for each in frames] == [each.pc for each in known], message
        assert [isinstance(each.pc, Interrupted) for each in frames] == [each.before for each in known], message
        assert [each.registers.get(7) for each in frames] == [each.sp for each in known], message
        for frame, told in zip(frames, known, strict=True):
            assert tuple(frame.registers.get(register) for register in SAVED) == told.saved, (hex(told.pc), message)
        assert function(stack.frames[-len(known) - 1]).startswith(("truth", "?")), message
        assert stack.end is end, message
        check_registers(stack, target.machine.callee_saved)
        count += len(known)
        behind = [each for inner, each in zip(stack.frames, stack.frames[1:], strict=False) if from_signal(inner, each)]
        if len(text.interrupted) == len(behind):
            for frame, registers in zip(behind, text.interrupted, strict=True):
                check_interrupted(frame, registers)
    return count


def from_signal(inner: Frame, frame: Frame) -> bool:
    """Whether a frame was interrupted by a signal."""
    return frame.trust.value == "signal" or (inner.rule is not None and inner.rule.signal_frame)


def check_interrupted(frame: Frame, registers: Mapping[int, int]) -> None:
    """All registers of what a signal interrupted are known; the flags, where the table names them."""
    known = dict(frame.registers)
    assert known.pop(49, registers[49]) == registers[49]
    assert known == {number: value for number, value in registers.items() if number != 49}
