"""The contenders of walk.py: each walks the same stacks when asked, and says how many frames it found and what that took."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from contenders import Unavailable

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Walk:
    """One round: frames (and samples), nanoseconds that went by, and of processor time."""

    frames: int
    wall_ns: int
    cpu_ns: int
    samples: int = 0


class Walker(Protocol):
    """Something that walks all stacks of what it was made for."""

    name: str
    does: str

    def run(self) -> Walk:
        """One round."""

    def close(self) -> None:
        """Ends what it has running."""


def compiled(source: str, out: Path, *options: str) -> Path:
    """A program of this directory's."""
    if not shutil.which("gcc"):
        raise Unavailable("a C compiler: type apt-get install gcc")
    binary = out / Path(source).stem
    done = subprocess.run(
        ["gcc", "-O2", "-g", "-o", str(binary), str(HERE / source), *options], capture_output=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"{source}, which does not compile here: {done.stderr.decode()[:300]}")
    return binary


class Stopwatch:
    """Time, and processor time of this process."""

    def __enter__(self) -> Stopwatch:
        self.wall, self.cpu = time.perf_counter_ns(), time.process_time_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.perf_counter_ns() - self.wall, time.process_time_ns() - self.cpu


class ClewLive:
    """clew on a live process, from attaching to letting go."""

    name = "clew"
    does = "all threads stopped at once; modules kept from the round before"

    def __init__(self, pid: int) -> None:
        from clew.target import open_process
        from clew.walk import FastWalker

        self.open, self.walker_of, self.pid = open_process, FastWalker, pid
        with open_process(pid) as self.target:
            self.steps = FastWalker(self.target).steps
        self.run()

    def run(self) -> Walk:
        with Stopwatch() as watch, self.open(self.pid, like=self.target, names=False) as self.target:
            walker = self.walker_of(self.target, steps=self.steps)
            frames = sum(len(walker.walk(thread).frames) for thread in self.target.threads)
        return Walk(frames, watch.wall, watch.cpu)

    def close(self) -> None:
        pass


class Libdwfl:
    """libdwfl, on which eu-stack stands, in a process of its own that goes on."""

    name = "libdwfl"
    does = "what eu-stack does; modules and their tables kept from the round before"

    def __init__(self, pid: int, folder: Path) -> None:
        peer = compiled("peers/dwfl_peer.c", folder, "-ldw", "-lelf")
        self.process = subprocess.Popen([str(peer), str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.run()

    def run(self) -> Walk:
        stdin, stdout = self._pipes()
        stdin.write("go\n")
        stdin.flush()
        answer = stdout.readline().split()
        if len(answer) != 3:
            raise Unavailable("libdwfl, which cannot attach here")
        return Walk(*map(int, answer))

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self.process.stdin
        assert self.process.stdout
        return self.process.stdin, self.process.stdout

    def close(self) -> None:
        self.process.communicate()


class EuStack:
    """eu-stack as one types it: a whole process, which loads modules and tables each time."""

    does = "whole process, no names"

    def __init__(self, *arguments: str) -> None:
        if not shutil.which("eu-stack"):
            raise Unavailable("eu-stack: not installed; type apt-get install elfutils")
        self.name = "eu-stack -q"
        self.command = ["eu-stack", "-q", "-n", "0", *arguments]

    def run(self) -> Walk:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter_ns()
        text = subprocess.run(self.command, capture_output=True, check=False).stdout
        spent, after = time.perf_counter_ns() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Walk(text.count(b"\n#"), spent, round(cpu * 1e9))

    def close(self) -> None:
        pass


class ClewCore:
    """clew on a core that is open."""

    name = "clew"
    does = "pcs of all frames"

    def __init__(self, core: Path) -> None:
        from clew.target import open_core
        from clew.walk import FastWalker

        self.target, self.kind = open_core(core), FastWalker
        self.steps = FastWalker(self.target).steps
        self.run()

    def run(self) -> Walk:
        with Stopwatch() as watch:
            walker = self.kind(self.target, steps=self.steps)
            frames = sum(len(walker.walk(thread).frames) for thread in self.target.threads)
        return Walk(frames, watch.wall, watch.cpu)

    def close(self) -> None:
        self.target.close()


class ClewCoreFrames(ClewCore):
    """clew on a core, where every frame becomes an object with its registers."""

    name = "clew, frames as objects"
    does = "module, rule and registers of all frames"

    def run(self) -> Walk:
        with Stopwatch() as watch:
            walker = self.kind(self.target, steps=self.steps)
            frames = sum(len(tuple(walker.walk(thread).frames)) for thread in self.target.threads)
        return Walk(frames, watch.wall, watch.cpu)


class Drgn:
    """drgn on a core that is open, in a process of its own."""

    does = "stack_trace() of all threads"

    def __init__(self, core: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "peers" / "drgn_peer.py"), str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        version = self._answer()
        if not version:
            raise Unavailable("drgn: not installed; type .venv/bin/pip install drgn")
        self.name = f"drgn {version[0]}"
        self.run()

    def _answer(self) -> list[str]:
        assert self.process.stdout
        return self.process.stdout.readline().split()

    def run(self) -> Walk:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return Walk(*map(int, self._answer()))

    def close(self) -> None:
        self.process.communicate()


class ClewSamples:
    """clew on a recording, from opening it on."""

    name = "clew"
    does = "opens the file and walks every sample, no names"

    def __init__(self, recording: Path) -> None:
        from clew.target import open_perf_data
        from clew.walk import SampleWalker

        self.open, self.kind, self.recording = open_perf_data, SampleWalker, recording

    def run(self) -> Walk:
        frames = samples = 0
        with Stopwatch() as watch, self.open(self.recording) as data:
            walker = self.kind(data)
            for batch in data.batches():
                stacks = walker.walk(batch)
                samples += len(stacks)
                frames += len(stacks.pc)
        return Walk(frames, watch.wall, watch.cpu, samples)

    def close(self) -> None:
        pass


class PerfScript:
    """perf script: a whole process, its text thrown away."""

    def __init__(self, recording: Path, *options: str) -> None:
        if not shutil.which("perf"):
            raise Unavailable("perf: not installed; type apt-get install linux-perf")
        self.name = " ".join(("perf script --no-inline", *options))
        self.does = "whole process" + ("" if options else ", with names")
        self.command = ["perf", "script", "--no-inline", "-i", str(recording), *options]

    def run(self) -> Walk:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter_ns()
        with open(os.devnull, "w") as nowhere:
            subprocess.run(self.command, stdout=nowhere, stderr=nowhere, check=True)
        spent, after = time.perf_counter_ns() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Walk(0, spent, round(cpu * 1e9))

    def close(self) -> None:
        pass
