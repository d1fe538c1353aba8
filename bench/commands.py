"""Measures whole commands, as one types them: clew beside readelf, CPU time of the process from its start to its end.

python bench/commands.py [--rounds N] [--large PATH] [--json OUT]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

import contenders
import inputs


def commands(large: str | None) -> dict[str, list[str]]:
    """What is run, by the name it is shown under; a command and its peer are neighbours."""
    clew = str(Path(sys.executable).with_name("clew"))
    libc = inputs.libc()
    small = Path(libc).name
    result = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "clew --help": [clew, "--help"],
        f"clew explain {small} qsort+4": [clew, "explain", libc, "qsort+4"],
        f"clew table --format readelf {small}": [clew, "table", "--format", "readelf", libc],
        f"readelf -wN --debug-dump=frames-interp {small}": ["readelf", "-wN", "--debug-dump=frames-interp", libc],
    }
    if large:
        name = Path(large).name
        result[f"clew table --format readelf {name}"] = [clew, "table", "--format", "readelf", large]
        result[f"readelf -wN --debug-dump=frames-interp {name}"] = [
            "readelf",
            "-wN",
            "--debug-dump=frames-interp",
            large,
        ]
    return result


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", default=inputs.libllvm(), help="a large ELF file (default: libLLVM if it is here)")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    options = parser.parse_args()
    wanted = commands(options.large)
    # Once for nothing: files come into the page cache, and Python writes its compiled modules.
    times: dict[str, list[int]] = {}
    for name, command in wanted.items():
        try:
            contenders.child_cpu_ns(command)
            times[name] = []
        except (contenders.Unavailable, FileNotFoundError) as reason:
            print(f"Without {name}: {reason}", file=sys.stderr)
    for _ in range(options.rounds):
        for name, mine in times.items():
            mine.append(contenders.child_cpu_ns(wanted[name]))
    width = max(map(len, times))
    print(f"{'CPU time of the whole process':{width}}  median ms    min ms")
    for name, mine in times.items():
        print(f"{name:{width}}  {statistics.median(mine) / 1e6:9.1f} {min(mine) / 1e6:9.1f}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
