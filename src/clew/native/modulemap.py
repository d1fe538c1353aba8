"""Modules by address, as the compiled walker looks them up."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import uint64_t
else:
    uint64_t = cython.longlong

from clew.native.columns import zeros

# Modules that may lie around another; as in clew.target.Modules.at.
_AROUND = 9


@cython.final
@cython.cclass
class ModuleMap:
    """Modules by address, each with its table once somebody has asked for it.

    Args:
        owner: has ``load(module)``, which gives a module's :class:`StepTable` or None, and ``resolve(table, module, row)``,
            which gives the number of a row's step or -1.
        start, end, bias (u8): one element a module, sorted by start.
    """

    def __init__(self, owner, start, end, bias):
        self.owner = owner
        columns = (start, end, bias) if cython.compiled else tuple(memoryview(each) for each in (start, end, bias))
        self.start, self.end, self.bias = columns
        # The one that was found last; it is the right one again if no other lies around it.
        self.recent = 0
        self.recent_table = None
        self.disjoint = len(start) > 0 and not (np.asarray(end)[: len(end) - 1] > np.asarray(start)[1:]).any()
        self.tables = [None] * len(start)
        self.asked = zeros(len(start) + 1, "u1")

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def at(self, address: uint64_t) -> cython.Py_ssize_t:
        """The module at an address, or -1. Where they overlap, the one that starts last counts."""
        low: cython.size_t = 0
        high: cython.size_t = self.start.shape[0]
        middle: cython.size_t
        while low < high:
            middle = (low + high) // 2
            if self.start[middle] <= address:
                low = middle + 1
            else:
                high = middle
        tries: cython.size_t
        for tries in range(_AROUND):
            if low == 0:
                return -1
            low -= 1
            if address < self.end[low]:
                return low
        return -1
