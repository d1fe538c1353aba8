"""Abbreviations: the shapes of the entries of a unit (DWARF 5, 7.5.3), made ready for passing over entries quickly.

An entry that nobody wants to know more of is passed over by *steps*: neighbouring attributes of fixed size are one step.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import WORD, Cursor
    from cython.cimports.clew.native.dwarf_forms import form_size
    from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
else:
    from clew.native.cursor import WORD, Cursor
    from clew.native.dwarf_forms import form_size

    uint64_t = uint32_t = int64_t = int32_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros
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
#: A step that is no size: the value of DW_AT_sibling comes next. The forms of variable size are those of dwarf_forms.
SIBLING = -8
_AT_SIBLING = 0x01


@cython.cclass
class AbbrevTable:
    """The abbreviations of a unit.

    Args:
        data: ``.debug_abbrev``.
        offset: where the unit's begin.
        address_size, offset_size, version: the unit's; they decide how large some forms are.

    Raises:
        Malformed: they make no sense.
    """

    def __init__(self, data, offset, address_size, offset_size, version):
        cursor: Cursor = Cursor(data, offset)
        if offset >= len(data):
            raise Malformed(f"abbreviations at {offset:#x}, beyond the end of .debug_abbrev")
        self.sparse = None
        self.direct = zeros(1, "u4")
        self.count = 0
        self.specs = 0
        self.steps = 0
        self.tag = empty(64, "u4")
        self.children = empty(64, "u1")
        self.role = empty(64, "u1")
        self.sibling = empty(64, "u1")
        self.first = empty(65, "u4")
        self.first_step = empty(65, "u4")
        self.name = empty(256, "u4")
        self.form = empty(256, "u4")
        self.constant = empty(256, "i8")
        self.step = empty(256, "i4")
        self.read(cursor, address_size, offset_size, version)

    @cython.cfunc
    def read(self, cursor: Cursor, address_size: cython.int, offset_size: cython.int, version: cython.int):
        """Reads them."""
        code: uint64_t
        name: uint64_t
        form: uint64_t
        size: cython.int
        run: int32_t
        at: cython.size_t
        # Compilers count from 1; dwz and LTO do not always.
        dense: cython.bint = True
        while True:
            code = cursor.uleb()
            if code == 0:
                break
            at = self.count
            self.grow(at + 2)
            self.tag[at] = cursor.uleb() & WORD
            self.role[at] = _ROLES.get(self.tag[at], 0)
            self.children[at] = cursor.fixed(1) != 0
            self.first[at] = self.specs
            self.first_step[at] = self.steps
            self.sibling[at] = 0
            run = 0
            while True:
                name = cursor.uleb()
                form = cursor.uleb()
                if name == 0 and form == 0:
                    break
                if name > WORD or form > 0xFFFF:
                    raise Malformed("an attribute or a form that no standard defines")
                self.grow_specs(self.specs + 1)
                self.name[self.specs] = name
                self.form[self.specs] = form
                self.constant[self.specs] = cursor.sleb() if form == 0x21 else 0
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
            if dense and code != at + 1:
                dense = False
                self.sparse = {number + 1: number for number in range(at)}
            if not dense:
                self.sparse.setdefault(code, at)
        if not dense:
            self.direct = zeros(min(max(self.sparse) + 1, 4 * self.count + 1024), "u4")
            for code, at in self.sparse.items():
                if code < cython.cast(uint64_t, self.direct.shape[0]):
                    self.direct[code] = at + 1

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
            self.constant = enlarged(self.constant, room)
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
    @cython.exceptval(-2, check=False)
    def find(self, code: uint64_t) -> cython.Py_ssize_t:
        """The abbreviation of this code; -1 for none."""
        if self.sparse is None:
            return code - 1 if code - 1 < self.count else -1
        if code < cython.cast(uint64_t, self.direct.shape[0]):
            return cython.cast(cython.Py_ssize_t, self.direct[code]) - 1
        found = self.sparse.get(code)
        return -1 if found is None else found
