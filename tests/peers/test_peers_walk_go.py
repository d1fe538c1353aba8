"""Go programs: goroutines, signals, C, and the runtime's own stack, against what the runtime prints of them.

``runtime.Callers`` tells a goroutine's return addresses, and the text of a crash (``GOTRACEBACK=crash``) each frame's pc and
stack pointer; the core that it leaves has the thread in the runtime's last words, on the thread's own stack or a signal's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from native_walks import NATIVE, PROGRAMS, REASON, dumped, folder, function, ready, shown, walked

from clew.target import Target, open_core, open_process
from clew.walk import End, FastWalker, Interrupted, Stack, Walker

_GO = shutil.which("go") or "/usr/local/go/bin/go"

pytestmark = [
    pytest.mark.skipif(not NATIVE, reason=REASON),
    pytest.mark.skipif(not Path(_GO).exists(), reason="go is not installed"),
]

# The standard library is built anew for it.
PIE = pytest.param("-buildmode=pie", marks=pytest.mark.slow)
FLAGS = ["", pytest.param("-ldflags=-w", marks=pytest.mark.slow), "-ldflags=-s -w", PIE]


@cache
def built(source: str, flags: str = "", cgo: str = "0") -> Path:
    """A program of ``native_programs``; nothing is fetched for it."""
    program = folder() / f"{source}-{len(list(folder().iterdir()))}"
    environment = {
        **os.environ,
        "GOFLAGS": "-mod=mod",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": cgo,
        # The user's own cache, if there is a home for it: the standard library is built once.
        "GOCACHE": os.environ.get("GOCACHE")
        or str(Path(os.environ.get("HOME", str(folder()))) / ".cache" / "go-build"),
    }
    command = [_GO, "build", *filter(None, [flags]), "-o", str(program), "."]
    done = subprocess.run(
        command, cwd=PROGRAMS / source, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        pytest.skip(f"go cannot build it: {done.stderr.strip()[-200:]}")
    return program


def known(lines: list[str]) -> tuple[int, list[int]]:
    """The thread and the return addresses of the last line that the program printed of itself."""
    words = [line.split() for line in lines if line.startswith("callers ")][-1]
    return int(words[1]), [int(word, 16) for word in words[2:]]


def stack_of(target: Target, thread: int) -> Stack:
    """The stack of the thread with this number."""
    (found,) = (each for each in target.threads if each.id == thread)
    return walked(Walker(target), FastWalker(target), found)


def check(target: Target, lines: list[str], inner: int) -> Stack:
    """The return addresses in their order, and no others of the program's functions.

    Args:
        inner: how many of the innermost frames of the program's functions are not among those.
    """
    thread, pcs = known(lines)
    stack = stack_of(target, thread)
    # The first is in the function that printed them, and has gone on since.
    found = iter(stack.frames)
    for pc in pcs[1:]:
        # What a signal interrupted is told as the address behind, for who takes one off.
        assert any(each.pc in (Interrupted(pc - 1),) or each.pc.address == pc for each in found), (
            hex(pc),
            shown(stack),
        )
    assert stack.end is End.ENTRY, shown(stack)
    own = [each for each in stack.frames if function(each).startswith("main.") and "_Cfunc_" not in function(each)]
    if own:
        names = Counter(each.pc.address for each in own[inner:])
        assert names <= Counter([*pcs, *(pc - 1 for pc in pcs)]), shown(stack)
    return stack


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("mode", ["wait", "busy", "grown", "goroutine", "defer"])
def test_goroutines(mode: str, flags: str) -> None:
    if mode == "defer" and flags.startswith("-ldflags"):
        # A signal interrupted a leaf without a frame, called through a pointer: frame records cannot tell its caller.
        pytest.skip("a leaf that was interrupted has no frame record, and there is no table")
    with ready(built("go_plain", flags), mode) as (pid, lines):
        for _ in range(20):
            with open_process(pid) as target:
                stack = stack_of(target, known(lines)[0])
                # A loop is preempted now and then: its goroutine is put aside, and the thread asks for the next.
                if mode in ("wait", "goroutine", "defer") or stack.frames[0].pc.address - known(lines)[1][0] in range(
                    -64, 64
                ):
                    check(target, lines, 1)
                    return
        pytest.fail("the loop was never seen")


@pytest.mark.parametrize("flags", ["", "-ldflags=-s -w", PIE])
def test_through_c_and_back(flags: str) -> None:
    program = built("go_cgo", flags, "1")
    with ready(program) as (pid, lines), open_process(pid) as target:
        check(target, lines, 1)
    with ready(program, "back") as (pid, lines), open_process(pid) as target:
        if "-s" in flags:
            # crosscall2 makes a frame record of its own kind, and only its table tells the size of its frame.
            stack = stack_of(target, known(lines)[0])
            assert (function(stack.frames[-1]), stack.end) == ("crosscall2", End.NO_RULE), shown(stack)
            return
        stack = check(target, lines, 1)
        names = [function(frame) for frame in stack.frames]
        # Every function of C, too: of the first call into C, and of that which the callback made.
        assert names.count("c_outer") == names.count("c_inner") == 2, shown(stack)
        assert names.count("crosscall2") == 1
        assert names.index("crosscall2") < names.index("back", names.index("crosscall2"))


FRAME = re.compile(r" fp=(0x[0-9a-f]+) sp=(0x[0-9a-f]+) pc=(0x[0-9a-f]+)$", re.MULTILINE)


@pytest.mark.parametrize("mode", ["crash", "panic", "load"])
@pytest.mark.parametrize("flags", ["", PIE, "-ldflags=-w"])
def test_a_crash(mode: str, flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "crash" and flags == "-ldflags=-w":
        pytest.skip("a leaf that was interrupted has no frame record, and there is no table")
    monkeypatch.setenv("GOTRACEBACK", "crash")
    program = built("go_plain", flags)
    core, text = dumped_with_errors(program, tmp_path, mode)
    running = next(part for part in text.split("\n\n") if re.match(r"goroutine \d+.*\[running", part))
    frames = [tuple(int(word, 16) for word in match.groups()) for match in FRAME.finditer(running)]
    with open_core(core, exe=program) as target:
        stack = Walker(target).walk(target.threads[0])
    found = stack.frames[-len(frames) :]
    assert [(each.registers[7], each.pc.address) for each in found] == [(sp, pc) for _, sp, pc in frames], shown(stack)
    assert len(stack.frames) > len(frames)
    assert stack.end is End.ENTRY, shown(stack)
    if mode != "panic":
        names = [function(frame) for frame in stack.frames]
        assert isinstance(stack.frames[names.index("runtime.sigpanic") + 1].pc, Interrupted)
        assert ("main.load" in names) == (mode == "load")


def dumped_with_errors(program: Path, place: Path, mode: str) -> tuple[Path, str]:
    """The core, and what went to standard error."""
    errors: list[str] = []
    core, _ = dumped(program, place, mode, errors=errors)
    return core, errors[0]


@pytest.mark.parametrize("flags", FLAGS)
def test_clocks(flags: str) -> None:
    """The runtime reads them in the vdso, on the thread's stack, for which it leaves the goroutine's."""
    seen = 0
    with ready(built("go_plain", flags), "clock", settled=False) as (pid, _):
        for _ in range(60):
            with open_process(pid) as target:
                stack = stack_of(target, pid)
            if not any(frame.module is not None and frame.module.name == "[vdso]" for frame in stack.frames):
                continue
            # The runtime's scheduler reads the clock as well, on a stack that begins elsewhere.
            seen += 1
            assert stack.end is End.ENTRY, shown(stack)
            names = [function(frame) for frame in stack.frames]
            assert "time.Now" not in names or names.count("main.deep") == 3, shown(stack)
    assert seen > 5


@pytest.mark.slow
@pytest.mark.parametrize("flags", FLAGS)
def test_at_any_moment(flags: str) -> None:
    """The runtime collects, grows stacks, preempts and handles signals: every stack has its end."""
    ends: Counter[str] = Counter()
    others: list[str] = []
    with ready(built("go_plain", flags), "churn", settled=False) as (pid, _):
        for index in range(60):
            time.sleep(0.003 * (index % 7))
            with open_process(pid) as target:
                walker, fast = Walker(target), FastWalker(target)
                for thread in target.threads:
                    found = walked(walker, fast, thread)
                    ends[found.end.value] += 1
                    if found.end is not End.ENTRY:
                        others.append(shown(found))
    # A stack that grows is copied by a function that never returns to it.
    growing = sum("runtime.morestack has left" in text for text in others)
    share = ends["entry"] / (ends.total() - growing)
    assert share > 0.99, "\n".join([repr(ends), *others[:20]])
    assert growing < 0.05 * ends.total()
