"""Units as whoever reads them needs them: the header, and what the root entry says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.native.dwarf_units import ROOT_ATTRIBUTES

if TYPE_CHECKING:
    from clew.native.dwarf_names import NameFinder
    from clew.native.dwarf_units import UnitTable

#: Forms that are an index of ``.debug_addr``.
ADDRESS_INDEX = frozenset((0x1B, 0x1F01, 0x29, 0x2A, 0x2B, 0x2C))
_PARTIAL_TAG = 0x3C
_TYPE_TAG = 0x41
_SKELETON_TAG = 0x4A


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of ``.debug_info``.

    Attributes:
        number: its place in the section.
        start: its offset in the section.
        version: of DWARF; 0 for a unit that cannot be read.
        offset_size, address_size: in bytes.
        dwo_id: what a skeleton and its split unit have in common; 0 for none.
        low_pc, high_pc, ranges: (form, value) of the attributes, or None.
        line: offset of its line program in ``.debug_line``, or None.
        name, directory, split_name: (form, value) of DW_AT_name, DW_AT_comp_dir, DW_AT_dwo_name, or None.
        string_base, address_base, range_list_base, ranges_base: where its parts of other sections begin; 0 by default.
        tag: of the root.
    """

    number: int
    start: int
    version: int
    offset_size: int
    address_size: int
    dwo_id: int
    low_pc: tuple[int, int] | None
    high_pc: tuple[int, int] | None
    ranges: tuple[int, int] | None
    line: int | None
    name: tuple[int, int] | None
    directory: tuple[int, int] | None
    split_name: tuple[int, int] | None
    string_base: int
    address_base: int
    range_list_base: int
    ranges_base: int
    tag: int

    @property
    def has_code(self) -> bool:
        """Whether functions may be in it: neither types, nor what ``dwz`` took out of several units."""
        return bool(self.version) and self.tag not in (_PARTIAL_TAG, _TYPE_TAG)

    @property
    def is_skeleton(self) -> bool:
        """Whether what it says stands in another file."""
        return self.split_name is not None and (self.tag == _SKELETON_TAG or self.dwo_id != 0)


def read_unit(table: UnitTable, number: int) -> Unit:
    """A unit by its place in the section."""
    start, _, version, offset_size, address_size, _, dwo_id = table.header(number)
    root = dict(zip(ROOT_ATTRIBUTES, table.root_of(number), strict=True))

    def value(name: str, default: int) -> int:
        found = root[name]
        return default if found is None else found[1]

    line = root["stmt_list"]
    # Before DWARF 5 offsets of strings had no header; behind one is where a split unit's begin.
    base = (16 if offset_size == 8 else 8) if version >= 5 else 0
    return Unit(
        number,
        start,
        version,
        offset_size,
        address_size,
        dwo_id,
        root["low_pc"],
        root["high_pc"],
        root["ranges"],
        None if line is None else line[1],
        root["name"],
        root["comp_dir"],
        root["dwo_name"],
        value("str_offsets_base", base),
        value("addr_base", base if version >= 5 else 0),
        value("rnglists_base", 0),
        value("ranges_base", 0),
        value("tag", 0),
    )


def string(names: NameFinder, unit: Unit, attribute: tuple[int, int] | None) -> str | None:
    """The text of an attribute of a unit."""
    return None if attribute is None else names.string(unit.number, *attribute)
