"""Reads units: scopes, names, lines and files of each, put together by an :class:`Assembler`."""

import cython

if cython.compiled:
    from cython.cimports.clew.native.dwarf_assemble import Assembler
    from cython.cimports.clew.native.dwarf_names import NameFinder
    from cython.cimports.clew.native.dwarf_ranges import RangeReader
    from cython.cimports.clew.native.dwarf_scopes import ScopeWalker, is_index
    from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
else:
    from clew.native.dwarf_assemble import Assembler
    from clew.native.dwarf_names import NameFinder
    from clew.native.dwarf_ranges import RangeReader
    from clew.native.dwarf_scopes import ScopeWalker, is_index

    uint64_t = uint32_t = uint8_t = int64_t = cython.longlong

from clew.native.columns import empty, zeros
from clew.native.cursor import Malformed

# Places in UnitTable's roots, as in ROOT_ATTRIBUTES there.
_LOW_PC = cython.declare(cython.size_t, 0)
_HIGH_PC = cython.declare(cython.size_t, 1)
_RANGES = cython.declare(cython.size_t, 2)
_STMT_LIST = cython.declare(cython.size_t, 3)
_NAME = cython.declare(cython.size_t, 4)
_COMP_DIR = cython.declare(cython.size_t, 5)
_DWO_NAME = cython.declare(cython.size_t, 6)
_STR_OFFSETS_BASE = cython.declare(cython.size_t, 7)
_ADDR_BASE = cython.declare(cython.size_t, 8)
_RNGLISTS_BASE = cython.declare(cython.size_t, 9)
_TAG = cython.declare(cython.size_t, 13)
_WIDTH = cython.declare(cython.size_t, 14)
_MOST_PROBLEMS = 1000

#: Roots of units in which no function is: DW_TAG_partial_unit, which ``dwz`` makes, and DW_TAG_type_unit.
_PARTIAL, _TYPES = 0x3C, 0x41
_SKELETON = 0x4A


