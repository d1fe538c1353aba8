"""As few rows as say the same."""

from __future__ import annotations

from dataclasses import replace

from clew.native.normal_rows import normal_rows
from clew.table.table import Table


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
    start, rule = normal_rows(table.start, table.rule, padding)
    return replace(
        table,
        start=start,
        rule=rule,
        args_size=None,
        normalised=True,
    )
