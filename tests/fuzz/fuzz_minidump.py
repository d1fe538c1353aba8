#!/usr/bin/env python3
"""Coverage-guided fuzzing of minidumps and of walks, with atheris. The arguments are those of fuzz_dwarf_cfi.py."""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_target_inputs import minidump_seeds
from fuzz_target_layers import read_minidump

if __name__ == "__main__":
    sys.exit(main(read_minidump, minidump_seeds, ("clew.target", "clew.walk", "clew.image", "clew.memory")))
