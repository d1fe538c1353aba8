"""Samples of real programs under load: how their stacks end, and that walking many at a time finds what walking one does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from clew.target import SampledProcess, open_perf_data
from clew.walk import End, SampleWalker, Walker
from clew.walk.samples import ENDS, NO_STACK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]

PYTHON = """
import json, re, time, functools
end = time.monotonic() + 2.5
def key(a, b): return (a > b) - (a < b)
def deep(n): return sorted([1], key=lambda x: deep(n - 1) if n else x) and n
while time.monotonic() < end:
    json.loads(json.dumps([{"a": [n, str(n)]} for n in range(300)]))
    re.sub("(a|b)+c", "x", "abababc" * 100)
    sorted(range(300), key=functools.cmp_to_key(key))
    deep(20)
"""

SQL = """
create table t(a integer, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 250000) insert into t select i, hex(i * 7919) from n;
select count(*), sum(length(a.b)) from t a join t b on b.a = a.a + 1 where a.b like '%3%';
create index i on t(b);
select b, count(*) from t group by substr(b, 1, 3) order by 2 desc limit 3;
"""


def command_for(name: str, folder: Path) -> list[str]:
    if name == "python3":
        return [sys.executable, "-c", PYTHON]
    if name == "sqlite3":
        return ["sqlite3", ":memory:", SQL]
    if name == "gzip":
        data = folder / "data"
        data.write_bytes(b"".join(b"%d %x\n" % (n * n, n * 7919) for n in range(1_500_000)))
        return ["gzip", "-c", str(data)]
    source = folder / "big.c"
    body = "".join(
        f"int f{n}(int a, char *b) {{ for (int i = 0; i < a; i++) b[i] = i * {n}; return b[a] ? f{n - 1}(a, b) : {n}; }}\n"
        for n in range(1, 1500)
    )
    source.write_text("int f0(int a, char *b) { return a + *b; }\n" + body)
    return ["gcc", "-O2", "-c", str(source), "-o", str(folder / "big.o")]


@pytest.mark.parametrize("name", ["python3", "gcc", "sqlite3", "gzip"])
def test_stacks_end_where_they_should(name: str, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    recording = tmp_path / "perf.data"
    perf = [
        "perf",
        "record",
        "-q",
        "-o",
        str(recording),
        "-e",
        "cpu-clock",
        "-F",
        "1999",
        "--call-graph",
        "dwarf,32768",
    ]
    done = subprocess.run([*perf, "--", *command_for(name, tmp_path)], capture_output=True, check=False, timeout=120)
    if done.returncode or not recording.exists():
        pytest.skip(f"perf cannot record here: {done.stderr.decode()[:200]}")
    ends: Counter[End] = Counter()
    others: Counter[str] = Counter()
    compared = 0
    with open_perf_data(recording) as data:
        fast = SampleWalker(data)
        walkers: dict[SampledProcess, Walker] = {}
        for batch in data.batches():
            stacks = fast.walk(batch)
            for number in stacks.end.tolist():
                if number != NO_STACK:
                    ends[ENDS[number]] += 1
            for stack in stacks.others.values():
                if stack.end not in (End.ENTRY, End.STACK_COPY_END):
                    others[f"{stack.end.value}: {stack.detail}"] += 1
            for index, sample in enumerate(batch.samples()):
                if sample.thread is None or index % 7:
                    continue
                walker = walkers.setdefault(sample.process, Walker(sample.process.target))
                expected = walker.walk(sample.thread)
                assert stacks.pcs(index).tolist() == [frame.pc.address for frame in expected.frames]
                assert ENDS[stacks.end[index]] is expected.end
                compared += 1
    total = ends.total()
    assert total > 500
    assert compared > 50
    assert ends[End.ENTRY] + ends[End.STACK_COPY_END] >= 0.995 * total, (ends, others.most_common(10))
