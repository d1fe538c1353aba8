"""The command line: one file a command, each thin: parse, call the library, print."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from clew._version import __version__
from clew.cli import diff, explain, stats, table
from clew.cli.output import complain
from clew.errors import Error

COMMANDS = (table, explain, diff, stats)

_EPILOG = """\
examples:
  clew table /bin/ls                     the unwind table of a program, in equations
  clew explain /bin/ls main+4            the rule in force there, and which instruction made it
  clew table --format readelf FILE       what readelf --debug-dump=frames-interp prints, byte for byte
  clew stats /usr/lib                    sizes, rows and rules of a whole directory

exit codes: 0 fine, 1 findings (differences, input of which part was left out), 2 usage, 3 unreadable input
"""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    root = argparse.ArgumentParser(
        prog="clew",
        description="The unwind-table compiler: what unwind tables say, exactly.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"clew {__version__}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for module in COMMANDS:
        sub = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code. Errors go to standard error, with the next thing to do."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except Error as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("clew: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away, as head does. Nothing can be said to it, not even when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
