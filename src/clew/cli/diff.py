"""``clew diff``: how two tables differ."""

from __future__ import annotations

import argparse

from clew.cli.output import add_json, add_section, palette, print_json, report
from clew.cli.target import open_target

NAME = "diff"
HELP = "how two unwind tables differ, in what they mean"
DESCRIPTION = """\
Compares two tables address by address and register by register. What the ABI says of registers
that a rule does not name is filled in first, so two tables that say the same in other words, in
other sections or in other row boundaries are the same. Exit code 1 when they differ.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("a", metavar="A", help="an ELF file")
    parser.add_argument("b", metavar="B", help="another")
    add_section(parser)
    parser.add_argument("--section-b", metavar="NAME", help="the section of B, where it is not that of A")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from clew.read.frames import read_table
    from clew.table import compare

    with open_target(options.a).image as first, open_target(options.b).image as second:
        a = read_table(first, options.section)
        b = read_table(second, options.section_b or options.section)
    code = report(options.a, a.problems, a.lost) | report(options.b, b.problems, b.lost)
    differences = list(compare(a, b))
    if options.json:
        rows = max(a.row_count, b.row_count)
        print_json({"same": not differences, "rows": rows, "differences": [d.to_json() for d in differences]})
        return 1 if differences else code
    colours = palette()
    width = max((len(f"{d.start:#x}..{d.end:#x}") for d in differences), default=0)
    names = max((len(d.register) for d in differences), default=0)
    for d in differences:
        where = f"{d.start:#x}..{d.end:#x}".ljust(width)
        print(f"{colours.cyan(where)}  {d.register.ljust(names)}  {colours.red(d.a)}  ->  {colours.green(d.b)}")
    size = sum(d.end - d.start for d in differences)
    if differences:
        print(f"{len(differences):,} differences over {size:,} bytes of code")
    else:
        print(f"the same: {a.row_count:,} and {b.row_count:,} rows")
    return 1 if differences else code
