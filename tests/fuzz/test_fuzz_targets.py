"""Damaged cores and minidumps for as long as CLEW_FUZZ_SECONDS says: nothing but clew.Error may come of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest
from fuzz_target_inputs import small_core, small_minidump
from fuzz_target_layers import read_core, read_minidump
from run_fuzz import fuzz


@pytest.mark.parametrize("subject", ["core", "minidump"])
def test_damaged_targets(subject: str) -> None:
    tally = fuzz(subject, seconds=float(os.environ.get("CLEW_FUZZ_SECONDS", "2")), seed=1)
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))


@pytest.mark.parametrize(("make", "read"), [(small_core, read_core), (small_minidump, read_minidump)])
def test_prefixes(make: Callable[[Random], bytes], read: Callable[[bytes], None]) -> None:
    blob = make(Random(4))
    for size in range(0, len(blob), 16 + len(blob) // 256):
        read(blob[:size])
