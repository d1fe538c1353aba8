"""The rulebook: every different rule once, in columns, told apart exactly.

A rule here is what a row says: a CFA, a *cell* (kind, value) for each register that is named, sorted by register, and a
context. There are few (DESIGN: many rows, few rules), so making one may cost a microsecond and finding one again may not.
Rules are only ever added; a rule's number is good for as long as the book is.

Hostile input can have as many rules as instructions, each as large as the registers it names. The budget bounds the cells
of all rules together in proportion to the input; what exceeds it is refused. So does another the cells that are copied to
make one rule from another: few large rules, and steps that change next to nothing, would else cost time without bound.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import ONES, SPREAD, WORD
    from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint32_t, uint64_t
else:
    from clew.native.cursor import ONES, SPREAD, WORD

    int64_t = uint8_t = uint32_t = uint64_t = int32_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros
from clew.native.cursor import Malformed

#: Kinds of cells (DWARF 5, 6.4.1), in the order of clew.table.rule; the value is an offset, a register or an expression.
UNDEFINED, SAME_VALUE, AT_CFA, CFA_PLUS, IN_REGISTER, AT_EXPRESSION, IS_EXPRESSION = range(1, 8)
#: Kinds of CFA.
CFA_UNSET, CFA_REGISTER, CFA_EXPRESSION = range(3)

#: Bits of the context; the return address column stands above them.
SIGNAL, SIGNED, SIGNED_WITH_PC, KEY_B, NO_INFORMATION = 1, 2, 4, 8, 16
COLUMN_SHIFT = 8

#: How far a look-up in a table of slots goes before it gives up.
_PROBES = cython.declare(cython.size_t, 64)
_SPENT = "the section has more different rules than its size warrants"
_TIRED = "the section's rules take more work than its size warrants"


@cython.final
@cython.cclass
class Rulebook:
    """All rules of one section's programs.

    Args:
        size: bytes of the section; the budget of cells is in proportion to it.

    Rule 0 is *no information*, for addresses that no FDE covers.
    """

    def __init__(self, size):
        self.budget = (1 << 18) + 2 * size
        self.stamina = (1 << 24) + 64 * size
        self.count = self.cell_count = self.draft_count = self.work = 0
        rules = 1024
        self.cfa_kind = empty(rules, "u1")
        self.cfa_register, self.context, self.hash = empty(rules, "u4"), empty(rules, "u4"), empty(rules, "u4")
        self.first, self.size = empty(rules, "u4"), empty(rules, "u4")
        self.cfa_value = empty(rules, "i8")
        cells = 8 * rules
        self.cell_register = empty(cells, "u4")
        self.cell_kind = empty(cells, "u1")
        self.cell_value = empty(cells, "i8")
        self.slots = zeros(4 * rules, "i4")
        self.draft_register = empty(64, "u4")
        self.draft_kind = empty(64, "u1")
        self.draft_value = empty(64, "i8")
        self.blank(NO_INFORMATION)

    def blank(self, context):
        """The rule that says nothing yet, in a context (bits and return address column): where a CIE's program begins."""
        self.draft_cfa_kind = 0
        self.draft_cfa_register = 0
        self.draft_cfa_value = 0
        self.draft_context = context
        self.draft_count = 0
        return self.intern()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def load(self, rule: cython.size_t) -> cython.int:
        """Takes a rule as the draft."""
        first: cython.size_t = self.first[rule]
        count: cython.size_t = self.size[rule]
        i: cython.size_t
        self.work += count
        if self.work > self.stamina:
            raise Malformed(_TIRED)
        self.draft_cfa_kind = self.cfa_kind[rule]
        self.draft_cfa_register = self.cfa_register[rule]
        self.draft_cfa_value = self.cfa_value[rule]
        self.draft_context = self.context[rule]
        if count + 33 > cython.cast(cython.size_t, self.draft_register.shape[0]):
            self.draft_register = empty(2 * count + 64, "u4")
            self.draft_kind = empty(2 * count + 64, "u1")
            self.draft_value = empty(2 * count + 64, "i8")
        for i in range(count):
            self.draft_register[i] = self.cell_register[first + i]
            self.draft_kind[i] = self.cell_kind[first + i]
            self.draft_value[i] = self.cell_value[first + i]
        self.draft_count = count
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, register: uint32_t, kind: uint8_t, value: int64_t) -> cython.int:
        """Sets a register's cell in the draft; kind 0 takes it out. At most 32 more than :meth:`load` found fit."""
        n: cython.size_t = self.draft_count
        at: cython.size_t = n
        i: cython.size_t
        while at > 0 and self.draft_register[at - 1] >= register:
            at -= 1
        if at < n and self.draft_register[at] == register:
            if kind == 0:
                for i in range(at, n - 1):
                    self.draft_register[i] = self.draft_register[i + 1]
                    self.draft_kind[i] = self.draft_kind[i + 1]
                    self.draft_value[i] = self.draft_value[i + 1]
                self.draft_count = n - 1
                return 0
        elif kind == 0:
            return 0
        else:
            i = n
            while i > at:
                self.draft_register[i] = self.draft_register[i - 1]
                self.draft_kind[i] = self.draft_kind[i - 1]
                self.draft_value[i] = self.draft_value[i - 1]
                i -= 1
            self.draft_count = n + 1
        self.draft_register[at] = register
        self.draft_kind[at] = kind
        self.draft_value[at] = value
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def intern(self) -> int32_t:
        """The number of the rule that equals the draft, adding it if it is new.

        Linear probing in a table at most half full. Input that is made to collide probes no further than a fixed number of
        slots and then gets its rule twice, which costs memory within the budget and nothing else.
        """
        i: cython.size_t
        mix: uint64_t = self.draft_cfa_kind
        mix = _stir(mix, self.draft_cfa_register)
        mix = _stir(mix, self.draft_cfa_value)
        mix = _stir(mix, self.draft_context)
        for i in range(self.draft_count):
            mix = _stir(mix, cython.cast(int64_t, self.draft_register[i]) << 8 | self.draft_kind[i])
            mix = _stir(mix, self.draft_value[i])
        mix ^= mix >> 32
        mask: cython.size_t = self.slots.shape[0] - 1
        at: cython.size_t = mix & mask
        probes: cython.size_t = 0
        while self.slots[at] and probes < _PROBES:
            if self.same(self.slots[at] - 1):
                return self.slots[at] - 1
            at = (at + 1) & mask
            probes += 1
        n: cython.size_t = self.count
        if self.cell_count + self.draft_count + 4 * n > self.budget:
            raise Malformed(_SPENT)
        self.grow()
        if probes < _PROBES:
            self.slots[at] = n + 1
        self.hash[n] = mix & WORD
        self.cfa_kind[n] = self.draft_cfa_kind
        self.cfa_register[n] = self.draft_cfa_register
        self.cfa_value[n] = self.draft_cfa_value
        self.context[n] = self.draft_context
        self.first[n] = self.cell_count
        self.size[n] = self.draft_count
        for i in range(self.draft_count):
            self.cell_register[self.cell_count + i] = self.draft_register[i]
            self.cell_kind[self.cell_count + i] = self.draft_kind[i]
            self.cell_value[self.cell_count + i] = self.draft_value[i]
        self.cell_count += self.draft_count
        self.count = n + 1
        if 2 * self.count > mask:
            self.rehash()
        return n

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def same(self, rule: cython.size_t) -> cython.bint:
        """Whether a rule equals the draft."""
        i: cython.size_t
        first: cython.size_t = self.first[rule]
        if (
            self.size[rule] != self.draft_count
            or self.cfa_kind[rule] != self.draft_cfa_kind
            or self.cfa_register[rule] != self.draft_cfa_register
            or self.cfa_value[rule] != self.draft_cfa_value
            or self.context[rule] != self.draft_context
        ):
            return False
        for i in range(self.draft_count):
            if (
                self.cell_register[first + i] != self.draft_register[i]
                or self.cell_kind[first + i] != self.draft_kind[i]
                or self.cell_value[first + i] != self.draft_value[i]
            ):
                return False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        """Makes room for one more rule and the draft's cells."""
        if self.count == cython.cast(cython.size_t, self.cfa_kind.shape[0]):
            self.cfa_kind = enlarged(self.cfa_kind, 2 * self.cfa_kind.shape[0])
            self.cfa_register = enlarged(self.cfa_register, 2 * self.cfa_register.shape[0])
            self.cfa_value = enlarged(self.cfa_value, 2 * self.cfa_value.shape[0])
            self.context = enlarged(self.context, 2 * self.context.shape[0])
            self.hash = enlarged(self.hash, 2 * self.hash.shape[0])
            self.first = enlarged(self.first, 2 * self.first.shape[0])
            self.size = enlarged(self.size, 2 * self.size.shape[0])
        while self.cell_count + self.draft_count > cython.cast(cython.size_t, self.cell_kind.shape[0]):
            self.cell_register = enlarged(self.cell_register, 2 * self.cell_register.shape[0])
            self.cell_kind = enlarged(self.cell_kind, 2 * self.cell_kind.shape[0])
            self.cell_value = enlarged(self.cell_value, 2 * self.cell_value.shape[0])
        return 0

    def rehash(self):
        """Doubles the table of slots."""
        rule: cython.size_t
        at: cython.size_t
        probes: cython.size_t
        mask: cython.size_t = 2 * self.slots.shape[0] - 1
        self.slots = zeros(mask + 1, "i4")
        for rule in range(self.count):
            at = self.hash[rule] & mask
            probes = 0
            while self.slots[at] and probes < _PROBES:
                at = (at + 1) & mask
                probes += 1
            if probes < _PROBES:
                self.slots[at] = rule + 1

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def with_cfa(self, rule: cython.size_t, kind: uint8_t, register: uint32_t, value: int64_t) -> int32_t:
        """The rule that differs from ``rule`` in its CFA."""
        self.load(rule)
        self.draft_cfa_kind = kind
        self.draft_cfa_register = register
        self.draft_cfa_value = value
        return self.intern()

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def with_register(self, rule: cython.size_t, register: uint32_t, kind: uint8_t, value: int64_t) -> int32_t:
        """The rule that differs from ``rule`` in one register's cell."""
        self.load(rule)
        self.put(register, kind, value)
        return self.intern()

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def with_restored(self, rule: cython.size_t, initial: cython.size_t, register: uint32_t) -> int32_t:
        """The rule with one register's cell as in ``initial``: absent where it is absent there (DWARF 5, 6.4.2.3)."""
        first: cython.size_t = self.first[initial]
        i: cython.size_t
        self.load(rule)
        for i in range(first, first + self.size[initial]):
            if self.cell_register[i] == register:
                self.put(register, self.cell_kind[i], self.cell_value[i])
                return self.intern()
        self.put(register, 0, 0)
        return self.intern()

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def with_context(self, rule: cython.size_t, context: uint32_t) -> int32_t:
        """The rule in another context."""
        self.load(rule)
        self.draft_context = context
        return self.intern()

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def with_window(self, rule: cython.size_t, word: int64_t) -> int32_t:
        """The rule after SPARC's ``save``: %o0-%o7 in the %i registers, %l and %i in the window at the CFA (SPARC psABI)."""
        register: uint32_t
        self.load(rule)
        for register in range(8, 16):
            self.put(register, IN_REGISTER, register + 16)
        for register in range(16, 32):
            self.put(register, AT_CFA, (cython.cast(int64_t, register) - 16) * word)
        return self.intern()

    def heads(self, numbers):
        """The columns of the rules with these numbers: CFA kind, register, value, context, first cell, count of cells."""
        return (
            np.asarray(self.cfa_kind)[numbers],
            np.asarray(self.cfa_register)[numbers],
            np.asarray(self.cfa_value)[numbers],
            np.asarray(self.context)[numbers],
            np.asarray(self.first)[numbers],
            np.asarray(self.size)[numbers],
        )

    def cells(self):
        """The columns of all cells: register, kind, value. Views that stay valid when more rules are made."""
        n = self.cell_count
        return (
            np.asarray(self.cell_register)[:n],
            np.asarray(self.cell_kind)[:n],
            np.asarray(self.cell_value)[:n],
        )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _stir(mix: uint64_t, value: int64_t) -> uint64_t:
    """One step of a multiplicative hash, the same compiled and not."""
    return (((mix ^ value) & ONES) * SPREAD & ONES) ^ mix >> 29
