"""Functions and the calls inlined into them: the entries of a unit that have code (DWARF 5, 3.3).

The walk goes through all entries of a unit once and keeps those of functions and of inlined calls that have addresses.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import WORD
    from cython.cimports.clew.native.dwarf_abbrevs import AbbrevBook
    from cython.cimports.clew.native.dwarf_forms import FormCursor
    from cython.cimports.libc.stdint import int32_t, uint8_t, uint16_t, uint32_t, uint64_t
else:
    from clew.native.cursor import WORD
    from clew.native.dwarf_abbrevs import AbbrevBook
    from clew.native.dwarf_forms import FormCursor

    uint64_t = uint32_t = uint16_t = int32_t = uint8_t = cython.longlong

from clew.native.columns import empty, enlarged
from clew.native.cursor import Malformed, Truncated

#: Marks an entry of the supplementary file (``.gnu_debugaltlink``) among offsets.
ALT = 1 << 63
_ALT = cython.declare(uint64_t, 0x8000000000000000)
#: What an attribute refers to that refers to nothing.
NOWHERE = 0xFFFFFFFFFFFFFFFF
_NONE = cython.declare(uint64_t, 0xFFFFFFFFFFFFFFFF)
#: The file of a call that says none: more than any number of a file.
_NO_FILE = cython.declare(uint64_t, 0xFFFFFFFFFFFFFFFF)
#: Calls inlined into each other at most; compilers stop at some dozens.
_DEEPEST = cython.declare(int32_t, 4096)
#: Functions inside functions.
_DEEPEST_NEST = cython.declare(uint16_t, 64)
_FUNCTION = cython.declare(uint8_t, 1)
_INLINED = cython.declare(uint8_t, 2)
_TYPE = cython.declare(uint8_t, 3)


@cython.cclass
class ScopeWalker:
    """Walks units.

    Args:
        units: the units of the section.
        ranges: reads ranges, and keeps those of the scopes.

    Attributes:
        count: scopes so far.
        problems: of entries, as (offset, message); the first ones of a walk.
    """

    def __init__(self, units, ranges):
        self.units = units
        self.cursor = self.units.cursor()
        self.ranges = ranges
        self.count = 0
        self.problems = []
        self.name_die = empty(256, "u8")
        self.level = empty(256, "u2")
        self.call_file = empty(256, "u4")
        self.call_line = empty(256, "u4")
        self.first_range = empty(257, "u4")
        self.first_range[0] = 0
        self.context = empty(64, "i4")
        self.around = empty(64, "u2")
        self.nest = empty(256, "u2")
        self.unit_start = 0
        self.has_low = self.has_high = self.high_is_size = self.has_ranges = False

    def walk(self, unit):
        """Reads the scopes of a unit, in place of those of the one before.

        :attr:`ranges` must know the unit's bases.

        Returns:
            None, or (offset, message) where the unit makes no sense from an offset on; what was before that is kept.
        """
        self.count = 0
        self.problems = []
        self.ranges.count = 0
        cursor: FormCursor = self.cursor
        self.units.place(cursor, unit, self.units.die[unit])
        self.unit_start = self.units.start[unit]
        try:
            self.walk_tree(cursor, self.units.table(unit))
        except Malformed as error:
            return cursor.pos, str(error)
        return None

    def report(self, offset, message):
        """Keeps a problem of an entry."""
        if len(self.problems) < 64:
            self.problems.append((offset, message))

    def columns(self):
        """The scopes: entries that bear the names (u8), levels (u2; 0 for a function), files and lines of the calls (u4), the
        first range of each and the end of the last (u4), and how many functions are around that of the scope (u2): GNU C's
        nested functions, methods of local classes. They are the walker's own until it walks again."""
        n = self.count
        return (
            np.asarray(self.name_die)[:n],
            np.asarray(self.level)[:n],
            np.asarray(self.call_file)[:n],
            np.asarray(self.call_line)[:n],
            np.asarray(self.first_range)[: n + 1],
            np.asarray(self.nest)[:n],
        )

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def walk_tree(self, cursor: FormCursor, table: uint32_t) -> cython.int:
        """Goes through all entries."""
        abbrevs: AbbrevBook = self.units.abbrevs
        depth: cython.size_t = 0
        code: uint64_t
        entry: uint64_t
        found: cython.Py_ssize_t
        role: uint8_t
        level: int32_t
        # What the entries at each depth are inside of: the level of the next inlined call; -1 outside of functions, -2 in one
        # without code.
        self.context[0] = -1
        # How many functions each depth is inside of.
        self.around[0] = 0
        while cursor.pos < cursor.end:
            entry = cursor.pos
            code = cursor.uleb()
            if code == 0:
                if depth <= 1:
                    break
                depth -= 1
                continue
            found = abbrevs.find(table, code)
            if found < 0:
                raise Malformed("an entry without abbreviation")
            role = abbrevs.role[found]
            level = self.context[depth]
            if role == _FUNCTION:
                self.nest[self.count] = self.around[depth]
                level = self.read_scope(cursor, abbrevs, found, entry, 0)
                if level < 0:
                    level = -2
            elif role == _INLINED and level >= 0:
                # Its function is the innermost one around it.
                self.nest[self.count] = self.around[depth] - 1
                level = self.read_scope(cursor, abbrevs, found, entry, level)
            elif role == _TYPE and level == -1 and abbrevs.sibling[found]:
                # Compilers that link siblings put no code into types outside of functions. Inside they do: the methods of a
                # class that is local to a function may have code where that function, inlined everywhere, has none.
                self.pass_over(cursor, abbrevs, found, True)
                continue
            else:
                self.pass_over(cursor, abbrevs, found, False)
            if abbrevs.children[found]:
                depth += 1
                if depth >= cython.cast(cython.size_t, self.context.shape[0]):
                    self.context = enlarged(self.context, 2 * depth)
                    self.around = enlarged(self.around, 2 * depth)
                self.context[depth] = level
                self.around[depth] = self.around[depth - 1] + (1 if role == _FUNCTION and level >= 0 else 0)
                if self.around[depth] > _DEEPEST_NEST:
                    raise Malformed("functions nested too deeply")
            elif depth == 0:
                break
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def pass_over(self, cursor: FormCursor, abbrevs: AbbrevBook, found: cython.size_t, leap: cython.bint) -> cython.int:
        """Moves on behind an entry; with ``leap``, behind its children too."""
        at: cython.size_t = abbrevs.first_step[found]
        end: cython.size_t = abbrevs.first_step[found + 1]
        pos: cython.size_t = cursor.pos
        limit: cython.size_t = cursor.end
        step: int32_t
        target: uint64_t
        size: int32_t
        while at < end:
            step = abbrevs.step[at]
            at += 1
            if step >= 0:
                if cython.cast(cython.size_t, step) > limit - pos:
                    raise Truncated("the unit ends inside an entry")
                pos += step
            elif step == -1:
                while True:
                    if pos >= limit:
                        raise Truncated("the unit ends inside a LEB128 number")
                    pos += 1
                    if cursor.data[pos - 1] < 0x80:
                        break
            elif step == -2:
                while True:
                    if pos >= limit:
                        raise Truncated("the unit ends inside a string")
                    pos += 1
                    if cursor.data[pos - 1] == 0:
                        break
            elif step == -8:
                if leap:
                    # The size of the reference comes first in the next step, whatever was joined to it.
                    cursor.pos = pos
                    size = self.sibling_size(abbrevs, found)
                    target = self.unit_start + cursor.fixed(size)
                    if target <= pos or target > limit:
                        raise Malformed("DW_AT_sibling leads backwards or out of the unit")
                    cursor.pos = target
                    return 0
            else:
                cursor.pos = pos
                # Which of the variable forms it is, any of that kind says as well.
                cursor.pass_over(
                    0x0A if step == -3 else 0x03 if step == -4 else 0x04 if step == -5 else 0x09 if step == -6 else 0x16
                )
                pos = cursor.pos
        cursor.pos = pos
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def sibling_size(self, abbrevs: AbbrevBook, found: cython.size_t) -> cython.int:
        """Bytes of the reference to the sibling."""
        spec: cython.size_t
        form: uint32_t
        for spec in range(abbrevs.first[found], abbrevs.first[found + 1]):
            form = abbrevs.form[spec]
            if abbrevs.name[spec] == 1 and 0x11 <= form <= 0x14:
                return 1 if form == 0x11 else 2 if form == 0x12 else 4 if form == 0x13 else 8
        raise Malformed("an entry without sibling")

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def read_scope(
        self, cursor: FormCursor, abbrevs: AbbrevBook, found: cython.size_t, entry: uint64_t, level: int32_t
    ) -> int32_t:
        """Reads a function or an inlined call; the level of calls inside it, or -1 for one without code."""
        spec: cython.size_t
        name: uint32_t
        form: uint32_t
        value: uint64_t
        low: uint64_t = 0
        high: uint64_t = 0
        origin: uint64_t = 0
        # Forms, 0 for what the entry does not have.
        low_form: uint32_t = 0
        high_form: uint32_t = 0
        list_form: uint32_t = 0
        origin_form: uint32_t = 0
        list_at: uint64_t = 0
        call_file: uint64_t = _NO_FILE
        call_line: uint64_t = 0
        is_named: cython.bint = False
        n: cython.size_t = self.count
        for spec in range(abbrevs.first[found], abbrevs.first[found + 1]):
            name = abbrevs.name[spec]
            if name == 0x11 or name == 0x12 or name == 0x55:
                value = abbrevs.value(cursor, spec)
                form = cursor.form
                if name == 0x11:
                    low, low_form = value, form
                elif name == 0x12:
                    high, high_form = value, form
                else:
                    list_at, list_form = value, form
            elif name == 0x31 or name == 0x47:
                # Of abstract_origin and specification an entry has one.
                origin = abbrevs.value(cursor, spec)
                origin_form = cursor.form
            elif name == 0x03 or name == 0x6E or name == 0x2007:
                cursor.pass_over(abbrevs.form[spec])
                is_named = True
            elif name == 0x58:
                call_file = abbrevs.value(cursor, spec)
            elif name == 0x59:
                call_line = abbrevs.value(cursor, spec)
            else:
                cursor.pass_over(abbrevs.form[spec])
        if not list_form and low_form == 0x01 and high_form and not is_index(high_form):
            # The end in DWARF 2 and 3, later also a number of bytes.
            self.ranges.add(low, high if high_form == 0x01 else (low + high) & _NONE)
        elif list_form or (low_form and high_form):
            try:
                if list_form:
                    self.ranges.read_list(list_form, list_at, cursor.version)
                else:
                    low = self.address(low_form, low)
                    high = self.address(high_form, high)
                    is_end: cython.bint = high_form == 0x01 or is_index(high_form)
                    self.ranges.add(low, high if is_end else (low + high) & _NONE)
            except Malformed as error:
                self.ranges.count = self.first_range[n]
                self.report(entry, f"its ranges cannot be read: {error}")
        if self.ranges.count == self.first_range[n]:
            # Nothing, or nothing that was linked. Calls inside an inlined call without code are as if it were not there.
            return level if level > 0 else -1
        if n + 1 >= cython.cast(cython.size_t, self.name_die.shape[0]):
            self.grow()
        if origin_form and not is_named:
            origin = self.reference(origin_form, origin, cursor.end)
            if origin == _NONE:
                self.report(entry, "it refers to nothing that could have its name")
        else:
            origin = entry
        self.name_die[n] = origin
        self.level[n] = level
        # 0 says that no file is known (DWARF 4, 2.14); since version 5 it is the first of all.
        self.call_file[n] = WORD if call_file > WORD or (not call_file and cursor.version < 5) else call_file
        self.call_line[n] = 0 if call_line > WORD else call_line
        self.first_range[n + 1] = self.ranges.count
        self.count = n + 1
        if level >= _DEEPEST:
            raise Malformed("inlined calls nested too deeply")
        return level + 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        """Makes room for more scopes."""
        room: cython.size_t = 2 * self.name_die.shape[0]
        self.name_die = enlarged(self.name_die, room)
        self.level = enlarged(self.level, room)
        self.call_file = enlarged(self.call_file, room)
        self.call_line = enlarged(self.call_line, room)
        self.first_range = enlarged(self.first_range, room + 1)
        self.nest = enlarged(self.nest, room)
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def reference(self, form: uint64_t, value: uint64_t, end: uint64_t) -> uint64_t:
        """Where an attribute refers to: an offset of the section, with :data:`ALT` one of the supplementary file's.

        What refers to nothing, or out of its unit, which ends at ``end``, is :data:`NOWHERE`: a name that nobody knows.
        """
        if value < _ALT:
            if form == 0x10:  # ref_addr
                return value
            if form == 0x1F20 or form == 0x1C or form == 0x24:  # GNU_ref_alt, ref_sup4, ref_sup8
                return value | _ALT
            if 0x11 <= form <= 0x15 and value < end - self.unit_start:  # ref1, ref2, ref4, ref8, ref_udata
                return self.unit_start + value
        return _NONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def address(self, form: uint32_t, value: uint64_t) -> uint64_t:
        """The address that an attribute says."""
        return self.ranges.address(value) if is_index(form) else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_index(form: uint32_t) -> cython.bint:
    """Whether an address of this form is an index of ``.debug_addr``: addrx, GNU_addr_index, addrx1 to addrx4."""
    return form == 0x1B or form == 0x1F01 or 0x29 <= form <= 0x2C
