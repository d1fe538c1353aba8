#!/usr/bin/env python3
"""Coverage-guided fuzzing of perf's recordings, with atheris. The arguments are those of fuzz_dwarf_cfi.py."""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_perfdata_inputs import seeds
from fuzz_perfdata_layers import read_recording

if __name__ == "__main__":
    sys.exit(main(read_recording, seeds, ("clew.target", "clew.walk", "clew.image", "clew.memory")))
