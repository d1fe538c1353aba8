"""The units of ``.debug_info``: their headers (DWARF 5, 7.5.1) and what their root entries say.

Headers and roots are read for all units at once, which takes about a microsecond a unit; what is inside a unit is
read by others, when it is asked for.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import WORD
    from cython.cimports.clew.native.dwarf_abbrevs import AbbrevBook
    from cython.cimports.clew.native.dwarf_forms import FormCursor
    from cython.cimports.libc.stdint import uint32_t, uint64_t
else:
    from clew.native.cursor import WORD
    from clew.native.dwarf_abbrevs import AbbrevBook
    from clew.native.dwarf_forms import FormCursor

    uint64_t = uint32_t = cython.longlong

from clew.native.columns import enlarged, full, zeros
from clew.native.cursor import Malformed

#: An attribute that the root does not have.
NONE = 0xFFFFFFFFFFFFFFFF
_NONE = cython.declare(uint64_t, 0xFFFFFFFFFFFFFFFF)
#: Attributes of roots that are kept, side by side, in this order.
ROOT_ATTRIBUTES = (
    "low_pc",
    "high_pc",
    "ranges",
    "stmt_list",
    "name",
    "comp_dir",
    "dwo_name",
    "str_offsets_base",
    "addr_base",
    "rnglists_base",
    "ranges_base",
    "dwo_id",
    "language",
    "tag",
)
_WIDTH = cython.declare(cython.size_t, 14)
_MOST_PROBLEMS = 1000
_PLACES = {
    0x11: 0,
    0x12: 1,
    0x55: 2,
    0x10: 3,
    0x03: 4,
    0x1B: 5,
    0x76: 6,
    0x2130: 6,
    0x72: 7,
    0x73: 8,
    0x2133: 8,
    0x74: 9,
    0x2132: 10,
    0x2131: 11,
    0x13: 12,
}


@cython.cclass
class UnitTable:
    """The units of a section.

    Args:
        info, abbrev: ``.debug_info`` and ``.debug_abbrev``, or those of a ``.dwo`` file.
        big: whether numbers are big-endian.

    Attributes:
        count: how many.
        problems: what was wrong, as (offset in ``.debug_info``, message).
    """

    def __init__(self, info, abbrev, big):
        self.info = info
        self.abbrevs = AbbrevBook(abbrev)
        self.big = big
        self.problems = []
        self.count = 0
        self.recent = 0
        self.start = zeros(16, "u8")
        self.die = zeros(16, "u8")
        self.end = zeros(16, "u8")
        self.abbrev_offset = zeros(16, "u8")
        self.dwo_id = zeros(16, "u8")
        self.version = zeros(16, "u1")
        self.offset_size = zeros(16, "u1")
        self.address_size = zeros(16, "u1")
        self.kind = zeros(16, "u1")
        self.read(FormCursor(info, 0, None, big))
        self.root = full(14 * (self.count + 1), NONE, "u8")
        self.tables = zeros(self.count + 1, "u4")
        self.root_form = zeros(14 * (self.count + 1), "u4")
        unit: cython.size_t
        cursor: FormCursor = FormCursor(info, 0, None, big)
        for unit in range(self.count):
            try:
                self.read_root(unit, cursor)
            except Malformed as error:
                self.report(self.start[unit], str(error))
                self.end[unit] = self.die[unit]
                self.version[unit] = 0

    @cython.cfunc
    def read(self, cursor: FormCursor):
        """Reads the headers. After a length that makes no sense nothing tells where the next one is."""
        at: cython.size_t = 0
        length: uint64_t
        offset_size: cython.int
        version: uint64_t
        kind: uint64_t
        limit: cython.size_t = cursor.end
        n: cython.size_t
        # Where the next unit is, as far as this one tells.
        after: cython.size_t = 0
        while after < limit:
            try:
                at = cursor.pos = after
                after = cursor.end = limit
                length = cursor.fixed(4)
                offset_size = 4
                if length == WORD:
                    length = cursor.fixed(8)
                    offset_size = 8
                elif length >= WORD - 15:
                    raise Malformed("a length that is reserved")
                if length > limit - cursor.pos:
                    self.report(at, "the unit goes on beyond the end of the section")
                    length = limit - cursor.pos
                after = cursor.pos + length
                if length == 0:
                    # Padding between units that some linkers leave.
                    continue
                n = self.count
                if n + 1 >= cython.cast(cython.size_t, self.start.shape[0]):
                    self.grow()
                self.start[n] = at
                self.end[n] = cursor.end = after
                self.offset_size[n] = offset_size
                version = cursor.fixed(2)
                kind = 1
                if version < 2 or version > 5:
                    self.report(at, f"version {version} of DWARF is not known")
                elif version >= 5:
                    kind = cursor.fixed(1)
                    self.address_size[n] = cursor.fixed(1)
                    self.abbrev_offset[n] = cursor.fixed(offset_size)
                    if kind == 4 or kind == 5:  # skeleton, split_compile
                        self.dwo_id[n] = cursor.fixed(8)
                    elif kind == 2 or kind == 6:  # type, split_type
                        cursor.skip(8 + offset_size)
                else:
                    self.abbrev_offset[n] = cursor.fixed(offset_size)
                    self.address_size[n] = cursor.fixed(1)
                self.kind[n] = min(kind, 255)
                self.version[n] = version if 2 <= version <= 5 else 0
                self.die[n] = cursor.pos
                if self.version[n] and self.address_size[n] not in (2, 4, 8):
                    self.report(at, f"addresses of {self.address_size[n]} bytes")
                    self.version[n] = 0
                self.count += 1
            except Malformed as error:
                end = "no unit can be read from here on" if after == limit else "the unit's header cannot be read"
                self.report(at, f"{end}: {error}")

    def report(self, offset, message):
        """Keeps a problem."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append((offset, message))

    def grow(self):
        """Makes room for more units."""
        room = 2 * len(self.start)
        self.start = enlarged(self.start, room)
        self.die = enlarged(self.die, room)
        self.end = enlarged(self.end, room)
        self.abbrev_offset = enlarged(self.abbrev_offset, room)
        self.dwo_id = enlarged(self.dwo_id, room, 0)
        self.version = enlarged(self.version, room)
        self.offset_size = enlarged(self.offset_size, room)
        self.address_size = enlarged(self.address_size, room, 0)
        self.kind = enlarged(self.kind, room)

    @cython.cfunc
    def read_root(self, unit: cython.size_t, cursor: FormCursor):
        """Reads the root entry of a unit."""
        abbrevs: AbbrevBook = self.abbrevs
        found: cython.Py_ssize_t
        spec: cython.size_t
        value: uint64_t
        place: cython.size_t
        if not self.version[unit]:
            self.end[unit] = self.die[unit]
            return
        cursor.pos = self.die[unit]
        cursor.end = self.end[unit]
        cursor.address_size = self.address_size[unit]
        cursor.offset_size = self.offset_size[unit]
        cursor.version = self.version[unit]
        found = abbrevs.find(self.table(unit), cursor.uleb())
        if found < 0:
            raise Malformed("its root entry has no abbreviation")
        for spec in range(abbrevs.first[found], abbrevs.first[found + 1]):
            value = abbrevs.value(cursor, spec)
            number = _PLACES.get(abbrevs.name[spec])
            if number is not None:
                place = cython.cast(cython.size_t, number) + _WIDTH * unit
                self.root[place] = value
                self.root_form[place] = cursor.form
        place = _WIDTH * unit + 13
        self.root[place] = abbrevs.tag[found]
        place = _WIDTH * unit + 11
        if self.version[unit] < 5 and self.root[place] != _NONE:
            self.dwo_id[unit] = self.root[place]

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def find(self, offset: uint64_t) -> cython.Py_ssize_t:
        """The unit around an offset of the section, or -1."""
        low: cython.size_t = 0
        high: cython.size_t = self.count
        middle: cython.size_t
        if self.recent < self.count and self.start[self.recent] <= offset < self.end[self.recent]:
            return self.recent
        while low < high:
            middle = (low + high) // 2
            if self.start[middle] <= offset:
                low = middle + 1
            else:
                high = middle
        if low == 0 or offset >= self.end[low - 1]:
            return -1
        self.recent = low - 1
        return cython.cast(cython.Py_ssize_t, low) - 1

    def unit_at(self, offset):
        """:meth:`find` for Python callers."""
        return self.find(offset)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def table(self, unit: cython.size_t) -> uint32_t:
        """The number of a unit's table of abbreviations. Raises Malformed."""
        if not self.tables[unit]:
            self.tables[unit] = 1 + self.abbrevs.table(
                self.abbrev_offset[unit], self.address_size[unit], self.offset_size[unit], self.version[unit]
            )
        return self.tables[unit] - 1

    @cython.ccall
    @cython.exceptval(check=False)
    def behind_header(self, unit: cython.size_t) -> uint64_t:
        """Where a unit's part of ``.debug_str_offsets`` or ``.debug_addr`` begins, unless its root says otherwise: behind the
        header that these have since DWARF 5 (7.26, 7.27)."""
        if self.version[unit] < 5:
            return 0
        return 16 if self.offset_size[unit] == 8 else 8

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def place(self, cursor: FormCursor, unit: cython.size_t, offset: uint64_t) -> cython.int:
        """Puts a cursor over the section at an offset in a unit, up to the unit's end."""
        cursor.pos = offset
        cursor.end = self.end[unit]
        cursor.address_size = self.address_size[unit]
        cursor.offset_size = self.offset_size[unit]
        cursor.version = self.version[unit]
        return 0

    @cython.cfunc
    def cursor(self) -> FormCursor:
        """A cursor over the section, for :meth:`place`."""
        return FormCursor(self.info, 0, None, self.big)

    def header(self, unit):
        """A unit's header: (start, end, version, offset_size, address_size, unit type, dwo id)."""
        return (
            self.start[unit],
            self.end[unit],
            self.version[unit],
            self.offset_size[unit],
            self.address_size[unit],
            self.kind[unit],
            self.dwo_id[unit],
        )

    def root_of(self, unit):
        """What a unit's root says: for each of :data:`ROOT_ATTRIBUTES` its form and value, or None where it has none."""
        first = 14 * unit
        values = [(self.root_form[first + i], self.root[first + i]) for i in range(14)]
        return [value if value[0] or value[1] != NONE else None for value in values]

    def columns(self):
        """Starts and ends of the units (u8)."""
        return np.array(self.start[: self.count], "u8"), np.array(self.end[: self.count], "u8")
