"""``clew diff``: how two tables differ."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from clew.cli.output import add_json, add_section, counted, palette, print_json, report
from clew.cli.target import open_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.table import Table
    from clew.table.compare import Difference

DESCRIPTION = """\
Compares two tables address by address and register by register. What the ABI says of registers
that a rule does not name is filled in first, so two tables that say the same in other words, in
other sections or in other row boundaries are the same. Exit code 1 when they differ.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("a", metavar="A", help="an ELF file, or a packed table")
    parser.add_argument("b", metavar="B", help="another")
    add_section(parser)
    parser.add_argument("--section-b", metavar="NAME", help="the section of B, where it is not that of A")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from clew.table import compare

    a = _table(options.a, options.section)
    b = _table(options.b, options.section_b or options.section)
    if a.normalised or b.normalised:
        # A packed table has the rule before it where there is only padding.
        a, b = a.normalise(), b.normalise()
    code = report(options.a, a.problems, a.lost) | report(options.b, b.problems, b.lost)
    differences = list(compare(a, b))
    if options.json:
        rows = max(a.row_count, b.row_count)
        print_json({"same": not differences, "rows": rows, "differences": [d.to_json() for d in differences]})
    elif differences:
        _print(differences)
    else:
        print(f"the same: {a.row_count:,} and {b.row_count:,} rows")
    return 1 if differences else code


def _table(path: str, section: str | None) -> Table:
    """The table of a file, or the packed table that it is."""
    from clew.read.packed import open_packed

    opened = open_packed(path)
    if opened is not None:
        return opened.table()
    image = open_target(path).image
    from clew.read.frames import read_table

    return read_table(image, section)


def _print(differences: Sequence[Difference]) -> None:
    colours = palette()
    places = [f"{d.start:#x}..{d.end:#x}" for d in differences]
    width = max(map(len, places))
    names = max(len(d.register) for d in differences)
    for place, d in zip(places, differences, strict=True):
        print(
            f"{colours.cyan(place.ljust(width))}  {d.register.ljust(names)}  {colours.red(d.a)}  ->  {colours.green(d.b)}"
        )
    print(f"{counted(len(differences), 'difference')} over {counted(_extent(differences), 'byte')} of code")


def _extent(differences: Sequence[Difference]) -> int:
    """Bytes of code at which something differs; several registers may at the same."""
    size = reach = 0
    for d in differences:
        size += max(d.end - max(d.start, reach), 0)
        reach = max(reach, d.end)
    return size
