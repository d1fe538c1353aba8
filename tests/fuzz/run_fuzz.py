#!/usr/bin/env python3
"""Damages well-formed input, a great many times, and counts what should not have come of it.

    python tests/fuzz/run_fuzz.py cfi --runs 1000000
    python tests/fuzz/run_fuzz.py elf --seconds 60
    python tests/fuzz/run_fuzz.py minidump --runs 100000

An input fails when reading it raises anything but clew.Error, when the layers contradict each other, or when it takes more
than a second of the processor. What fails is written to ``--keep``, under the number with which it was made, and so is the
slowest input. The last line is the sum.
Exit code 1 if any input failed or the memory kept growing.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import fuzz_arm_exidx_inputs
import fuzz_breakpad_cfi_inputs
import fuzz_breakpad_cfi_layers
import fuzz_breakpad_inputs
import fuzz_breakpad_layers
import fuzz_cfi_inputs
import fuzz_cfi_layers
import fuzz_dwarf_info_inputs
import fuzz_dwarf_info_layers
import fuzz_dwarf_lines_inputs
import fuzz_elf_inputs
import fuzz_elf_layers
import fuzz_packed_inputs
import fuzz_perfdata_inputs
import fuzz_perfdata_layers
import fuzz_target_inputs
import fuzz_target_layers

from clew.errors import Error

#: Processor seconds that an input of a few hundred bytes may take; bytes that the process may grow by once it is warm.
SLOW = 1.0
GROWTH = 64 << 20


@dataclass(frozen=True)
class Subject:
    """What is fuzzed: where inputs come from and what is done with them."""

    seeds: Callable[[Random, int], list[bytes]]
    mutated: Callable[[Random, bytes, bytes], bytes]
    read: Callable[[bytes], None]


def _read_cfi(blob: bytes) -> None:
    data, choices = fuzz_cfi_layers.decode(blob)
    fuzz_cfi_layers.read_everything(data, choices)


SUBJECTS = {
    "breakpad": Subject(
        fuzz_breakpad_inputs.seeds, fuzz_breakpad_inputs.mutated, fuzz_breakpad_layers.read_symbol_file
    ),
    "cfi": Subject(fuzz_cfi_inputs.seeds, fuzz_cfi_inputs.mutated, _read_cfi),
    "dwarf_info": Subject(
        fuzz_dwarf_info_inputs.seeds, fuzz_dwarf_info_inputs.mutated, fuzz_dwarf_info_layers.read_everything
    ),
    "dwarf_lines": Subject(
        fuzz_dwarf_lines_inputs.seeds, fuzz_elf_inputs.mutated, fuzz_dwarf_lines_inputs.read_everything
    ),
    "elf": Subject(fuzz_elf_inputs.seeds, fuzz_elf_inputs.mutated, fuzz_elf_layers.read_everything),
    "core": Subject(fuzz_target_inputs.core_seeds, fuzz_elf_inputs.mutated, fuzz_target_layers.read_core),
    "arm_exidx": Subject(fuzz_arm_exidx_inputs.seeds, fuzz_elf_inputs.mutated, fuzz_arm_exidx_inputs.read_everything),
    "breakpad_cfi": Subject(
        fuzz_breakpad_cfi_inputs.seeds, fuzz_breakpad_cfi_inputs.mutated, fuzz_breakpad_cfi_layers.read_text
    ),
    "breakpad_cfi_tables": Subject(
        fuzz_breakpad_cfi_inputs.section_seeds,
        fuzz_breakpad_cfi_inputs.section_mutated,
        fuzz_breakpad_cfi_layers.write_section,
    ),
    "minidump": Subject(fuzz_target_inputs.minidump_seeds, fuzz_elf_inputs.mutated, fuzz_target_layers.read_minidump),
    "packed": Subject(fuzz_packed_inputs.seeds, fuzz_packed_inputs.mutated, fuzz_packed_inputs.read_everything),
    "perfdata": Subject(fuzz_perfdata_inputs.seeds, fuzz_perfdata_inputs.mutated, fuzz_perfdata_layers.read_recording),
}


@dataclass
class Tally:
    """What came of the inputs."""

    inputs: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    slowest: float = 0.0
    slowest_blob: bytes = field(default=b"", repr=False)
    growth: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return not self.failures and not self.slow and self.growth < GROWTH

    def __str__(self) -> str:
        return (
            f"{self.inputs:,} inputs, {self.failures.total():,} exceptions outside clew.Error; {self.seconds:.0f} s, "
            f"slowest {1e3 * self.slowest:.0f} ms, {self.slow} slow, memory {self.growth / (1 << 20):+.1f} MiB"
        )


def resident() -> int:
    """Bytes of this process in memory, or 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


def fuzz(
    name: str, *, runs: int | None = None, seconds: float | None = None, seed: int = 0, keep: Path | None = None
) -> Tally:
    """Reads inputs until there were so many, or so much time has passed. The same seed makes the same inputs."""
    subject = SUBJECTS[name]
    tally = Tally()
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    warm = 0
    random = Random(seed)
    corpus: list[bytes] = []
    while (runs is None or tally.inputs < runs) and (seconds is None or time.monotonic() - begin < seconds):
        turn = tally.inputs % 20_000
        if turn == 0:
            corpus = subject.seeds(random, 300)
        if tally.inputs == 2000:
            warm = resident()
        made = random.choice(corpus)
        # The well-formed ones as well, once each.
        blob = corpus[turn] if turn < len(corpus) else subject.mutated(random, made, random.choice(corpus))
        # Of the processor, not by the clock: others may be busy on this machine.
        start = time.process_time()
        try:
            subject.read(blob)
        except Error:
            pass
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            tally.failures[f"{type(error).__name__} in {frame.name}: {error}"] += 1
            if keep is not None:
                (keep / f"{name}-{seed}-{tally.inputs}").write_bytes(blob)
        took = time.process_time() - start
        if took > tally.slowest:
            tally.slowest, tally.slowest_blob = took, blob
        tally.slow += took > SLOW
        tally.inputs += 1
    tally.seconds = time.monotonic() - begin
    tally.growth = resident() - warm if warm else 0
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--runs", type=int, help="how many inputs")
    parser.add_argument("--seconds", type=float, help="how long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="where inputs that fail are written to")
    options = parser.parse_args()
    if options.runs is None and options.seconds is None:
        options.runs = 10_000
    tally = fuzz(options.subject, runs=options.runs, seconds=options.seconds, seed=options.seed, keep=options.keep)
    if options.keep is not None:
        (options.keep / f"{options.subject}-slowest").write_bytes(tally.slowest_blob)
    for message, count in tally.failures.most_common():
        print(f"{count:8} {message}")
    print(tally)
    return 0 if tally.good else 1


if __name__ == "__main__":
    sys.exit(main())
