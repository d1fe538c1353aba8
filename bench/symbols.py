"""Measures names: symbol files, the text of unwind tables, and look-ups, clew beside the programs that do the same.

    python bench/symbols.py [dump] [cfi] [lookup] [--rounds N] [--file FILE …] [--debug DIR] [--json OUT]

All take turns in one run, a round at a time.

* ``dump``: a Breakpad symbol file, inlined calls and unwind table included, as a process of its own: its processor time, its
  peak memory. mozilla's dump_syms does not look for debug files: it is given them.
* ``cfi``: all of a large library's ``.eh_frame`` as STACK CFI, in this process. symbolic writes no such text without having read
  the file, so reading is clew's part, too.
* ``lookup``: 20,000 addresses at once, and one at a time in a file that is already read.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import inputs
from contenders import Unavailable

HERE = Path(__file__).parent
ADDRESSES = 20_000
SINGLE = 5_000


@dataclass(frozen=True)
class Run:
    """One round: seconds of processor time, peak memory of the process in MiB, and what was made, in bytes or answers."""

    cpu: float
    peak: float
    made: int


def installed() -> list[str]:
    """The usual files: those of this machine, of the five that are measured, that have debugging information."""
    import clew.symbols
    from clew.image import Image

    wanted = [
        inputs.libc(),
        *glob.glob("/usr/lib/*/libpython3.*[0-9].so.1.0"),
        "/usr/bin/python3.11",
        "/usr/bin/python3.11-dbg",
        *glob.glob("/usr/lib/*/debug/libstdc++.so.6"),
    ]
    found = []
    for path in map(os.path.realpath, wanted):
        if os.path.exists(path):
            with Image.open(path) as image:
                if clew.symbols.find_debug_information(image, clew.symbols.Places.default()).dwarf is not None:
                    found.append(path)
    return found


def debug_file(path: str, directory: str | None) -> str | None:
    """The debug file of a binary; None where it is its own."""
    import clew.symbols
    from clew.image import Image

    with Image.open(path) as image:
        places = clew.symbols.Places.default([directory] if directory else [])
        found = clew.symbols.find_debug_information(image, places).dwarf
        return None if found is None or found is image else found.name


def environment(cache: str) -> dict[str, str]:
    """The environment, but Python keeps what it compiles in ``cache``, as it does for packages that are installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": cache}


def whole_process(name: str, command: list[str], output: Path, cache: str) -> Run:
    """Runs a program that writes ``output``."""
    output.unlink(missing_ok=True)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=environment(cache))
        _, status, used = os.wait4(process.pid, 0)
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    process.returncode = os.waitstatus_to_exitcode(status)
    # clew says by 1 that the format could not hold everything.
    if process.returncode not in (0, 1) or not output.exists():
        raise Unavailable(f"{name}: exit code {process.returncode}: {text[-300:]}")
    return Run(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, output.stat().st_size)


def mozilla() -> str:
    """mozilla's dump_syms."""
    here = HERE / "peers" / "target" / "tools" / "bin" / "dump_syms"
    found = str(here) if here.exists() else shutil.which("dump_syms")
    if found is None:
        raise Unavailable("dump_syms: type cargo install --locked --root bench/peers/target/tools dump_syms")
    return found


def race(title: str, entrants: dict[str, Callable[[], Run]], rounds: int) -> dict[str, Any]:
    """Lets all take turns, and prints the medians, the first entrant's as 1."""
    runs: dict[str, list[Run]] = {name: [] for name in entrants}
    for _ in range(rounds):
        for name, run in list(entrants.items()):
            try:
                runs[name].append(run())
            except Unavailable as reason:
                print(f"Without {reason}", file=sys.stderr)
                del entrants[name]
    results = {
        name: {
            "cpu_s": statistics.median(run.cpu for run in each),
            "cpu_min_s": min(run.cpu for run in each),
            "peak_mib": statistics.median(run.peak for run in each),
            "made": each[-1].made,
        }
        for name, each in runs.items()
        if each
    }
    print(f"\n{title}")
    first = next(iter(results.values()), None)
    for name, result in results.items():
        assert first is not None
        print(
            f"  {name:12} CPU {result['cpu_s']:8.3f} s (min {result['cpu_min_s']:.3f}) x {result['cpu_s'] / first['cpu_s']:5.2f}"
            + (
                f"   peak {result['peak_mib']:6.0f} MiB x {result['peak_mib'] / first['peak_mib']:5.2f}"
                if first["peak_mib"]
                else ""
            )
            + f"   {result['made']:,}"
        )
    return results


def dump(options: argparse.Namespace) -> dict[str, Any]:
    """Symbol files."""
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in options.file or installed():
            separate = debug_file(path, options.debug)
            ours = Path(folder, "clew.sym")
            theirs = Path(folder, "mozilla.sym")
            command = [sys.executable, "-m", "clew", "dump-syms", path, "-o", str(ours)]
            if options.debug:
                command += ["--debug", options.debug]
            files = [path, separate] if separate else [path]

            # Once before the first round, so that the modules are compiled.
            warm = [sys.executable, "-m", "clew", "dump-syms", sys.executable, "-o", str(ours)]
            subprocess.run(warm, capture_output=True, check=False, env=environment(folder))

            def mine(command: list[str] = command, ours: Path = ours) -> Run:
                return whole_process("clew", command, ours, folder)

            def other(files: list[str] = files, theirs: Path = theirs) -> Run:
                return whole_process("dump_syms", [mozilla(), "--inlines", "-o", str(theirs), *files], theirs, folder)

            outcomes[path] = race(f"Symbol file of {path} (bytes)", {"clew": mine, "dump_syms": other}, options.rounds)
    return outcomes


