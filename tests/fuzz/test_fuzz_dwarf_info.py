"""Damaged DWARF for as long as CLEW_FUZZ_SECONDS says: nothing may be raised, and the lazy and the whole way agree."""

from __future__ import annotations

import os

from run_fuzz import fuzz


def test_damaged_debugging_information() -> None:
    tally = fuzz("dwarf_info", seconds=float(os.environ.get("CLEW_FUZZ_SECONDS", "2")), seed=1)
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))
