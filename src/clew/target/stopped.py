"""A process held still: all its threads stopped, their registers read, and let go again whatever happens.

A thread of its own does the tracing. It ends when it is told to, and when nobody holds the process any more; with it, or
with this process, every hold ends, as the kernel lets go of the tracees of a thread that has ended. An exception, or
Ctrl-C, in the caller's thread finds it between no two requests.
"""

from __future__ import annotations

import _thread
import errno
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import ref

from clew.errors import Error, NotFoundError, Problem
from clew.target.ptrace import ENDED, Ptrace, is_gone, stop_status, thread_count, thread_state, threads_of, tracer_of

TIMEOUT = 3.0
"""How many seconds to wait for threads to stop. One in uninterruptible sleep may take for ever."""

_GRACE = 0.25
"""How many seconds to wait, after an interrupt, until the process is let go, which happens anyway."""

_SOON = 0.003
"""As many seconds are spent asking again and again before the wait for threads begins in earnest."""

_NT_PRSTATUS = 1

_MAXIMUM_PASSES = 1000

_LOOK = 0.05
"""How many seconds until the tracing thread looks whether the process is still held."""


@dataclass
class ThreadWords:
    """What was read of a stopped thread: its registers as the kernel hands them out, and further sets by note type."""

    id: int
    registers: bytes
    more: dict[int, bytes] = field(default_factory=dict)


class StoppedProcess:
    """Stops every thread of a process, and lets them go on :meth:`release`.

    Args:
        pid: the process.
        more: the types of the notes whose register sets are read as well, where a thread has them.
        timeout: how many seconds to wait for threads to stop.

    Attributes:
        threads: those that stand still.
        unstopped: those that did not stop in time, with the letter of their state.
        problems: what was left out.

    Raises:
        NotFoundError: there is no such process.
        Error: it may not be stopped, somebody else traces it, it has ended, or no thread of it stopped in time.
    """

    _work: _Work | None = None

    def __init__(self, pid: int, more: tuple[int, ...] = (), timeout: float = TIMEOUT) -> None:
        self.pid = pid
        self.threads: list[ThreadWords] = []
        self.unstopped: dict[int, str] = {}
        self.problems: list[Problem] = []
        work = self._work = _Work(pid, more, timeout, ref(self))
        try:
            # Not threading.Thread: its bookkeeping does not stand an exception at any moment, and this either starts or
            # does not. The interpreter does not wait for such a thread at its end.
            _thread.start_new_thread(work.run, ())
            work.stopped.wait()
        except BaseException as error:
            work.cancelled = True
            work.let_go.set()
            work.ended.wait(_GRACE)
            if isinstance(error, RuntimeError):
                raise Error(f"process {pid} cannot be stopped: {error}") from None
            raise
        if work.error is not None:
            self.release()
            raise work.error
        self.threads, self.unstopped, self.problems = work.words, work.unstopped, work.problems

    def release(self) -> bool:
        """Let the process go on. Whether it was still there. Any thread may call this, and more than once."""
        if self._work is None:
            return True
        self._work.let_go.set()
        self._work.ended.wait(TIMEOUT)
        return self._work.alive

    def __del__(self) -> None:
        if self._work is not None:
            self._work.let_go.set()


