"""A table for people: one block a function, one line a row, one column a register, in equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clew.arch import Machine
from clew.table import Range, Table

#: The name of a function that holds an address, or None; and how far into it the address is.
Namer = Callable[[int], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class Line:
    """One row, ready to print.

    Attributes:
        start: the row's address.
        cells: what stands under each heading of its block.
        remarks: what holds besides.
    """

    start: int
    cells: tuple[str, ...]
    remarks: str


@dataclass(frozen=True, slots=True)
class Block:
    """One function, ready to print.

    Attributes:
        range: its addresses, and where its FDE is.
        name: its symbol, with the distance from it where the range begins inside; empty for none.
        headings: ``cfa``, then the registers that any of its rows names.
        lines: its rows; several FDEs may lie upon each other, then these are the rows that count.
    """

    range: Range
    name: str
    headings: tuple[str, ...]
    lines: tuple[Line, ...]


def blocks(table: Table, name_of: Namer, start: int = 0, end: int | None = None) -> Iterator[Block]:
    """The functions that hold an address from ``start`` up to ``end``, in the order of their addresses."""
    ranges = table.ranges
    wanted = np.flatnonzero(ranges.end > np.uint64(start))
    if end is not None:
        wanted = wanted[ranges.start[wanted] < np.uint64(end)]
    known: dict[int, tuple[dict[str, str], str]] = {}
    for index in wanted.tolist():
        this = ranges[index]
        first, last = max(table.index(this.start), 0), table.index(this.end - 1)
        numbers = table.rule[first : last + 1].tolist()
        starts = table.start[first : last + 1].tolist()
        args = None if table.args_size is None else table.args_size[first : last + 1].tolist()
        for number in set(numbers) - known.keys():
            rule = table.rules[number]
            known[number] = dict(rule.equations(table.machine)), ", ".join(rule.remarks())
        headings = _headings((known[number][0] for number in set(numbers)), table.machine)
        lines = []
        for place, (at, number) in enumerate(zip(starts, numbers, strict=True)):
            equations, remarks = known[number]
            if args is not None and args[place]:
                remarks = ", ".join(filter(None, (remarks, f"{args[place]} bytes of arguments")))
            lines.append(Line(max(at, this.start), tuple(equations.get(heading, "") for heading in headings), remarks))
        found = name_of(this.start)
        name = "" if found is None else found[0] + (f"+{found[1]:#x}" if found[1] else "")
        yield Block(this, name, headings, tuple(lines))


def _headings(rules: Iterator[dict[str, str]], machine: Machine) -> tuple[str, ...]:
    names = dict.fromkeys(name for equations in rules for name in equations)
    names.pop("cfa", None)
    return ("cfa", *sorted(names, key=lambda name: machine.register_number(name) or 0))


def layout(block: Block) -> Iterator[tuple[str, Sequence[str], str]]:
    """The lines of a block as (address, cells, remarks), padded so that the columns stand under their headings.

    The first one is the headings. A register that a row does not name has a dot in its column.
    """
    width = max([len("address"), *(len(f"{line.start:#x}") for line in block.lines[-1:])])
    widths = [
        max([len(heading), *(len(line.cells[column]) for line in block.lines)])
        for column, heading in enumerate(block.headings)
    ]
    last = len(widths) - 1

    def padded(cells: Sequence[str], blank: str) -> list[str]:
        return [(cell or blank).ljust(widths[i] if i < last else 0) for i, cell in enumerate(cells)]

    yield "address".ljust(width), padded(block.headings, ""), ""
    for line in block.lines:
        yield f"{line.start:#x}".ljust(width), padded(line.cells, "·"), line.remarks
