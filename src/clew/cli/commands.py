"""The commands, and how one of them is run."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from clew._version import __version__
from clew.cli.output import complain
from clew.errors import Error

COMMANDS = {
    "table": "print an unwind table",
    "explain": "the rule in force at an address, and which instruction set each part of it",
    "diff": "how two unwind tables differ, in what they mean",
    "stats": "sizes, rows, rules and instructions of files and directories",
    "stack": "stacks of a process, core, dump or recording: every frame, and why the stack ends",
    "doctor": "what breaks the stacks of a process, core, dump or recording, and what to do about it",
    "report": "where the samples of a recording were: by function, as stacks, as JSON",
    "script": "the samples of a recording as text, as perf script prints them",
    "symbolize": "functions, files, lines and inlined calls of addresses, as addr2line prints them",
    "dump-syms": "Breakpad symbol files: names, lines, inlined calls and unwind tables",
    "compile": "an unwind table as code that undoes a frame, or packed",
}
"""The commands, and what each is for. Each is in a module of its name, which is loaded when the command is run."""

_EPILOG = """\
examples:
  clew table /bin/ls                     the unwind table of a program, in equations
  clew explain /bin/ls 0x4fa0            the rule in force there, and which instruction made it
  clew table --format readelf FILE       what readelf --debug-dump=frames-interp prints, byte for byte
  clew stats /usr/lib                    sizes, rows and rules of a whole directory
  clew stack 1234                        the stacks of a process (or a core), and why each ends
  clew doctor 1234                       what breaks them, and what to do about it
  clew symbolize -e FILE -fip 0x1139     the function and the line there, and what it was inlined into

exit codes: 0 fine, 1 findings (differences, broken stacks, input of which part was left out), 2 usage,
3 unreadable input
"""

#: How many threads numpy's linear algebra makes.
_THREADS = "OPENBLAS_NUM_THREADS"


class _Command(argparse.ArgumentParser):
    """The parser of a command, which knows its arguments only when there are some to parse."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        module = import_module(f"clew.cli.{self.prog.split()[-1].replace('-', '_')}")
        if self.description is None:
            self.description = module.DESCRIPTION
            module.add_arguments(self)
            self.set_defaults(run=module.run)
        prepared = getattr(module, "prepared", None)
        if prepared is not None:
            args = prepared(args)
        found, rest = super().parse_known_args(args, namespace)
        several = getattr(module, "ANYWHERE", None)
        if several is not None:
            # argparse takes such arguments from one place only, where programs with getopt take them from between options.
            getattr(found, several).extend(each for each in rest if not each.startswith("-"))
            rest = [each for each in rest if each.startswith("-")]
        return found, rest


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
    commands = root.add_subparsers(
        title="commands",
        metavar="COMMAND",
        dest="command",
        required=True,
        parser_class=_Command,
        # argparse would make it from the usage, for which it loads what measures terminals.
        prog="clew",
    )
    for name, purpose in COMMANDS.items():
        commands.add_parser(
            name, help=purpose, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )
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
    _import_numpy()
    try:
        code: int = options.run(options)
    except Error as error:
        complain(error)
        return error.exit_code
    return code


def _import_numpy() -> None:
    """Loads numpy without the threads that its linear algebra would make, which cost more than the rest and are not used.

    Programs that clew starts shall have theirs.
    """
    if _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_THREADS]
