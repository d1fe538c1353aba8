#!/usr/bin/env python3
"""Coverage-guided fuzzing of line number programs, with atheris. The arguments are those of fuzz_dwarf_cfi.py."""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_dwarf_lines_inputs import read_everything, seeds

if __name__ == "__main__":
    sys.exit(main(read_everything, seeds, ("clew.native.dwarf_line", "clew.symbols.dwarf.lines")))
