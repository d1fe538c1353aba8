"""``clew stats``: what the unwind tables of files and directories are made of."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count as counting
from typing import TYPE_CHECKING

from clew.cli.output import Palette, add_json, counted, palette, print_json, printable, report, warn
from clew.cli.pool import add_jobs, process_pool
from clew.cli.target import missing_file

if TYPE_CHECKING:
    from clew.errors import Problem
    from clew.read.stats import Stats

DESCRIPTION = """\
Counts what unwind tables are made of. Directories are searched for ELF files, in parallel.
The register rules are counted as in table 4 of the OOPSLA 2019 paper on DWARF unwinding: one a row
and register that the row names; "kept" are rip, rsp, rbp and rbx, which its unwinders track.
Its table 3 adds one a row for the CFA. What is counted is call frame information (.eh_frame and
.debug_frame): ARM's .ARM.exidx has no rows to count.
"""

#: Files whose problems are told, and problems that are told of each.
_MOST_FILES, _MOST_PROBLEMS = 20, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("paths", metavar="FILE|DIR", nargs="+", help="an ELF file, or a directory to search")
    add_jobs(parser, "read")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    for path in options.paths:
        if not os.path.lexists(path):
            raise missing_file(path)
    from clew.read.stats import elf_files, read_stats, survey

    files = list(elf_files(options.paths))
    jobs = min(options.jobs or len(os.sched_getaffinity(0)), len(files))
    if files == options.paths and len(files) == 1:
        # Of one file, why it cannot be read is an error and no finding.
        total = read_stats(files[0])
    else:
        total = _parallel(files, jobs) if jobs > 1 else survey(files)
    if options.json:
        print_json({"paths": options.paths, **total.to_json()})
    else:
        _print(options.paths, len(files), total)
    return _report(total)


def _parallel(files: Sequence[str], jobs: int) -> Stats:
    """The counts, by a pool of processes."""
    from clew.cli.progress import progress
    from clew.read.stats import survey

    with process_pool(jobs) as pool, progress("tables", len(files)) as advance:
        done = counting(1)
        return survey(files, pool, lambda file: advance(next(done)))


def _report(total: Stats) -> int:
    """Tells what was wrong; the exit code."""
    code = 0
    by_file: dict[str, list[Problem]] = {}
    for file, problem in total.problems:
        by_file.setdefault(file, []).append(problem)
        code |= problem.lost
    for file, problems in list(by_file.items())[:_MOST_FILES]:
        report(file, problems[:_MOST_PROBLEMS])
        if len(problems) > _MOST_PROBLEMS:
            warn(f"{file}: and {len(problems) - _MOST_PROBLEMS:,} more")
    for file, message in total.unreadable[:_MOST_FILES]:
        warn(f"{file}: {message}")
    more = max(len(by_file) - _MOST_FILES, 0) + max(len(total.unreadable) - _MOST_FILES, 0)
    if more:
        warn(f"and {counted(more, 'more file')}")
    if total.unreadable and not total.files:
        return 3
    return 1 if code or total.lost or total.unreadable else 0


def _print(paths: Sequence[str], files: int, total: Stats) -> None:
    colours = palette()
    what = paths[0] if len(paths) == 1 else f"{len(paths)} paths"
    many = files != 1 or len(paths) != 1
    print(
        colours.bold(printable(what))
        + (f": {counted(files, 'file')}, {total.files:,} with call frame information" if many else "")
    )
    if not total.files:
        return
    lines = (
        ("section bytes", total.section_bytes, f"{total.section_bytes / total.rows:.1f} a row" if total.rows else ""),
        ("entries", total.fdes, f"FDEs, and {total.cies:,} CIEs"),
        ("code bytes", total.code_bytes, "described"),
        ("rows", total.rows, f"decoded; {total.normalised_rows:,} after merging equal ones and padding"),
        ("rules", total.rules, "different ones" + (", file by file" if total.files != 1 else "")),
        ("expressions", total.expressions, f"uses in rows, {total.unreadable_expressions:,} unreadable"),
        ("left out", total.lost, "entries that could not be read"),
    )
    width = max(len(f"{number:,}") for _, number, _ in lines)
    for name, number, remark in lines:
        print(f"  {name.ljust(14)} {colours.cyan(f'{number:,}'.rjust(width))}  {remark}".rstrip())
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
    names = max(map(len, counter))
    width = max(len(f"{count:,}") for count in counter.values())
    for name, count in counter.most_common():
        share = 100 * count / total
        bar = "█" * round(share / 4) if colours.on else ""
        yield f"  {name.ljust(names)}  {f'{count:,}'.rjust(width)}  {share:7.3f} %  {colours.cyan(bar)}".rstrip()
