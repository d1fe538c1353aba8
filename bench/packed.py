"""Measures packed tables: their size beside the sections that they are made of, and how long it takes to write them.

    python bench/packed.py [--file PATH]… [--rounds N] [--json OUT]

Reading a file's table (from the mapped file to a decoded Table) and writing it packed (normalising included) take turns in one
process. Figures are CPU time.
"""

from __future__ import annotations

import argparse
import glob
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew

USUAL = ("libc.so.6", "libpython3.11.so.1.0", "libcrypto.so.3", "libstdc++.so.6", "libLLVM-14.so.1")
SECTIONS = (".eh_frame", ".eh_frame_hdr")


def usual_files() -> list[str]:
    """The libraries of the usual names that this machine has."""
    found = (min(glob.glob(f"/usr/lib/*-linux-gnu/{name}"), default=None) for name in USUAL)
    return [path for path in found if path is not None]


def timed(what: Callable[..., Any], *arguments: object) -> tuple[int, Any]:
    """Nanoseconds of CPU time, and the result."""
    begin = time.process_time_ns()
    result = what(*arguments)
    return time.process_time_ns() - begin, result


def measure(path: str, rounds: int) -> dict[str, Any]:
    """One file's figures, ready for JSON."""
    image = clew.open_image(path)
    reads, writes, data = [], [], b""
    for _ in range(rounds):
        spent, table = timed(clew.read_table, image)
        reads.append(spent)
        spent, data = timed(clew.packed, table, image)
        writes.append(spent)
    opened = clew.PackedTable(data)
    sections = sum(section.size for name in SECTIONS if (section := image.section(name)) is not None)
    return {
        "file": path,
        "sections": sections,
        "packed": len(data),
        "size_ratio": len(data) / sections if sections else None,
        "rows": opened.row_count,
        "rules": len(opened.rules),
        "read_ns": round(statistics.median(reads)),
        "write_ns": round(statistics.median(writes)),
        "time_ratio": statistics.median(write / read for read, write in zip(reads, writes, strict=True)),
    }


def show(results: list[dict[str, Any]]) -> None:
    """Prints the figures as a table."""
    columns = [("", "sections", "packed", "ratio", "rows", "rules", "read ms", "write ms", "ratio")]
    for each in results:
        columns.append(
            (
                Path(each["file"]).name,
                f"{each['sections']:,}",
                f"{each['packed']:,}",
                "-" if each["size_ratio"] is None else f"{each['size_ratio']:.3f}",
                f"{each['rows']:,}",
                f"{each['rules']:,}",
                f"{each['read_ns'] / 1e6:.2f}",
                f"{each['write_ns'] / 1e6:.2f}",
                f"{each['time_ratio']:.2f}",
            )
        )
    widths = [max(len(row[i]) for row in columns) for i in range(len(columns[0]))]
    for row in columns:
        print("  ".join(cell.ljust(widths[0]) if not i else cell.rjust(widths[i]) for i, cell in enumerate(row)))
    ratios = [each["size_ratio"] for each in results if each["size_ratio"]]
    if ratios:
        print(f"geometric mean of the sizes' ratios: {math.exp(statistics.fmean(map(math.log, ratios))):.3f}")


def main() -> int:
    """Parses the arguments, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", action="append", metavar="PATH", help="a file to measure (may be repeated)")
    parser.add_argument("--rounds", type=int, default=21, help="how often (default 21)")
    parser.add_argument("--json", metavar="OUT", help="also write the figures there")
    options = parser.parse_args()
    results = [measure(path, options.rounds) for path in options.file or usual_files()]
    show(results)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
