"""Programs of musl, whose functions have no tables: a known sequence of calls, and a reason where it cannot go on."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
from native_walks import NATIVE, PROGRAMS, REASON, folder, function, ready, run, shown

from clew.target import open_process
from clew.walk import End, Interrupted, Walker

pytestmark = [
    pytest.mark.skipif(not NATIVE, reason=REASON),
    pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="musl-gcc is not installed"),
]

BARE = "-fno-asynchronous-unwind-tables -fno-unwind-tables"


@cache
def built(options: str) -> Path:
    program = folder() / f"musl-{len(list(folder().iterdir()))}"
    done = run("musl-gcc", "-w", *options.split(), "-o", program, PROGRAMS / "chain.c")
    if done.returncode:
        pytest.skip(f"musl-gcc cannot build it: {done.stderr[-200:]}")
    return program


@pytest.mark.parametrize(
    "options",
    [
        "-O2 -static -fasynchronous-unwind-tables",
        f"-O1 -static -fno-omit-frame-pointer {BARE}",
        "-O0 -static -fasynchronous-unwind-tables",
        "-O1 -static -fno-omit-frame-pointer -fasynchronous-unwind-tables",
        "-O1 -static-pie -fno-omit-frame-pointer -fasynchronous-unwind-tables",
    ],
)
@pytest.mark.parametrize("mode", ["call", "signal"])
def test_a_known_sequence(options: str, mode: str) -> None:
    """In a loop of the program's own, so that nothing of musl lies in between but a signal's trampoline."""
    with ready(built(options), mode, settled=False) as (pid, _), open_process(pid) as target:
        stack = Walker(target).walk(target.threads[0])
    names = [function(frame) for frame in stack.frames]
    expected = ["stay", *(["handler"] if mode == "signal" else []), "third", "second", "first", "main"]
    assert [name for name in names if name in expected] == expected, shown(stack)
    if mode == "signal":
        assert isinstance(stack.frames[names.index("third")].pc, Interrupted)
    # Start-up code of musl has no tables, and not all of it frame pointers.
    assert names[-2] == "main", shown(stack)
    assert stack.end is End.NO_RULE, shown(stack)


@pytest.mark.parametrize("options", ["-O2 -static -fasynchronous-unwind-tables", "-O2 -fasynchronous-unwind-tables"])
def test_where_nothing_leads_out_of_musl(options: str) -> None:
    """pause has no table and keeps no frame pointer: its caller is not known, and so none of what would come after."""
    with ready(built(options), "call", "pause") as (pid, _), open_process(pid) as target:
        stack = Walker(target).walk(target.threads[0])
    assert len(stack.frames) <= 2, shown(stack)
    assert stack.end is End.NO_RULE, shown(stack)