def timed(work: Callable[[], int]) -> Run:
    """One round in this process."""
    before = time.process_time()
    made = work()
    return Run(time.process_time() - before, 0.0, made)


def cfi(options: argparse.Namespace) -> dict[str, Any]:
    """Unwind tables as text."""
    path = inputs.libllvm()
    if path is None:
        print("Without libLLVM: type apt-get install libllvm14", file=sys.stderr)
        return {}

    def mine() -> int:
        from clew.image import Image
        from clew.read.frames import read_table
        from clew.write.breakpad.cfi import stack_cfi

        with Image.open(path) as image:
            return sum(map(len, stack_cfi(read_table(image))))

    def other() -> int:
        try:
            from symbolic.debuginfo import Archive
        except ImportError as error:
            raise Unavailable("symbolic: type .venv/bin/pip install symbolic") from error
        made = next(Archive.open(path).iter_objects()).make_cficache()
        return len(made.open_stream().read())

    return {
        path: race(
            f"STACK CFI of {path} (bytes)",
            {"clew": lambda: timed(mine), "symbolic": lambda: timed(other)},
            options.rounds,
        )
    }


def lookup(options: argparse.Namespace) -> dict[str, Any]:
    """Look-ups."""
    import numpy as np

    from clew.image import Image
    from clew.symbols import Places, Symbolizer

    outcomes: dict[str, Any] = {}
    for path in options.file or installed():
        with Image.open(path) as image:
            text = next(section for section in image.sections if section.name == ".text")
            start, size = text.address, text.size
        dice = random.Random(1)
        places = [start + dice.randrange(size) for _ in range(ADDRESSES)]
        many = np.array(places, np.uint64)
        where = Places.default([options.debug] if options.debug else [])
        separate = debug_file(path, options.debug) or path

        def cold(path: str = path, many: Any = many, where: Places = where) -> int:
            with Symbolizer.open(path, places=where) as fresh:
                return len(fresh.lookup_many(many))

        symbols = Symbolizer.open(path, places=where)
        symbols.lookup_many(many)

        def bulk(symbols: Symbolizer = symbols, many: Any = many) -> int:
            return len(symbols.lookup_many(many))

        single = Symbolizer.open(path, places=where)
        few = places[:SINGLE]
        for address in few:
            single.lookup(address)

        def one_by_one(single: Symbolizer = single, few: list[int] = few) -> int:
            for address in few:
                single.lookup(address)
            return len(few)

        entrants: dict[str, Callable[[], Run]] = {
            "clew": lambda bulk=bulk: timed(bulk),  # type: ignore[misc]
            "one by one": lambda one_by_one=one_by_one: timed(one_by_one),  # type: ignore[misc]
            "with reading": lambda cold=cold: timed(cold),  # type: ignore[misc]
        }
        try:
            from symbolic.debuginfo import Archive

            symcache = next(Archive.open(separate).iter_objects()).make_symcache()

            def theirs(symcache: Any = symcache, few: list[int] = few) -> int:
                for address in few:
                    symcache.lookup(address)
                return len(few)

            def theirs_cold(separate: str = separate, few: list[int] = few) -> int:
                fresh = next(Archive.open(separate).iter_objects()).make_symcache()
                for address in few:
                    fresh.lookup(address)  # type: ignore[no-untyped-call]
                return len(few)

            entrants["symbolic"] = lambda theirs=theirs: timed(theirs)  # type: ignore[misc]
            entrants["symbolic, with reading"] = lambda theirs_cold=theirs_cold: timed(theirs_cold)  # type: ignore[misc]
        except ImportError:
            print("Without symbolic: type .venv/bin/pip install symbolic", file=sys.stderr)
        found = race(f"Look-ups in {path} (addresses)", entrants, options.rounds)
        for name, result in found.items():
            result["per_s"] = round(result["made"] / result["cpu_s"])
            result["us"] = 1e6 * result["cpu_s"] / result["made"]
            print(f"    {name}: {result['per_s']:,} addresses/s, {result['us']:.2f} us each")
        symbols.close()
        single.close()
        outcomes[path] = found
    return outcomes


RACES = {"dump": dump, "cfi": cfi, "lookup": lookup}


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "races", nargs="*", choices=[*RACES, []], default=[], metavar="RACE", help="dump, cfi, lookup; all"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--file", action="append", help="a binary to measure, instead of the usual ones; repeatable")
    parser.add_argument("--debug", metavar="DIR", help="where else debug files are, ordered by build id")
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    outcomes = {name: RACES[name](options) for name in options.races or RACES}
    if options.json:
        Path(options.json).write_text(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    main()
