"""Native programs that print their own frames: the walk from outside equals it, frame for frame, register for register.

The truth is libgcc's ``_Unwind_Backtrace`` in the program: each frame's pc and whether it was interrupted, its stack
pointer, and rbx, rbp, r12 to r15. The process then waits, or aborts and leaves a core.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from native_walks import NATIVE, REASON, built, check, dumped, function, ready, run, said, shown

from clew.target import open_core, open_process
from clew.walk import Walker

pytestmark = pytest.mark.skipif(not NATIVE, reason=REASON)

OPTIONS = [
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "-O2 -fno-omit-frame-pointer",
    "-O1 -mstackrealign",
    "-O3 -mavx2 -mstackrealign",
    "-Os -mno-red-zone",
    "-O2 -fcf-protection",
    "-O2 -no-pie -Wl,-z,lazy",
    "-O2 -no-pie -Wl,-z,now",
    "-O2 -static",
    "-O2 -static-pie",
    "-O2 -fstack-protector-all -fstack-clash-protection",
    "-O2 -maccumulate-outgoing-args -fno-shrink-wrap",
    "-O2 -fsplit-stack -fuse-ld=gold",
    "-O2 -Wl,--no-eh-frame-hdr -static",
    "-O2 -s",
]
FEW = ["-O0", "-O2", "-O2 -fno-omit-frame-pointer", "-O2 -static"]


def mostly_slow(options: list[str], fast: int = 1) -> list[object]:
    """All of them, of which the first few are for every run."""
    return [*options[:fast], *(pytest.param(each, marks=pytest.mark.slow) for each in options[fast:])]


def check_live(program: Path, *arguments: str, least: int = 3) -> None:
    with ready(program, *arguments) as (pid, lines), open_process(pid) as target:
        assert check(target, said(lines)) >= least


def check_core(program: Path, place: Path, *arguments: str, least: int = 3) -> None:
    core, lines = dumped(program, place, *arguments)
    with open_core(core, exe=program) as target:
        assert check(target, said(lines)) >= least


@pytest.mark.parametrize("options", mostly_slow(OPTIONS, 3))
def test_a_tree_of_calls(options: str) -> None:
    for mode in ("", "constructor", "exit"):
        check_live(built("tree.c", options), mode, least=20)


@pytest.mark.parametrize("options", mostly_slow(OPTIONS))
def test_a_tree_of_calls_in_a_core(options: str, tmp_path: Path) -> None:
    check_core(built("tree.c", options), tmp_path, least=20)


SIGNALS = ["raise", "plain", "nested", "first", "alarm", "fault", "sort"]


@pytest.mark.parametrize("options", mostly_slow(FEW))
@pytest.mark.parametrize("stack", ["", "other"])
def test_signals(options: str, stack: str) -> None:
    for mode in SIGNALS:
        check_live(built("signals.c", options), mode, *filter(None, [stack]), least=8)


@pytest.mark.parametrize("mode", SIGNALS)
def test_signals_in_a_core(mode: str, tmp_path: Path) -> None:
    check_core(built("signals.c"), tmp_path, mode, "other", least=8)


def test_a_stack_that_overflows() -> None:
    check_live(built("signals.c"), "overflow", "other", least=1000)


@pytest.mark.parametrize("options", mostly_slow(FEW))
def test_a_call_to_nowhere(options: str) -> None:
    """libgcc stops at a pc of zero; the frames behind it are known by name."""
    with ready(built("signals.c", options), "nowhere") as (pid, lines), open_process(pid) as target:
        text = said(lines)
        stack = Walker(target).walk(target.threads[0])
        (known,) = text.threads.values()
        pcs = [frame.pc.address for frame in stack.frames]
        index = pcs.index(0)
        assert [each.pc for each in known] == pcs[index - len(known) : index], shown(stack)
        names = [function(frame) for frame in stack.frames[index + 1 :]]
        assert [name for name in names if name in ("run", "main", "_start")] == ["run"] * 4 + ["main", "_start"]
        assert stack.end.value == "entry"
        assert dict(stack.frames[index].registers) == {k: v for k, v in text.interrupted[0].items() if k != 49}


@pytest.mark.parametrize("options", mostly_slow(FEW))
def test_threads(options: str) -> None:
    check_live(built("threads.c", options), least=1500)


def test_threads_in_a_core(tmp_path: Path) -> None:
    check_core(built("threads.c"), tmp_path, least=1500)


@pytest.mark.parametrize("options", mostly_slow([*FEW, "-O2 -static-pie", "-O2 -static-libstdc++"]))
def test_exceptions(options: str) -> None:
    for mode in ("plain", "destructor", "sort", "catch", "again", "noexcept", "thread"):
        check_live(built("exceptions.cc", options), mode)


def test_exceptions_in_a_core(tmp_path: Path) -> None:
    check_core(built("exceptions.cc"), tmp_path, "noexcept")


@pytest.mark.parametrize("options", mostly_slow([*FEW, "-O2 -no-pie"], 2))
@pytest.mark.parametrize("thread", ["", "thread"])
def test_coroutines(options: str, thread: str) -> None:
    check_live(built("coroutines.c", options), *filter(None, [thread]), least=6)


def test_planted_registers() -> None:
    """The values stand in the program's text: number of the function, then number of the register."""
    with ready(built("planted.c")) as (pid, lines), open_process(pid) as target:
        check(target, said(lines))
        stack = Walker(target).walk(target.threads[0])
        seen = 0
        for frame in stack.frames:
            name = function(frame)
            if name.startswith("plant"):
                seen += 1
                planted = {n: int(f"7e{name[5:]}{n:010d}", 16) for n in (3, 6, 12, 13, 14, 15)}
                known = dict(frame.registers)
                assert known.pop(16) == frame.pc.address
                assert known.pop(7) % 16 == 0
                assert known == planted, shown(stack)
        assert seen == 4


def test_a_core_by_gdb(tmp_path: Path) -> None:
    if shutil.which("gcore") is None:
        pytest.skip("gcore is not installed")
    for source, mode in (("tree.c", ""), ("signals.c", "nested"), ("threads.c", "")):
        with ready(built(source), mode) as (pid, lines):
            done = run("gcore", "-o", tmp_path / source, pid)
        core = tmp_path / f"{source}.{pid}"
        assert core.exists(), done.stderr
        with open_core(core) as target:
            assert check(target, said(lines)) >= 10
