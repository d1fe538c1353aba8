"""Opens any bytes as a core or a minidump, and walks every thread."""

from __future__ import annotations

from collections.abc import Callable

from fuzz_target_inputs import folder

from clew.errors import Error
from clew.target import Target, open_core, open_minidump, open_target
from clew.walk import FastWalker, Frame, Walker

MOST = 50


def read_core(data: bytes) -> None:
    """The bytes as a core. What raises clew.Error is passed over."""
    _read(data, open_core)


def read_minidump(data: bytes) -> None:
    """The bytes as a minidump."""
    _read(data, open_minidump)


def _read(data: bytes, opener: Callable[..., Target]) -> None:
    path = folder() / "input"
    path.write_bytes(data)
    # The contents tell the kind; where they do not, it is still opened as what it was.
    for each in (open_target, opener):
        try:
            target = each(path, sysroot=folder())
        except Error:
            continue
        with target:
            walk_everything(target)
        return


def place(frame: Frame) -> tuple[object, ...]:
    """What the fast walker has to find as the general one does: all but the words that were read."""
    return frame.pc, frame.trust, frame.registers, frame.module, frame.cfa, frame.rule


def walk_everything(target: Target) -> None:
    """Every thread, by all strategies and with scanning, by both walkers: each walk ends with a reason and within its limits."""
    for scan in (False, True):
        walker, fast = Walker(target, scan=scan, limit=200), FastWalker(target, scan=scan, limit=200)
        for thread in target.threads[:MOST]:
            stack = walker.walk(thread)
            assert 0 < len(stack.frames) <= 200
            assert stack.detail
            assert stack.frames[0].pc.address == thread.pc & ((1 << target.machine.bits) - 1)
            found = fast.walk(thread)
            assert (found.end, found.detail) == (stack.end, stack.detail)
            assert [place(frame) for frame in found.frames] == [place(frame) for frame in stack.frames]
    for module in target.modules[:MOST]:
        assert module.start < module.end
        target.memory.read(module.start, 64)
    for problem in target.problems:
        str(problem)
    assert len(target.problems) <= 1000
