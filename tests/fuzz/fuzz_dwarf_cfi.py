#!/usr/bin/env python3
"""Coverage-guided fuzzing of call frame information, with atheris.

    python tests/fuzz/fuzz_dwarf_cfi.py --runs 100000
    CLEW_PURE=1 python tests/fuzz/fuzz_dwarf_cfi.py --runs 20000 corpus/

Compiled, the core is a black box and the layers above it are instrumented; with CLEW_PURE=1 the core is instrumented too,
and a hundred times slower. Other arguments are libFuzzer's: folders of inputs, -max_len=…, -seed=….
"""

from __future__ import annotations

import sys

from atheris_target import main
from fuzz_cfi_inputs import seeds
from fuzz_cfi_layers import decode, read_everything


def one(blob: bytes) -> None:
    read_everything(*decode(blob))


if __name__ == "__main__":
    sys.exit(main(one, seeds, ("clew.native", "clew.read", "clew.table")))
