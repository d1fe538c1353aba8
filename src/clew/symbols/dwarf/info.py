"""The DWARF of a file, unit by unit or as a whole, as maps of symbols.

Opening one reads the headers and roots of the units. A unit is read when an address in it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from clew.errors import Problem
from clew.image import Image
from clew.native.cursor import Malformed
from clew.native.dwarf_assemble import Assembler
from clew.native.dwarf_lines import LineReader
from clew.native.dwarf_names import NameFinder
from clew.native.dwarf_ranges import RangeReader
from clew.native.dwarf_scopes import ScopeWalker
from clew.native.dwarf_units import UnitTable
from clew.symbols.dwarf.lines import LineHeader, LineSections
from clew.symbols.dwarf.sections import DwarfSections, code_ranges
from clew.symbols.dwarf.split import NO_SPLITS, Splits
from clew.symbols.dwarf.units import ADDRESS_INDEX, Unit, read_unit, string
from clew.symbols.symbol_map import NO_FILE, U32, U64


#: Rows of lines of a unit that has none.
_NO_ROWS = (np.zeros(0, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.uint32))
_MOST_PROBLEMS = 1000

Rows = tuple[U64, U32, U32, U32 | None]


@dataclass(frozen=True, slots=True)
class _Reader:
    """What reads the units of one set of sections."""

    sections: DwarfSections
    units: UnitTable
    walker: ScopeWalker
    names: NameFinder


class DebugInfo:
    """The DWARF of a file.

    Args:
        image: the file.
        supplement: the supplementary file that it refers to (``.gnu_debugaltlink``), if that was found.
        splits: finds the files of split units.
        discriminators: whether lines keep theirs.

    Attributes:
        problems: what was wrong so far; it grows as units are read.
        names, files: what the maps refer to; they grow as units are read.
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
        self.problems: list[Problem] = []
        self.files: list[str] = []
        self.discriminators = discriminators
        self._file_numbers: dict[str, int] = {}
        self._splits = splits
        self._sections = DwarfSections(image)
        self._sections.refuse_stabs()
        self._code = code_ranges(image)
        self._supplement = DwarfSections(supplement) if supplement is not None else None
        self._reader = self._read(self._sections, None)
        self.names: list[str] = self._reader.names.names
        self._report(Problem(message, ".debug_info", offset) for offset, message in self._reader.units.problems)
        self._report(self._sections.problems)

    @property
    def unit_count(self) -> int:
        """How many units there are."""
        return self._reader.units.count

    @cached_property
    def units(self) -> list[Unit]:
        """The units, in the order of the section."""
        units = [read_unit(self._reader.units, number) for number in range(self.unit_count)]
        for unit in units:
            self._reader.names.set_base(unit.number, unit.string_base)
        return units

    def add(self, assembler: Assembler, unit: Unit) -> None:
        """Adds the functions of a unit, those of its split part included."""
        if not unit.has_code:
            return
        reader, number = self._reader, unit.number
        ranges = reader.walker.ranges
        self._set_bases(ranges, unit)
        name = string(reader.names, unit, unit.name)
        directory = string(reader.names, unit, unit.directory)
        if unit.is_skeleton:
            split = self._split(unit, directory)
            if split is not None:
                reader, part = split
                number, name = part.number, string(reader.names, part, part.name) or name
        problem = reader.walker.walk(number)
        section = reader.sections.name("info")
        self._report(Problem(message, section, offset) for offset, message in reader.walker.problems)
        if problem is not None:
            self._report([Problem(problem[1], section, problem[0])])
        scopes = reader.walker.columns()
        low, high = reader.walker.ranges.columns()
        rows, header = self._rows(unit, name, directory)
        file_map = np.zeros(0, np.uint32) if header is None else self._file_map(header, rows[2], scopes[2])
        assembler.add_unit(scopes, reader.names.number(scopes[0]), low, high, rows, file_map)

    def claims(self) -> tuple[U64, U64, npt.NDArray[np.int64], list[int]]:
        """Which unit says that it has which code.

        Returns:
            starts, ends (uint64) and units (int64), by start; and the units with code that do not say where.
        """
        lows, highs, owners, silent = [], [], [], []
        ranges = self._reader.walker.ranges
        for unit in self.units:
            if not unit.has_code:
                continue
            ranges.clear()
            said = self._read_claim(ranges, unit)
            low, high = ranges.columns()
            lows.append(low)
            highs.append(high)
            owners.append(np.full(len(low), unit.number, np.int64))
            if not said:
                silent.append(unit.number)
        if not lows:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64), silent
        low, high, owner = np.concatenate(lows), np.concatenate(highs), np.concatenate(owners)
        order = np.argsort(low, kind="stable")
        return low[order], high[order], owner[order], silent

    def _read_claim(self, ranges: RangeReader, unit: Unit) -> bool:
        """Reads the ranges of a unit; whether it has any."""
        self._set_bases(ranges, unit)
        try:
            if unit.ranges is not None:
                ranges.list_at(*unit.ranges, unit.version)
                return True
            if unit.low_pc is None or unit.high_pc is None:
                return False
            high = self._address(ranges, unit.high_pc)
            # A number of bytes, but for DWARF 2 and 3.
            is_address = unit.high_pc[0] == 1 or unit.high_pc[0] in ADDRESS_INDEX
            ranges.add_range(ranges.base, high if is_address else ranges.base + high)
        except Malformed as error:
            self._report([Problem(f"the unit's ranges cannot be read: {error}", ".debug_info", unit.start)])
            return False
        return True

    def _set_bases(self, ranges: RangeReader, unit: Unit) -> None:
        ranges.address_size = unit.address_size
        ranges.offset_size = unit.offset_size
        ranges.addr_base = unit.address_base
        ranges.rnglists_base = unit.range_list_base
        # GNU's DW_AT_GNU_ranges_base is for the split unit alone, not for the skeleton that says it.
        ranges.ranges_base = 0
        try:
            ranges.base = 0 if unit.low_pc is None else self._address(ranges, unit.low_pc)
        except Malformed as error:
            ranges.base = 0
            self._report([Problem(f"the unit's address cannot be read: {error}", ".debug_info", unit.start)])

    @staticmethod
    def _address(ranges: RangeReader, attribute: tuple[int, int]) -> int:
        return ranges.address_of(attribute[1]) if attribute[0] in ADDRESS_INDEX else attribute[1]

    def _read(self, sections: DwarfSections, main: _Reader | None) -> _Reader:
        """What reads a set of sections; with ``main``, those of split units of that one."""
        units = UnitTable(sections.info, sections.abbrev, sections.big)
        shared = sections if main is None else main.sections
        starts, ends = self._code
        # GNU's split units have their ranges in the program, those of DWARF 5 beside them.
        walker = ScopeWalker(
            units, RangeReader(shared.ranges, sections.range_lists, shared.addresses, sections.big, starts, ends)
        )
        together = None if main is None else main.names
        names = NameFinder(units, sections.strings, sections.line_strings, sections.string_offsets, together)
        other = self._supplement
        if main is None and other is not None:
            names.supplement = NameFinder(
                UnitTable(other.info, other.abbrev, other.big), other.strings, other.line_strings, other.string_offsets
            )
        return _Reader(sections, units, walker, names)

    def _split(self, unit: Unit, directory: str | None) -> tuple[_Reader, Unit] | None:
        """The split part of a unit, and what reads it."""
        sections = self._splits.find(unit.dwo_id, string(self._reader.names, unit, unit.split_name) or "", directory)
        if sections is None:
            return None
        reader = self._read(sections, self._reader)
        for number in range(reader.units.count):
            part = read_unit(reader.units, number)
            if part.dwo_id == unit.dwo_id:
                reader.names.set_base(number, part.string_base)
                ranges = reader.walker.ranges
                self._set_bases(ranges, unit)
                ranges.ranges_base, ranges.split = unit.ranges_base, True
                ranges.rnglists_base = part.range_list_base
                return reader, part
        return None

    def _rows(self, unit: Unit, name: str | None, directory: str | None) -> tuple[Rows, LineHeader | None]:
        """The rows of a unit's line program, and its files."""
        if unit.line is None:
            return _NO_ROWS, None
        if unit.line >= len(self._sections.line):
            self._report([Problem("the unit's lines are beyond the end of .debug_line", ".debug_info", unit.start)])
            return _NO_ROWS, None
        read = self._line_reader.read(unit.line, unit.address_size)
        self._report(read.problems)
        header = LineHeader(
            self._line_sections,
            unit.line,
            comp_dir=directory,
            name=name,
            str_offsets_base=unit.string_base,
            defined=read.defined,
        )
        return (read.address, read.line, read.file, read.discriminator), header

    def _file_map(self, header: LineHeader, in_rows: U32, in_calls: U32) -> U32:
        """For each number of a file of the unit its index in :attr:`files`; only for those that are used."""
        limit = header.file_numbers.stop
        used = np.zeros(limit, bool)
        for column in (in_rows, in_calls):
            used[column[column < limit]] = True
        result = np.full(limit, NO_FILE, np.uint32)
        for number in np.flatnonzero(used).tolist():
            path = header.file_path(number)
            if path is not None:
                result[number] = self._file_number(path)
        return result

    def _file_number(self, path: str) -> int:
        number = self._file_numbers.get(path)
        if number is None:
            number = self._file_numbers[path] = len(self.files)
            self.files.append(path)
        return number

    @cached_property
    def _line_reader(self) -> LineReader:
        starts, ends = self._code
        return LineReader(
            self._sections.line, self._sections.big, starts, ends, discriminators=self.discriminators, merge=True
        )

    @cached_property
    def _line_sections(self) -> LineSections:
        sections = self._sections
        return LineSections(
            sections.line,
            sections.line_strings,
            sections.strings,
            sections.string_offsets,
            b"" if self._supplement is None else self._supplement.strings,
            sections.big,
        )

    def _report(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems.append(problem)
