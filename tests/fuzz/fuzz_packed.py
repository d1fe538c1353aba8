#!/usr/bin/env python3
"""Coverage-guided fuzzing of packed tables, with atheris. The arguments are those of fuzz_dwarf_cfi.py."""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_packed_inputs import read_everything, seeds

if __name__ == "__main__":
    sys.exit(main(read_everything, seeds, ("clew.read.packed", "clew.write.packed")))
