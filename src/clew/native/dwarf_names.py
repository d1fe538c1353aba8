"""Names of functions: through DW_AT_abstract_origin and DW_AT_specification, and from wherever strings stand.

The name that the linker knows (DW_AT_linkage_name) comes before the one in the source: it says the whole of it.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import WORD, Cursor
    from cython.cimports.clew.native.dwarf_abbrevs import AbbrevBook
    from cython.cimports.clew.native.dwarf_forms import FormCursor
    from cython.cimports.libc.stdint import uint32_t, uint64_t
else:
    from clew.native.cursor import WORD, Cursor
    from clew.native.dwarf_abbrevs import AbbrevBook
    from clew.native.dwarf_forms import FormCursor

    uint64_t = uint32_t = cython.longlong

from clew.native.columns import empty, full
from clew.native.cursor import Malformed

_ALT = cython.declare(uint64_t, 0x8000000000000000)
_NONE = cython.declare(uint64_t, 0xFFFFFFFFFFFFFFFF)
#: Entries that lead to a name, one to the next; real ones need four.
_MOST_HOPS = cython.declare(cython.int, 16)
#: What a name may take, in bytes.
_LONGEST = cython.declare(cython.size_t, 1 << 16)
_MOST_PROBLEMS = 1000


@cython.cclass
class NameFinder:
    """Finds the names that entries of a section bear, and numbers them.

    Args:
        units: the units of the section.
        strings, line_strings, offsets: ``.debug_str``, ``.debug_line_str``, ``.debug_str_offsets``.
        together: another finder, with which this one numbers names together.

    Attributes:
        supplement: of the supplementary file, if it is there.
        names: those that were numbered, in order.
        problems: (offset, message) of names that could not be read; whoever reports them clears it.
    """

    def __init__(self, units, strings, line_strings, offsets, together=None):
        self.units = units
        self.cursor = self.units.cursor()
        self.strings = strings
        self.line_strings = line_strings
        self.string_bytes = strings
        self.line_string_bytes = line_strings
        self.info_bytes = units.info
        self.offsets = Cursor(offsets, 0, None, units.big)
        self.supplement = None
        self.offsets_base = full(units.count + 1, 0, "u8")
        shared: NameFinder = self if together is None else together
        if together is None:
            self.names = []
            self.numbers = {}
        self.names = shared.names
        self.numbers = shared.numbers
        self.known = {}
        self.problems = []
        # Long names in many places of a small file would otherwise take memory without end, and long entries that many refer
        # to time. The strings of a package are those of all its units.
        self.together = together
        if together is None:
            self.budget = 64 * (len(strings) + len(line_strings) + len(units.info)) + (1 << 24)
        else:
            shared.budget += 64 * (len(offsets) + len(units.info))

    def set_base(self, unit, base):
        """Says where the offsets of a unit's strings begin (DW_AT_str_offsets_base)."""
        self.offsets_base[unit] = base

    def name_of(self, die):
        """The name that an entry bears, or None."""
        if die == _NONE:
            return None
        try:
            found = self.look(die, 0)
        except Malformed as error:
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems.append((die & ~_ALT, str(error)))
            return None
        return None if found is None else found[1]

    def string(self, unit, form, value):
        """The string that an attribute of a unit says, or None."""
        try:
            return self.text(unit, form, value)
        except Malformed:
            return None

    def number(self, dies):
        """Numbers (u4) of the names that entries (u8) bear: indices of :attr:`names`, all ones for those without."""
        count = len(dies)
        result = empty(count, "u4")
        out: uint32_t[:] = result
        source = dies if cython.compiled else memoryview(dies)
        given: cython.const[uint64_t][:] = source
        i: cython.size_t
        for i in range(count):
            out[i] = self.number_of(given[i])
        return np.asarray(result)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def number_of(self, die: uint64_t) -> uint32_t:
        """The number of the name that an entry bears."""
        known = self.known.get(die)
        if known is None:
            known = self.add(self.name_of(die))
            self.known[die] = known
        return known

    def add(self, name):
        """The number of a name."""
        if name is None:
            return WORD
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = len(self.names)
            self.names.append(name)
        return number

    @cython.cfunc
    def look(self, die: uint64_t, hops: cython.int):
        """(whether it is the linker's, name) of an entry, or None."""
        unit: cython.Py_ssize_t
        found: cython.Py_ssize_t
        spec: cython.size_t
        name: uint32_t
        value: uint64_t
        target: uint64_t = _NONE
        linkage_value: uint64_t = 0
        linkage_form: uint32_t = 0
        name_value: uint64_t = 0
        name_form: uint32_t = 0
        # One for all: an entry has been read when the next one is looked at.
        cursor: FormCursor = self.cursor
        abbrevs: AbbrevBook
        if hops > _MOST_HOPS:
            raise Malformed("entries that lead to each other in circles")
        if die >= _ALT:
            if self.supplement is None:
                return None
            return self.supplement.look(die - _ALT, hops + 1)
        unit = self.units.find(die)
        if unit < 0 or not self.units.version[unit]:
            raise Malformed("a reference to outside of all units")
        self.units.place(cursor, unit, die)
        abbrevs = self.units.abbrevs
        found = abbrevs.find(self.units.table(unit), cursor.uleb())
        if found < 0:
            raise Malformed("a reference to where no entry is")
        for spec in range(abbrevs.first[found], abbrevs.first[found + 1]):
            name = abbrevs.name[spec]
            if name == 0x6E or name == 0x2007:
                linkage_value = abbrevs.value(cursor, spec)
                linkage_form = cursor.form
            elif name == 0x03:
                name_value = abbrevs.value(cursor, spec)
                name_form = cursor.form
            elif name == 0x31 or name == 0x47:
                value = abbrevs.value(cursor, spec)
                if value >= _ALT:
                    continue
                if cursor.form == 0x10:
                    target = value
                elif cursor.form == 0x1F20 or cursor.form == 0x1C or cursor.form == 0x24:
                    target = value | _ALT
                elif 0x11 <= cursor.form <= 0x15 and value < self.units.end[unit] - self.units.start[unit]:
                    target = self.units.start[unit] + value
            else:
                cursor.pass_over(abbrevs.form[spec])
        self.spend(cursor.pos - die)
        if linkage_form:
            return True, self.text(unit, linkage_form, linkage_value)
        further = None
        if target != _NONE:
            try:
                further = self.look(target, hops + 1)
            except Malformed:
                # Its own name is better than none.
                if not name_form:
                    raise
        if name_form and (further is None or not further[0]):
            return False, self.text(unit, name_form, name_value)
        return further

    @cython.cfunc
    def text(self, unit: cython.size_t, form: uint64_t, value: uint64_t):
        """The string of an attribute, or None where the file that holds it is not there."""
        size: cython.int
        if form == 0x0E:  # strp
            return self.cut(self.strings, self.string_bytes, value)
        if form == 0x1F:  # line_strp
            return self.cut(self.line_strings, self.line_string_bytes, value)
        if form == 0x08:
            return self.cut(self.units.info, self.info_bytes, value)
        if form == 0x1D or form == 0x1F21:  # strp_sup, GNU_strp_alt
            if self.supplement is None:
                return None
            return self.supplement.text(0, 0x0E, value)
        if form == 0x1A or 0x25 <= form <= 0x28 or form == 0x1F02:  # strx, strx1 to strx4, GNU_str_index
            size = self.units.offset_size[unit]
            if value > self.offsets.end or self.offsets_base[unit] > self.offsets.end:
                raise Malformed("an index beyond the end of .debug_str_offsets")
            self.offsets.pos = self.offsets_base[unit] + value * size
            return self.cut(self.strings, self.string_bytes, self.offsets.fixed(size))
        raise Malformed("a name of a form that is no string")

    @cython.cfunc
    def cut(self, section: object, data: cython.const[cython.uchar][::1], at: uint64_t):
        """The string at an offset."""
        start: cython.size_t = at
        end: cython.size_t = at
        limit: cython.size_t = data.shape[0]
        if at >= limit:
            raise Malformed("a string beyond the end of its section")
        if limit - start > _LONGEST:
            limit = start + _LONGEST
        while end < limit and data[end]:
            end += 1
        self.spend(end - start)
        return bytes(section[start:end]).decode("utf-8", "backslashreplace")

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def spend(self, count: cython.size_t) -> cython.int:
        """Counts bytes that were read or kept."""
        payer: NameFinder = self if self.together is None else self.together
        payer.budget -= count
        if payer.budget < 0:
            raise Malformed("names are too many and too long")
        return 0
