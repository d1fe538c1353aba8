"""The columns of readelf's frame table: which registers have one, what they hold, and how rows are remembered.

A column is a register that the entry's program mentions. What it holds is a *rule*, one of the kinds below; a register
that nothing mentioned is ``ABSENT`` and has no column. Rules stand in arrays by register number, bounded by the
machine's register file; the registers that have a column are a sorted list beside them. So a row costs what it shows.

Remembering a row costs nothing: from then on, every change writes down what was there before, and restoring takes the
changes back. Only rows that are still remembered when their entry ends are copied out, for a later entry may restore
them; how many such copies there may be is bounded by the section's size.
"""

from array import array

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import as_signed
    from cython.cimports.clew.native.readelf_cies import Cie
    from cython.cimports.libc.stdint import uint8_t, uint64_t
else:
    from clew.native.cursor import as_signed
    from clew.native.readelf_cies import Cie

    uint8_t = uint64_t = cython.longlong

#: The words of the listing's text buffer, in front of the register names: see :func:`phrase`.
WORDS = []


def phrase(text):
    """Makes a piece of text a word; returns its number."""
    WORDS.append(text)
    return len(WORDS) - 1


# The kinds of rules. Those that need no number are the words of their cells.
ABSENT = cython.declare(cython.uchar, phrase(b""))
UNDEFINED = cython.declare(cython.uchar, phrase(b"u     "))
SAME = cython.declare(cython.uchar, phrase(b"s     "))
AT_EXPRESSION = cython.declare(cython.uchar, phrase(b"exp   "))
IS_EXPRESSION = cython.declare(cython.uchar, phrase(b"vexp  "))
AT_CFA = cython.declare(cython.uchar, phrase(b""))
CFA_PLUS = cython.declare(cython.uchar, phrase(b""))
IN_REGISTER = cython.declare(cython.uchar, phrase(b""))

#: Where readelf has no names for a machine it takes registers up to here for real.
_UNNAMED_LIMIT = cython.declare(cython.size_t, 1024)

#: Numbers in a mark: where the changes since then begin, and the row without its columns.
_MARK = cython.declare(cython.size_t, 5)
#: Numbers in a copied row, besides three for each column.
_COPY = cython.declare(cython.size_t, 6)


def _longer(numbers, size):
    """The same array, at least ``size`` and twice as long."""
    return array("q", bytes(numbers) + bytes(8 * max(size - len(numbers), len(numbers))))


