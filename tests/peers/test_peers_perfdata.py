"""Recordings of a real program, against what perf itself says of them: every record, every register, every stack."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from clew.target.perfdata import Sample, open_perf_data
from clew.walk import End, Walker

pytestmark = pytest.mark.skipif(
    shutil.which("perf") is None or shutil.which("gcc") is None, reason="perf and gcc are not installed"
)

# Threads, a child, another program in its place, and deep stacks that go through libc.
SOURCE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned sink;
static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}
__attribute__((noinline)) static void spin(void) {
    for (unsigned i = 0; i < 20000; i++) sink += i * sink;
    getppid();
}
static int compare(const void *a, const void *b) { spin(); return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static void deep(int depth) {
    volatile char room[200];
    room[0] = depth;
    if (depth) deep(depth - 1);
    else { int some[8] = {5, 3, 1, 7, 2, 8, 4, 6}; qsort(some, 8, sizeof *some, compare); }
    sink += room[0];
}
static void *work(void *time) {
    for (double end = seconds() + *(double *)time; seconds() < end;) deep(30);
    return 0;
}
int main(int argc, char **argv) {
    double time = 0.15;
    pthread_t thread;
    if (argc > 1) { work(&time); return 0; }
    pthread_create(&thread, 0, work, &time);
    pthread_setname_np(thread, "worker");
    work(&time);
    pthread_join(thread, 0);
    pid_t child = fork();
    if (!child) { work(&time); execl(argv[0], "again", "x", (char *)0); }
    waitpid(child, 0, 0);
    return 0;
}
"""

# perf's names of the registers of x86-64, and their DWARF numbers (System V ABI, figure 3.36).
NUMBERS = {name: number for number, name in enumerate(("AX", "DX", "CX", "BX", "SI", "DI", "BP", "SP"))}
NUMBERS.update({f"R{number}": number for number in range(8, 16)}, IP=16, FLAGS=49, CS=51, SS=52)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("perf")
    (folder / "prog.c").write_text(SOURCE)
    files = str(folder / "prog"), str(folder / "prog.c")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-Wl,--build-id", "-o", *files], check=True)
    return folder / "prog"


def perf(*arguments: str | Path) -> str:
    command = ["perf", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, errors="replace")
    if done.returncode:
        pytest.skip(f"perf does not work here: {done.stderr.strip()[-200:]}")
    return done.stdout


@pytest.fixture(scope="module", params=["plain", "compressed", "pipe", "two events", "build ids"])
def recording(request: pytest.FixtureRequest, program: Path) -> Path:
    path = program.parent / f"{request.param}.data"
    options: list[str] = ["record", "-F", "999", "--call-graph", "dwarf,16384"]
    if request.param == "compressed":
        pytest.importorskip("zstandard")
        options.append("-z")
    if request.param == "build ids":
        options.append("--buildid-mmap")
    if request.param == "two events":
        # A form of its own for each: the second has no stack.
        options += ["-e", "cpu-clock", "-e", "cpu-clock/call-graph=no/"]
    else:
        options += ["-e", "cpu-clock"]
    if request.param == "pipe":
        with path.open("wb") as file:
            command = ["perf", *options, "-o", "-", str(program)]
            if subprocess.run(command, stdout=file, stderr=subprocess.PIPE, timeout=120, check=False).returncode:
                pytest.skip("perf does not work here")
    else:
        perf(*options, "-o", path, program)
    return path


@dataclass
class Dumped:
    """A sample as ``perf report -D`` prints it."""

    time: int
    pid: int
    tid: int
    ip: int
    period: int
    registers: dict[str, int] = field(default_factory=dict)
    stack: int = 0
    chain: list[int] = field(default_factory=list)


_SAMPLE = re.compile(
    r"(\d+) 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_SAMPLE\(IP, 0x[0-9a-f]+\): (\d+)/(\d+): 0x([0-9a-f]+) period: (\d+)"
)
_REGISTER = re.compile(r"\.\.\.\. (\w+) +0x([0-9a-f]{16})$")
_CHAIN = re.compile(r"\.\.\.\.\. +\d+: ([0-9a-f]{16})$")
_STACK = re.compile(r"\.\.\. ustack: size (\d+)")


def dumped(path: Path) -> Iterator[Dumped]:
    current: Dumped | None = None
    for line in perf("report", "-D", "-i", path).splitlines():
        if match := _SAMPLE.match(line):
            current = Dumped(int(match[1]), int(match[2]), int(match[3]), int(match[4], 16), int(match[5]))
            yield current
        elif current is not None:
            if match := _REGISTER.match(line):
                current.registers[match[1]] = int(match[2], 16)
            elif match := _CHAIN.match(line):
                current.chain.append(int(match[1], 16))
            elif match := _STACK.match(line):
                current.stack = int(match[1])
            elif "PERF_RECORD_" in line:
                current = None


