"""What a live process is doing, for tests."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

Start = Callable[..., "subprocess.Popen[str]"]
"""Starts a program of ``programs``."""


def states(pid: int) -> set[str]:
    """The states of the threads of a process."""
    found = set()
    for path in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end meanwhile.
        with suppress(OSError):
            found.add((path / "stat").read_text().rpartition(")")[2].split()[0])
    return found


def is_free(pid: int) -> bool:
    """Whether no thread of a process is traced or stopped; waits a little for that to come true."""
    for _ in range(200):
        traced = False
        for path in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                traced |= "TracerPid:\t0\n" not in (path / "status").read_text()
        if not traced and not states(pid) & {"t", "T"}:
            return True
        time.sleep(0.01)
    return False


def settle(pid: int) -> None:
    """Wait until the first thread of a process waits in the kernel, in the place where it stays."""
    last = ""
    for _ in range(200):
        found = Path(f"/proc/{pid}/syscall").read_text()
        if found == last and not found.startswith("running"):
            return
        last = found
        time.sleep(0.01)
