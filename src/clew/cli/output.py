"""What all commands share in talking: colour, problems, errors, JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from clew.errors import Error, Problem

if TYPE_CHECKING:
    import argparse

#: Problems printed one by one; of the rest only their number.
_MOST = 20


class Palette:
    """ANSI colours, or none of them: ``bold``, ``dim``, ``red``, ``green``, ``yellow``, ``cyan`` wrap a text."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def red(self, text: str) -> str:
        return self._wrap("31", text)

    def green(self, text: str) -> str:
        return self._wrap("32", text)

    def yellow(self, text: str) -> str:
        return self._wrap("33", text)

    def cyan(self, text: str) -> str:
        return self._wrap("36", text)


def palette(stream: TextIO | None = None) -> Palette:
    """Colours for a stream: on a terminal, and unless ``NO_COLOR`` is set (no-color.org) or ``TERM`` is dumb."""
    stream = sys.stdout if stream is None else stream
    return Palette(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


def printable(text: str) -> str:
    """Text out of a file as it may go to a terminal, which takes control characters for orders: they show as ``\\xNN``.

    >>> printable("main\\x1b[2J")
    'main\\\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "difference"), counted(1200, "byte")
    ('1 difference', '1,200 bytes')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def complain(error: Error) -> None:
    """Prints an error and its hint."""
    colours = palette(sys.stderr)
    print(f"clew: {colours.red('error:')} {printable(str(error))}", file=sys.stderr)
    if error.hint:
        advise(error.hint)


def advise(message: str) -> None:
    """Prints the next thing to do."""
    print(f"clew: {palette(sys.stderr).cyan('hint:')} {printable(message)}", file=sys.stderr)


def warn(message: str) -> None:
    """Prints that something is not as it should be."""
    print(f"clew: {palette(sys.stderr).yellow('warning:')} {printable(message)}", file=sys.stderr)


def report(file: str, problems: Iterable[Problem], lost: int = 0) -> int:
    """Prints what is wrong with parts of a file, each thing once; 1 if something was left out because of it, else 0.

    Args:
        lost: how many things were left out, where that may be more than there are problems.
    """
    found = list(dict.fromkeys(problems))
    for problem in found[:_MOST]:
        warn(f"{file}: {problem}")
    more = max(len(found), lost) - _MOST
    if more > 0:
        warn(f"{file}: and {more:,} more")
    return 1 if lost or any(problem.lost for problem in found) else 0


def problems_json(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Problems as JSON values."""
    return [
        {
            key: value
            for key, value in (
                ("message", problem.message),
                ("section", problem.section),
                ("offset", None if problem.offset is None else f"{problem.offset:#x}"),
                ("lost", problem.lost),
            )
            if value is not None
        }
        for problem in problems
    ]


def print_json(value: object) -> None:
    """One JSON document, indented."""
    import json

    # At once: the encoder writes each bracket for itself, and standard output may be unbuffered.
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def add_json(parser: argparse.ArgumentParser) -> None:
    """The ``--json`` option."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_section(parser: argparse.ArgumentParser) -> None:
    """The ``--section`` option."""
    parser.add_argument("--section", metavar="NAME", help="read only this section (.eh_frame, .debug_frame)")
