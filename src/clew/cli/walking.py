"""What ``stack`` and ``doctor`` share: opening what they are pointed at, and walking its threads while it is held."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from clew.cli.output import counted
from clew.cli.target import add_debug_dir, check_directory, debug_directories, missing_file
from clew.errors import Error, NotFoundError, Problem

if TYPE_CHECKING:
    import argparse

    from clew.arch import Machine
    from clew.target import Target, Thread
    from clew.target.perfdata import PerfData, Sample, SampledProcess
    from clew.walk import Stack


#: How a recording begins, in either byte order. What reads one is loaded only for one.
_RECORDINGS = (b"PERFILE2", b"2ELIFREP")

#: Processes of a recording whose walkers are kept. A file that makes up processes has more.
_MOST_WALKERS = 4096


@dataclass(frozen=True, slots=True)
class Walked:
    """A thread and its stack."""

    thread: Thread
    stack: Stack


def add_stopped(parser: argparse.ArgumentParser, what: str) -> None:
    """The target, and the options that say where its files are."""
    parser.add_argument("target", metavar="TARGET", help=what)
    parser.add_argument(
        "--exe",
        metavar="FILE",
        help="the program that a core or a minidump is of, whatever that calls it; of a recording, the file of this name",
    )
    parser.add_argument(
        "--sysroot", metavar="DIR", help="the directory under which the files of a core, a minidump or a recording are"
    )
    add_debug_dir(parser, "where else to look for files and for debug files, also by build id")
    parser.add_argument(
        "--symbols",
        metavar="DIR",
        action="append",
        default=[],
        help="a store of Breakpad symbol files, for what has no debug information (may be repeated)",
    )


def open_stopped(options: argparse.Namespace) -> Target:
    """The target that a command is pointed at.

    Raises:
        NotFoundError: there is no such file or process. Others: as :func:`clew.target.open_target`.
    """
    check_places(options)
    # Before a process is held, not while it is: this takes longer than the walk.
    import_module("clew.walk")
    from clew.target import open_target

    try:
        return open_target(
            options.target, exe=options.exe, sysroot=options.sysroot, debug_dirs=debug_directories(options)
        )
    except NotFoundError as error:
        if error.file != options.target or os.path.lexists(options.target):
            raise
        missing = missing_file(options.target)
        if "did you mean" not in (missing.hint or ""):
            missing.hint = "name a process by its number, as `pgrep` tells it, or a file by its path"
        raise missing from None


def check_places(options: argparse.Namespace) -> None:
    """Raises NotFoundError where a directory or file that the user names is not there."""
    named = [("--sysroot", options.sysroot), *(("--debug-dir", each) for each in options.debug_dir)]
    for option, directory in (*named, *(("--symbols", each) for each in options.symbols)):
        check_directory(option, directory)
    if options.exe is not None and not os.path.exists(options.exe):
        raise missing_file(options.exe)


def title(options: argparse.Namespace, target: Target) -> str:
    """How to call the target in messages."""
    return f"process {target.process_id}" if target.kind == "process" else str(options.target)


def chosen_threads(target: Target, wanted: Iterable[int]) -> list[Thread]:
    """The threads of these numbers, in the target's order; all for none. Raises NotFoundError where one is not there."""
    numbers = set(wanted)
    if not numbers:
        return list(target.threads)
    found = [thread for thread in target.threads if thread.id in numbers]
    missing = numbers - {thread.id for thread in found}
    if missing:
        there = ", ".join(str(thread.id) for thread in target.threads[:12])
        more = len(target.threads) - 12
        hint = f"it has {there}" + (f" and {counted(more, 'more thread')}" if more > 0 else "")
        raise NotFoundError(f"there is no thread {min(missing)}", hint=hint if there else "it has no threads")
    return found


def walk_threads(
    target: Target, threads: Sequence[Thread], *, limit: int | None = None, scan: bool = False, reads: bool = False
) -> list[Walked]:
    """The stacks of these threads; with ``reads``, their frames say what was read. The one place where commands walk."""
    from clew.walk import LIMIT, FastWalker, Walker

    kind = Walker if reads else FastWalker
    walker = kind(target, limit=LIMIT if limit is None else limit, scan=scan)
    return [Walked(thread, walker.walk(thread)) for thread in threads]


def is_recording(path: str) -> bool:
    """Whether a file is one that ``perf record`` wrote, by its first bytes. Digits are a process."""
    if path.isascii() and path.isdigit():
        return False
    from clew.image.source import first_bytes

    return first_bytes(path, 8) in _RECORDINGS


def open_recording(options: argparse.Namespace) -> PerfData:
    """The recording that a command is pointed at. Raises as :func:`clew.target.open_perf_data`."""
    check_places(options)
    allow_many_files()
    from clew.target import open_perf_data
    from clew.target.perfdata.attributes import SAMPLE_STACK_USER

    data = open_perf_data(
        options.target, exe=options.exe, sysroot=options.sysroot, debug_dirs=debug_directories(options)
    )
    if not any(event.sample_type & SAMPLE_STACK_USER for event in data.events):
        data.problems.append(
            Problem(
                "it has no copies of stacks, and of a stack only the first frame: perf record --call-graph dwarf makes them"
            )
        )
    return data


def allow_many_files() -> None:
    """Lets this program have as many files open as it may ask for.

    A recording of a whole system names thousands of files, and before Python 3.13 each that is mapped takes a descriptor.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def walk_samples(data: PerfData) -> Iterator[tuple[Sample, Stack | None]]:
    """Every sample of a recording with its stack: None where it was not in a program."""
    from clew.walk import FastWalker
    from clew.walk.steps import Steps

    steps: dict[Machine, Steps] = {}
    # By the process itself, and only as long as the recording keeps it: a number may be another's later.
    walkers: WeakKeyDictionary[SampledProcess, FastWalker] = WeakKeyDictionary()
    for sample in data.samples():
        if sample.thread is None:
            yield sample, None
            continue
        target = sample.process.target
        walker = walkers.get(sample.process)
        if walker is None:
            if len(walkers) >= _MOST_WALKERS:
                walkers.clear()
            own = steps.setdefault(target.machine, Steps(target.machine))
            walker = walkers[sample.process] = FastWalker(target, steps=own)
        yield sample, walker.walk(sample.thread)


def let_go(target: Target) -> None:
    """Closes the target: a process goes on. Raises Error where it ended while it was held, for then it was not all there."""
    before = len(target.problems)
    target.close()
    # What a target says when it is closed is that there was nothing to let go any more.
    if target.kind == "process" and len(target.problems) > before:
        raise Error(target.problems[-1].message, hint="what was read of it is not to be relied on")