def key(sample: Sample | Dumped) -> tuple[int, int, int]:
    return sample.time, sample.thread_id if isinstance(sample, Sample) else sample.tid, sample.period


def test_samples_are_those_that_perf_reads(recording: Path) -> None:
    theirs = sorted(dumped(recording), key=key)
    assert len(theirs) > 50
    ours = []
    with open_perf_data(recording) as data:
        assert data.lost == 0
        for sample in data.samples():
            registers = {} if sample.thread is None else dict(sample.thread.registers)
            size = sample.process.memory.stack_end - sample.process.memory.stack_start
            chain = [*sample.kernel_chain, *sample.user_chain]
            ours.append((key(sample), sample.process.pid, sample.ip, registers, size, chain))
        assert data.problems == []
    ours.sort(key=lambda each: each[0])
    assert [each[0] for each in ours] == [key(each) for each in theirs]
    for (_, pid, ip, registers, size, chain), other in zip(ours, theirs, strict=True):
        assert (pid, ip, size) == (other.pid, other.ip, other.stack)
        assert registers == {NUMBERS[name]: value for name, value in other.registers.items()}
        # Numbers among the last 4095 say what follows.
        assert chain == [address for address in other.chain if address < (1 << 64) - 4095]


def test_names_are_those_that_perf_gives(recording: Path) -> None:
    text = perf("script", "-i", recording, "--ns", "-F", "comm,pid,tid,time", "-G")
    theirs = sorted(re.findall(r"^ *(.+?) +(\d+)/(\d+) +(\d+)\.(\d{9}):", text, re.MULTILINE), key=str)
    with open_perf_data(recording) as data:
        ours = []
        for sample in data.samples():
            name = data.history.name_at(sample.thread_id, sample.time)
            assert sample.thread is None or sample.thread.name == name
            time = f"{sample.time:010d}"
            ours.append((name, str(sample.process.pid), str(sample.thread_id), time[:-9], time[-9:]))
    assert {"prog", "worker", "again"} & {name for name, *_ in ours if name}
    assert sorted(ours, key=str) == theirs


def test_mappings_are_those_that_perf_reads(recording: Path) -> None:
    pattern = re.compile(
        r"PERF_RECORD_MMAP2 (\d+)/\d+: \[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (?:0x)?([0-9a-f]+) [^\]]*\]: ..x. (.*)$"
    )
    theirs = set()
    for line in perf("report", "-D", "-i", recording).splitlines():
        if match := pattern.search(line):
            start = int(match[2], 16)
            theirs.add((int(match[1]), start, start + int(match[3], 16), int(match[4], 16), match[5]))
    with open_perf_data(recording) as data:
        ours = {
            (pid, mapping.start, mapping.end, mapping.offset, mapping.path)
            for pid, periods in data.history.processes.items()
            for period in periods
            if not period.borrowed
            for mapping in period.generation.mappings
        }
    assert len(theirs) > 5
    assert ours >= theirs or not ours ^ theirs, ours ^ theirs


def test_stacks_are_those_that_perf_unwinds(recording: Path, program: Path) -> None:
    text = perf("script", "-i", recording, "--ns", "--no-inline", "-F", "tid,time,period,ip,dso")
    theirs: dict[tuple[str, str], list[list[str]]] = {}
    frames: list[list[str]] = []
    for line in text.splitlines():
        match = re.match(r"(\d+) +(\d+\.\d{9}):", line.strip())
        if match is not None:
            frames = theirs[match[1], match[2]] = []
        elif line.strip():
            frames.append(line.split())
    walkers: dict[int, Walker] = {}
    ends: dict[End, int] = {}
    whole = 0
    with open_perf_data(recording) as data:
        for sample in data.samples():
            if sample.thread is None or sample.process.memory.stack_end == sample.process.memory.stack_start:
                continue
            walker = walkers.setdefault(id(sample.process), Walker(sample.process.target))
            stack = walker.walk(sample.thread)
            ends[stack.end] = ends.get(stack.end, 0) + 1
            # Addresses in the file, as perf prints them; of a call's frame it prints the byte before the return address.
            ours = [
                frame.pc.lookup - frame.module.bias
                for frame in stack.frames
                if frame.module is not None and frame.module.name == str(program)
            ]
            time = f"{sample.time:010d}"
            other = theirs[str(sample.thread_id), f"{time[:-9]}.{time[-9:]}"]
            if stack.end is not End.ENTRY or not other:
                continue
            # perf 6.1 sometimes gets lost on the way, and then prints a word of the stack; so far it is to be right.
            expected = [int(each[0], 16) for each in other if str(program) in each[-1]]
            assert ours[: len(expected)] == expected
            whole += ours == expected
        assert not [problem for problem in data.problems if str(program) in problem.message]
    assert whole > 5
    assert ends[End.ENTRY] > 0.9 * sum(ends.values())
