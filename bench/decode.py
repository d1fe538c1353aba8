"""Measures how long it takes to make every row of a file's call frame information: clew beside other programs.

    python bench/decode.py [--file PATH]… [--rounds N] [--peers gimli,readelf,pyelftools] [--json OUT]

All take turns in one run, a round at a time, so whatever slows the machine down slows all of them. Figures are CPU time.
clew, gimli and pyelftools start from bytes in memory; readelf is a whole process, which finds the section and prints text.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

import contenders
import inputs
import memory

#: Whoever needs longer than this for one repetition runs once.
SLOW_NS = 5_000_000_000


def compete(path: str, peers: list[str], rounds: int) -> dict[str, Any]:
    """Lets all take turns; the result is ready for JSON."""
    entrants: list[contenders.Contender] = [contenders.Clew(path)]
    for peer in peers:
        try:
            entrants.append(contenders.PEERS[peer](path))
        except contenders.Unavailable as reason:
            print(f"Without {reason}", file=sys.stderr)
    runs: dict[str, list[contenders.Run]] = {entrant.name: [] for entrant in entrants}
    for _ in range(rounds):
        for entrant in entrants:
            mine = runs[entrant.name]
            if not mine or mine[-1].ns < SLOW_NS:
                mine.append(entrant.run())
    for entrant in entrants:
        entrant.close()
    results = []
    for entrant in entrants:
        times = [run.ns for run in runs[entrant.name]]
        last = runs[entrant.name][-1]
        results.append(
            {
                "name": entrant.name,
                "does": entrant.does,
                "median_ns": round(statistics.median(times)),
                "min_ns": min(times),
                "rows": last.rows,
                "failed": last.failed,
                "checksum": last.checksum,
                "runs_ns": times,
            }
        )
    return {"file": path, "rounds": rounds, "results": results, "memory": memory.in_a_fresh_process(path)}


def show(outcome: dict[str, Any]) -> None:
    """Prints one file's outcome as a table."""
    print(f"\n{outcome['file']}, {outcome['rounds']} rounds, CPU time")
    columns = [("", "median ms", "min ms", "ratio", "rows", "ns/row", "what it makes")]
    clew = outcome["results"][0]
    own = clew["median_ns"]
    for result in outcome["results"]:
        rows = result["rows"]
        remark = f"; left out {result['failed']} FDEs" if result["failed"] else ""
        if result["checksum"] not in (None, clew["checksum"]) and not remark:
            remark = "; not the same rows as clew"
        columns.append(
            (
                result["name"],
                f"{result['median_ns'] / 1e6:.2f}",
                f"{result['min_ns'] / 1e6:.2f}",
                f"{result['median_ns'] / own:.2f}",
                "-" if rows is None else f"{rows:,}",
                f"{result['median_ns'] / rows:.1f}" if rows else "-",
                result["does"] + remark,
            )
        )
    widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
    for name, *figures, does in columns:
        aligned = (figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=False))
        print("  " + "  ".join((name.ljust(widths[0]), *aligned, does)))
    figures = outcome["memory"]
    print(
        f"  memory of clew: section {_mib(figures['section'])}, Table {_mib(figures['table'])} (rows {_mib(figures['rows'])}), "
        f"peak while building {_mib(figures['peak'])} = {figures['peak'] / figures['table']:.2f} x Table"
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.2f} MiB"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--file", action="append", help="an ELF file; again for more (default: libc, and libLLVM if it is here)"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", default=",".join(contenders.PEERS), help="which take part (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    options = parser.parse_args()
    peers = [peer for peer in options.peers.split(",") if peer]
    if unknown := set(peers) - set(contenders.PEERS):
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}")
    files = options.file or [path for path in (inputs.libc(), inputs.libllvm()) if path]
    outcomes = []
    for path in files:
        outcomes.append(compete(path, peers, options.rounds))
        show(outcomes[-1])
    if options.json:
        machine = {"machine": platform.machine(), "system": platform.platform(), "python": platform.python_version()}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**machine, "files": outcomes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
