"""As few rows as say the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clew.table.table import U4, U8, Table


def normalise(table: Table, padding: int = 16) -> Table:
    """Merges adjacent rows of one rule, and absorbs gaps that are only padding.

    A gap is padding when it is shorter than ``padding`` bytes and ends at a multiple of it: the bytes between the end of a
    function and the start of the next, which no frame is ever in. The row before it is taken to reach over it. Argument
    sizes are facts of decoded rows and are dropped. ``padding=1`` absorbs nothing.

    >>> import numpy as np
    >>> from clew.table import Rule, RegisterPlus, table_of
    >>> rule = Rule(RegisterPlus(7, 8))
    >>> table = table_of("x86-64", [(0x10, 0x1c, rule), (0x20, 0x30, rule)])
    >>> len(table), [(row.start, row.end) for row in table.normalise()]
    (4, [(16, 48)])
    """
    start, rule = table.start, table.rule
    # On equal starts the last one counts.
    if len(start) > 1:
        last = np.append(start[1:] != start[:-1], True)
        if not last.all():
            start, rule = start[last], rule[last]
    start, rule = _distinct(start, rule)
    if padding > 1 and len(start) > 2:
        gap = (rule[1:-1] == 0) & (start[2:] - start[1:-1] < padding) & (start[2:] % np.uint64(padding) == 0)
        keep = np.concatenate(([True], ~gap, [True]))
        start, rule = _distinct(start[keep], rule[keep])
    return replace(
        table,
        start=np.ascontiguousarray(start),
        rule=np.ascontiguousarray(rule),
        args_size=None,
        normalised=True,
    )


def _distinct(start: U8, rule: U4) -> tuple[U8, U4]:
    """Rows without those that say what the one before says."""
    keep = np.ones(len(rule), bool)
    keep[1:] = rule[1:] != rule[:-1]
    return start[keep], rule[keep]
