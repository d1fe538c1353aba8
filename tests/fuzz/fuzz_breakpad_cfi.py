#!/usr/bin/env python3
"""Coverage-guided fuzzing of ``STACK CFI`` text, with atheris. The arguments are those of fuzz_dwarf_cfi.py."""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_breakpad_cfi_inputs import seeds
from fuzz_breakpad_cfi_layers import read_text

if __name__ == "__main__":
    sys.exit(main(read_text, seeds, ("clew.read.breakpad", "clew.write.breakpad", "clew.table")))
