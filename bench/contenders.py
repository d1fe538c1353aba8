"""The contenders of decode.py: each runs one repetition when asked, and says what CPU time it took."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import inputs

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Run:
    """One repetition: CPU nanoseconds, rows made and the sum of their starts (None: it does not say), FDEs left out."""

    ns: int
    rows: int | None
    failed: int = 0
    checksum: int | None = None


class Contender(Protocol):
    """Something that expands all rows of the file it was made for."""

    name: str
    does: str

    def run(self) -> Run:
        """One repetition."""

    def close(self) -> None:
        """Ends the process behind it, if there is one."""


class Unavailable(Exception):
    """A contender cannot take part here; the text says why."""


class Clew:
    """clew in this process."""

    name = "clew"
    does = "sorted Table with numbered rules"

    def __init__(self, path: str) -> None:
        self.cfi = inputs.load(path)
        inputs.decode(self.cfi)

    def run(self) -> Run:
        before = time.process_time_ns()
        table = inputs.decode(self.cfi)
        spent = time.process_time_ns() - before
        # Modulo 2^64, as everybody's.
        checksum = int(table.start[table.rule != 0].sum())
        run = Run(spent, table.row_count, table.lost, checksum)
        # What this process has to collect is collected now, so that the next turn is spent on the next turn's work alone;
        # and not right before that turn, for a walk over all objects leaves the caches to nobody.
        del table
        gc.collect()
        return run

    def close(self) -> None:
        pass


class _Child:
    """A contender in a process of its own, which runs one repetition for each line ``go``."""

    name = does = ""

    def start(self, *command: str) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self) -> Run:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 4:
            raise Unavailable(f"{self.name} ended with {self.process.wait()}")
        return Run(*map(int, answer))

    def close(self) -> None:
        self.process.communicate("quit\n")


class Gimli(_Child):
    """gimli, as the crate in peers/ uses it."""

    does = "each row in turn, none kept"

    def __init__(self, path: str) -> None:
        if not shutil.which("cargo"):
            raise Unavailable("gimli: no cargo here, see https://rustup.rs")
        crate = HERE / "peers"
        subprocess.run(
            ["cargo", "build", "--release", "--quiet", "--manifest-path", str(crate / "Cargo.toml")], check=True
        )
        # The lock file is sorted; older ones that other crates of the workspace need come first.
        found = re.findall(r'name = "gimli"\nversion = "([^"]+)"', (crate / "Cargo.lock").read_text())
        self.name = f"gimli {found[-1] if found else ''}".strip()
        self.start(str(crate / "target" / "release" / "clew-bench-peers"), path)


class Pyelftools(_Child):
    """pyelftools, in a Python of its own."""

    does = "a dict for each row"

    def __init__(self, path: str) -> None:
        version = subprocess.run(
            [sys.executable, "-c", "import elftools; print(elftools.__version__)"],
            check=False,
            capture_output=True,
            text=True,
        )
        if version.returncode:
            raise Unavailable("pyelftools: not installed; type: .venv/bin/pip install pyelftools")
        self.name = f"pyelftools {version.stdout.strip()}"
        self.start(sys.executable, str(HERE / "peers" / "pyelftools_peer.py"), path)


class Readelf:
    """readelf as a whole process, its text thrown away."""

    does = "whole process, rows as text"

    def __init__(self, path: str) -> None:
        if not shutil.which("readelf"):
            raise Unavailable("readelf: not installed; type: apt-get install binutils")
        version = subprocess.run(["readelf", "--version"], capture_output=True, text=True, check=True).stdout
        self.name = f"readelf {version.splitlines()[0].split()[-1]}"
        self.command = ["readelf", "-wN", "--debug-dump=frames-interp", path]

    def run(self) -> Run:
        return Run(child_cpu_ns(self.command), None)

    def close(self) -> None:
        pass


def child_cpu_ns(command: list[str]) -> int:
    """User and system time of a process, run to its end with its output thrown away, in nanoseconds."""
    with open(os.devnull, "r+b") as null:
        process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, env={**os.environ, "LC_ALL": "C"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Unavailable(f"it exits with {process.returncode}")
    return round((usage.ru_utime + usage.ru_stime) * 1e9)


PEERS: dict[str, type[Gimli] | type[Readelf] | type[Pyelftools]] = {
    "gimli": Gimli,
    "readelf": Readelf,
    "pyelftools": Pyelftools,
}
