"""ptrace(2) through the C library: the few requests that stopping a process and reading its registers take.

A tracee belongs to the thread that seized it, so all requests have to come from one and the same thread. When that thread
ends, for whatever reason, the kernel lets go of its tracees and they go on.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Final

PTRACE_DETACH: Final = 17
PTRACE_GETREGSET: Final = 0x4204
PTRACE_SEIZE: Final = 0x4206
PTRACE_INTERRUPT: Final = 0x4207

# linux/wait.h: also wait for threads, which are clones without SIGCHLD.
_WALL: Final = 0x40000000

_MAXIMUM_REGSET = 4096

# linux/sched.h: the first letter of a state in proc_pid_stat(5).
ENDED: Final = ("Z", "X", "x")


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@lru_cache(maxsize=1)
def _ptrace() -> Callable[..., int]:
    # No request waits, so there is no need to let other threads of Python run meanwhile.
    call = ctypes.PyDLL(None, use_errno=True).ptrace
    call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    call.restype = ctypes.c_long
    return call


class Ptrace:
    """The requests. Make one in the thread that uses it.

    All methods raise OSError, with ``ESRCH`` for a thread that is gone or does not stand still.
    """

    def __init__(self) -> None:
        self._call = _ptrace()
        self._buffer = ctypes.create_string_buffer(_MAXIMUM_REGSET)
        self._vector = _IoVec(ctypes.addressof(self._buffer), _MAXIMUM_REGSET)
        self._vector_address = ctypes.addressof(self._vector)

    def _request(self, request: int, thread: int, address: int, data: int) -> None:
        if self._call(request, thread, address, data) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def seize(self, thread: int) -> None:
        """Become the tracer of a thread, without stopping it."""
        self._request(PTRACE_SEIZE, thread, 0, 0)

    def interrupt(self, thread: int) -> None:
        """Ask a thread to stop."""
        self._request(PTRACE_INTERRUPT, thread, 0, 0)

    def detach(self, thread: int, signal: int = 0) -> None:
        """Let a stopped thread go, with the signal that it was stopped at the delivery of."""
        self._request(PTRACE_DETACH, thread, 0, signal)

    def regset(self, thread: int, kind: int) -> bytes:
        """A set of a stopped thread's registers: the contents of the note of that type in a core."""
        self._vector.length = _MAXIMUM_REGSET
        self._request(PTRACE_GETREGSET, thread, kind, self._vector_address)
        return self._buffer.raw[: self._vector.length]


def stop_status(thread: int) -> int | None:
    """What stopped a thread that is traced, or None while it runs.

    A plain number is the signal that was being delivered, and that would be lost if it were not given back; with bits
    above the lowest eight it is an event, and no signal.

    Raises:
        ChildProcessError: it is not traced (any more).
    """
    # Only stops: should the process end and be this one's child, then whoever started it learns that.
    found = os.waitid(os.P_PID, thread, os.WSTOPPED | os.WNOHANG | _WALL)
    return found.si_status if found is not None and found.si_pid else None


def threads_of(pid: int) -> list[int]:
    """The threads that a process has now. Raises OSError."""
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def thread_count(pid: int) -> int | None:
    """How many threads a process has, which costs much less than a list of them; None where it is gone.

    The kernel counts them in the links of ``/proc/PID/task`` (fs/proc/base.c, proc_task_getattr), besides the usual two.
    """
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return None


def thread_state(pid: int, thread: int) -> str | None:
    """The letter that says what a thread does (proc_pid_stat(5)), or None when it is gone."""
    try:
        with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode("ascii", "replace")
    except (OSError, IndexError):
        return None


def tracer_of(pid: int) -> int:
    """The process that traces a process; 0 for none."""
    tracer = _status(pid, b"TracerPid:")
    # It names the thread that traces.
    return _status(tracer, b"Tgid:") or tracer if tracer else 0


def _status(pid: int, key: bytes) -> int:
    """A number of proc_pid_status(5); 0 where there is none."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(key):
                    return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0


def is_gone(error: OSError) -> bool:
    """Whether an error says that there is no such process or thread."""
    return error.errno in (errno.ESRCH, errno.ENOENT, errno.ECHILD)
