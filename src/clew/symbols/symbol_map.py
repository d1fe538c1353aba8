"""What code is called and which source it came from: functions, the calls inlined into them, and lines, as columns.

Every source of names with lines becomes a :class:`SymbolMap`: the units of DWARF one each, a Breakpad symbol file as a
whole. So they are looked up, compared and written by the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
U16 = npt.NDArray[np.uint16]
U8 = npt.NDArray[np.uint8]

NO_FILE = 0xFFFFFFFF
"""The file of a line, or of a call, that has none."""
NO_NAME = 0xFFFFFFFF
"""The name of a function that has none."""


@dataclass(frozen=True, slots=True)
class Functions:
    """Functions, one for each contiguous piece of code, by address; no two overlap.

    A function whose code is in several pieces, such as one with a cold part, is several functions of one name.

    Attributes:
        address: where the piece begins, as an address of the file, uint64[n], ascending.
        size: its bytes, uint64[n].
        name: its name, an index of :attr:`SymbolMap.names`, uint32[n].
        parameter_size: bytes of arguments that the caller pushed (0 on ELF), uint32[n].
        multiple: 1 where several functions share this code, uint8[n].
        first_line, end_line: the lines of function ``i`` are those from ``first_line[i]`` to before ``end_line[i]``,
            uint32[n]. They stand in whatever order the source of the map had.
        first_inline, end_inline: its inlined calls, likewise.
    """

    address: U64
    size: U64
    name: U32
    parameter_size: U32
    multiple: U8
    first_line: U32
    end_line: U32
    first_inline: U32
    end_inline: U32


@dataclass(frozen=True, slots=True)
class Lines:
    """Which source line code came from: those of a function together, by address; no two of them overlap.

    Attributes:
        address: uint64[m]. size: bytes, uint32[m].
        line: 0 for none, uint32[m].
        file: an index of :attr:`SymbolMap.files`, uint32[m].
        discriminator: DWARF's, of the blocks of one line, uint32[m]; None where nobody asked.
    """

    address: U64
    size: U32
    line: U32
    file: U32
    discriminator: U32 | None = None


@dataclass(frozen=True, slots=True)
class Inlines:
    """Calls that were inlined: those of a function together, each before those inside it (preorder).

    Attributes:
        depth: 0 for what is inlined into the function itself, uint16[k].
        name: what was called, an index of :attr:`SymbolMap.names`, uint32[k].
        call_file: where it was called, an index of :attr:`SymbolMap.files`, uint32[k].
        call_line: 0 for none, uint32[k].
        first_range: the pieces of code of call ``i`` are those from ``first_range[i]`` to ``first_range[i + 1]``,
            uint32[k + 1].
        range_address, range_size: the pieces, inside those of the call around them, uint64[r].
    """

    depth: U16
    name: U32
    call_file: U32
    call_line: U32
    first_range: U32
    range_address: U64
    range_size: U64


@dataclass(frozen=True, slots=True)
class Publics:
    """Symbols of the linker for code that no function covers, by address.

    Attributes:
        address: uint64[p]. name: an index of :attr:`SymbolMap.names`, uint32[p].
        parameter_size: uint32[p]. multiple: 1 where several symbols have the address, uint8[p].
    """

    address: U64
    name: U32
    parameter_size: U32
    multiple: U8


@dataclass(frozen=True, slots=True)
class SymbolMap:
    """Functions with their lines and inlined calls, and symbols of the linker.

    Attributes:
        names: names of functions, as the source of the map has them (DWARF: mangled; Breakpad: as people write them).
        files: paths of source files. The index :data:`NO_FILE` stands for none.
    """

    functions: Functions
    lines: Lines
    inlines: Inlines
    publics: Publics
    names: Sequence[str]
    files: Sequence[str]
