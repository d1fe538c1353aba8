"""As few rows as say the same: what :func:`clew.table.normalise.normalise` does, in one pass."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import uint32_t, uint64_t
else:
    uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty


def normal_rows(start, rule, padding):
    """Rows that merge those of one rule, and gaps that are padding: starts (u8) and rules (u4).

    Args:
        start (u8), rule (u4): rows, sorted; on equal starts the last one counts.
        padding: a gap is padding if it is shorter than this and ends at a multiple of it.
    """
    out_start, out_rule = empty(len(start), "u8"), empty(len(start), "u4")
    if not cython.compiled:
        start, rule = memoryview(start), memoryview(rule)
    count = _fill(start, rule, max(padding, 1), out_start, out_rule)
    return np.asarray(out_start)[:count], np.asarray(out_rule)[:count]


@cython.cfunc
@cython.exceptval(-1, check=False)
def _fill(
    start: cython.const[uint64_t][::1],
    rule: cython.const[uint32_t][::1],
    padding: uint64_t,
    out_start: uint64_t[::1],
    out_rule: uint32_t[::1],
) -> cython.Py_ssize_t:
    rows: cython.size_t = start.shape[0]
    count: cython.size_t = 0
    # The rule of the row before, that of the row written last, and a gap that may turn out to be padding.
    before: uint32_t = 0
    written: uint32_t = 0
    gap: uint64_t = 0
    waiting: cython.bint = False
    first: cython.bint = True
    at: uint64_t
    number: uint32_t
    row: cython.size_t
    for row in range(rows):
        at = start[row]
        number = rule[row]
        if row + 1 < rows and start[row + 1] == at:
            continue
        if number == before and not first:
            continue
        if waiting:
            waiting = False
            if at - gap >= padding or at % padding:
                out_start[count] = gap
                out_rule[count] = 0
                count += 1
                written = 0
        before = number
        if number == 0 and not first:
            gap = at
            waiting = True
        elif first or number != written:
            out_start[count] = at
            out_rule[count] = number
            count += 1
            written = number
        first = False
    if waiting:
        out_start[count] = gap
        out_rule[count] = 0
        count += 1
    return count
