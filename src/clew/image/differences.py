"""Differences of two symbols, which MSP430, MN10300 and RL78 write as several relocations in a row.

The first names the symbol to subtract; the next one of an absolute type stores what is left. RL78 has a small stack
machine. The meaning is that which readelf (binutils 2.40) gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clew.image import elf
from clew.image.elf import Header
from clew.image.relocation_types import Kind

Indices = npt.NDArray[np.int64]

_EF_MSP430_MACHINE = 0xFF
_MSP430X = 45


def msp430x(header: Header) -> bool:
    """Whether a file for MSP430 uses the MSP430X's relocation numbers. GCC says so in the flags, TI in the OS ABI."""
    return header.machine == elf.EM_MSP430 and (
        header.flags & _EF_MSP430_MACHINE == _MSP430X or header.ident[elf.EI_OSABI] == elf.ELFOSABI_NONE
    )


class Assigned(NamedTuple):
    """Which relocations were understood as parts of differences.

    Attributes:
        taken: all of them.
        groups: those that store something, by what they store.
    """

    taken: Indices
    groups: list[tuple[Kind, Indices]]


class _Codes(NamedTuple):
    """Relocation numbers: those that name a symbol to subtract, those that store with how many bits, and a ULEB128."""

    subtracts: tuple[int, ...]
    stores: dict[int, int]
    uleb128: int = -1


_MSP430 = _Codes((10, 12, 21, 23), {1: 32, 3: 16, 5: 16, 9: 16}, 11)
_MSP430X_CODES = _Codes((21, 23), {1: 32, 2: 16, 3: 16, 15: 16}, 22)
_MN10300 = _Codes((33,), {1: 32, 2: 16})


def apply_differences(
    header: Header,
    types: npt.NDArray[np.uint32],
    addends: npt.NDArray[np.uint64],
    values: npt.NDArray[np.uint64],
    usable: npt.NDArray[np.bool_],
    uleb128: Callable[[int], int],
) -> Assigned:
    """Find the differences, and put into ``values`` what those relocations store that end one.

    Args:
        types, addends, values: type, addend and symbol value of each relocation, in the file's order.
        usable: whether each refers to a symbol.
        uleb128: with how many bits a relocation, given by its index, changes a ULEB128 number; −1 for a damaged one.
    """
    if header.machine in (elf.EM_MSP430, elf.EM_MSP430_OLD):
        return _pairs(_MSP430X_CODES if msp430x(header) else _MSP430, types, values, usable, uleb128)
    if header.machine in (elf.EM_MN10300, elf.EM_CYGNUS_MN10300):
        return _pairs(_MN10300, types, values, usable, uleb128)
    if header.machine == elf.EM_RL78:
        return _stack(types, addends, values, usable)
    return Assigned(np.zeros(0, np.int64), [])


def _pairs(
    codes: _Codes,
    types: npt.NDArray[np.uint32],
    values: npt.NDArray[np.uint64],
    usable: npt.NDArray[np.bool_],
    uleb128: Callable[[int], int],
) -> Assigned:
    taken: list[int] = []
    stored: dict[int, list[int]] = {}
    saved: int | None = None
    for index, number in enumerate(types.tolist()):
        if number in codes.subtracts:
            taken.append(index)
            saved = index if usable[index] else saved
        elif saved is not None and (number in codes.stores or number == codes.uleb128):
            taken.append(index)
            bits = codes.stores[number] if number in codes.stores else uleb128(index)
            if bits >= 0:
                stored.setdefault(bits, []).append(index)
                values[index] = (int(values[index]) - int(values[saved])) % (1 << 64)
            saved = None
    groups = [(Kind("absolute", bits), np.array(members, np.int64)) for bits, members in stored.items()]
    return Assigned(np.array(taken, np.int64), groups)


def _stack(
    types: npt.NDArray[np.uint32],
    addends: npt.NDArray[np.uint64],
    values: npt.NDArray[np.uint64],
    usable: npt.NDArray[np.bool_],
) -> Assigned:
    """RL78: R_RL78_SYM pushes, R_RL78_OPsub subtracts the last two, R_RL78_ABS32 and ABS16 store and clear."""
    taken: list[int] = []
    stored: dict[int, list[int]] = {}
    below = top = result = 0
    for index, number in enumerate(types.tolist()):
        if number == 0x80:
            below = top
            if usable[index]:
                top = int(values[index]) + int(addends[index])
        elif number == 0x83:
            result, below, top = below - top, 0, 0
        elif number in (0x41, 0x43):
            stored.setdefault(32 if number == 0x41 else 16, []).append(index)
            values[index] = (result - int(addends[index])) % (1 << 64)
            usable[index] = True
            result = 0
        else:
            continue
        taken.append(index)
    groups = [(Kind("absolute", bits), np.array(members, np.int64)) for bits, members in stored.items()]
    return Assigned(np.array(taken, np.int64), groups)