class _Work:
    """What the tracing thread does. It knows nothing of the :class:`StoppedProcess`, so that this can be given up."""

    def __init__(self, pid: int, more: tuple[int, ...], timeout: float, holder: ref[StoppedProcess]) -> None:
        self.pid = pid
        self.holder = holder
        self.more = more
        self.deadline = time.monotonic() + timeout
        self.stopped = threading.Event()
        self.let_go = threading.Event()
        self.ended = threading.Event()
        self.cancelled = False
        self.error: Error | None = None
        self.words: list[ThreadWords] = []
        self.unstopped: dict[int, str] = {}
        self.problems: list[Problem] = []
        self.alive = True
        self._seized: set[int] = set()
        # By thread, the signal to give back.
        self._signals: dict[int, int] = {}

    def run(self) -> None:
        """Stop, read, wait, let go."""
        try:
            self._ptrace = Ptrace()
            try:
                self._stop()
                self._read()
            except OSError as error:
                self.error = Error(f"process {self.pid} cannot be stopped: {error.strerror}")
            except Error as error:
                self.error = error
            except Exception as error:
                self.error = Error(f"process {self.pid} cannot be stopped: {error}")
            if self.error is None:
                self.stopped.set()
                # An exception at the wrong moment (a signal handler's, in the caller's thread) may keep the event from being
                # set, or whoever waits from being told: the flag is looked at, and whether anybody still holds the process.
                while not self.let_go.wait(_LOOK):
                    if self.holder() is None:
                        break
        finally:
            self._detach()
            self.ended.set()
            self.stopped.set()

    def _stop(self) -> None:
        known: set[int] = set()
        for _ in range(_MAXIMUM_PASSES):
            try:
                new = [thread for thread in threads_of(self.pid) if thread not in known]
            except OSError as error:
                raise _gone(self.pid, bool(known)) if is_gone(error) else error from None
            if not new:
                break
            known.update(new)
            self._wait({thread for thread in new if self._seize(thread)})
            # Those that stand still make no more, nor do they end: as many as there are, and there are no others.
            if len(self._signals) == thread_count(self.pid):
                break
            if self.cancelled or time.monotonic() > self.deadline:
                self._tell_rest(known)
                break
        else:
            # Each pass stops what it finds, so only new threads of threads that do not stop can bring one here.
            self.problems.append(Problem("the process makes threads faster than they can be stopped"))

    def _tell_rest(self, known: set[int]) -> None:
        """Threads that were made while others were stopped, and for which the time is over."""
        with suppress(OSError):
            rest = len(set(threads_of(self.pid)) - known)
            if rest:
                self.problems.append(Problem(f"there was no time to stop {rest} threads"))

    def _seize(self, thread: int) -> bool:
        """Whether the thread will stop."""
        try:
            self._ptrace.seize(thread)
            self._seized.add(thread)
            self._ptrace.interrupt(thread)
        except OSError as error:
            if is_gone(error):
                return False
            state = thread_state(self.pid, thread)
            if state is None or state in ENDED:
                if state == "Z":
                    self.problems.append(Problem(f"thread {thread} has ended (state Z)", lost=False))
                return False
            if error.errno == errno.EPERM:
                raise _refused(self.pid) from None
            raise
        return True

    def _wait(self, pending: set[int]) -> None:
        """Wait until the threads stand still, have gone, or the time is over."""
        rounds = 0
        soon = time.monotonic() + _SOON
        while pending and not self.cancelled:
            for thread in list(pending):
                try:
                    status = stop_status(thread)
                except ChildProcessError:
                    pending.discard(thread)
                    continue
                if status is not None:
                    pending.discard(thread)
                    self._signals[thread] = status if status < 0x100 else 0
            if not pending:
                return
            if time.monotonic() < soon:
                # A thread that sleeps stops as soon as a processor is free for it, which is not worth a sleep of its own.
                os.sched_yield()
                continue
            rounds += 1
            time.sleep(min(100e-6 * rounds, 5e-3))
            if rounds % 20 == 0:
                pending -= {thread for thread in pending if (thread_state(self.pid, thread) or "X") in ENDED}
            if time.monotonic() > self.deadline:
                break
        for thread in pending:
            state = thread_state(self.pid, thread)
            if state is not None and state not in ENDED:
                self.unstopped[thread] = state
                meaning = ", uninterruptible sleep" if state == "D" else ""
                self.problems.append(Problem(f"thread {thread} did not stop (state {state}{meaning})"))

    def _read(self) -> None:
        for thread in sorted(self._signals):
            try:
                words = ThreadWords(thread, self._ptrace.regset(thread, _NT_PRSTATUS))
            except OSError as error:
                if not is_gone(error):
                    raise
                continue
            for kind in self.more:
                try:
                    words.more[kind] = self._ptrace.regset(thread, kind)
                except OSError:
                    # This machine, or this kernel, has no such registers.
                    continue
            self.words.append(words)
        if not self.words and not self.unstopped and not self.cancelled:
            raise _gone(self.pid, True)

    def _detach(self) -> None:
        """Let every thread go; those that do not stand still yet go with the end of this thread."""
        gone = 0
        for thread in self._seized:
            signal = self._signals.get(thread)
            try:
                if signal is None:
                    status = stop_status(thread)
                    if status is None:
                        continue
                    signal = status if status < 0x100 else 0
                self._ptrace.detach(thread, signal)
            except OSError:
                gone += thread in self._signals
        self.alive = not gone or gone < len(self._signals)


def _gone(pid: int, was_there: bool) -> Error:
    if was_there or thread_state(pid, pid) is not None:
        return Error(f"process {pid} ended before it could be read")
    return NotFoundError(f"there is no process {pid}", hint="look the process id up with `ps -e`")


def _refused(pid: int) -> Error:
    if pid == os.getpid():
        return Error("a process cannot stop itself", hint="run clew in another process")
    tracer = tracer_of(pid)
    if tracer:
        return Error(
            f"process {pid} is already traced, by process {tracer}",
            hint="end the debugger, or strace, that it runs under",
        )
    return Error(
        f"this user may not stop process {pid}",
        hint="run as the process's user or as root; /proc/sys/kernel/yama/ptrace_scope may also need to be 0",
    )
