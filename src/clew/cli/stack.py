"""``clew stack``: the frames of every thread of a process, a core or a dump, or of the samples of a recording."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from clew.cli.output import add_json, palette, print_json, problems_json, report
from clew.cli.walking import (
    add_stopped,
    chosen_threads,
    is_recording,
    let_go,
    open_stopped,
    title,
    walk_threads,
)
from clew.errors import Error, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.cli.walking import Walked
    from clew.target import Target

DESCRIPTION = """\
Walks the stack of every thread, and says of each frame how it was found where that was not by an
unwind table, and of each stack why it ended: only `entry` is a whole stack. Where there is debug
information, frames have source lines, and before them the calls that were inlined into them, the
innermost first. A process is held while its stacks are read, and goes on before they are printed. Of
what perf record wrote (with --call-graph dwarf), equal stacks are counted, and the most frequent are
printed. Exit code 1 when a stack ended otherwise, or part of the target could not be read.

  clew stack 1234                        a process, by its number
  clew stack core --sysroot /mnt/device  a core from another machine
  clew stack --why 1234                  the rule behind every frame, and the words that were read
  clew stack --symbols STORE crash.dmp   names and lines from Breakpad symbol files
  clew stack perf.data                   the most frequent stacks of a recording
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_stopped(parser, "the number of a process, or the file of a core, a minidump or a recording of perf")
    parser.add_argument(
        "--thread", metavar="ID", type=int, action="append", default=[], help="only this thread (may be repeated)"
    )
    parser.add_argument(
        "--limit", metavar="N", type=int, help="at most so many frames of a stack; of a recording, so many stacks (20)"
    )
    parser.add_argument(
        "--scan", action="store_true", help="where nothing else helps, look for return addresses on the stack"
    )
    parser.add_argument("--registers", action="store_true", help="show what is known of each frame's registers")
    parser.add_argument(
        "--why", action="store_true", help="show the rule by which each frame was left, and what was read"
    )
    names = parser.add_mutually_exclusive_group()
    names.add_argument("--no-names", action="store_true", help="addresses and modules only")
    names.add_argument("--raw-names", action="store_true", help="names as they stand in the file, not demangled")
    parser.add_argument(
        "--lines",
        action=argparse.BooleanOptionalAction,
        help="source lines and inlined calls, where there is debug information: as a rule of everything but recordings",
    )
    parser.add_argument("--no-inlines", action="store_true", help="source lines, but not the calls that were inlined")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if options.limit is not None and options.limit < 1:
        raise UsageError("--limit is a number of at least 1")
    if is_recording(options.target):
        from clew.cli.stack_samples import run as run_samples

        return run_samples(options)
    with open_stopped(options) as target:
        threads = chosen_threads(target, options.thread)
        stacks = walk_threads(target, threads, limit=options.limit, scan=options.scan, reads=options.why)
        let_go(target)
    return _print(options, target, stacks)


def _print(options: argparse.Namespace, target: Target, stacks: Sequence[Walked]) -> int:
    from clew.cli.stack_names import names_of
    from clew.walk.model import End

    names = names_of(options, target, lines=options.lines is not False)
    name = title(options, target)
    if not stacks:
        report(name, target.problems)
        raise Error("no thread of it is known", file=name)
    if options.json:
        from clew.cli.stack_json import stack_json, target_json

        threads = [stack_json(each, names, registers=options.registers, why=options.why) for each in stacks]
        document = {"target": target_json(target, options.target), "threads": threads}
        print_json(document | {"problems": problems_json([*target.problems, *names.problems])})
    else:
        from clew.cli.stack_text import Style, heading, stack_lines

        style = Style(palette(), why=options.why, registers=options.registers)
        print(heading(target, options.target, style.colours))
        for each in stacks:
            sys.stdout.writelines(f"{line}\n" for line in stack_lines(each, names, style))
    code = report(name, [*target.problems, *names.problems])
    return 1 if any(each.stack.end is not End.ENTRY for each in stacks) else code
