"""Damaged symbol files for as long as CLEW_FUZZ_SECONDS says: nothing but clew.Error may come of them."""

from __future__ import annotations

import os
from hashlib import sha256
from random import Random

import pytest
from fuzz_breakpad_inputs import mutated, seeds, small_file
from fuzz_breakpad_layers import read_symbol_file, written
from run_fuzz import fuzz
from uncompiled import said_uncompiled

from clew.errors import Error
from clew.native import compiled
from clew.symbols.sym_file import SymbolFile


def test_damaged_symbol_files() -> None:
    tally = fuzz("breakpad", seconds=float(os.environ.get("CLEW_FUZZ_SECONDS", "2")), seed=1)
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))


def test_prefixes() -> None:
    blob = small_file(Random(4))
    for size in range(0, len(blob), 1 + len(blob) // 256):
        read_symbol_file(blob[:size])


def digests() -> str:
    """What comes of some inputs, the same in every process."""
    random = Random(6)
    good = seeds(random, 60)
    lines = []
    for turn in range(300):
        blob = good[turn] if turn < 60 else mutated(random, random.choice(good), random.choice(good))
        try:
            file = SymbolFile.open(blob)
            text = written(file) + "\n".join(map(str, file.problems)).encode()
        except Error as error:
            text = str(error).encode()
        lines.append(sha256(text).hexdigest())
    return "\n".join(lines)


@pytest.mark.skipif(not compiled(), reason="the core is not compiled here, so there is nothing to compare it with")
def test_compiled_and_uncompiled_agree_on_symbol_files() -> None:
    pure = said_uncompiled(__file__)
    ours, theirs = digests().split("\n"), pure.strip().split("\n")
    assert [index for index, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]] == []


if __name__ == "__main__":
    assert not compiled()
    print(digests())
