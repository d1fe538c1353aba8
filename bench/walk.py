"""Measures walks: a live process, a core and a recording, clew beside the programs that do the same.

    python bench/walk.py [live] [core] [samples] [--rounds N] [--seconds S] [--recording FILE] [--json OUT]

All take turns in one run, a round at a time. What everybody had to load (modules, tables, Python itself) was loaded before
the first round, except where the text says that a whole process is measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import walkers
from contenders import Unavailable


def compete(makers: list[Callable[[], walkers.Walker]], rounds: int) -> list[dict[str, Any]]:
    """Lets all take turns; the results are ready for JSON."""
    entrants: list[walkers.Walker] = []
    for make in makers:
        try:
            entrants.append(make())
        except Unavailable as reason:
            print(f"Without {reason}", file=sys.stderr)
    runs: dict[str, list[walkers.Walk]] = {entrant.name: [] for entrant in entrants}
    for _ in range(rounds):
        for entrant in entrants:
            runs[entrant.name].append(entrant.run())
    for entrant in entrants:
        entrant.close()
    return [
        {
            "name": entrant.name,
            "does": entrant.does,
            "frames": runs[entrant.name][-1].frames,
            "samples": runs[entrant.name][-1].samples,
            "wall_ns": round(statistics.median(run.wall_ns for run in runs[entrant.name])),
            "wall_min_ns": min(run.wall_ns for run in runs[entrant.name]),
            "cpu_ns": round(statistics.median(run.cpu_ns for run in runs[entrant.name])),
        }
        for entrant in entrants
    ]


def show(title: str, results: list[dict[str, Any]], unit: str) -> None:
    """Prints one race as a table, per frame or per sample of clew's."""
    count = results[0][f"{unit}s"]
    print(f"\n{title}: {count:,} {unit}s")
    rows = [("", f"us/{unit}", "minimum", "CPU", "ratio", "frames", "what it does")]
    for result in results:
        rows.append(
            (
                result["name"],
                f"{result['wall_ns'] / count / 1e3:.2f}",
                f"{result['wall_min_ns'] / count / 1e3:.2f}",
                f"{result['cpu_ns'] / count / 1e3:.2f}",
                f"{result['wall_ns'] / results[0]['wall_ns']:.2f}",
                f"{result['frames']:,}" if result["frames"] else "-",
                result["does"],
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:6], widths[1:], strict=True)),
        ]
        print("  " + "  ".join([*cells, row[6]]).rstrip())


@contextmanager
def standing(folder: Path) -> Iterator[int]:
    """The process id of a program that waits, twenty threads deep in calls."""
    program = walkers.compiled("programs/deep.c", folder, "-fomit-frame-pointer", "-pthread")
    process = subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def live(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """A live process."""
    with standing(folder) as pid:
        makers: list[Callable[[], walkers.Walker]] = [
            lambda: walkers.ClewLive(pid),
            lambda: walkers.Libdwfl(pid, folder),
            lambda: walkers.EuStack("-p", str(pid)),
        ]
        results = compete(makers, options.rounds)
    show("Live process, from attaching to letting go", results, "frame")
    return results


def core(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """A core of the same process."""
    if not shutil.which("gcore"):
        print("Without gcore: type apt-get install gdb", file=sys.stderr)
        return []
    path = folder / "core"
    with standing(folder) as pid:
        subprocess.run(["gcore", "-o", str(path), str(pid)], capture_output=True, check=True)
        path = path.with_name(f"core.{pid}")
        makers: list[Callable[[], walkers.Walker]] = [
            lambda: walkers.ClewCore(path),
            lambda: walkers.ClewCoreFrames(path),
            lambda: walkers.Drgn(path),
            lambda: walkers.EuStack("--core", str(path)),
        ]
        results = compete(makers, options.rounds)
    show("Core", results, "frame")
    return results


def samples(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """A recording of perf's."""
    path = Path(options.recording) if options.recording else record(options, folder)
    makers: list[Callable[[], walkers.Walker]] = [
        lambda: walkers.ClewSamples(path),
        lambda: walkers.PerfScript(path),
        lambda: walkers.PerfScript(path, "-F", "comm,tid,time,ip"),
    ]
    results = compete(makers, max(1, options.rounds // 5))
    show(f"Recording of {path.stat().st_size / 1e6:,.0f} MB", results, "sample")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"  {results[0]['frames'] / results[0]['samples']:.1f} frames a sample; this process's peak: {peak / 1024:.0f} MiB"
    )
    return results


def record(options: argparse.Namespace, folder: Path) -> Path:
    """Records two busy Pythons."""
    path = folder / "perf.data"
    busy = f"{sys.executable} {walkers.HERE / 'programs' / 'busy.py'} {options.seconds}"
    command = ["perf", "record", "-q", "-o", str(path), "-e", "cpu-clock", "-F", "4999", "--call-graph", "dwarf,16384"]
    subprocess.run([*command, "--", "sh", "-c", f"{busy} & {busy}; wait"], check=True, stderr=subprocess.DEVNULL)
    return path


RACES = {"live": live, "core": core, "samples": samples}


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "races", nargs="*", choices=[*RACES, []], default=[], metavar="RACE", help="live, core, samples; all"
    )
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=int, default=10, help="how long to record")
    parser.add_argument("--recording", help="a perf.data to use instead of recording one")
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    outcomes = {}
    for name in options.races or RACES:
        with tempfile.TemporaryDirectory() as folder:
            outcomes[name] = RACES[name](options, Path(folder))
    if options.json:
        Path(options.json).write_text(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    main()
