"""``clew report``: where the samples of a recording were."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from clew.cli.output import palette, print_json, report, warn
from clew.cli.script import add_recording, frame_book, opened, wanted_samples
from clew.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from clew.cli.report_counts import Counted
    from clew.target.perfdata import PerfData

DESCRIPTION = """\
Counts the samples of a recording that perf record made: by function, as a table in the form of
`perf report --no-children`; as stacks for flame graphs; or as JSON. Copied stacks (--call-graph dwarf)
are walked by their unwind tables, and the last lines say how they ended: only `entry` is a whole stack.
Exit code 1 when one ended otherwise, or part of the recording could not be read.

  clew report perf.data                       functions, by what they took themselves
  clew report --children -g perf.data         by what they took with what they called, and their callers
  clew report --collapsed perf.data | flamegraph.pl > out.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", default=None, help="what perf record wrote (perf.data)")
    parser.add_argument("-i", "--input", metavar="FILE", help="the same, as perf takes it")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--stdio", action="store_true", help="a table (this is the usual form)")
    form.add_argument(
        "--collapsed", action="store_true", help="a line for each stack, as stackcollapse-perf.pl makes them"
    )
    form.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--children",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="sort functions by what they took together with what they called",
    )
    parser.add_argument("-g", "--call-graph", action="store_true", help="print who called each function")
    parser.add_argument("--limit", metavar="N", type=int, help="at most so many functions of an event")
    parser.add_argument(
        "--percent-limit", metavar="P", type=float, default=0.0, help="only functions of at least so many percent"
    )
    parser.add_argument(
        "--event", metavar="NAME", help="for --collapsed: the event whose samples are counted (the first)"
    )
    add_recording(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if options.input is not None and options.file is not None:
        raise UsageError("name one file")
    if options.limit is not None and options.limit < 1:
        raise UsageError("--limit is a number of at least 1")
    options.target = options.input or options.file or "perf.data"
    wanted, most = wanted_samples(options)
    from clew.cli.report_counts import count_stacks
    from clew.cli.script_samples import SampleReader

    with opened(options) as data:
        reader = SampleReader(data, frame_book(options, data), wanted, most=most, marks=False)
        counted = count_stacks(reader)
        _print(options, counted)
        code = report(options.target, data.problems)
    return 1 if counted.broken else code


def _print(options: argparse.Namespace, counted: Counted) -> None:
    if options.json:
        from clew.cli.report_json import report_json

        print_json(report_json(counted, options.target))
    elif options.collapsed:
        from clew.cli.report_json import collapsed

        sys.stdout.writelines(f"{line}\n" for line in collapsed(counted, _event(options, counted)))
        if counted.data.lost or counted.broken:
            warn(_left_out(counted))
    else:
        from clew.cli.report_text import report_lines

        lines = report_lines(
            counted,
            options.target,
            palette(),
            children=options.children,
            graph=options.call_graph,
            limit=options.limit,
            least=options.percent_limit,
        )
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _event(options: argparse.Namespace, counted: Counted) -> int:
    """The event whose samples are counted. Raises NotFoundError."""
    data: PerfData = counted.data
    if options.event is not None:
        found = [index for index, event in enumerate(data.events) if event.name == options.event]
        if not found:
            names = ", ".join(event.name for event in data.events[:12])
            raise NotFoundError(f"there is no event {options.event!r}", file=options.target, hint=f"it has {names}")
        return found[0]
    there = list(dict.fromkeys(key.event for key in counted.stacks))
    if len(there) > 1:
        names = ", ".join(data.events[index].name for index in there[1:])
        warn(f"{options.target}: samples of {names} are left out: --event names another one")
    return there[0] if there else 0


def _left_out(counted: Counted) -> str:
    """What the lines do not say."""
    lost = f"{counted.data.lost:,} samples were lost, and " if counted.data.lost else ""
    ends = ", ".join(f"{end.value} {count:,}" for end, count in counted.ends.most_common() if end.value != "entry")
    return f"{lost}{counted.broken:,} of {counted.walked:,} stacks are not whole" + (f": {ends}" if ends else "")
