"""``clew script`` beside ``perf script --no-inline``, line for line, and ``clew report`` beside ``perf report``.

Where the two differ, perf 6.1 is wrong in one of these ways, and the tests say which they allow:

* The last word of a stack's copy is never read (``access_mem`` of ``util/unwind-libunwind-local.c`` asks for one byte more than
  there is), so that a stack whose copy ends right there has one frame less before the mark that it was cut.
* Where a thread has just begun, in the system call that made it, there is no return address; perf has no mark then that it looked
  for one in vain.
* The system call that ends a signal's handler, ``rt_sigreturn``, is the last instruction of its function. perf takes the pc
  behind it for one of the next function, so that stacks that were sampled in it end there.
* ``_fini`` has no call frame information, and libunwind guesses where it was called from: a stack that was sampled in one ends
  behind ``__run_exit_handlers``, or leads astray from there.
* After fork(2) and execve(2) in one process, libunwind goes on with what it remembers of the program before: stacks of the
  new one end early, or lead astray. The kernel's part, and the first frame of the program, are right all the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew.cli import main
from clew.cli.script_demangle import perf_name

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]

MARK = "\tffffffffffffffff [unknown] ([unknown])"
DWARF = ("--call-graph", "dwarf,8192")

THREADS = r"""
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
static volatile double sink;
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void handler(int number) { for (int i = 0; i < 200000; i++) sink += i * number; }
static void *work(void *argument)
{
    unsigned seed = (long)argument;
    static __thread int values[20000];
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 20000; i++)
            values[i] = (seed = seed * 1103515245 + 12345) >> 3;
        qsort(values, 20000, sizeof *values, compare);
    }
    return 0;
}
int main(int count, char **words)
{
    struct itimerval often = {{0, 3000}, {0, 3000}};
    pthread_t threads[3];
    signal(SIGALRM, handler);
    if (count > 1 && words[1])
        setitimer(ITIMER_REAL, &often, 0);
    for (long i = 0; i < 3; i++)
        pthread_create(threads + i, 0, work, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"""

PYTHON = "import json, re\nfor n in range(8): d = json.dumps({str(i): [i] * 9 for i in range(4000)}); re.findall('[0-9]+', d)"
SQL = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000) select count(distinct hex(i)) from n"
SHELL = "for i in 1 2 3 4; do head -c 600000 /dev/urandom | gzip -9 | md5sum; (echo x | sed s/x/y/); done"


def command_for(name: str, folder: Path) -> list[str]:
    if name in ("threads", "signals"):
        if shutil.which("gcc") is None:
            pytest.skip("gcc is not installed")
        source = folder / "threads.c"
        source.write_text(THREADS)
        subprocess.run(["gcc", "-O2", "-pthread", "-o", str(folder / "threads"), str(source)], check=True)
        return [str(folder / "threads"), *(["often"] if name == "signals" else [])]
    if name == "gzip":
        data = folder / "data"
        data.write_bytes(b"".join(b"%d %x\n" % (n * n, n * 7919) for n in range(300_000)))
        return ["gzip", "-c", str(data)]
    commands = {
        "python3": [sys.executable, "-c", PYTHON],
        "sqlite3": ["sqlite3", ":memory:", SQL],
        "sleep": ["sleep", "0.2"],
        "sh": ["sh", "-c", SHELL],
    }
    command = commands[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return command


def record(folder: Path, name: str, *options: str, rate: int = 1999) -> str:
    path = folder / f"{name}.data"
    perf = [
        "perf",
        "record",
        "-q",
        "-o",
        str(path),
        "-e",
        "cpu-clock",
        *([] if "-c" in options else ["-F", str(rate)]),
        *options,
    ]
    done = subprocess.run([*perf, "--", *command_for(name, folder)], capture_output=True, check=False, timeout=120)
    if not path.exists():
        pytest.skip(f"perf cannot record here: {done.stderr.decode()[:200]}")
    return str(path)


def perf_text(command: str, path: str, *options: str) -> str:
    words = ["perf", command, "--no-inline", "-i", path, *options]
    return subprocess.run(words, capture_output=True, check=False, timeout=120).stdout.decode()


def clew_text(capfdbinary: pytest.CaptureFixture[bytes], *words: str) -> str:
    assert main(words) in (0, 1)
    return capfdbinary.readouterr().out.decode()


def samples(text: str) -> list[list[str]]:
    """Each sample's lines."""
    return [block.splitlines() for block in text.split("\n\n") if block]


def lacks_the_mark(own: list[str], perfs: list[str]) -> bool:
    return "clone" in perfs[-1] and own == [*perfs, MARK]


def ends_in_sigreturn(own: list[str], perfs: list[str]) -> bool:
    return "rt_sigreturn" in "".join(perfs) and own[: len(perfs)] == perfs


def is_lost_in_fini(own: list[str], perfs: list[str]) -> bool:
    last = next((index for index, line in enumerate(perfs) if "__run_exit_handlers" in line), 0)
    return 0 < last < len(own) and own[: last + 1] == perfs[: last + 1]


def same_but_for_the_last_word(own: list[str], perfs: list[str]) -> bool:
    """perf's mark stands for what is left of the stack: a frame and the mark, or its last frames."""
    common = len(perfs) - 1
    return own == perfs or (perfs[common:] == [MARK] and own[:common] == perfs[:common] and 0 < len(own) - common < 4)


def is_explained(own: list[str], perfs: list[str]) -> bool:
    explanations = (same_but_for_the_last_word, lacks_the_mark, ends_in_sigreturn, is_lost_in_fini)
    return any(explains(own, perfs) for explains in explanations)


@pytest.mark.parametrize("name", ["gzip", "sqlite3", "python3", "threads", "signals", "sleep"])
def test_samples_of_one_program(name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = record(tmp_path, name, *DWARF, rate=20000 if name == "sleep" else 1999)
    expected, own = samples(perf_text("script", path)), samples(clew_text(capfdbinary, "script", path))
    assert len(own) == len(expected)
    different = [pair for pair in zip(own, expected, strict=True) if pair[0] != pair[1]]
    unexplained = [pair for pair in different if not is_explained(*pair)]
    assert not unexplained, unexplained[:2]
    assert len(different) <= len(own) // 20


def test_samples_of_programs_that_fork_and_exec(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = record(tmp_path, "sh", *DWARF)
    expected, own = samples(perf_text("script", path)), samples(clew_text(capfdbinary, "script", path))
    assert [block[0] for block in own] == [block[0] for block in expected]
    names = {block[0].split()[0] for block in own}
    assert {"gzip", "md5sum"} <= names
    frames = [0, 0]
    for mine, perfs in zip(own, expected, strict=True):
        kernel = sum("[kernel.kallsyms]" in line for line in mine)
        assert mine[: kernel + 1] == perfs[: kernel + 1]
        frames = [frames[0] + len(mine), frames[1] + len(perfs)]
    assert frames[0] >= frames[1]


@pytest.mark.parametrize("options", [("-g",), (), ("--call-graph", "dwarf,4096", "-c", "500000"), ("-z", *DWARF)])
def test_other_recordings(options: Sequence[str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = record(tmp_path, "threads", *options)
    expected, own = perf_text("script", path), clew_text(capfdbinary, "script", path)
    if "-z" in options:
        # What perf 6.1 compresses is now and then damaged. perf stops there, and may have printed nothing yet.
        assert own.startswith(expected)
    elif "dwarf,4096" not in options:
        # The kernel followed the frame pointers, or nobody did.
        assert own == expected
    else:
        pairs = zip(samples(own), samples(expected), strict=True)
        unexplained = [pair for pair in pairs if not is_explained(*pair)]
        assert not unexplained, unexplained[:2]


@pytest.mark.parametrize(
    "options",
    [
        ("-F", "comm,pid,tid,time,event,ip,sym,symoff,dso,period"),
        ("-F", "comm,tid,time,ip"),
        ("-F", "ip,sym,dso"),
        ("-F", "comm,time"),
        ("-F", "+pid"),
        ("-F", "-period"),
        ("--ns",),
        ("-G",),
        ("--max-stack", "3"),
        ("--comm", "threads"),
        ("--comm", "nobody"),
    ],
)
def test_options(
    options: Sequence[str], tmp_path_factory: pytest.TempPathFactory, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = _shared(tmp_path_factory)
    assert clew_text(capfdbinary, "script", path, *options) == perf_text("script", path, *options)


_RECORDED: dict[str, str] = {}


def _shared(factory: pytest.TempPathFactory) -> str:
    """One recording for many tests."""
    for _ in range(3):
        if "threads" not in _RECORDED:
            path = record(factory.mktemp("script"), "threads", *DWARF)
            command = [sys.executable, "-m", "clew", "script", path]
            # One in which perf is wrong nowhere.
            if subprocess.run(command, capture_output=True, check=True).stdout.decode() == perf_text("script", path):
                _RECORDED["threads"] = path
    return _RECORDED["threads"]


@pytest.mark.parametrize("children", [False, True])
def test_the_table_of_report(
    children: bool, tmp_path_factory: pytest.TempPathFactory, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = _shared(tmp_path_factory)
    form = "--children" if children else "--no-children"
    expected = perf_text("report", path, "--stdio", form, "-g", "none", "-F", _columns(children))
    own = clew_text(capfdbinary, "report", form, path)
    rows = {" ".join(line.split()) for line in expected.splitlines() if re.match(r"\s+\d", line)}
    mine = {" ".join(line.split()) for line in own.splitlines() if re.match(r"\s+\d", line)}
    if children:
        # Of samples, perf shows those of the function itself here, too; and an address without a name as it was.
        rows, mine = ({re.sub(r"(% \S+%) \d+", r"\1", row) for row in each} for each in (rows, mine))
        rows, mine = ({row for row in each if " 0x" not in row} for each in (rows, mine))
    assert len(mine) > 3
    assert mine == rows


def _columns(children: bool) -> str:
    return ("overhead_children,overhead" if children else "overhead") + ",sample,comm,dso,sym"


def test_names_of_a_library_in_cpp() -> None:
    library = next(Path("/usr/lib").glob("*/libstdc++.so.6"), None)
    if library is None or shutil.which("c++filt") is None or shutil.which("nm") is None:
        pytest.skip("there is no libstdc++ here, or no binutils")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", str(library)], capture_output=True, check=True
    )
    names = sorted(
        {line.split()[0].partition("@")[0] for line in listed.stdout.decode().splitlines() if line[:2] == "_Z"}
    )
    # Transactional clones are what clew's demangler does not know.
    names = [name for name in names if not name.startswith("_ZGT")]
    done = subprocess.run(["c++filt", "-p"], input="\n".join(names).encode(), capture_output=True, check=True)
    expected = done.stdout.decode().splitlines()
    different = [
        (name, perf_name(name), other) for name, other in zip(names, expected, strict=True) if perf_name(name) != other
    ]
    assert len(names) > 1000
    assert len(different) <= len(names) // 200, different[:5]


def test_the_exit_codes(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    nothing = tmp_path / "nothing"
    nothing.write_bytes(os.urandom(64))
    for path in (nothing, tmp_path / "none"):
        done = subprocess.run(["perf", "script", "-i", str(path)], capture_output=True, check=False, timeout=60)
        assert main(["script", str(path)]) == done.returncode
    capfdbinary.readouterr()
