"""Rust programs that print their own frames by libgcc's unwinder: the walk from outside equals them."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from native_walks import NATIVE, PROGRAMS, REASON, check, dumped, folder, function, ready, said, shown

from clew.target import open_core, open_process
from clew.walk import End, Walker

_RUSTC = shutil.which("rustc") or os.path.expanduser("~/.cargo/bin/rustc")

pytestmark = [
    pytest.mark.skipif(not NATIVE, reason=REASON),
    pytest.mark.skipif(not Path(_RUSTC).exists(), reason="rustc is not installed"),
]

OPTIONS = [
    "-C opt-level=0",
    "-C opt-level=2",
    "-C opt-level=2 -C force-frame-pointers=yes",
    "-C opt-level=2 -C target-feature=+crt-static",
    "-C opt-level=2 -C relocation-model=static",
    "-C opt-level=2 -C strip=symbols",
]


@cache
def built(options: str) -> Path:
    """The program, with these options."""
    program = folder() / f"rust-{len(list(folder().iterdir()))}"
    command = [_RUSTC, "--edition", "2021", *options.split(), "-o", str(program), str(PROGRAMS / "frames.rs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder())
    if done.returncode:
        pytest.skip(f"rustc cannot build it: {done.stderr.strip()[-200:]}")
    return program


@pytest.mark.parametrize("options", OPTIONS)
def test_frames(options: str) -> None:
    for mode in ("call", "sort", "thread", "hook", "drop"):
        with ready(built(options), mode) as (pid, lines), open_process(pid) as target:
            assert check(target, said(lines)) >= 7


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ("-C opt-level=3 -C panic=abort", End.NO_RULE),
        ("-C opt-level=2 -C panic=abort -C force-frame-pointers=yes", End.ENTRY),
    ],
)
def test_panics_abort(options: str, end: End) -> None:
    """The C main that rustc writes has no table then: libgcc stops there, and only a frame pointer leads on."""
    with ready(built(options), "sort") as (pid, lines), open_process(pid) as target:
        ((_, known),) = said(lines).threads.items()
        stack = Walker(target).walk(target.threads[0])
        index = [function(frame) for frame in stack.frames].index("main")
        assert [each.pc for each in known] == [
            frame.pc.address for frame in stack.frames[index + 1 - len(known) : index + 1]
        ], shown(stack)
        assert (index + 1 == len(stack.frames)) == (end is End.NO_RULE)
        assert stack.end is end


def test_frames_in_a_core(tmp_path: Path) -> None:
    program = built("-C opt-level=2")
    core, lines = dumped(program, tmp_path, "sort")
    with open_core(core, exe=program) as target:
        assert check(target, said(lines)) >= 7


def test_without_tables() -> None:
    """The program's own functions have frame pointers alone; those of the standard library have tables."""
    program = built("-C opt-level=1 -C panic=abort -C force-unwind-tables=no -C force-frame-pointers=yes")
    with ready(program, "call") as (pid, _), open_process(pid) as target:
        stack = Walker(target).walk(target.threads[0])
        names = [function(frame) for frame in stack.frames]
        assert sum("deep" in name for name in names) == 5, shown(stack)
        assert names.count("main") == 1
        assert stack.end is End.ENTRY
