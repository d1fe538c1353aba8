"""Measures walks of a thread's own stack: clew's in-process library beside libunwind, libgcc, glibc, framehop and frame pointers.

    python bench/inprocess.py [--rounds N] [--processes N] [--json OUT]

Stacks are 45 frames deep, of 8,000 return addresses in five libraries. Three modes: *same*, one stack walked 200 times, of
20 stacks; *distinct*, 1000 stacks walked once each; *first*, the first 20 stacks of a fresh process after one that comes
before. Processor time of the thread; the engines take turns in one process, and in *first* the processes do. All engines'
frames are compared on 50 stacks before that.

clew's library is looked for where CLEW_UNWIND_LIBRARY in the environment says, else where it is built.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import inprocess_functions
import inputs
from clew.errors import Error
from clew.image import Image
from clew.write.packed import packed_table
from contenders import Unavailable
from paper_build import NATIVE, Plugin, build, compiled

MODES = {
    "same": "One stack 200 times, of 20 stacks",
    "distinct": "1000 stacks, once each",
    "first": "The first 20 stacks of a fresh process",
}
REFERENCES = {
    "libgcc": "libgcc _Unwind_Backtrace",
    "unw_backtrace": "libunwind unw_backtrace",
    "framehop": "framehop 0.15",
}
"""Against which the others are put in proportion."""

ENGINES = (
    Plugin("clew", ["inprocess/engine_clew.c"]),
    Plugin("libgcc", ["inprocess/engine_libgcc.c"]),
    Plugin("libunwind", ["inprocess/engine_libunwind.c"], ["-lunwind"], apt="libunwind-dev"),
    Plugin("framehop", ["inprocess/engine_framehop.c"], crate="clew-bench-framehop"),
    Plugin("frame pointers", ["inprocess/engine_frame_pointers.c"], ["-fno-omit-frame-pointer"]),
)


@dataclass
class Race:
    """What came out: nanoseconds a frame of each round, by mode and engine.

    Attributes:
        rounds: by mode, then engine; in *first*, a round is a process.
        frames: of the last stack, by engine.
        checked: whether an engine's frames are those of the others, in words.
        very_first: nanoseconds a frame of a fresh process's first stack, by engine.
        reasons: why engines took no part.
    """

    rounds: dict[str, dict[str, list[float]]] = field(default_factory=lambda: {mode: {} for mode in MODES})
    frames: dict[str, int] = field(default_factory=dict)
    checked: dict[str, str] = field(default_factory=dict)
    very_first: dict[str, list[float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def take(self, output: str) -> None:
        """Adds what programs/inprocess/stacks.c printed."""
        for line in output.splitlines():
            kind, name, *fields = line.split("\t")
            if kind == "check":
                self.checked[name] = fields[0]
            elif kind == "without":
                self.reasons[name] = fields[0]
            elif kind == "first":
                self.rounds[kind].setdefault(name, []).append(float(fields[1]))
                self.very_first.setdefault(name, []).append(float(fields[2]))
            else:
                self.frames[name] = int(fields[0])
                self.rounds[kind][name] = [float(each) for each in fields[1:]]

    def ratios(self, mode: str, name: str, reference: str) -> tuple[float, float] | None:
        """An engine's time in proportion to a reference's: of the medians, and the median of the rounds' own."""
        ours, theirs = self.rounds[mode].get(name), self.rounds[mode].get(reference)
        if not ours or not theirs:
            return None
        pairs = [our / their for our, their in zip(ours, theirs, strict=False)]
        return statistics.median(ours) / statistics.median(theirs), statistics.median(pairs)


def system_libraries() -> list[str]:
    """The libraries that every program here has."""
    libc = inputs.libc()
    return [libc, *glob.glob(f"{Path(libc).parent}/ld-*.so.*"), *glob.glob(f"{Path(libc).parent}/libgcc_s.so.1")]


