"""Abbreviations: the shapes of the entries of a unit (DWARF 5, 7.5.3), made ready for passing over entries quickly.

An entry that nobody wants to know more of is passed over by *steps*: neighbouring attributes of fixed size are one step.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import Cursor
    from cython.cimports.clew.native.dwarf_forms import FormCursor, form_size
    from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
else:
    from clew.native.cursor import Cursor
    from clew.native.dwarf_forms import FormCursor, form_size

    uint64_t = uint32_t = int64_t = int32_t = cython.longlong

from clew.native.columns import empty, enlarged
from clew.native.cursor import Malformed

#: What a tag is to whoever looks for code.
PLAIN, FUNCTION, INLINED, TYPE, UNIT = range(5)
_ROLES = {
    0x2E: FUNCTION,
    0x1D: INLINED,
    0x11: UNIT,
    0x3C: UNIT,
    0x41: UNIT,
    0x4A: UNIT,
    # Types, which may hold declarations of functions: class, enumeration, structure, union, subroutine, array, interface.
    0x02: TYPE,
    0x04: TYPE,
    0x13: TYPE,
    0x17: TYPE,
    0x15: TYPE,
    0x01: TYPE,
    0x38: TYPE,
}
#: Attributes of an abbreviation at most. An entry has each once, and standards and vendors have named fewer; one whose
#: attributes take no room could otherwise have millions in each entry of a byte.
_MOST = cython.declare(cython.size_t, 512)
#: A step that is no size: the value of DW_AT_sibling comes next. The forms of variable size are those of dwarf_forms.
SIBLING = -8
_AT_SIBLING = 0x01


@cython.cclass
class AbbrevBook:
    """The abbreviations of all units that were asked for, one table behind the other.

    Args:
        data: ``.debug_abbrev``.
    """

    def __init__(self, data):
        self.data = data
        self.count = self.specs = self.steps = self.tables = 0
        # An attribute takes two bytes or more, an abbreviation five. What is not filled takes no memory.
        most = len(data) // 5 + 64
        self.tag = empty(most, "u2")
        self.children = empty(most, "u1")
        self.role = empty(most, "u1")
        self.sibling = empty(most, "u1")
        self.first = empty(most + 1, "u4")
        self.first_step = empty(most + 1, "u4")
        self.first[0] = self.first_step[0] = 0
        most = len(data) // 2 + 64
        self.name = empty(most, "u2")
        self.form = empty(most, "u2")
        self.step = empty(most, "i4")
        self.constants = {}
        self.base = empty(16, "u4")
        self.size = empty(16, "u4")
        self.is_dense = empty(16, "u1")
        self.sparse = []
        self.known = {}
        # A hostile file can have its units' tables begin at each byte of a long one. Each is read once, and once more for
        # units of another size of addresses or offsets.
        self.budget = 4 * len(data) + 65536

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def table(
        self, offset: uint64_t, address_size: cython.int, offset_size: cython.int, version: cython.int
    ) -> uint32_t:
        """The number of the table at an offset, as a unit with these sizes reads it.

        Raises:
            Malformed: it makes no sense.
        """
        key = (offset, address_size, offset_size, version <= 2)
        found = self.known.get(key)
        if found is None:
            count, specs, steps = self.count, self.specs, self.steps
            cursor: Cursor = Cursor(self.data, offset)
            try:
                if self.budget < 0:
                    raise Malformed("tables of abbreviations that lie in each other")
                found = self.read(cursor, address_size, offset_size, version)
            except Malformed as error:
                # What was read of it belongs to no table.
                self.count, self.specs, self.steps = count, specs, steps
                found = str(error)
            self.budget -= cursor.pos - offset
            self.known[key] = found
        if isinstance(found, str):
            raise Malformed(found)
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def read(self, cursor: Cursor, address_size: cython.int, offset_size: cython.int, version: cython.int) -> uint32_t:
        """Reads a table."""
        code: uint64_t
        name: uint64_t
        form: uint64_t
        size: cython.int
        run: int32_t
        at: cython.size_t = self.count
        base: cython.size_t = at
        number: uint32_t
        # Compilers count from 1; dwz and LTO do not always.
        dense: cython.bint = True
        places: dict = {}
        if cursor.pos >= cursor.end:
            raise Malformed("abbreviations beyond the end of .debug_abbrev")
        while True:
            code = cursor.uleb()
            if code == 0:
                break
            at = self.count
            self.grow(at + 2)
            name = cursor.uleb()
            # Tags of vendors end at 0xffff (7.5.3), and so do their attributes.
            self.tag[at] = name if name <= 0xFFFF else 0xFFFF
            self.role[at] = _ROLES.get(self.tag[at], 0)
            self.children[at] = cursor.fixed(1) != 0
            self.sibling[at] = 0
            run = 0
            while True:
                name = cursor.uleb()
                form = cursor.uleb()
                if name == 0 and form == 0:
                    break
                if name > 0xFFFF or form > 0xFFFF:
                    raise Malformed("an attribute or a form that no standard defines")
                if self.specs - self.first[at] >= _MOST:
                    raise Malformed("an entry with more attributes than there are")
                self.grow_specs(self.specs + 1)
                self.name[self.specs] = name
                self.form[self.specs] = form
                if form == 0x21:
                    self.constants[self.specs] = cursor.sleb()
                self.specs += 1
                size = form_size(cython.cast(uint32_t, form), address_size, offset_size, version)
                if name == _AT_SIBLING and form in (0x11, 0x12, 0x13, 0x14):
                    if run:
                        self.add_step(run)
                    run = size
                    self.add_step(-8)
                    self.sibling[at] = 1
                elif size >= 0:
                    run += size
                else:
                    if run:
                        self.add_step(run)
                    run = 0
                    self.add_step(size)
            if run:
                self.add_step(run)
            self.count = at + 1
            self.first[at + 1] = self.specs
            self.first_step[at + 1] = self.steps
            if dense and code != at + 1 - base:
                dense = False
                places = {each + 1: base + each for each in range(at - base)}
            if not dense:
                places.setdefault(code, at)
        number = self.tables
        if number >= cython.cast(uint32_t, self.base.shape[0]):
            self.base = enlarged(self.base, 2 * number)
            self.size = enlarged(self.size, 2 * number)
            self.is_dense = enlarged(self.is_dense, 2 * number)
        self.base[number] = base
        self.size[number] = self.count - base
        self.is_dense[number] = dense
        self.sparse.append(places)
        self.tables = number + 1
        return number

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self, count: cython.size_t) -> cython.int:
        """Makes room for so many abbreviations."""
        room: cython.size_t = self.tag.shape[0]
        if count > room:
            room = 2 * count
            self.tag = enlarged(self.tag, room)
            self.children = enlarged(self.children, room)
            self.role = enlarged(self.role, room)
            self.sibling = enlarged(self.sibling, room)
            self.first = enlarged(self.first, room + 1)
            self.first_step = enlarged(self.first_step, room + 1)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_specs(self, count: cython.size_t) -> cython.int:
        """Makes room for so many attributes."""
        room: cython.size_t = self.name.shape[0]
        if count > room:
            room = 2 * count
            self.name = enlarged(self.name, room)
            self.form = enlarged(self.form, room)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_step(self, step: int32_t) -> cython.int:
        """Appends a step."""
        if self.steps >= cython.cast(cython.size_t, self.step.shape[0]):
            self.step = enlarged(self.step, 2 * self.steps)
        self.step[self.steps] = step
        self.steps += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def value(self, cursor: FormCursor, spec: cython.size_t) -> uint64_t:
        """The value of an attribute, at which the cursor is."""
        form: uint32_t = self.form[spec]
        if form == 0x21:
            return cursor.value(form, self.constants[spec])
        return cursor.value(form, 0)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def find(self, table: uint32_t, code: uint64_t) -> cython.Py_ssize_t:
        """The abbreviation of this code in a table; -1 for none."""
        if self.is_dense[table]:
            if 0 < code <= self.size[table]:
                return cython.cast(cython.Py_ssize_t, self.base[table] + code) - 1
            return -1
        found = self.sparse[table].get(code)
        return -1 if found is None else found
