"""The sections that DWARF is in, of a program, of a debug file, of a ``.dwo`` file or of one unit of a package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from clew.errors import Error, Problem
from clew.image import Image
from clew.image.elf import ET_REL, SHF_GROUP

_EMPTY = memoryview(b"")

Report = Callable[[Problem], None]


class DwarfSections:
    """Bytes of sections, expanded and relocated, each when it is asked for; empty where there is none.

    Args:
        image: the file.
        suffix: ``.dwo`` for the sections of split units.
        parts: offset and size of the part that belongs to a unit, by section name, in a package.
    """

    def __init__(self, image: Image, suffix: str = "", parts: Mapping[str, tuple[int, int]] | None = None) -> None:
        self.image = image
        self.suffix = suffix
        self.big = image.byte_order == "big"
        self.problems: list[Problem] = []
        self._parts = parts

    def name(self, short: str) -> str:
        """The name of a section in the file: ``.debug_info`` for ``info``."""
        return f".debug_{short}{self.suffix}"

    def read(self, short: str) -> memoryview:
        """The bytes of a section."""
        name = self.name(short)
        section = self.image.section(name)
        if section is None or not section.has_data:
            return _EMPTY
        try:
            data = memoryview(section.data_at_layout)
            if short == "info" and self.image.type == ET_REL:
                data = self._all_info(name, data)
        except Error as error:
            self.problems.append(Problem(error.message, section=name, offset=error.offset))
            return _EMPTY
        if self._parts is None:
            return data
        if name not in self._parts:
            # A package has one .debug_str for all its units.
            return data if short in ("str", "line_str") else _EMPTY
        offset, size = self._parts[name]
        return data[offset : offset + size]

    def _all_info(self, name: str, only: memoryview) -> memoryview:
        """All ``.debug_info`` of an object file, which has one more for each type that other files may have too (DWARF 5,
        E.2). They go last: what refers from one unit to another counts from the one that is in no group."""
        found = [each for each in self.image.sections if each.has_data and each.name == name]
        if len(found) <= 1:
            return only
        found.sort(key=lambda each: each.flags & SHF_GROUP)
        return memoryview(b"".join(each.data_at_layout for each in found))

    @cached_property
    def info(self) -> memoryview:
        """``.debug_info``."""
        return self.read("info")

    @cached_property
    def abbrev(self) -> memoryview:
        """``.debug_abbrev``."""
        return self.read("abbrev")

    @cached_property
    def line(self) -> memoryview:
        """``.debug_line``."""
        return self.read("line")

    @cached_property
    def line_strings(self) -> memoryview:
        """``.debug_line_str``."""
        return self.read("line_str")

    @cached_property
    def strings(self) -> memoryview:
        """``.debug_str``."""
        return self.read("str")

    @cached_property
    def string_offsets(self) -> memoryview:
        """``.debug_str_offsets``."""
        return self.read("str_offsets")

    @cached_property
    def addresses(self) -> memoryview:
        """``.debug_addr``."""
        return self.read("addr")

    @cached_property
    def address_ranges(self) -> memoryview:
        """``.debug_aranges``."""
        return self.read("aranges")

    @cached_property
    def ranges(self) -> memoryview:
        """``.debug_ranges``."""
        return self.read("ranges")

    @cached_property
    def range_lists(self) -> memoryview:
        """``.debug_rnglists``."""
        return self.read("rnglists")

    def refuse_stabs(self) -> None:
        """Says so where the debugging information is of a kind that nobody writes any more.

        Before DWARF there was STABS (``.stab``, ``.stabstr``), which Breakpad's document still mentions.
        """
        if self.image.section(".stab") is not None and not len(self.info):
            message = "STABS is not read; compile with DWARF (-gdwarf-4 or later)"
            self.problems.append(Problem(message, section=".stab"))


def code_ranges(image: Image) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Starts and ends (uint64) of the file's code: of its executable sections, else of its executable segments.

    A segment may begin with headers at address 0, where linkers leave the ranges of code that they threw away.
    """
    addresses = image.section_addresses()
    ranges = sorted(
        (addresses[section.index], addresses[section.index] + section.size)
        for section in image.sections
        if section.executable and section.allocated and section.size
    )
    merged: list[list[int]] = []
    limit = (1 << 64) - 1
    for start, end in ranges or image.code_ranges():
        end = min(end, limit)
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif start < end:
            merged.append([start, end])
    return np.array([each[0] for each in merged], np.uint64), np.array([each[1] for each in merged], np.uint64)
