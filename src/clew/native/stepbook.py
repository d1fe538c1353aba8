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
LOADS = 4

SLOTS = 64
"""Registers that a step can tell apart."""


#: The numbers of a step: the slot of the register that the CFA is from, and what is added; the slot of the return address;
#: flags; where in a stub of the PLT the CFA is 8 more (0: it is no such stub); the first of its cells, and how many there are.
CFA_SLOT, CFA_VALUE, RETURN_SLOT, FLAGS, PLT, FIRST, SIZE = range(7)
#: Of those with the flag ``LOADS``: where the lowest, the highest and the return address's word are, from the CFA in bytes.
LOWEST, HIGHEST, RETURN_OFFSET = range(7, 10)
FIELDS = 10


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
        self.field = empty(64 * FIELDS, "i8")
        self.named = empty(64, "u8")
        self.cell_slot, self.cell_kind = empty(256, "u1"), empty(256, "u1")
        self.cell_value, self.cell_load = empty(256, "i8"), empty(256, "i8")

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
        if number == len(self.named):
            self.named = enlarged(self.named, 2 * number)
            self.field = enlarged(self.field, 2 * number * FIELDS)
        if self.cell_count + len(cells) > len(self.cell_slot):
            room = 2 * (self.cell_count + len(cells))
            self.cell_slot = enlarged(self.cell_slot, room)
            self.cell_kind = enlarged(self.cell_kind, room)
            self.cell_value = enlarged(self.cell_value, room)
            self.cell_load = enlarged(self.cell_load, room)
        offsets = [value for _, kind, value in cells if kind == AT_CFA]
        returns = [value for slot, kind, value in cells if slot == return_slot and kind == AT_CFA]
        # The usual step: all registers are words near the CFA, and the return address is one of them.
        if len(offsets) == len(cells) and returns and not any(value & 7 or abs(value) > 1 << 30 for value in offsets):
            flags |= LOADS
        near = (min(offsets), max(offsets), returns[0]) if flags & LOADS else (0, 0, 0)
        at: cython.size_t = number * FIELDS
        for value in (cfa_slot, cfa_value, return_slot, flags, plt, self.cell_count, len(cells), *near):
            self.field[at] = value
            at += 1
        named: uint64_t = 0
        one: uint64_t = 1
        for slot, kind, value in cells:
            if not 0 <= slot < SLOTS:
                raise IndexError("a step has no such slot")
            named |= one << cython.cast(uint64_t, slot)
            self.cell_slot[self.cell_count] = slot
            self.cell_kind[self.cell_count] = kind
            self.cell_value[self.cell_count] = value
            self.cell_load[self.cell_count] = (value >> 3) * 256 + slot
            self.cell_count += 1
        self.named[number] = named
        self.count += 1
        return number