@cython.cclass
class Columns:
    """The row in force and the rows remembered.

    Args:
        known: how many registers the machine has in readelf's table; 0 if it has no table.
        allowance: numbers that may be kept for later entries, in CIEs and copied rows.
        bare: only count columns, for a listing that prints no rows.

    ``columns`` is how many registers can have a column, ``widest`` the same of the row printed last; ``own`` says that
    the entry has no CIE but itself.
    """

    def __init__(self, known, allowance, bare):
        most = max(_UNNAMED_LIMIT, known + 1)
        self.known = known
        self.allowance = allowance
        self.bare = bare
        self.kind, self.cie_kind = bytearray(most), bytearray(most)
        self.offset, self.cie_offset = array("q", bytes(8 * most)), array("q", bytes(8 * most))
        self.shown, self.cie_shown = array("q", bytes(8 * most)), array("q", bytes(8 * most))
        self.marks, self.changes, self.copies = (array("q", bytes(8 * 64)) for _ in range(3))
        self.columns = self.widest = self.count = self.cie_count = self.kept = 0
        self.marks_size = self.changes_size = self.copies_size = 0
        self.cfa_register = self.cfa_offset = self.return_address = 0
        self.cfa_expression = self.titled = self.own = False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, register: cython.size_t, kind: uint8_t, offset: cython.longlong) -> cython.int:
        """Gives a register a rule, and with its first a column; with ``ABSENT``, takes the column away."""
        place: cython.longlong = register
        i: cython.size_t
        if kind != ABSENT and self.kind[register] == ABSENT:
            i = self.count
            while i > 0 and self.shown[i - 1] > place:
                self.shown[i] = self.shown[i - 1]
                i -= 1
            self.shown[i] = place
            self.count += 1
        elif kind == ABSENT and self.kind[register] != ABSENT:
            i = 0
            while self.shown[i] != place:
                i += 1
            self.count -= 1
            while i < self.count:
                self.shown[i] = self.shown[i + 1]
                i += 1
        self.kind[register] = kind
        self.offset[register] = offset
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def change(self, register: cython.size_t, kind: uint8_t, offset: cython.longlong) -> cython.int:
        """The same, so that it can be taken back."""
        at: cython.size_t = self.changes_size
        if self.marks_size:
            if cython.cast(cython.size_t, len(self.changes)) < at + 3:
                self.changes = _longer(self.changes, at + 3)
            self.changes[at] = register
            self.changes[at + 1] = self.kind[register]
            self.changes[at + 2] = self.offset[register]
            self.changes_size = at + 3
        return self.put(register, kind, offset)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def exchange(self, at: cython.size_t) -> cython.int:
        """Takes back the change at ``at`` and writes down what it was, or the other way round."""
        register: cython.size_t = self.changes[at]
        kind: uint8_t = self.kind[register]
        offset: cython.longlong = self.offset[register]
        self.put(register, self.changes[at + 1], self.changes[at + 2])
        self.changes[at + 1] = kind
        self.changes[at + 2] = offset
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def drop(self) -> cython.int:
        """Takes all columns away."""
        i: cython.size_t
        for i in range(self.count):
            self.kind[self.shown[i]] = ABSENT
        self.count = 0
        self.columns = 0
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def widen(self, register: cython.size_t) -> cython.bint:
        """Makes sure that a register can have a column; False if it cannot. A refusal may take all columns away."""
        if register < self.columns:
            return True
        if self.known:
            if register > self.known:
                return False
        elif register >= _UNNAMED_LIMIT:
            self.drop()
            return False
        self.columns = register + 1
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def start(self, cie: Cie) -> cython.int:
        """The row that an FDE begins with: the one that its CIE ended with, or nothing when it has none."""
        i: cython.size_t
        register: cython.size_t
        self.drop()
        self.titled = self.cfa_expression = False
        self.own = cie is None
        if cie is None:
            self.cfa_register = self.cfa_offset = self.return_address = 0
            return 0
        self.columns = cie.columns
        self.cfa_register = cie.cfa_register
        self.cfa_offset = cie.cfa_offset
        self.return_address = cie.return_address
        for i in range(self.cie_count):
            register = self.cie_shown[i]
            self.shown[i] = register
            self.kind[register] = self.cie_kind[register]
            self.offset[register] = self.cie_offset[register]
        self.count = self.cie_count
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def keep(self, cie: Cie) -> cython.bint:
        """Takes the row as the one that a CIE ends with; False when that is too much to keep."""
        i: cython.size_t
        register: cython.size_t
        cie.columns = self.columns
        cie.cfa_register = self.cfa_register
        cie.cfa_offset = self.cfa_offset
        cie.return_address = self.return_address
        self.kept += 3 * self.count
        if self.kept > self.allowance:
            return False
        for i in range(self.count):
            register = self.shown[i]
            cie.registers.append(register)
            cie.kinds.append(self.kind[register])
            cie.offsets.append(self.offset[register])
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def load(self, cie: Cie) -> cython.int:
        """Makes a CIE's columns those that FDEs begin with and restore."""
        i: cython.size_t
        register: cython.size_t
        for i in range(self.cie_count):
            self.cie_kind[self.cie_shown[i]] = ABSENT
        self.cie_count = len(cie.registers)
        for i in range(self.cie_count):
            register = cie.registers[i]
            self.cie_shown[i] = register
            self.cie_kind[register] = cie.kinds[i]
            self.cie_offset[register] = cie.offsets[i]
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def discover(self, register: cython.size_t) -> cython.int:
        """Gives a register that the entry mentions its column."""
        kind: uint8_t
        if not self.widen(register) or self.bare:
            return 0
        kind = self.kind[register] if self.own else self.cie_kind[register]
        if self.kind[register] == ABSENT:
            self.put(register, kind if kind != ABSENT else UNDEFINED, 0)
        elif kind != ABSENT:
            self.kind[register] = kind
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def set(self, register: cython.size_t, kind: uint8_t, value: uint64_t) -> cython.int:
        """Gives a register's column a rule."""
        return self.change(register, kind, as_signed(value))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def restore(self, register: cython.size_t) -> cython.int:
        """Gives a register the CIE's rule; one that the CIE does not mention becomes undefined."""
        if self.own:
            if self.kind[register] == ABSENT:
                return self.change(register, UNDEFINED, 0)
            return 0
        if self.cie_kind[register] != ABSENT:
            return self.change(register, self.cie_kind[register], self.cie_offset[register])
        return self.change(register, UNDEFINED, 0)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def remember(self) -> cython.int:
        """Pushes the row."""
        at: cython.size_t = self.marks_size
        if cython.cast(cython.size_t, len(self.marks)) < at + _MARK:
            self.marks = _longer(self.marks, at + _MARK)
        self.marks[at] = self.changes_size
        self.marks[at + 1] = as_signed(self.cfa_offset)
        self.marks[at + 2] = self.cfa_register
        self.marks[at + 3] = self.return_address
        self.marks[at + 4] = self.cfa_expression
        self.marks_size = at + _MARK
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def recall(self) -> cython.bint:
        """Pops the last remembered row; False when there is none."""
        at: cython.size_t
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        if self.marks_size == 0:
            return self.recall_copy()
        at = self.marks_size - _MARK
        while cython.cast(cython.longlong, self.changes_size) > self.marks[at]:
            self.changes_size -= 3
            self.exchange(self.changes_size)
        self.cfa_offset = cython.cast(uint64_t, self.marks[at + 1]) & ones
        self.cfa_register = self.marks[at + 2]
        self.return_address = self.marks[at + 3]
        self.cfa_expression = self.marks[at + 4] != 0
        self.marks_size = at
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def settle(self) -> cython.bint:
        """Copies the rows that are still remembered when the entry ends; False when that is too much to keep."""
        mark: cython.size_t = 0
        at: cython.size_t = self.changes_size
        while at > 0:
            at -= 3
            self.exchange(at)
        # Before the first mark nothing was written down. From there, the row is played forward again.
        while mark < self.marks_size:
            while cython.cast(cython.longlong, at) < self.marks[mark]:
                self.exchange(at)
                at += 3
            if not self.copy(mark):
                return False
            mark += _MARK
        self.marks_size = self.changes_size = 0
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def copy(self, mark: cython.size_t) -> cython.bint:
        """Copies the columns as they are, with the rest of the row from a mark; False when that is too much to keep."""
        i: cython.size_t
        at: cython.size_t = self.copies_size
        end: cython.size_t = at + 3 * self.count + _COPY
        if self.kept + end - at > self.allowance:
            return False
        self.kept += end - at
        if cython.cast(cython.size_t, len(self.copies)) < end:
            self.copies = _longer(self.copies, end)
        for i in range(self.count):
            self.copies[at] = self.shown[i]
            self.copies[at + 1] = self.kind[self.shown[i]]
            self.copies[at + 2] = self.offset[self.shown[i]]
            at += 3
        for i in range(1, _MARK):
            self.copies[at] = self.marks[mark + i]
            at += 1
        self.copies[at] = self.count
        self.copies[at + 1] = self.columns
        self.copies_size = end
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def recall_copy(self) -> cython.bint:
        """Pops the last row that another entry remembered; False when there is none."""
        i: cython.size_t
        at: cython.size_t = self.copies_size
        count: cython.size_t
        columns: cython.size_t
        register: cython.size_t
        beyond: cython.size_t = 0
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        if at == 0:
            return False
        columns = self.copies[at - 1]
        count = self.copies[at - 2]
        at -= _COPY
        self.cfa_offset = cython.cast(uint64_t, self.copies[at]) & ones
        self.cfa_register = self.copies[at + 1]
        self.return_address = self.copies[at + 2]
        self.cfa_expression = self.copies[at + 3] != 0
        at -= 3 * count
        self.kept -= self.copies_size - at
        self.copies_size = at
        # A row without columns comes from one that lost them all.
        if columns == 0 or not self.widen(columns - 1):
            return self.drop() == 0
        # Columns beyond those that the remembered row could have stay as they are.
        while beyond < self.count and self.shown[beyond] < cython.cast(cython.longlong, columns):
            self.kind[self.shown[beyond]] = ABSENT
            beyond += 1
        self.shift(beyond, count)
        for i in range(count):
            register = self.copies[at]
            self.shown[i] = register
            self.kind[register] = self.copies[at + 1]
            self.offset[register] = self.copies[at + 2]
            at += 3
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def shift(self, start: cython.size_t, to: cython.size_t) -> cython.int:
        """Moves the shown registers from place ``start`` on to place ``to``."""
        i: cython.size_t
        rest: cython.size_t = self.count - start
        if to < start:
            for i in range(rest):
                self.shown[to + i] = self.shown[start + i]
        else:
            for i in range(rest):
                self.shown[to + rest - 1 - i] = self.shown[start + rest - 1 - i]
        self.count = to + rest
        return 0
