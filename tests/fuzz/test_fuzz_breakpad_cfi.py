"""Damaged ``STACK CFI`` text, and text of damaged frame sections, for as long as CLEW_FUZZ_SECONDS says."""

from __future__ import annotations

import os

import pytest
from run_fuzz import fuzz


@pytest.mark.parametrize("subject", ["breakpad_cfi", "breakpad_cfi_tables"])
def test_damaged_text_and_tables(subject: str) -> None:
    tally = fuzz(subject, seconds=float(os.environ.get("CLEW_FUZZ_SECONDS", "2")), seed=1)
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))
