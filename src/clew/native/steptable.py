"""An unwind table's rows by address, each with the number of its step once somebody has asked for it."""

import cython

if cython.compiled:
    from cython.cimports.libc.stdint import int32_t, uint64_t
else:
    int32_t = uint64_t = cython.longlong

from clew.native.columns import zeros

#: Addresses whose rows are remembered; a power of two.
_RECENT = cython.declare(uint64_t, 4096)


@cython.final
@cython.cclass
class StepTable:
    """Finds rows.

    Args:
        owner: whose rows they are; for the caller.
        start (u8): the rows' first addresses, sorted.
    """

    def __init__(self, owner, start):
        self.owner = owner
        self.start = start if cython.compiled else memoryview(start)
        # 0: nobody has asked; negative: not for the compiled walker.
        self.step = zeros(len(start), "i4")
        # Pairs of an address plus one and its row.
        self.recent = zeros(2 * 4096, "u8")

    def set_step(self, row, step):
        """Says which step a row has, or -1 that it has none."""
        self.step[row] = step

    def find(self, address):
        """The row at an address, or -1 before the first."""
        return self.row(address)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def row(self, address: uint64_t) -> cython.Py_ssize_t:
        """The row at an address, or -1 before the first."""
        place: cython.size_t = 2 * ((address ^ address >> 12) & (_RECENT - 1))
        if self.recent[place] == address + 1:
            return self.recent[place + 1]
        low: cython.size_t = 0
        high: cython.size_t = self.start.shape[0]
        middle: cython.size_t
        while low < high:
            middle = (low + high) // 2
            if self.start[middle] <= address:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return -1
        if address + 1:
            self.recent[place] = address + 1
            self.recent[place + 1] = low - 1
        return cython.cast(cython.Py_ssize_t, low) - 1
