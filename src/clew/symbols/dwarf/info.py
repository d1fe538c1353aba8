"""The DWARF of a file, unit by unit or as a whole.

Opening one reads the headers and roots of the units. What is in a unit is read when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from clew.errors import Problem
from clew.image import Image
from clew.native.dwarf_assemble import Assembler
from clew.native.dwarf_files import FileBook
from clew.native.dwarf_lines import LineReader
from clew.native.dwarf_names import NameFinder
from clew.native.dwarf_ranges import RangeReader
from clew.native.dwarf_reader import UnitReader
from clew.native.dwarf_scopes import ScopeWalker
from clew.native.dwarf_units import ROOT_ATTRIBUTES, UnitTable
from clew.symbols.dwarf.address_ranges import read_address_ranges
from clew.symbols.dwarf.sections import DwarfSections, code_ranges
from clew.symbols.dwarf.split import NO_SPLITS, Splits
from clew.symbols.symbol_map import U64

_DIRECTORY, _SPLIT_NAME = (ROOT_ATTRIBUTES.index(name) for name in ("comp_dir", "dwo_name"))
_STRING_BASE, _RANGE_LIST_BASE, _RANGES_BASE = (
    ROOT_ATTRIBUTES.index(name) for name in ("str_offsets_base", "rnglists_base", "ranges_base")
)


def silent(done: int) -> None:
    """Progress that nobody looks at."""


class DebugInfo:
    """The DWARF of a file.

    Args:
        image: the file.
        supplement: the supplementary file that it refers to (``.gnu_debugaltlink``), if that was found.
        splits: finds the files of split units.
        discriminators: whether lines keep theirs.

    Attributes:
        names, files: what the functions, calls and lines refer to; they grow as units are read.
    """

    def __init__(
        self,
        image: Image,
        *,
        supplement: Image | None = None,
        splits: Splits = NO_SPLITS,
        discriminators: bool = False,
    ) -> None:
        self.image = image
        self._splits = splits
        # What several skeletons share is read once.
        self._splits_read: WeakKeyDictionary[DwarfSections, tuple[UnitTable, dict[int, int]]] = WeakKeyDictionary()
        self._sections = sections = DwarfSections(image)
        self._split_budget = len(sections.ranges) // 4 + 65536
        sections.refuse_stabs()
        self._supplement = None if supplement is None else DwarfSections(supplement)
        self._code = code_ranges(image)
        self._units = UnitTable(sections.info, sections.abbrev, sections.big)
        self._names = NameFinder(self._units, sections.strings, sections.line_strings, sections.string_offsets, None)
        if self._supplement is not None:
            other = self._supplement
            units = UnitTable(other.info, other.abbrev, other.big)
            self._names.supplement = NameFinder(units, other.strings, other.line_strings, other.string_offsets)
        starts, ends = self._code
        lines = LineReader(sections.line, sections.big, starts, ends, discriminators=discriminators, merge=True)
        files = FileBook(
            sections.line,
            sections.strings,
            sections.line_strings,
            sections.string_offsets,
            b"" if self._supplement is None else self._supplement.strings,
            sections.big,
        )
        walker = ScopeWalker(self._units, self._ranges(sections))
        self._reader = UnitReader(self._units, walker, self._names, lines, files, self._ranges(sections))
        if any(self._units.header(unit)[2] == 2 for unit in range(self._units.count)):
            self._reader.address_ranges = read_address_ranges(sections.address_ranges, sections.big)
        self.names: list[str] = self._names.names
        self.files: list[str] = files.files

    @property
    def unit_count(self) -> int:
        """How many units there are."""
        return self._units.count

    @property
    def problems(self) -> list[Problem]:
        """What was wrong so far; it grows as units are read."""
        found = list(self._sections.problems)
        found += [Problem(message, ".debug_info", offset) for offset, message in self._units.problems]
        for each in self._reader.problems:
            found.append(each if isinstance(each, Problem) else Problem(each[2], each[0], each[1]))
        found += self._splits.problems
        missing = self._splits.missing
        if missing:
            more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            found.append(Problem(f"the split DWARF of {min(missing)}{more} was not found", ".debug_info"))
        return found

    @property
    def line_bound(self) -> int:
        """How many lines there are at most: each takes a byte of ``.debug_line`` or more."""
        return len(self._sections.line)

    def read(self, unit: int, assembler: Assembler) -> None:
        """Adds the functions of a unit."""
        if self._reader.has_code(unit) and self._reader.is_skeleton(unit) and self._read_split(unit, assembler):
            return
        self._reader.read(unit, assembler)

    @property
    def size(self) -> int:
        """Bytes of ``.debug_info``."""
        return len(self._sections.info)

    def shares(self, count: int) -> list[tuple[int, int]]:
        """The units as so many shares of about the same size, or fewer: (first, end) of each."""
        starts, ends = self._units.columns()
        done = np.cumsum(ends - starts)
        total = int(done[-1]) if len(done) else 0
        cuts = [int(np.searchsorted(done, total * share // count)) for share in range(1, count)]
        bounds = sorted({0, *cuts, self.unit_count})
        return list(pairwise(bounds))

    def read_all(self, assembler: Assembler, progress: Callable[[int], None] = silent) -> None:
        """Adds the functions of all units; as :meth:`read_units`."""
        self.read_units(0, self.unit_count, assembler, progress)

    def read_units(self, first: int, end: int, assembler: Assembler, progress: Callable[[int], None] = silent) -> None:
        """Adds the functions of some units.

        Args:
            first, end: the units, the end not included.
            progress: is called now and then with how many units are done.
        """

        def advance(done: int) -> None:
            # Of a file that is mapped and not compressed, what was read would stay in memory.
            self.image.source.release()
            progress(done)

        for unit in self._reader.read_units(first, end, assembler, advance):
            self.read(unit, assembler)
            progress(unit - first)

    @cached_property
    def claims(self) -> tuple[U64, U64, npt.NDArray[np.int64], list[int]]:
        """Which unit says that it has which code: starts, ends (uint64) and units (int64), by start; and the units with code
        that do not say where."""
        ranges, owners, wordless = self._reader.claims, [], []
        parts: list[tuple[U64, U64]] = []
        for unit in range(self.unit_count):
            if self._reader.has_code(unit):
                if not self._reader.read_claim(unit):
                    wordless.append(unit)
                parts.append(ranges.columns())
                owners.append(np.full(ranges.count, unit, np.int64))
        if not parts:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64), wordless
        low, high = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(low, kind="stable")
        return low[order], high[order], np.concatenate(owners)[order], wordless

    def _ranges(self, sections: DwarfSections) -> RangeReader:
        """Reads ranges for entries in some sections. GNU's split units have theirs in the program, DWARF 5's beside them."""
        main = self._sections
        return RangeReader(main.ranges, sections.range_lists, main.addresses, main.big, *self._code)

    def _split_units(self, sections: DwarfSections) -> tuple[UnitTable, dict[int, int]]:
        """The units of a file of split units, or of a part of a package; and which of them has which id."""
        found = self._splits_read.get(sections)
        if found is None:
            units = UnitTable(sections.info, sections.abbrev, sections.big)
            parts: dict[int, int] = {}
            for part in range(units.count):
                parts.setdefault(units.header(part)[6], part)
            found = self._splits_read[sections] = units, parts
            self._split_budget += 2 * len(sections.range_lists)
        return found

    def _read_split(self, unit: int, assembler: Assembler) -> bool:
        """Adds the functions of a skeleton from its split unit; False where that was not found."""
        reader = self._reader
        identity = self._units.header(unit)[6]
        name = reader.string(unit, _SPLIT_NAME) or ""
        sections = self._splits.find(identity, name, reader.string(unit, _DIRECTORY))
        if sections is None:
            return False
        units, parts = self._split_units(sections)
        part = parts.get(identity)
        if part is not None:
            header, root = units.header(part), units.root_of(part)
            names = NameFinder(units, sections.strings, sections.line_strings, sections.string_offsets, self._names)
            names.set_base(part, (root[_STRING_BASE] or (0, units.behind_header(part)))[1])
            ranges = self._ranges(sections)
            reader.set_bases(unit, ranges)
            ranges.offset_size = header[3]
            # One list may not be named over and over from different units.
            ranges.budget = self._split_budget
            ranges.rnglists_base = (root[_RANGE_LIST_BASE] or (0, 0))[1]
            ranges.ranges_base = (self._units.root_of(unit)[_RANGES_BASE] or (0, 0))[1]
            walker = ScopeWalker(units, ranges)
            reader.put_together(unit, walker, names, part, assembler, sections.name("info"))
            self._split_budget = ranges.budget
            return True
        self._splits.missing.add(name)
        return False
