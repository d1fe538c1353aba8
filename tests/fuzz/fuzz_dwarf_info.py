#!/usr/bin/env python3
"""Coverage-guided fuzzing of debugging information, with atheris. The arguments are those of fuzz_dwarf_cfi.py."""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_dwarf_info_inputs import seeds
from fuzz_dwarf_info_layers import read_everything

if __name__ == "__main__":
    sys.exit(main(read_everything, seeds, ("clew.native.dwarf", "clew.native.symbol_index", "clew.symbols")))
