"""Programs that nobody wrote for a test, at any moment: nearly every stack has its end, and they go on unharmed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from native_walks import NATIVE, REASON, folder, shown

from clew.errors import Error
from clew.target import open_process
from clew.walk import End, Walker

pytestmark = [pytest.mark.skipif(not NATIVE, reason=REASON), pytest.mark.slow]

SAMPLES = int(os.environ.get("CLEW_SAMPLES", "150"))

PYTHON = (
    "import re, json\nwhile True:\n  [re.sub('a+', 'b', json.dumps({'a': i, 'b': [1.5 * i] * 9})) for i in range(99)]"
)
PERL = "while (1) { my %h; $h{$_ % 99} .= sprintf('%.3f', sqrt $_) for 1..9999; my @s = sort { $h{$a} cmp $h{$b} } keys %h; }"
BASH = "while :; do a=(); for i in {1..99}; do a+=($((i * i))); done; x=${a[*]//1/2}; done"
SQL = (
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 99999999)"
    " select sum(length(hex(i))), count(*) from n group by i % 7;"
)

COMMANDS = {
    "python": [sys.executable, "-c", PYTHON],
    "perl": ["perl", "-e", PERL],
    "bash": ["bash", "-c", BASH],
    "sqlite3": ["sqlite3", ":memory:", SQL],
    "gzip": ["gzip", "-9", "-c", "/dev/urandom"],
    "cc1": ["gcc", "-O2", "-S", "-o", os.devnull, "FILE"],
    "sort": ["sort", "--parallel=2", "-o", os.devnull, "FILE"],
}


def large_source() -> Path:
    """C that takes a compiler a while."""
    path = folder() / "large.c"
    if not path.exists():
        functions = [
            f"int f{n}(int *a, int b) {{ for (int i = 0; i < b; i++) {{ switch (a[i] % 5) {{ case 0: a[i] += f{n - 1}(a, i);"
            f" break; case 1: a[i] ^= {n}; break; default: a[i] *= b / (i + 1); }} }} return a[b] << {n % 7}; }}"
            for n in range(1, 6000)
        ]
        path.write_text("int f0(int *a, int b) { return a[b]; }\n" + "\n".join(functions))
    return path


def deepest(pid: int) -> int:
    """The process that does the work: gcc starts cc1."""
    for _ in range(100):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.01)
    return pid


@pytest.mark.parametrize("name", list(COMMANDS))
def test_nearly_every_stack_is_whole(name: str) -> None:
    command = [str(large_source()) if word == "FILE" else word for word in COMMANDS[name]]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    ends: Counter[str] = Counter()
    others: Counter[str] = Counter()
    generator = random.Random(7)
    process = started(command)
    try:
        time.sleep(0.2)
        while ends.total() < SAMPLES:
            if process.poll() is not None:
                process = started(command)
            pid = deepest(process.pid) if name == "cc1" else process.pid
            try:
                with open_process(pid) as target:
                    for thread in target.threads:
                        stack = Walker(target).walk(thread)
                        ends[stack.end.value] += 1
                        if stack.end is not End.ENTRY:
                            others[shown(stack)] += 1
            except Error:
                # It has ended in between.
                time.sleep(0.01)
                continue
            assert is_going_on(pid)
            time.sleep(generator.random() * 0.01)
    finally:
        # With what it has started itself.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for text, count in others.most_common():
        print(count, text)
    assert ends["entry"] / ends.total() >= 0.995, (ends, list(others)[:5])


def started(command: list[str]) -> subprocess.Popen[bytes]:
    """The command, in a group of its own."""
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def is_going_on(pid: int) -> bool:
    """Whether no thread of a process is stopped or traced, or it has ended."""
    for task in Path("/proc").glob(f"{pid}/task/*/status"):
        try:
            text = task.read_text()
        except OSError:
            continue
        if "TracerPid:\t0\n" not in text or "\nState:\tT" in text or "\nState:\tt" in text:
            return False
    return True
