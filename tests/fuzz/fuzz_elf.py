#!/usr/bin/env python3
"""Coverage-guided fuzzing of ELF files, with atheris. The arguments are those of fuzz_dwarf_cfi.py."""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_elf_inputs import seeds
from fuzz_elf_layers import read_everything

if __name__ == "__main__":
    sys.exit(main(read_everything, seeds, ("clew.image", "clew.read", "clew.memory")))
