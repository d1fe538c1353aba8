"""The whole C library of this machine: every boundary of a row, the addresses beside it, and a million others."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import numpy as np
import pytest
from compiled_runs import boundaries, compiled, frame_of, mismatches

from clew.image import Image
from clew.read.frames import read_table
from clew.table import AtCfa, RegisterPlus, Rule, Table, table_of
from clew.write.compiled.abi import AbiName

_PLACES = ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6", "/usr/lib/libc.so.6")


@pytest.fixture(scope="module")
def libc() -> Table:
    for place in _PLACES:
        if Path(place).exists():
            table = read_table(Image.open(place))
            if table.machine.name == "x86-64":
                return table
    pytest.skip(f"no {ctypes.util.find_library('c') or 'libc'} of x86-64")


@pytest.fixture(scope="module")
def addresses(libc: Table) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    low, high = int(libc.start[0]), int(libc.start[-1])
    others = np.random.default_rng(2019).integers(low - 4096, high + 4096, 1_000_000, dtype=np.uint64)
    return np.concatenate((boundaries(libc), others))


@pytest.mark.slow
@pytest.mark.parametrize("deref", [False, True])
@pytest.mark.parametrize("abi", ["full", "paper"])
@pytest.mark.parametrize("backend", ["asm", "c"])
def test_no_mismatch(
    backend: str,
    abi: AbiName,
    deref: bool,
    libc: Table,
    addresses: np.ndarray[tuple[int], np.dtype[np.uint64]],
    tmp_path: Path,
) -> None:
    data = compiled(libc, backend, abi, deref)
    for unknown in ((), (7,), (3, 6, 2)):
        frame = frame_of(libc.machine, unknown)
        for holes in (False, True) if deref and abi == "full" else (False,):
            assert mismatches(libc, data, addresses, frame, tmp_path, abi=abi, deref=deref, holes=holes) == []


def test_another_table_is_noticed(tmp_path: Path) -> None:
    """The comparison sees a difference of one byte in a boundary, and of a slot in a rule."""
    first, second, third = (Rule(RegisterPlus(7, 16), ((r, AtCfa(-16)), (16, AtCfa(-8))), 16) for r in (3, 6, 12))
    table = table_of("x86-64", [(0x1000, 0x1010, first), (0x1010, 0x1020, second)])
    moved = table_of("x86-64", [(0x1000, 0x1011, first), (0x1011, 0x1020, second)])
    other = table_of("x86-64", [(0x1000, 0x1010, first), (0x1010, 0x1020, third)])
    every = np.arange(0xFF0, 0x1030, dtype=np.uint64)
    data = compiled(table, "asm", "full", True)
    frame = frame_of(table.machine)
    assert mismatches(table, data, every, frame, tmp_path) == []
    assert mismatches(moved, data, every, frame, tmp_path) == [0x1010]
    assert mismatches(other, data, every, frame, tmp_path) == list(range(0x1010, 0x1020))
