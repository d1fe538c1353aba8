"""Damaged ELF files for as long as CLEW_FUZZ_SECONDS says: nothing but clew.Error may come of it."""

from __future__ import annotations

import os
from random import Random

from fuzz_elf_inputs import small_file
from fuzz_elf_layers import read_everything
from run_fuzz import fuzz

from clew.errors import Error


def test_damaged_files() -> None:
    tally = fuzz("elf", seconds=float(os.environ.get("CLEW_FUZZ_SECONDS", "2")), seed=1)
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))


def test_every_eighth_prefix() -> None:
    blob = small_file(Random(4))
    for size in range(0, len(blob), 8):
        try:
            read_everything(blob[:size])
        except Error:
            continue
