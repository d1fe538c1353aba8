"""Native programs without unwind tables for their own functions, but with frame pointers: each notes where it returns to.

The C library around them has tables, so that a walk goes from one to the other and back: qsort calls a function without one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from native_walks import NATIVE, REASON, Said, built, dumped, function, ready, said, shown

from clew.target import Target, open_core, open_process
from clew.walk import End, Walker

pytestmark = pytest.mark.skipif(not NATIVE, reason=REASON)

BARE = "-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions"
OWN = {"stop", "handler", "leaf", "compare", "sort", "lay", "recurse", "main"}

OPTIONS = [
    "-O0",
    "-O1 -fno-omit-frame-pointer",
    "-O2 -fno-omit-frame-pointer",
    "-O3 -fno-omit-frame-pointer -fno-optimize-sibling-calls",
    "-O2 -fno-omit-frame-pointer -static",
    "-O2 -fno-omit-frame-pointer -static-pie",
    "-O2 -fno-omit-frame-pointer -no-pie -Wl,-z,lazy",
    "-O1 -fno-omit-frame-pointer -mstackrealign",
    "-O2 -fno-omit-frame-pointer -fcf-protection",
]


def check(target: Target, text: Said) -> None:
    """Each frame that the program noted is there, in this order, and there are no others of its functions."""
    ((number, noted),) = text.shadows.items()
    (thread,) = (each for each in target.threads if each.id == number)
    stack = Walker(target).walk(thread)
    pcs = iter([frame.pc.address for frame in stack.frames])
    assert all(address in pcs for address in noted), ([hex(address) for address in noted], shown(stack))
    own = [frame for frame in stack.frames if function(frame) in OWN]
    assert len(own) == len(noted), shown(stack)
    assert stack.end is End.ENTRY, shown(stack)


@pytest.mark.parametrize("mode", ["call", "signal"])
@pytest.mark.parametrize("options", OPTIONS)
def test_every_noted_frame(options: str, mode: str) -> None:
    program = built("framed.c", f"{options} {BARE}")
    with ready(program, mode) as (pid, lines), open_process(pid) as target:
        check(target, said(lines))


@pytest.mark.parametrize("mode", ["call", "signal"])
def test_every_noted_frame_in_a_core(mode: str, tmp_path: Path) -> None:
    program = built("framed.c", f"-O2 -fno-omit-frame-pointer {BARE}")
    core, lines = dumped(program, tmp_path, mode)
    with open_core(core, exe=program) as target:
        check(target, said(lines))
