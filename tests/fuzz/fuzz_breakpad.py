#!/usr/bin/env python3
"""Coverage-guided fuzzing of Breakpad symbol files, with atheris. The arguments are those of fuzz_dwarf_cfi.py."""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_breakpad_inputs import seeds
from fuzz_breakpad_layers import read_symbol_file

if __name__ == "__main__":
    sys.exit(main(read_symbol_file, seeds, ("clew.symbols", "clew.read.breakpad", "clew.write.breakpad")))
