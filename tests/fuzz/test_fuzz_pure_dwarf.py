"""The compiled core and the same files uncompiled say the same of a corpus of files, most of them with damaged DWARF."""

from __future__ import annotations

from random import Random

import pytest
from fuzz_dwarf_info_inputs import mutated, seeds
from fuzz_dwarf_info_layers import ADDRESSES, symbolizer_of
from uncompiled import said_uncompiled

from clew.errors import Error
from clew.native import compiled
from clew.write.breakpad.dump import dump_symbols

WELL_FORMED, DAMAGED = 25, 75


def said(blob: bytes) -> str:
    """What is said of a file, and what was wrong with it."""
    try:
        with symbolizer_of(blob) as symbols:
            frames = [symbols.lookup(address) for address in ADDRESSES[::8]]
            text = b"".join(dump_symbols(symbols, cfi=False).text())
            return repr((frames, text, [str(problem) for problem in symbols.problems]))
    except Error as error:
        return str(error)


def answers() -> list[str]:
    random = Random(11)
    good = seeds(random, WELL_FORMED)
    damaged = [mutated(random, random.choice(good), random.choice(good)) for _ in range(DAMAGED)]
    return [said(blob).replace("\n", " ") for blob in (*good, *damaged)]


@pytest.mark.skipif(not compiled(), reason="the core is not compiled here, so there is nothing to compare it with")
def test_compiled_and_uncompiled_agree_on_dwarf() -> None:
    pure = said_uncompiled(__file__)
    ours, theirs = answers(), pure.splitlines()
    assert len(ours) == len(theirs) == WELL_FORMED + DAMAGED
    assert [index for index, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]] == []


if __name__ == "__main__":
    assert not compiled()
    print("\n".join(answers()))
