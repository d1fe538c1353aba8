"""Steps: rules as the compiled walker applies them, registers in slots from 0 to 63.

Only what is done millions of times is a step: a CFA that is a register plus an offset, and registers that are at the CFA,
the CFA, another register, the same or lost. Every other rule is left to the general walker.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.stdint import uint64_t
else:
    uint64_t = cython.longlong

from clew.native.columns import empty, enlarged

#: What a cell says, in the numbers of :class:`clew.table.rules.RuleColumns`.
UNDEFINED = 1
SAME_VALUE = 2
AT_CFA = 3
CFA_PLUS = 4
IN_REGISTER = 5

#: Flags of a step.
OUTERMOST = 1
SIGNED = 2

SLOTS = 64
"""Registers that a step can tell apart."""


@cython.final
@cython.cclass
class StepBook:
    """The steps of all tables, by number; number 0 is none.

    Attributes:
        count: how many steps there are, that of number 0 included.
    """

    def __init__(self):
        self.count = 1
        self.cell_count = 0
        self.cfa_slot, self.return_slot, self.flags, self.plt = (empty(64, "u1") for _ in range(4))
        self.cfa_value = empty(64, "i8")
        self.named = empty(64, "u8")
        self.first, self.size = empty(64, "u4"), empty(64, "u4")
        self.cell_slot, self.cell_kind = empty(256, "u1"), empty(256, "u1")
        self.cell_value = empty(256, "i8")

    def add(self, cfa_slot, cfa_value, return_slot, flags, cells, plt=0):
        """A new step; its number.

        Args:
            cfa_slot, cfa_value: the CFA is the register in that slot plus so much.
            return_slot: the slot of the return address.
            flags: ``OUTERMOST`` if the return address is undefined, ``SIGNED`` if it carries an authentication code.
            cells: (slot, kind, value) for each register that the rule names.
            plt: if not 0, the CFA is 8 more where the lowest four bits of the pc are at least this, as in the stubs of a PLT.
        """
        number: cython.size_t = self.count
        if number == len(self.cfa_slot):
            room = 2 * number
            self.cfa_slot = enlarged(self.cfa_slot, room)
            self.return_slot = enlarged(self.return_slot, room)
            self.flags = enlarged(self.flags, room)
            self.plt = enlarged(self.plt, room)
            self.cfa_value = enlarged(self.cfa_value, room)
            self.named = enlarged(self.named, room)
            self.first = enlarged(self.first, room)
            self.size = enlarged(self.size, room)
        if self.cell_count + len(cells) > len(self.cell_slot):
            room = 2 * (self.cell_count + len(cells))
            self.cell_slot = enlarged(self.cell_slot, room)
            self.cell_kind = enlarged(self.cell_kind, room)
            self.cell_value = enlarged(self.cell_value, room)
        self.cfa_slot[number], self.cfa_value[number] = cfa_slot, cfa_value
        self.return_slot[number], self.flags[number], self.plt[number] = return_slot, flags, plt
        self.first[number], self.size[number] = self.cell_count, len(cells)
        named: uint64_t = 0
        one: uint64_t = 1
        for slot, kind, value in cells:
            if not 0 <= slot < SLOTS:
                raise IndexError("a step has no such slot")
            named |= one << cython.cast(uint64_t, slot)
            self.cell_slot[self.cell_count] = slot
            self.cell_kind[self.cell_count] = kind
            self.cell_value[self.cell_count] = value
            self.cell_count += 1
        self.named[number] = named
        self.count += 1
        return number
