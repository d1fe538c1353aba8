"""Which lines and calls a part of a function has, once other functions, or symbols of the linker, cut it into several."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clew.symbols.symbol_map import U32, U64

Indices = npt.NDArray[np.int64]

#: Calls that the parts of functions may have together, beside eight times those that there are.
_MOST_CALLS = 1 << 20


def own_lines(starts: U64, ends: U64, changed: Indices, first: U32, end: U32, address: U64) -> tuple[U32, U32]:
    """The first line of each part and the end of its last one (uint32), among those of its function.

    Args:
        starts, ends: the parts (uint64).
        changed: those that are not the whole of their function.
        first, end: the lines of the functions that they are of (uint32).
        address: where each line begins (uint64).
    """
    first, end = first.copy(), end.copy()
    for part in changed.tolist():
        low = int(first[part])
        lines = address[low : int(end[part])]
        first[part] = low + max(int(np.searchsorted(lines, starts[part], "right")) - 1, 0)
        end[part] = low + int(np.searchsorted(lines, ends[part], "left"))
    return first, end


def own_calls(changed: Indices, first: U32, end: U32, calls: int) -> tuple[U32, bool]:
    """Where the calls of each part end (uint32): all have those of their function, and whoever reads them looks for the part's.

    A function that very many others cut would have its calls over and over: from some part on there are none. The second
    result says whether that is so.

    Args:
        changed: parts that are not the whole of their function.
        first, end: the calls of the functions that they are of (uint32).
        calls: how many calls there are.
    """
    have = np.cumsum((end[changed] - first[changed]).astype(np.uint64))
    too_many = changed[have > np.uint64(8 * calls + _MOST_CALLS)]
    if not len(too_many):
        return end, False
    end = end.copy()
    end[too_many] = first[too_many]
    return end, True
