"""A pool of processes for commands that work on many files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clew.errors import Error

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


def add_jobs(parser: argparse.ArgumentParser, purpose: str) -> None:
    """The ``--jobs`` option.

    Args:
        purpose: what the processes do, as the end of its help.
    """
    parser.add_argument(
        "-j", "--jobs", type=_jobs, metavar="N", help=f"how many processes {purpose} (default: one a processor)"
    )


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


@contextmanager
def process_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes that no interrupt reaches: it ends this one, and they follow."""
    import signal
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, get_context("fork"), _follow_parent, (os.getpid(),)) as pool:
        # Forked processes inherit what is blocked, and the first task starts them all.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            pool.submit(int).result()
        except OSError as error:
            raise Error(f"cannot start processes: {error.strerror}", hint="read in this one, with -j 1") from None
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        yield pool


def _follow_parent(parent: int) -> None:
    """Ends this process when its parent ends, however that comes: it would wait for work for ever (prctl(2))."""
    import ctypes
    import signal

    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        # It has ended already.
        os._exit(1)
