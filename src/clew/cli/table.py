"""``clew table``: what an unwind table says."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from clew.cli.output import Palette, add_json, add_section, palette, problems_json, report
from clew.cli.target import Target, add_target, find_function, find_place, open_target
from clew.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from clew.table import Table
    from clew.write.text import Block, Namer

NAME = "table"
HELP = "print an unwind table"
DESCRIPTION = """\
Prints the unwind table of a file, one block a function, one line a row, in equations:
cfa is the canonical frame address, *(cfa-8) the value in memory 8 bytes below it, · a register
that the row does not name (it then has its ABI's default).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_target(parser)
    add_section(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--function", metavar="NAME", help="only this function")
    place.add_argument("--address", metavar="A", help="only the function that holds this address (or FUNCTION+OFFSET)")
    parser.add_argument(
        "--format", choices=("text", "readelf"), default="text", help="readelf: byte for byte what readelf -wF prints"
    )
    parser.add_argument(
        "--raw", action="store_true", help="with --format readelf: instructions, as readelf -wf prints them"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if options.raw and options.format != "readelf":
        raise UsageError("--raw goes with --format readelf")
    if options.format == "readelf":
        return _readelf(options)
    target = open_target(options.file, options.pid)
    from clew.read.frames import read_table

    table = read_table(target.image, options.section)
    problems = [*table.problems, *table.invalid_expressions()]
    start, end = _place(options, target)
    if end is not None and not any(True for _ in table.rows(start, end)):
        raise NotFoundError(f"there is no unwind information at {start + target.bias:#x}", file=target.name)
    if options.json:
        from clew.write.json import table_json

        for piece in table_json(table, target.name, _namer(target), problems_json(problems), start, end):
            sys.stdout.write(piece)
    else:
        _text(target, table, start, end)
    return report(target.name, problems, table.lost)


def _place(options: argparse.Namespace, target: Target) -> tuple[int, int | None]:
    """The addresses that are asked for."""
    if options.function is not None:
        start, size = find_function(target.image, options.function)
        return start, start + max(size, 1)
    if options.address is not None:
        start = find_place(target, options.address)
        return start, start + 1
    return 0, None


def _namer(target: Target) -> Namer:
    """Names of functions by address."""
    symbols = target.image.symbols()

    def name_of(address: int) -> tuple[str, int] | None:
        found = symbols.at(address)
        return None if found is None else (symbols.name(found[0]), found[1])

    return name_of


def _text(target: Target, table: Table, start: int, end: int | None) -> None:
    from clew.write.text import blocks

    colours = palette()
    for block in blocks(table, _namer(target), start, end):
        sys.stdout.write(_block(block, colours))


def _block(block: Block, colours: Palette) -> str:
    from clew.write.text import layout

    where = block.range
    name = colours.bold(block.name or "(no symbol)")
    lines = [f"{name}  {where.start:#x}..{where.end:#x}  {colours.dim(f'{where.source}+{where.entry:#x}')}"]
    for number, (address, cells, remarks) in enumerate(layout(block)):
        if number == 0:
            lines.append("  " + colours.dim("  ".join((address, *cells)).rstrip()))
            continue
        body = "  ".join(cells).rstrip()
        note = f"  {colours.yellow(remarks)}" if remarks else ""
        lines.append(f"  {colours.cyan(address)}  {body}{note}")
    return "\n".join(lines) + "\n\n"


def _readelf(options: argparse.Namespace) -> int:
    if options.function or options.address or options.json or options.section:
        raise UsageError("--format readelf prints all sections, as readelf does")
    from clew.errors import Problem
    from clew.write.readelf import frames_text

    target = open_target(options.file, options.pid)
    problems: list[Problem] = []
    sys.stdout.flush()
    for chunk in frames_text(target.image, raw=options.raw, problems=problems):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
    return report(target.name, problems)
