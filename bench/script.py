"""Measures ``clew script`` beside ``perf script --no-inline``: whole processes, from a recording to all its text, names included.

    python bench/script.py [FILE…] [--samples N] [--rounds N] [--json OUT]

Both write to /dev/null, and take turns. The processor time is that of the process and of all its threads, user and system.
Without files, two recordings are made: ``calls``, stacks of 42 frames with 8,000 return addresses in five libraries, 32 KiB
copied; and ``python``, two Pythons that sort, 8 KiB copied. What the figures are of, each line says: how much slower perf is
depends on how many different addresses there are, for libunwind keeps the rules of 128 only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import inprocess_functions
import walkers
from contenders import Unavailable

RATE = {"calls": 1999, "python": 4999}
"""Samples a second. More of large stacks than that, and perf loses most of them."""

CONTENDERS = {
    "clew script": [sys.executable, "-m", "clew", "script"],
    "perf script --no-inline": ["perf", "script", "--no-inline", "-i"],
}


class Run(NamedTuple):
    """What one process took, in nanoseconds, and its peak of memory in KiB."""

    wall: int
    cpu: int
    peak: int


def timed(command: list[str]) -> Run:
    """Runs a command, its output thrown away. Raises Unavailable where it fails."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter_ns()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter_ns() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Unavailable(f"{' '.join(command[:3])}, which ended with {process.returncode}")
    return Run(wall, round((usage.ru_utime + usage.ru_stime) * 1e9), usage.ru_maxrss)


def counts(path: Path) -> tuple[int, int]:
    """Samples and frames, as perf prints them."""
    samples = frames = 0
    with subprocess.Popen([*CONTENDERS["perf script --no-inline"], str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        for line in process.stdout:
            frames += line.startswith(b"\t")
            samples += line == b"\n"
    return samples, frames


def compete(path: Path, rounds: int) -> dict[str, Any]:
    """Lets both take turns."""
    runs: dict[str, list[Run]] = {name: [] for name in CONTENDERS}
    # Once before the clock runs: the file is then in memory, and Python's modules are compiled.
    for command in CONTENDERS.values():
        timed([*command, str(path)])
    for _ in range(rounds):
        for name, command in CONTENDERS.items():
            runs[name].append(timed([*command, str(path)]))
    samples, frames = counts(path)
    contenders = {
        name: {
            "wall_ns": round(statistics.median(run.wall for run in each)),
            "cpu_ns": round(statistics.median(run.cpu for run in each)),
            "peak_kib": max(run.peak for run in each),
        }
        for name, each in runs.items()
    }
    return {"samples": samples, "frames": frames, "bytes": path.stat().st_size, "contenders": contenders}


def show(name: str, result: dict[str, Any]) -> None:
    """Prints one race as a table."""
    samples, frames = result["samples"], result["frames"]
    print(f"\n{name}: {samples:,} samples, {frames:,} frames, {result['bytes'] / 1e6:,.0f} MB")
    base = result["contenders"]["clew script"]
    print(f"  {'':25}{'CPU s':>8}{'wall s':>8}{'us/sample':>11}{'ns/frame':>10}{'CPU x':>8}{'wall x':>8}{'MiB':>7}")
    for contender, each in result["contenders"].items():
        print(
            f"  {contender:25}{each['cpu_ns'] / 1e9:8.3f}{each['wall_ns'] / 1e9:8.3f}"
            f"{each['cpu_ns'] / max(samples, 1) / 1e3:11.2f}{each['cpu_ns'] / max(frames, 1):10.0f}"
            f"{each['cpu_ns'] / base['cpu_ns']:8.1f}{each['wall_ns'] / base['wall_ns']:8.1f}{each['peak_kib'] / 1024:7.0f}"
        )


def record(folder: Path, name: str, stack: int, command: list[str]) -> Path:
    """A recording of a command."""
    path = folder / f"{name}.data"
    event = ["-e", "cpu-clock", "-F", str(RATE[name])]
    perf = ["perf", "record", "-q", "-m", "4096", "-o", str(path), *event, "--call-graph", f"dwarf,{stack}"]
    done = subprocess.run([*perf, "--", *command], capture_output=True, check=False)
    if done.returncode or not path.exists():
        raise Unavailable(f"perf, which cannot record here: {done.stderr.decode()[:200]}")
    return path


def recordings(folder: Path, samples: int) -> list[Path]:
    """Both recordings."""
    # Two processes at a time, and some samples are lost.
    seconds = {name: f"{samples / 2 / rate * 1.1:.1f}" for name, rate in RATE.items()}
    inprocess_functions.build(folder)
    spin = walkers.compiled("programs/spin.c", folder, "-rdynamic")
    busy = str(walkers.HERE / "programs" / "busy.py")
    return [
        record(folder, "calls", 32768, _twice([str(spin), str(folder), seconds["calls"]])),
        record(folder, "python", 8192, _twice([sys.executable, busy, seconds["python"]])),
    ]


def _twice(command: list[str]) -> list[str]:
    return ["sh", "-c", '"$@" & "$@"; wait', "sh", *command]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="recordings to use instead of making some")
    parser.add_argument("--samples", type=int, default=50_000, help="about how many to record")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    if not shutil.which("perf"):
        sys.exit("perf is not installed")
    outcomes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            files = [Path(file) for file in options.files] or recordings(Path(folder), options.samples)
            for path in files:
                outcomes[path.name] = compete(path, options.rounds)
                show(path.name, outcomes[path.name])
        except Unavailable as reason:
            sys.exit(f"Without {reason}")
    if options.json:
        Path(options.json).write_text(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    main()
