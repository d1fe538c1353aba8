"""Damaged call frame information for as long as CLEW_FUZZ_SECONDS says: nothing but clew.Error may come of it."""

from __future__ import annotations

import contextlib
import os

import pytest
from fuzz_cfi_inputs import mutated, section
from fuzz_cfi_layers import decode, read_everything
from hypothesis import given, settings
from hypothesis import strategies as st
from run_fuzz import fuzz

from clew.errors import Error
from clew.testing import MOTOROLA_88000

SECONDS = float(os.environ.get("CLEW_FUZZ_SECONDS", "2"))


def test_damaged_sections() -> None:
    tally = fuzz("cfi", seconds=SECONDS, seed=int(os.environ.get("CLEW_FUZZ_SEED", "1")))
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))
    assert tally.inputs > 100


@pytest.mark.parametrize("size", range(len(MOTOROLA_88000) + 1))
def test_every_prefix(size: int) -> None:
    for blob in (b"\x0f\0" + MOTOROLA_88000[:size], b"\x07\0" + MOTOROLA_88000[:size]):
        read_everything(*decode(blob))


@given(st.binary(max_size=80))
@settings(max_examples=150, deadline=None)
def test_any_bytes(blob: bytes) -> None:
    with contextlib.suppress(Error):
        read_everything(*decode(blob))


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_shrinkable_damage(random: object) -> None:
    """As the first test; what fails here, hypothesis makes small."""
    blob = mutated(random, section(random), section(random))  # type: ignore[arg-type]
    with contextlib.suppress(Error):
        read_everything(*decode(blob))
