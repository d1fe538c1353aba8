"""Runs the replay: the same samples, unwound with every engine in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contenders import Unavailable
from paper_build import NATIVE, Built, Plugin, build, compiled

REFERENCE = "libunwind, global cache"
"""What the paper compares with: the first engine, whose stacks the others' are compared with, and whose time is 1."""

ENGINES = (
    Plugin("libunwind", ["replay/engine_libunwind.c"], ["-lunwind-x86_64"], apt="libunwind-dev"),
    Plugin("clew packed table", ["replay/engine_packed.c"], needs=NATIVE / "step.h"),
    Plugin("clew compiled", ["replay/engine_compiled.c"]),
    Plugin("clew compiled, the paper's registers", ["replay/engine_paper.c"]),
    Plugin("libgcc", ["replay/engine_libgcc.c", "replay/engine_libgcc_call.S"]),
    Plugin("framehop", ["replay/engine_framehop.c"], crate="clew-bench-framehop"),
    Plugin("elfutils libdwfl", ["replay/engine_elfutils.c"], ["-ldw", "-lelf"], apt="libdw-dev"),
)

# Addresses of the program may be those of the replay: then another run of it has others.
_TRIES = 5


@dataclass(frozen=True)
class Outcome:
    """What one engine made of the samples.

    Attributes:
        name: the engine.
        frames, samples: how many there were.
        lost: stacks whose last frame is not one that nothing called.
        failed: stacks that the engine itself says it could not walk to their end.
        same: stacks that are those of the first engine.
        rounds: processor time of each round, in nanoseconds.
    """

    name: str
    frames: int
    samples: int
    lost: int
    failed: int
    same: int
    rounds: tuple[int, ...]

    @property
    def ns(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def ns_a_frame(self) -> float:
        """The median, for a frame."""
        return self.ns / max(1, self.frames)

    def ratio(self, reference: Outcome) -> float:
        """How many times the reference's time a frame is of this one's: the median over the rounds."""
        ours, theirs = max(1, self.frames), max(1, reference.frames)
        pairs = zip(self.rounds, reference.rounds, strict=True)
        return statistics.median((their / theirs) / max(1e-9, our / ours) for our, their in pairs)


@dataclass
class Replayed:
    """A recording's outcomes, in the order of the engines, and why others took no part, by name."""

    outcomes: list[Outcome]
    reasons: dict[str, str]


class Replay:
    """The replay and its engines, built.

    Args:
        folder: where to.
        engines: which; the first is the reference.

    Raises:
        Unavailable: the replay itself cannot be built.
    """

    def __init__(self, folder: Path, engines: Sequence[Plugin] = ENGINES) -> None:
        sources = [f"replay/{name}.c" for name in ("replay", "load", "memory", "find_object")]
        self.program = compiled(folder / "replay", sources, "-rdynamic")
        self.built: Built = build(engines, folder)

    def run(self, samples: Path, rounds: int, *, cold: bool = False) -> Replayed:
        """Unwinds an exported recording's samples.

        Args:
            cold: the stacks are not fetched into the cache before the clock starts.

        Raises:
            Unavailable: the replay does not come to its end.
        """
        environment = {**os.environ, "CLEW_REPLAY_COLD": "1"} if cold else None
        for _ in range(_TRIES):
            command = [str(self.program), str(samples), str(rounds), *map(str, self.built.paths)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=3600)
            if done.returncode:
                raise Unavailable(f"the replay ended with {done.returncode}: {done.stderr.strip()[:200]}")
            replayed = Replayed([], dict(self.built.reasons))
            for line in done.stdout.splitlines():
                kind, name, *fields = line.split("\t")
                if kind == "engine":
                    frames, count, lost, failed, same, *times = map(int, fields)
                    outcome = Outcome(name, frames, count, lost, failed, same, tuple(times))
                    replayed.outcomes.append(outcome)
                elif kind == "without":
                    replayed.reasons[name] = fields[0]
            if not any(reason.endswith("run it again") for reason in replayed.reasons.values()):
                break
        return replayed