@cython.cclass
class UnitReader:
    """Reads the units of a section.

    Args:
        units, walker, names: of the section.
        lines, files: of the program's ``.debug_line``.
        claims: reads the ranges of units.

    Attributes:
        address_ranges: what ``.debug_aranges`` says: for each unit by its offset the (start, end) of its code. Only asked for
            units of DWARF 2.
        problems: (section, offset, message) of what was wrong; the first ones. Line programs' are clew.Problem objects.
    """

    def __init__(self, units, walker, names, lines, files, claims):
        self.units = units
        self.walker = walker
        self.names = names
        self.lines = lines
        self.files = files
        self.claims = claims
        self.address_ranges = {}
        self.problems = []
        self.kept = set()
        self.numbers = empty(64, "u4")
        # A hostile file can name one long line program, or one list of ranges, from each of its units. What was paid for once
        # may be read again.
        self.paid = zeros(units.count + 1, "u1")
        self.claimed = zeros(units.count + 1, "u1")
        self.line_budget = 4 * len(self.lines.data) + 65536
        unit: cython.size_t
        for unit in range(self.units.count):
            self.names.offsets_base[unit] = self.root(unit, _STR_OFFSETS_BASE, self.units.behind_header(unit))

    @cython.cfunc
    @cython.exceptval(check=False)
    def root(self, unit: cython.size_t, attribute: cython.size_t, default: uint64_t) -> uint64_t:
        """An attribute of a unit's root."""
        return self.units.root[_WIDTH * unit + attribute] if self.has(unit, attribute) else default

    @cython.cfunc
    @cython.exceptval(check=False)
    def has(self, unit: cython.size_t, attribute: cython.size_t) -> cython.bint:
        """Whether a unit's root has an attribute."""
        return self.units.root_form[_WIDTH * unit + attribute] != 0

    @cython.cfunc
    def text(self, names: NameFinder, unit: cython.size_t, attribute: cython.size_t) -> object:
        """An attribute of a unit's root that is a string, or None."""
        if not names.units.root_form[_WIDTH * unit + attribute]:
            return None
        return names.string(
            unit, names.units.root_form[_WIDTH * unit + attribute], names.units.root[_WIDTH * unit + attribute]
        )

    def string(self, unit, attribute):
        """:meth:`text` for Python callers."""
        return self.text(self.names, unit, attribute)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def address(self, unit: cython.size_t, attribute: cython.size_t) -> uint64_t:
        """An address in a unit's root; :attr:`claims` knows the unit's bases."""
        form: uint32_t = self.units.root_form[_WIDTH * unit + attribute]
        value: uint64_t = self.units.root[_WIDTH * unit + attribute]
        if is_index(form):
            return self.claims.address(value)
        return value

    def report(self, section, offset, message):
        """Keeps a problem."""
        self.keep((section, offset, message))

    def keep(self, problem):
        """Keeps a problem, once: units may be read more often."""
        if len(self.problems) < _MOST_PROBLEMS and problem not in self.kept:
            self.kept.add(problem)
            self.problems.append(problem)

    def has_code(self, unit):
        """Whether functions may be in a unit: it is neither one of types nor one that ``dwz`` took out of several."""
        if not self.units.version[unit]:
            return False
        tag = self.units.root[_WIDTH * unit + _TAG]
        return tag != _PARTIAL and tag != _TYPES

    def is_skeleton(self, unit):
        """Whether what a unit says stands in another file."""
        if not self.has(unit, _DWO_NAME):
            return False
        return self.units.root[_WIDTH * unit + _TAG] == _SKELETON or self.units.dwo_id[unit] != 0

    def set_bases(self, unit, ranges):
        """Tells a reader of ranges what it needs to know of a unit; the section's own reader, or that of a split unit."""
        reader: RangeReader = ranges
        reader.address_size = self.units.address_size[unit]
        reader.offset_size = self.units.offset_size[unit]
        reader.addr_base = self.root(unit, _ADDR_BASE, self.units.behind_header(unit))
        reader.rnglists_base = self.root(unit, _RNGLISTS_BASE, 0)
        # GNU's DW_AT_GNU_ranges_base is for the split unit alone, not for the skeleton that says it.
        reader.ranges_base = 0
        reader.base = 0
        if self.has(unit, _LOW_PC):
            try:
                own: RangeReader = self.claims
                own.address_size, own.addr_base = reader.address_size, reader.addr_base
                reader.base = self.address(unit, _LOW_PC)
            except Malformed as error:
                self.report(".debug_info", self.units.start[unit], f"the unit's address cannot be read: {error}")

    def read_claim(self, unit):
        """Reads into :attr:`claims` which code a unit says that it has; False where it says nothing."""
        ranges: RangeReader = self.claims
        high: uint64_t
        form: uint32_t
        ranges.count = 0
        self.set_bases(unit, ranges)
        budget: int64_t = ranges.budget
        try:
            if self.has(unit, _RANGES):
                ranges.read_list(
                    self.units.root_form[_WIDTH * unit + _RANGES], self.root(unit, _RANGES, 0), self.units.version[unit]
                )
                return True
            if not self.has(unit, _LOW_PC) or not self.has(unit, _HIGH_PC):
                return False
            form = self.units.root_form[_WIDTH * unit + _HIGH_PC]
            high = self.address(unit, _HIGH_PC)
            # A number of bytes, but for DWARF 2 and 3.
            if form != 1 and not is_index(form):
                high += ranges.base
            ranges.add(ranges.base, high)
            if self.units.version[unit] == 2:
                # It had no DW_AT_ranges: clang's assembler tells of one section, and of all in .debug_aranges.
                for low, end in self.address_ranges.get(self.units.start[unit], ()):
                    if not ranges.base <= low < high:
                        ranges.add(low, end)
        except Malformed as error:
            self.report(".debug_info", self.units.start[unit], f"the unit's ranges cannot be read: {error}")
            ranges.count = 0
            return False
        finally:
            if self.claimed[unit]:
                ranges.budget = budget
            self.claimed[unit] = 1
        return True

    def read(self, unit, assembler):
        """Adds the functions of a unit. Its split part, if it has one, is not looked at."""
        if self.has_code(unit):
            self.set_bases(unit, self.walker.ranges)
            self.put_together(unit, self.walker, self.names, unit, assembler)

    def read_units(self, first, end, assembler, progress):
        """Adds the functions of some units, but for those that are split; the numbers of these.

        Args:
            first, end: the units, the end not included.
            progress: is called now and then with how many units are done.
        """
        split = []
        unit: cython.size_t
        for unit in range(first, end):
            if unit & 63 == 63:
                progress(unit - first)
            if not self.has_code(unit):
                continue
            if self.is_skeleton(unit):
                split.append(unit)
                continue
            self.set_bases(unit, self.walker.ranges)
            self.put_together(unit, self.walker, self.names, unit, assembler)
        return split

    @cython.ccall
    def put_together(
        self,
        unit: cython.size_t,
        walker: ScopeWalker,
        names: NameFinder,
        part: cython.size_t,
        assembler: Assembler,
        section: object = ".debug_info",
    ):
        """Adds the functions that one unit's entries tell of, with the lines of another, which mostly is the same.

        Args:
            unit: has the lines, and the claims.
            walker, names, part: of the unit with the entries; the walker's ranges know its bases.
            assembler: takes the functions.
            section: what the section of the entries is called.
        """
        i: cython.size_t
        rows: cython.size_t = 0
        offset: uint64_t
        budget: int64_t = walker.ranges.budget
        problem = walker.walk(part)
        if self.paid[unit]:
            walker.ranges.budget = budget
        for each in walker.problems:
            self.report(section, each[0], each[1])
        if problem is not None:
            self.report(section, problem[0], problem[1])
        if walker.count > cython.cast(cython.size_t, self.numbers.shape[0]):
            self.numbers = empty(2 * walker.count, "u4")
        for i in range(walker.count):
            self.numbers[i] = names.number_of(walker.name_die[i])
        for each in names.problems:
            self.report(section, each[0], f"a name cannot be read: {each[1]}")
        names.problems.clear()
        self.files.limit = 0
        if not self.has(unit, _STMT_LIST):
            self.paid[unit] = 1
        else:
            offset = self.root(unit, _STMT_LIST, 0)
            problems: list = []
            if self.line_budget < 0 and not self.paid[unit]:
                self.report(".debug_info", self.units.start[unit], "units name line programs over and over")
                offset = len(self.lines.data)
                self.lines.defined = []
            else:
                rows = self.lines.read_rows(offset, self.units.address_size[unit], problems)
                for each in problems:
                    self.keep(each)
                if not self.paid[unit] and offset < self.lines.unit_end:
                    self.line_budget -= self.lines.unit_end - offset
                self.paid[unit] = 1
            name = self.text(names, part, _NAME)
            if name is None:
                name = self.text(self.names, unit, _NAME)
            self.files.begin(
                offset,
                self.text(self.names, unit, _COMP_DIR),
                name,
                self.root(unit, _STR_OFFSETS_BASE, self.names.offsets_base[unit]),
                tuple(self.lines.defined),
            )
            for i in range(rows):
                self.files.use(self.lines.out_file[i])
            for i in range(walker.count):
                self.files.use(walker.call_file[i])
            if self.files.budget < 0:
                self.report(".debug_info", self.units.start[unit], "paths of files are too many and too long")
        # Lines of what the unit does not claim are those of padding.
        claims: RangeReader = self.claims if self.read_claim(unit) else None
        assembler.add_unit(walker, self.numbers, self.lines, rows, self.files, claims)
        if assembler.exceeded:
            message = "pieces of functions, inlined calls and lines are far too many together; some are left out"
            self.report(".debug_info", self.units.start[unit], message)
