"""``clew table``: what an unwind table says."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from clew.cli.output import Palette, add_json, add_section, complain, palette, printable, problems_json, report
from clew.cli.place import find_functions, find_place, not_covered
from clew.cli.target import Target, add_target, open_target
from clew.errors import Error, NotFoundError, UsageError

if TYPE_CHECKING:
    from clew.write.functions import Namer
    from clew.write.text import Block

DESCRIPTION = """\
Prints the unwind table of a file, one block a function, one line a row, in equations:
cfa is the canonical frame address, *(cfa-8) the value in memory 8 bytes below it, · a register
that the row does not name (it then has its ABI's default).
"""

#: Addresses go up to here.
_END = (1 << 64) - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_target(parser)
    add_section(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--function", metavar="NAME", help="only this function (all that have the name)")
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
    from clew.read.frames import frame_sections, read_table

    table = read_table(target.image, options.section)
    within = _within(options, target)
    if within is not None and not any(True for start, end in within for _ in table.rows(start, end)):
        try:
            sections = frame_sections(target.image, options.section)
        except NotFoundError:
            # Its table is of another kind.
            sections = []
        raise not_covered(target, sections, within[0][0])
    name_of = _namer(target)
    # Reading the symbols may have found more.
    problems = [*target.image.problems, *table.problems, *table.invalid_expressions()]
    if options.json:
        from clew.write.json import table_json

        for piece in table_json(table, target.name, name_of, problems_json(problems), within):
            sys.stdout.write(piece)
    else:
        from clew.write.text import blocks

        colours = palette()
        for block in blocks(table, name_of, within):
            sys.stdout.write(_text(block, colours))
    return report(target.name, problems, table.lost)


def _within(options: argparse.Namespace, target: Target) -> list[tuple[int, int]] | None:
    """The addresses that are asked for, or None for all."""
    if options.function is not None:
        found = find_functions(target.image, options.function)
        return [(start, min(start + max(size, 1), _END)) for start, size in found]
    if options.address is not None:
        start = find_place(target, options.address)
        return [(start, min(start + 1, _END))]
    return None


def _namer(target: Target) -> Namer:
    """Names of functions by address."""
    symbols = target.image.symbols()

    def name_of(address: int) -> tuple[str, int] | None:
        found = symbols.at(address)
        return None if found is None else (symbols.name(found[0]), found[1])

    return name_of


def _text(block: Block, colours: Palette) -> str:
    where = block.function.range
    name = colours.bold(printable(block.name) or "(no symbol)")
    lines = [f"{name}  {where.start:#x}..{where.end:#x}  {colours.dim(f'{where.source}+{where.entry:#x}')}"]
    headings, *rows = block.lines
    lines.append("  " + colours.dim("  ".join((headings.address, *headings.cells))))
    for row in rows:
        remarks = f"  {colours.yellow(row.remarks)}" if row.remarks else ""
        lines.append(f"  {colours.cyan(row.address)}  {'  '.join(row.cells)}{remarks}")
    return "\n".join(lines) + "\n\n"


def _readelf(options: argparse.Namespace) -> int:
    """The text of readelf, with its exit code: 1 for what it cannot read."""
    if options.function or options.address or options.json or options.section:
        raise UsageError("--format readelf prints all sections, as readelf does")
    from clew.errors import Problem
    from clew.write.readelf import frames_text, readelf_fails

    try:
        target = open_target(options.file, options.pid)
    except Error as error:
        complain(error)
        return 1
    problems: list[Problem] = []
    sys.stdout.flush()
    for chunk in frames_text(target.image, raw=options.raw, problems=problems):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
    report(target.name, [*target.image.problems, *problems])
    return 1 if readelf_fails(target.image) else 0
