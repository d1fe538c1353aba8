"""Tables from rows that are at hand as objects, and tables of several tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from clew.arch import Machine, machine_named
from clew.table.rule import NO_INFORMATION, Rule
from clew.table.rules import Rules
from clew.table.table import RangeColumns, Ranges, Table


def no_ranges() -> Ranges:
    """Ranges without an element."""
    empty = {
        name: np.empty(0, code)
        for name, code in zip(RangeColumns._fields, ("u8", "u8", "u4", "u8", "i4", "u1"), strict=True)
    }
    return Ranges(RangeColumns(**empty))


def table_of(machine: Machine | str, rows: Iterable[tuple[int, int, Rule]]) -> Table:
    """A table of (start, end, rule) triples, which may come in any order but not overlap.

    >>> from clew.table import AtCfa, RegisterPlus
    >>> table = table_of("x86-64", [(0x1000, 0x1010, Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16))])
    >>> table.lookup(0x100f).rule.cfa
    RegisterPlus(register=7, offset=8)
    >>> table.lookup(0x1010) is None
    True
    """
    machine = machine_named(machine) if isinstance(machine, str) else machine
    numbers: dict[Rule, int] = {NO_INFORMATION: 0}
    start: list[int] = []
    rule: list[int] = []
    reach = None
    for low, high, what in sorted(rows, key=lambda row: row[0]):
        if reach is not None and low > reach:
            start.append(reach)
            rule.append(0)
        start.append(low)
        rule.append(numbers.setdefault(what, len(numbers)))
        reach = high
    if reach is not None:
        start.append(reach)
        rule.append(0)
    return Table(
        machine,
        np.array(start, np.uint64),
        np.array(rule, np.uint32),
        Rules(machine, rules=numbers),
        no_ranges(),
    )


def merge(tables: Sequence[Table]) -> Table:
    """One table of several; where more than one has a rule, the first of them counts.

    That is how a file's ``.eh_frame`` and ``.debug_frame`` go together: each may describe functions that the other leaves out.
    """
    if len(tables) == 1:
        return tables[0]
    if not tables:
        raise ValueError("merge needs a table")
    machine = tables[0].machine
    numbers: dict[Rule, int] = {NO_INFORMATION: 0}
    starts = np.unique(np.concatenate([table.start for table in tables]))
    rule = np.zeros(len(starts), np.uint32)
    args = np.zeros(len(starts), np.uint32)
    for table in reversed(tables):
        if not len(table.start):
            continue
        at = np.searchsorted(table.start, starts, "right") - 1
        used = np.unique(table.rule)
        translation = np.zeros(int(used[-1]) + 1, np.uint32)
        for number in used.tolist():
            translation[number] = numbers.setdefault(table.rules[number], len(numbers))
        found = np.where(at >= 0, translation[table.rule[np.maximum(at, 0)]], 0)
        rule = np.where(found != 0, found, rule).astype(np.uint32)
        if table.args_size is not None:
            args = np.where(found != 0, table.args_size[np.maximum(at, 0)], args).astype(np.uint32)
        else:
            args = np.where(found != 0, 0, args).astype(np.uint32)
    # A boundary of a table whose rows do not count here is no boundary.
    keep = np.ones(len(starts), bool)
    keep[1:] = (rule[1:] != rule[:-1]) | (args[1:] != args[:-1]) | np.isin(starts[1:], tables[0].start)
    sources = tuple(dict.fromkeys(source for table in tables for source in table.ranges.sources))
    personalities: list[int] = []
    columns: list[RangeColumns] = []
    for table in tables:
        names = np.array([sources.index(source) for source in table.ranges.sources] or [0], np.uint8)
        ours = table.ranges.columns
        cie = (ours.cie + len(personalities)).astype(np.int32)
        columns.append(ours._replace(cie=cie, source=names[ours.source]))
        personalities.extend(table.ranges.personalities)
    joined = RangeColumns(
        np.concatenate([part.start for part in columns]),
        np.concatenate([part.end for part in columns]),
        np.concatenate([part.entry for part in columns]),
        np.concatenate([part.lsda for part in columns]),
        np.concatenate([part.cie for part in columns]),
        np.concatenate([part.source for part in columns]),
    )
    # Of equal starts the last counts, which is the first table's.
    turn = np.repeat(-np.arange(len(tables)), [len(table.ranges) for table in tables])
    order = np.lexsort((turn, joined.start))
    return Table(
        machine,
        starts[keep],
        rule[keep],
        Rules(machine, rules=numbers),
        Ranges(joined.take(order), sources, tuple(personalities)),
        args[keep] if args.any() else None,
        tuple(problem for table in tables for problem in table.problems),
        sum(table.lost for table in tables),
        all(table.normalised for table in tables),
    )
