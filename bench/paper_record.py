"""The programs of the paper, recorded: gzip, find, sqlite3, python3 and hackbench under ``perf record``."""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from contenders import Unavailable
from paper_build import HERE

_SQL = """
create table words(id integer primary key, word text, weight real);
with recursive number(n) as (select 1 union all select n + 1 from number where n < {rows})
  insert into words select n, hex(n * 2654435761 % 4294967296), n * 0.25 from number;
create index by_word on words(word);
select substr(word, 1, 2) as start, count(*), avg(weight), max(word) from words group by start order by 2 desc limit 5;
select count(*) from words a join words b on a.word = b.word where a.id % 3 = 0;
select sum(length(replace(upper(word), 'A', 'bb'))) from words where word like '%7%' order by weight desc;
delete from words where id % 7 = 0;
"""

_FIND = "find /usr /etc /var/lib -type f -name '*a*e*' -size +3k"


def gzip(folder: Path, scale: float) -> str:
    """Compresses text that is the same each time."""
    made = folder / "text"
    source = random.Random(3)
    words = ["".join(source.choices("etaoinshrdlu", k=source.randint(2, 9))) for _ in range(5000)]
    lines = [" ".join(source.choices(words, k=12)) + "\n" for _ in range(60_000)]
    with open(made, "w") as file:
        for _ in range(max(1, round(10 * scale))):
            file.writelines(lines)
    return f"gzip -9 -c {made}"


def find(folder: Path, scale: float) -> str:
    """Looks at many files, some times over."""
    return f"sh -c {shlex.quote('; '.join([_FIND] * max(1, round(8 * scale))))}"


def sqlite3(folder: Path, scale: float) -> str:
    """Fills a table in memory, and asks."""
    script = folder / "script.sql"
    script.write_text(_SQL.format(rows=round(1_000_000 * scale)))
    return f"sqlite3 :memory: -init {script} .quit"


def python3(folder: Path, scale: float) -> str:
    """Sorts, with comparisons that sort."""
    return f"/usr/bin/python3 {HERE / 'programs' / 'busy.py'} {3 * scale}"


def hackbench(folder: Path, scale: float) -> str:
    """Processes that send one another messages; perf's own version of it where it is not installed."""
    loops = max(1, round(2000 * scale))
    if shutil.which("hackbench"):
        return f"hackbench -g 8 -l {loops}"
    return f"perf bench sched messaging -g 8 -l {loops}"


PROGRAMS: dict[str, Callable[[Path, float], str]] = {
    "gzip": gzip,
    "find": find,
    "sqlite3": sqlite3,
    "python3": python3,
    "hackbench": hackbench,
}


def record(name: str, folder: Path, *, scale: float, stack: int, frequency: int) -> Path:
    """A recording of a program.

    Args:
        scale: how long it runs; 1 is some seconds.
        stack: bytes of the stack that are copied for each sample.
        frequency: samples a second of processor time.

    Raises:
        Unavailable: there is no perf, or no such program, or perf may not record.
    """
    if not shutil.which("perf"):
        raise Unavailable(f"{name}: there is no perf: type apt-get install linux-perf")
    program = PROGRAMS[name](folder, scale)
    if not shutil.which(program.split()[0]):
        raise Unavailable(f"{name}: it is not installed")
    out = folder / f"{name}.data"
    # By the processor's time, which is there on machines without hardware counters, too.
    command = ["perf", "record", "-q", "-o", str(out), "-e", "cpu-clock", "-F", str(frequency)]
    command += ["--call-graph", f"dwarf,{stack}", "--", *shlex.split(program)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, text=True)
    if not out.exists() or not out.stat().st_size:
        raise Unavailable(f"{name}: perf does not record here: {done.stderr.strip()[:200]}")
    return out
