"""A table for people: one block a function, one line a row, one column a register, in equations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clew.table import Table
from clew.write.functions import Function, Namer, functions


@dataclass(frozen=True, slots=True)
class Line:
    """One row, ready to print.

    Attributes:
        address: where it begins; in the first line of a block the word itself.
        cells: what stands under each heading: a register that the row does not name has a dot.
        remarks: what holds besides.
    """

    address: str
    cells: tuple[str, ...]
    remarks: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """One function, ready to print.

    Attributes:
        function: the function.
        name: its symbol, with the distance from it where the range begins inside; empty for none.
        lines: the headings (``cfa``, then the registers that any row names), and a line for each row. All cells but the last
            of a line are as wide as their column.
    """

    function: Function
    name: str
    lines: tuple[Line, ...]


def blocks(table: Table, name_of: Namer, within: Sequence[tuple[int, int]] | None = None) -> Iterator[Block]:
    """The blocks of a table, in the order of their addresses; see :func:`clew.write.functions.functions`."""
    machine = table.machine
    known: dict[int, tuple[dict[str, str], str]] = {}
    for function in functions(table, name_of, within):
        distinct = set(function.rule)
        for number in distinct - known.keys():
            rule = table.rules[number]
            known[number] = dict(rule.equations(machine)), ", ".join(rule.remarks())
        names = {name for number in distinct for name in known[number][0]} - {"cfa"}
        headings = ("cfa", *sorted(names, key=lambda name: machine.register_number(name) or 0))
        lines = [Line("address", headings)]
        for start, number, args_size in zip(function.start, function.rule, function.args_size, strict=True):
            equations, remarks = known[number]
            if args_size:
                remarks = ", ".join(filter(None, (remarks, f"{args_size} bytes of arguments")))
            lines.append(Line(f"{start:#x}", tuple(equations.get(name, "·") for name in headings), remarks))
        name = function.name or ""
        if name and function.offset:
            name += f"+{function.offset:#x}"
        yield Block(function, name, tuple(_aligned(lines)))


def _aligned(lines: Sequence[Line]) -> Iterator[Line]:
    """The same lines with their columns one under the other."""
    address = max(len(line.address) for line in lines)
    widths = [max(map(len, column)) for column in zip(*(line.cells for line in lines), strict=True)]
    widths[-1] = 0
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line.cells, widths, strict=True))
        yield Line(line.address.ljust(address), tuple(cells), line.remarks)
