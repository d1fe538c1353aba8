"""Damaged recordings for as long as CLEW_FUZZ_SECONDS says: nothing but clew.Error may come of them."""

from __future__ import annotations

import os
from random import Random

import pytest
from fuzz_perfdata_inputs import small_recording
from fuzz_perfdata_layers import read_recording
from run_fuzz import fuzz

pytest.importorskip("zstandard", reason="some recordings are compressed")


def test_damaged_recordings() -> None:
    tally = fuzz("perfdata", seconds=float(os.environ.get("CLEW_FUZZ_SECONDS", "2")), seed=1)
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))


def test_prefixes() -> None:
    blob = small_recording(Random(4))
    for size in range(0, len(blob), 16 + len(blob) // 256):
        read_recording(blob[:size])
