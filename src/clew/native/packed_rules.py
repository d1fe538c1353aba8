"""Rules as the compiled core gives them into the 32 bytes of a packed rule (packed.h says how they lie).

Those that need cells are left to :mod:`clew.write.packed`: they are few in every file, and a program could be full of them
only to be hostile.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint32_t, uint64_t
else:
    int32_t = int64_t = uint8_t = uint32_t = uint64_t = cython.longlong

# As clew.table.rules.RuleColumns has them.
_UNDEFINED = cython.declare(uint8_t, 1)
_SAME_VALUE = cython.declare(uint8_t, 2)
_AT_CFA = cython.declare(uint8_t, 3)
_SIGNAL = cython.declare(uint32_t, 1)
_SIGNED = cython.declare(uint32_t, 2 | 4)
_NO_INFORMATION = cython.declare(uint32_t, 16)

# As packed.h has them.
_REGISTER = cython.declare(uint8_t, 1)
_FLAG_SIGNAL = cython.declare(uint8_t, 1)
_FLAG_OUTERMOST = cython.declare(uint8_t, 2)
_FLAG_SIGNED = cython.declare(uint8_t, 4)
_ONE = cython.declare(uint64_t, 1)
_LOWEST = cython.declare(int64_t, -(1 << 31))
_HIGHEST = cython.declare(int64_t, (1 << 31) - 1)
_FARTHEST = cython.declare(int64_t, (1 << 16) - 1)


@cython.final
@cython.cclass
class RulePacker:
    """Packs rules.

    Args:
        columns: cfa_kind (u1), cfa_register (u4), cfa_value (i8), context, first, size (u4), cell_register (u4),
            cell_kind (u1), cell_value (i8), as in :class:`clew.table.rules.RuleColumns`.
        registers: how many registers a frame has.
        stack_pointer, return_address: DWARF numbers.
        saved, same: bits for the registers that a plain rule may say are in memory, and that keep their value by default.
    """

    def __init__(self, columns, registers, stack_pointer, return_address, saved, same):
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.cfa_kind, self.cfa_register, self.cfa_value, self.context, self.first, self.size = columns[:6]
        self.cell_register, self.cell_kind, self.cell_value = columns[6:]
        self.registers, self.stack_pointer, self.return_address = registers, stack_pointer, return_address
        self.saved, self.same = saved, same

    def pack(self, used, out):
        """Packs the rules with these numbers (u4) into ``out`` (u1, 32 bytes each); the indices of those that need cells."""
        numbers: cython.const[uint32_t][::1] = used if cython.compiled else memoryview(used)
        target: uint8_t[::1] = out if cython.compiled else memoryview(out)
        rest = []
        i: cython.size_t
        for i in range(cython.cast(cython.size_t, numbers.shape[0])):
            if not self.plain(numbers[i], target, 32 * i):
                rest.append(i)
        return rest

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def plain(self, number: cython.size_t, out: uint8_t[::1], at: cython.size_t) -> cython.bint:
        """Packs one rule; whether it could."""
        context: uint32_t = self.context[number]
        i: cython.size_t
        for i in range(32):
            out[at + i] = 0
        if context & _NO_INFORMATION:
            return True
        value: int64_t = self.cfa_value[number]
        if (
            self.cfa_kind[number] != 1
            or context >> 8 != self.return_address
            or self.cfa_register[number] >= self.registers
            or value < _LOWEST
            or value > _HIGHEST
            or (value < 0 and self.cfa_register[number] == self.stack_pointer)
        ):
            return False
        first: cython.size_t = self.first[number]
        last: cython.size_t = first + self.size[number]
        saved: uint64_t = 0
        same: uint64_t = self.same
        flags: uint8_t = 0
        nearest: int64_t = _FARTHEST + 1
        farthest: int64_t = 0
        cell: cython.size_t
        register: uint32_t
        offset: int64_t
        for cell in range(first, last):
            register = self.cell_register[cell]
            if register >= self.registers:
                continue
            if register == self.stack_pointer:
                return False
            if self.cell_kind[cell] == _AT_CFA:
                offset = self.cell_value[cell]
                if not self.saved >> register & 1 or offset & 7 or offset >= 0 or offset < -8 * _FARTHEST:
                    return False
                saved |= _ONE << register
                same &= ~(_ONE << register)
                offset = -(offset >> 3)
                if offset < nearest:
                    nearest = offset
                if offset > farthest:
                    farthest = offset
            elif self.cell_kind[cell] == _SAME_VALUE:
                same |= _ONE << register
            elif self.cell_kind[cell] == _UNDEFINED:
                same &= ~(_ONE << register)
                if register == self.return_address:
                    flags |= _FLAG_OUTERMOST
            else:
                return False
        if saved:
            if farthest - nearest > 255:
                return False
            out[at + 16 + (self.stack_pointer & 15)] = cython.cast(uint8_t, farthest - nearest)
            out[at + 6] = nearest & 255
            out[at + 7] = nearest >> 8
            for cell in range(first, last):
                register = self.cell_register[cell]
                if register < self.registers and saved >> register & 1:
                    offset = -(self.cell_value[cell] >> 3)
                    out[at + 16 + (register & 15)] = cython.cast(uint8_t, offset - nearest)
        if context & _SIGNAL:
            flags |= _FLAG_SIGNAL
        if context & _SIGNED:
            flags |= _FLAG_SIGNED
        for i in range(4):
            out[at + i] = (value >> 8 * i) & 255
            out[at + 8 + i] = (saved >> 8 * i) & 255
            out[at + 12 + i] = (same >> 8 * i) & 255
        out[at + 4] = _REGISTER << 6 | cython.cast(uint8_t, self.cfa_register[number])
        out[at + 5] = flags
        return True
