"""Opens any bytes as a core or a minidump, and walks every thread."""

from __future__ import annotations

from collections.abc import Callable

from fuzz_target_inputs import folder

from clew.errors import Error
from clew.target import Target, open_core, open_minidump, open_target
from clew.walk import Walker

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


def walk_everything(target: Target) -> None:
    """Every thread, by all strategies and with scanning: each walk ends with a reason and within its limits."""
    for scan in (False, True):
        walker = Walker(target, scan=scan, limit=200)
        for thread in target.threads[:MOST]:
            stack = walker.walk(thread)
            assert 0 < len(stack.frames) <= 200
            assert stack.detail
            assert stack.frames[0].pc.address == thread.pc & ((1 << target.machine.bits) - 1)
    for module in target.modules[:MOST]:
        assert module.start < module.end
        target.memory.read(module.start, 64)
    for problem in target.problems:
        str(problem)
    assert len(target.problems) <= 1000
