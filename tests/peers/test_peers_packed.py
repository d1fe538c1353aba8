"""Packed tables of real files: they say what the decoded ones say at every address of code, and are smaller than the sections."""

from __future__ import annotations

import glob
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import clew
from clew.table import compare

sys.path.insert(0, str(Path(__file__).parent.parent / "native"))
from packed_steps import check, find

LIBRARIES = [
    path
    for name in ("libc.so.6", "libpython3.1*.so.1.0", "libcrypto.so.3", "libstdc++.so.6", "libLLVM-1*.so.1")
    if (path := min(glob.glob(f"/usr/lib/x86_64-linux-gnu/{name}"), default=None)) is not None
]
CROSS = sorted(glob.glob("/usr/aarch64-linux-gnu/lib/lib[cm].so.6") + glob.glob("/usr/aarch64-linux-gnu/lib/ld-*.so.1"))

#: What packed tables say better: the caller's stack pointer where it is not the CFA (clew.table.resolver), and where the pc comes
#: from if the return address is in a column of its own.
CORRECTED = {"sp", "pc", "return address"}


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.slow] * ("LLVM" in path)) for path in LIBRARIES + CROSS]
)
def test_every_address_of_code(path: str) -> None:
    image = clew.open_image(path)
    table = clew.read_table(image)
    data = clew.packed(table, image)
    opened = clew.PackedTable(data, path)
    assert check(data) == 0
    for difference in compare(table, opened.table()):
        row = table.lookup(difference.start)
        number = table.machine.register_number(difference.register)
        if row is None or (number is not None and number >= opened.target.registers):
            # Padding between functions; a register that is no integer one.
            continue
        assert path in CROSS, difference
        assert difference.register in CORRECTED, difference
    # The look-up in C finds what the reader found: at each row's first and last address, and around them.
    back = opened.table()
    at = np.concatenate([back.start, back.start - np.uint64(1), back.start + np.uint64(1)])
    expected = back.rule[np.maximum(np.searchsorted(back.start, at, "right") - 1, 0)]
    expected[at < back.start[0]] = 0
    assert np.array_equal(find(data, at), expected)


def test_smaller_than_the_sections() -> None:
    if len(LIBRARIES) < 3:
        pytest.skip("the usual libraries are not here")
    ratios = []
    for path in LIBRARIES:
        image = clew.open_image(path)
        sections = sum(found.size for name in (".eh_frame", ".eh_frame_hdr") if (found := image.section(name)))
        ratios.append(len(clew.packed(clew.read_table(image), image)) / sections)
    assert max(ratios) <= 0.9
    assert math.exp(sum(map(math.log, ratios)) / len(ratios)) <= 0.75
