"""The commands, and how one of them is run."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from clew._version import __version__
from clew.cli import diff, doctor, explain, stack, stats, table
from clew.cli.output import complain
from clew.errors import Error

COMMANDS = (table, explain, diff, stats, stack, doctor)

_EPILOG = """\
examples:
  clew table /bin/ls                     the unwind table of a program, in equations
  clew explain /bin/ls 0x4fa0            the rule in force there, and which instruction made it
  clew table --format readelf FILE       what readelf --debug-dump=frames-interp prints, byte for byte
  clew stats /usr/lib                    sizes, rows and rules of a whole directory
  clew stack 1234                        the stacks of a process (or a core), and why each ends
  clew doctor 1234                       what breaks them, and what to do about it

exit codes: 0 fine, 1 findings (differences, broken stacks, input of which part was left out), 2 usage,
3 unreadable input
"""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    root = argparse.ArgumentParser(
        prog="clew",
        description="The unwind-table compiler: what unwind tables say, and the stacks that they lead through.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"clew {__version__}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for module in COMMANDS:
        sub = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return root


def run(arguments: Sequence[str] | None) -> int:
    """Runs the command that the arguments (by default the program's) name; the exit code."""
    # A shell's `>&-` leaves a program without one.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Not every terminal has every character, and file names need not be text at all.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:
        # argparse has said what there was to say: the help, or what is wrong.
        return int(end.code or 0)
    try:
        code: int = options.run(options)
    except Error as error:
        complain(error)
        return error.exit_code
    return code
