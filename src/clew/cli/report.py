"""``clew report``: where the samples of a recording were."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.cli.output import palette, print_json, warn
from clew.cli.script import add_recording, frame_book, wanted_samples
from clew.cli.script_input import name_of_input, opened, tell_problems, tell_unmatched
from clew.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from clew.cli.report_counts import Counted
    from clew.target.perfdata import PerfData

DESCRIPTION = """\
Counts the samples of a recording that perf record made: by function, as a table in the form of
`perf report --no-children`; as stacks for flame graphs; or as JSON. Copied stacks (--call-graph dwarf)
are walked by their unwind tables, and the last lines say how they ended: only `entry` is a whole stack.
Exit code 1 when one ended otherwise, part of the recording could not be read, or the file of a module
was not found.

  clew report perf.data                       functions, by what they took themselves
  clew report --children -g perf.data         by what they took with what they called, and their callers
  clew report --collapsed perf.data | flamegraph.pl > out.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default=None, help="what perf record wrote (a pipe, or perf.data)"
    )
    parser.add_argument("-i", "--input", metavar="FILE", help="the same, as perf takes it; - is standard input")
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
    parser.add_argument("--limit", metavar="N", type=int, help="at most so many functions of an event (all)")
    parser.add_argument(
        "--percent-limit", metavar="P", type=float, help="only functions of at least so many percent (0)"
    )
    parser.add_argument(
        "--event", metavar="NAME", help="the event whose samples are counted (all; with --collapsed, the file's first)"
    )
    add_recording(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if options.limit is not None and options.limit < 1:
        raise UsageError("--limit is a number of at least 1")
    _check_form(options)
    options.target = name_of_input(options)
    wanted, most = wanted_samples(options)
    from clew.cli.report_counts import count_stacks
    from clew.cli.script_samples import SampleReader

    with opened(options) as data:
        wanted = replace(wanted, events=_events(options, data))
        book = frame_book(options, data)
        reader = SampleReader(data, book, wanted, most=most, marks=False)
        counted = count_stacks(reader)
        data.problems += book.missing.problems()
        _print(options, counted)
        tell_unmatched(reader)
        code = tell_problems(options.target, book, data)
    return 1 if counted.broken else code


def _check_form(options: argparse.Namespace) -> None:
    """Raises UsageError for options that are of the table only, where another form is asked for."""
    form = "--json" if options.json else "--collapsed" if options.collapsed else None
    if form is None:
        return
    of_table = (
        ("--limit", options.limit is not None),
        ("--percent-limit", options.percent_limit is not None),
        ("--children", options.children),
        ("--call-graph", options.call_graph),
    )
    for option, given in of_table:
        if given:
            raise UsageError(
                f"{option} is for the table: {form} has no use for it", hint=f"leave {option} or {form} out"
            )


def _print(options: argparse.Namespace, counted: Counted) -> None:
    if options.json:
        from clew.cli.report_json import report_json

        print_json(report_json(counted, options.target))
    elif options.collapsed:
        from clew.cli.report_json import collapsed

        sys.stdout.writelines(f"{line}\n" for line in collapsed(counted, _collapsed_events(options, counted)))
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
            least=options.percent_limit or 0.0,
        )
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _events(options: argparse.Namespace, data: PerfData) -> frozenset[int]:
    """The events that the user names; none for all. Raises NotFoundError."""
    if options.event is None:
        return frozenset()
    found = frozenset(index for index, event in enumerate(data.events) if event.name == options.event)
    if not found:
        names = ", ".join(event.name for event in data.events[:12])
        raise NotFoundError(f"there is no event {options.event!r}", file=options.target, hint=f"it has {names}")
    return found


def _collapsed_events(options: argparse.Namespace, counted: Counted) -> frozenset[int]:
    """The events whose samples are lines: one, for lines do not say of which they are."""
    data = counted.data
    if options.event is not None:
        return _events(options, data)
    others = sorted({key.event for key in counted.stacks} - {0})
    if others:
        names = ", ".join(dict.fromkeys(data.events[index].name for index in others))
        warn(
            f"{options.target}: only samples of {data.events[0].name}, the first event, are counted; "
            f"to count those of {names}, name one with --event"
        )
    return frozenset((0,))


def _left_out(counted: Counted) -> str:
    """What the lines do not say."""
    lost = f"{counted.data.lost:,} samples were lost, and " if counted.data.lost else ""
    ends = ", ".join(f"{end.value} {count:,}" for end, count in counted.ends.most_common() if end.value != "entry")
    return f"{lost}{counted.broken:,} of {counted.walked:,} stacks are not whole" + (f": {ends}" if ends else "")
