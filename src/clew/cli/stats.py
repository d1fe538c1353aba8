"""``clew stats``: what the unwind tables of files and directories are made of."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from clew.cli.output import Palette, add_json, palette, print_json, report
from clew.errors import NotFoundError, Problem

if TYPE_CHECKING:
    from clew.read.stats import Stats

NAME = "stats"
HELP = "sizes, rows, rules and instructions of files and directories"
DESCRIPTION = """\
Counts what unwind tables are made of. Directories are searched for ELF files, in parallel.
The register rules are counted as in tables 3 and 4 of the OOPSLA 2019 paper on DWARF unwinding:
one a row and register; "kept" are the CFA, rip, rsp, rbp and rbx, which its unwinders track.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("paths", metavar="FILE|DIR", nargs="+", help="an ELF file, or a directory to search")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="how many processes (default: one a processor)")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from clew.read.stats import elf_files, read_stats, survey

    for path in options.paths:
        if not os.path.exists(path):
            raise NotFoundError("no such file or directory", file=path)
    files = list(elf_files(options.paths))
    jobs = options.jobs or os.cpu_count() or 1
    if files == options.paths and len(files) == 1:
        total = read_stats(files[0])
    else:
        total = survey(files) if len(files) < 4 or jobs == 1 else _parallel(files, jobs)
    if options.json:
        print_json({"paths": options.paths, **total.to_json()})
    else:
        _print(options.paths, len(files), total)
    return _report(total)


def _parallel(files: list[str], jobs: int) -> Stats:
    from concurrent.futures import ProcessPoolExecutor

    from clew.read.stats import survey

    with ProcessPoolExecutor(jobs) as pool:
        if not sys.stderr.isatty():
            return survey(files, pool)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("reading tables", total=len(files))
            return survey(files, pool, lambda _: bar.advance(task))


def _report(total: Stats) -> int:
    code = 0
    by_file: dict[str, list[Problem]] = {}
    for file, problem in total.problems:
        by_file.setdefault(file, []).append(problem)
    for file, problems in list(by_file.items())[:20]:
        code |= report(file, problems[:3])
    colours = palette(sys.stderr)
    for _, message in total.unreadable[:20]:
        print(f"clew: {colours.yellow('warning:')} {message}", file=sys.stderr)
    return 1 if code or total.lost or total.unreadable else 0


def _print(paths: list[str], files: int, total: Stats) -> None:
    colours = palette()
    what = paths[0] if len(paths) == 1 else f"{len(paths)} paths"
    print(colours.bold(what) + (f": {files:,} ELF files, {total.files:,} with unwind tables" if files != 1 else ""))
    per_row = total.section_bytes / total.rows if total.rows else 0
    lines = (
        ("section bytes", f"{total.section_bytes:,}", f"{per_row:.1f} a row" if total.rows else ""),
        ("entries", f"{total.fdes:,}", f"FDEs, and {total.cies:,} CIEs"),
        ("code bytes", f"{total.code_bytes:,}", "described"),
        ("rows", f"{total.rows:,}", f"decoded; {total.normalised_rows:,} after merging equal ones and padding"),
        ("rules", f"{total.rules:,}", "different ones" + (", file by file" if total.files != 1 else "")),
        ("expressions", f"{total.expressions:,}", f"uses in rows, {total.unreadable_expressions:,} unreadable"),
        ("left out", f"{total.lost:,}", "entries that could not be read"),
    )
    width = max(len(number) for _, number, _ in lines)
    for name, number, remark in lines:
        print(f"  {name.ljust(14)} {colours.cyan(number.rjust(width))}  {remark}".rstrip())
    for title, counter in (
        ("instructions", total.instructions),
        ("CFA, in rows", total.cfas),
        ("register rules of kept registers, in rows", total.kept_columns),
        ("register rules of all registers, in rows", total.all_columns),
    ):
        if counter:
            print(f"\n{colours.bold(title)}")
            for line in _histogram(counter, colours):
                print(line)


def _histogram(counter: Counter[str], colours: Palette) -> Iterator[str]:
    total = sum(counter.values())
    names = max(len(name) for name in counter)
    width = max(len(f"{count:,}") for count in counter.values())
    for name, count in counter.most_common():
        share = 100 * count / total
        bar = "█" * round(share / 4) if colours.on else ""
        yield f"  {name.ljust(names)}  {f'{count:,}'.rjust(width)}  {share:7.3f} %  {colours.cyan(bar)}".rstrip()