class Stacks:
    """The program that walks, and its engines, built.

    Raises:
        Unavailable: the program itself cannot be built.
    """

    def __init__(self, folder: Path, engines: Sequence[Plugin] = ENGINES) -> None:
        self.folder = folder
        # Its own functions have frame pointers: they are below those that are walked.
        self.program = compiled(folder / "stacks", ["inprocess/stacks.c"], "-rdynamic", "-fno-omit-frame-pointer")
        inprocess_functions.build(folder)
        self.built = build(engines, folder)
        library = os.environ.get("CLEW_UNWIND_LIBRARY", str(NATIVE / "libclew-unwind.so"))
        # Tables are mapped from a cache that has them all, of these files only.
        self.environment = {**os.environ, "CLEW_UNWIND_LIBRARY": library, "XDG_CACHE_HOME": str(folder / "cache")}
        self._fill_cache([*folder.glob("*.so"), self.program, Path(library), *map(Path, system_libraries())])

    def _fill_cache(self, files: list[Path]) -> None:
        for file in files:
            with suppress(Error), Image.open(file) as image:
                packed_table(image, directory=self.folder / "cache" / "clew" / "tables")

    def _run(self, *words: str) -> str:
        command = [str(self.program), str(self.folder), *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=3600)
        if done.returncode:
            raise Unavailable(f"{' '.join(words[:2])} ended with {done.returncode}: {done.stderr.strip()[:200]}")
        return done.stdout

    def race(self, rounds: int, processes: int) -> Race:
        """All modes."""
        race = Race()
        race.reasons.update(self.built.reasons)
        race.take(self._run("race", str(rounds), *map(str, self.built.paths)))
        for _ in range(processes):
            for name in list(race.checked):
                race.take(self._run("first", name, str(self._path_of(name))))
        return race

    def _path_of(self, name: str) -> Path:
        """The shared object that has an engine."""
        words = name.split()
        known = {"glibc": "libgcc", "frame": "frame_pointers"}
        return self.folder / f"engine_{known.get(words[0], words[0])}.so"


def show(race: Race) -> None:
    """Prints the modes as tables."""
    if differing := {name: said for name, said in race.checked.items() if said != "equal"}:
        print(f"DIFFERENT FRAMES: {differing}")
    else:
        print(f"{len(race.checked)} engines find the same frames on 50 stacks")
    for mode, does in MODES.items():
        rows: list[tuple[str, ...]] = [("", "ns/frame", "minimum", *(f"/ {each}" for each in REFERENCES))]
        if mode == "first":
            rows[0] += ("very first",)
        for name, mine in race.rounds[mode].items():
            row: tuple[str, ...] = (name, f"{statistics.median(mine):.1f}", f"{min(mine):.1f}")
            for reference in REFERENCES.values():
                ratios = race.ratios(mode, name, reference)
                row += (f"{ratios[1]:.3f}" if ratios else "-",)
            if mode == "first":
                row += (f"{statistics.median(race.very_first[name]):.0f}",)
            rows.append(row)
        print(f"\n{mode}: {does}; processor time, median of {max(map(len, race.rounds[mode].values()), default=0)}")
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [each.rjust(width) for each, width in zip(row[1:], widths[1:], strict=True)]
            print("  " + "  ".join([row[0].ljust(widths[0]), *cells]))
    for name, reason in race.reasons.items():
        print(f"Without {name}: {reason}")


def as_json(race: Race) -> dict[str, Any]:
    """All figures."""
    return {
        "checked": race.checked,
        "frames": race.frames,
        "without": race.reasons,
        "modes": {
            mode: {
                name: {
                    "ns_a_frame": mine,
                    "median": statistics.median(mine),
                    "ratio_of_medians": {short: _pick(race, mode, name, long, 0) for short, long in REFERENCES.items()},
                    "median_of_ratios": {short: _pick(race, mode, name, long, 1) for short, long in REFERENCES.items()},
                }
                for name, mine in engines.items()
            }
            for mode, engines in race.rounds.items()
        },
        "very_first": race.very_first,
    }


def _pick(race: Race, mode: str, name: str, reference: str, which: int) -> float | None:
    ratios = race.ratios(mode, name, reference)
    return None if ratios is None else ratios[which]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--processes", type=int, default=11, help="fresh processes for each engine in the mode `first`")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            race = Stacks(Path(folder)).race(options.rounds, options.processes)
        except Unavailable as reason:
            sys.exit(f"Without the program that walks: {reason}")
    show(race)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(as_json(race), indent=1) + "\n")


if __name__ == "__main__":
    main()
