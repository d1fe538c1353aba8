"""``clew script``: the samples of a recording as text, in the form of ``perf script``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.cli.output import complain
from clew.cli.script_fields import DEFAULT, chosen_fields
from clew.cli.script_input import name_of_input, opened, tell_problems, tell_unmatched
from clew.cli.target import add_debug_dir, debug_directories
from clew.errors import Error, UsageError

if TYPE_CHECKING:
    from clew.cli.script_frames import FrameBook
    from clew.cli.script_samples import Wanted
    from clew.target.perfdata import PerfData

DESCRIPTION = """\
Prints the samples of a recording that perf record made, in the form of `perf script --no-inline`, so
that what reads that reads this: stackcollapse-perf.pl, and scripts. Copied stacks (--call-graph dwarf)
are walked by their unwind tables; call chains that the kernel took (-g) are printed as they are. Names
are those that perf would find: C++ and Rust demangled, without parameters. The exit code is perf's: 0,
and 255 for a file that cannot be read. What was wrong with part of it is told on standard error.

  clew script perf.data | stackcollapse-perf.pl | flamegraph.pl > out.svg
  clew script --comm python3 -F comm,tid,time,ip,sym perf.data
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default=None, help="what perf record wrote (a pipe, or perf.data)"
    )
    parser.add_argument("-i", "--input", metavar="FILE", help="the same, as perf takes it; - is standard input")
    parser.add_argument(
        "-F",
        "--fields",
        metavar="LIST",
        help=f"what to print, with commas between, or +FIELD and -FIELD, from comm, tid, pid, time, cpu, event, ip, sym, "
        f"symoff, dso, period ({','.join(DEFAULT)})",
    )
    add_recording(parser)
    parser.add_argument("--ns", action="store_true", help="times in nanoseconds")
    parser.add_argument(
        "-G", "--hide-call-graph", action="store_true", help="print where each sample was, not its stack"
    )
    parser.add_argument("--no-inline", action="store_true", help="accepted as perf's: inlined calls are not printed")


def add_recording(parser: argparse.ArgumentParser) -> None:
    """The options that ``report`` has as well: which samples, and where files are."""
    parser.add_argument(
        "-c", "--comm", "--comms", metavar="NAMES", help="only threads of these names, with commas between"
    )
    parser.add_argument("--pid", metavar="IDS", help="only these processes")
    parser.add_argument("--tid", metavar="IDS", help="only these threads")
    parser.add_argument(
        "--time", metavar="START,END", help="only samples from START to END, in seconds; one may be left out"
    )
    parser.add_argument(
        "--max-stack",
        metavar="N",
        type=int,
        default=None,
        help="at most so many frames of the kernel, and of the program (127)",
    )
    parser.add_argument("--exe", metavar="FILE", help="stands in for the file of this name")
    parser.add_argument("--sysroot", metavar="DIR", help="the directory under which the recorded files are")
    add_debug_dir(parser, "where else to look for files and for debug files, also by build id")
    parser.set_defaults(symbols=[])


def prepared(arguments: Sequence[str]) -> list[str]:
    """The arguments as argparse takes them: a list of changes may begin with ``-``, which it takes for an option."""
    out: list[str] = []
    for each in arguments:
        if out and out[-1] in ("-F", "--fields") and each[:1] == "-" and each[1:2].isalpha() and len(each) > 2:
            out[-1] = f"--fields={each}"
        else:
            out.append(each)
    return out


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    options.target = name_of_input(options)
    wanted, most = wanted_samples(options)
    # What is wrong with them is known before the file is opened.
    chosen_fields(options.fields, ())
    try:
        with opened(options) as data:
            _print(options, data, wanted, most)
    except UsageError:
        raise
    except Error as error:
        complain(error)
        # perf's code for a file that it cannot read.
        return 255
    return 0


def wanted_samples(options: argparse.Namespace) -> tuple[Wanted, int]:
    """Which samples the options name, and how many frames they have at most. Raises UsageError."""
    from clew.cli.script_samples import MOST_FRAMES, Wanted

    if options.max_stack is not None and options.max_stack < 1:
        raise UsageError("--max-stack is a number of at least 1")
    first, last = _times(options.time)
    names = frozenset(options.comm.split(",")) if options.comm else frozenset()
    pids, tids = _numbers("--pid", options.pid), _numbers("--tid", options.tid)
    wanted = Wanted(names, pids, tids, first=first, last=last)
    return wanted, min(options.max_stack or MOST_FRAMES, 0x7FFFFFFF)


def _numbers(option: str, text: str | None) -> frozenset[int]:
    try:
        return frozenset(int(each) for each in text.split(",")) if text else frozenset()
    except ValueError:
        raise UsageError(f"{option} takes numbers with commas between, not {text!r}") from None


def _times(text: str | None) -> tuple[int, int]:
    """Nanoseconds of ``START,END``."""
    highest = (1 << 64) - 1
    if text is None:
        return 0, highest
    first, comma, last = text.partition(",")
    try:
        if not comma:
            raise ValueError
        low, high = (_nanoseconds(each) if each else None for each in (first, last))
    except ValueError:
        raise UsageError(f"--time takes START,END in seconds, not {text!r}") from None
    if high is not None and high < (low or 0):
        raise UsageError(f"--time ends before it begins: {text!r}")
    return low or 0, highest if high is None else high


def _nanoseconds(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    if not seconds.isdigit() or not (fraction or "0").isdigit() or len(text) > 32:
        raise ValueError
    return min(int(seconds) * 10**9 + int((fraction + "000000000")[:9]), (1 << 64) - 1)


def frame_book(options: argparse.Namespace, data: PerfData) -> FrameBook:
    """What names the frames of a recording."""
    from clew.cli.script_frames import FrameBook
    from clew.symbols.debug_places import SYSTEM_DIRECTORY, Places

    installed = [f"{options.sysroot.rstrip('/')}{SYSTEM_DIRECTORY}"] if options.sysroot else []
    return FrameBook(data, Places.default([*debug_directories(options), *installed]))


def _print(options: argparse.Namespace, data: PerfData, wanted: Wanted, most: int) -> None:
    from clew.cli.script_samples import SampleReader
    from clew.cli.script_writer import ScriptWriter

    book = frame_book(options, data)
    fields = chosen_fields(options.fields, data.events)
    chains = not options.hide_call_graph and "ip" in fields
    reader = SampleReader(data, book, wanted, most=most, chains=chains)
    writer = ScriptWriter(reader, fields, nanoseconds=options.ns)
    out = sys.stdout.buffer
    sys.stdout.flush()
    for rows, order in reader.rows():
        for piece in writer.write(rows, order):
            out.write(piece)
    out.flush()
    tell_unmatched(reader)
    data.problems += book.missing.problems()
    tell_problems(options.target, book, data)
