"""Damaged packed tables for as long as CLEW_FUZZ_SECONDS says: nothing but clew.Error may come of them."""

from __future__ import annotations

import os

from run_fuzz import fuzz


def test_damaged_tables() -> None:
    tally = fuzz("packed", seconds=float(os.environ.get("CLEW_FUZZ_SECONDS", "2")), seed=1)
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))
