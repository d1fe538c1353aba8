"""The Table: what every unwind format becomes, and what every consumer of clew reads.

Rows and ranges are columns of numbers, rules are few and numbered (DESIGN: many rows, few rules). A gap between functions
is a row like any other, whose rule is *no information*; the last row ends the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from clew.arch import Machine
from clew.errors import Problem
from clew.table.rule import Rule
from clew.table.rules import Rules

U4 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint64]

#: More rules than this and the search for bad expressions among them stops: only hostile input has as many.
_MOST_RULES = 100_000


@dataclass(frozen=True, slots=True)
class Row:
    """One row: from ``start`` up to, not including, ``end`` the rule holds.

    Attributes:
        start, end: addresses.
        rule: the rule.
        args_size: bytes of arguments on the stack (``DW_CFA_GNU_args_size``).
    """

    start: int
    end: int
    rule: Rule
    args_size: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """The addresses of one function, as one FDE gives them.

    Attributes:
        start, end: addresses, ``end`` exclusive.
        entry: offset of the FDE in its section.
        source: the section's name.
        lsda: address of the language-specific data, 0 where there are none.
        personality: address of the personality routine (or of a pointer to it), 0 where there is none.
    """

    start: int
    end: int
    entry: int
    source: str
    lsda: int = 0
    personality: int = 0


class RangeColumns(NamedTuple):
    """Ranges as columns, one element an FDE; ``source`` and ``cie`` are numbers of section names and CIEs."""

    start: U8
    end: U8
    entry: U4
    lsda: U8
    cie: npt.NDArray[np.int32]
    source: npt.NDArray[np.uint8]

    def take(self, order: npt.NDArray[np.integer[Any]]) -> RangeColumns:
        """The ranges with these indices, in this order."""
        return RangeColumns(
            self.start[order],
            self.end[order],
            self.entry[order],
            self.lsda[order],
            self.cie[order],
            self.source[order],
        )


class Ranges(Sequence[Range]):
    """All ranges, sorted by start; of equal starts the last counts.

    Args:
        columns: the columns, or what makes them when somebody first asks: rows alone are often all that is wanted.
        sources: section names, by number.
        personalities: addresses, by CIE number.

    Attributes:
        start, end, lsda (u8), entry (u4), cie (i4), source (u1): one element an FDE.
    """

    def __init__(
        self,
        columns: RangeColumns | Callable[[], RangeColumns],
        sources: tuple[str, ...] = (),
        personalities: Sequence[int] = (),
    ) -> None:
        self._made = columns
        self.sources = sources
        self.personalities = personalities

    @property
    def columns(self) -> RangeColumns:
        """All columns."""
        if not isinstance(self._made, RangeColumns):
            self._made = self._made()
        return self._made

    @property
    def start(self) -> U8:
        """First addresses."""
        return self.columns.start

    @property
    def end(self) -> U8:
        """Addresses behind the last."""
        return self.columns.end

    @property
    def entry(self) -> U4:
        """Offsets of the FDEs in their sections."""
        return self.columns.entry

    def __len__(self) -> int:
        return len(self.columns.start)

    @overload
    def __getitem__(self, index: int) -> Range: ...
    @overload
    def __getitem__(self, index: slice) -> list[Range]: ...
    def __getitem__(self, index: int | slice) -> Range | list[Range]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start, end, entry, lsda, cie, source = (int(column[index]) for column in self.columns)
        personality = self.personalities[cie] if 0 <= cie < len(self.personalities) else 0
        return Range(start, end, entry, self.sources[source], lsda, personality)

    def __iter__(self) -> Iterator[Range]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, eq=False)
class Table:
    """An unwind table.

    Attributes:
        machine: whose registers the rules name.
        start (u8): addresses at which rows begin, sorted; a row ends where the next begins, and the last holds nothing.
        rule (u4): index into ``rules`` of the rule in force from there on; 0 is *no information*.
        rules: the different rules.
        ranges: the functions.
        args_size (u4): bytes of arguments on the stack, one element a row, or None where no row has any.
        problems: what could not be read, and whether that left something out.
        lost: how many entries were left out.
        normalised: whether adjacent rows differ and gaps are what no padding explains (:meth:`normalise`).
    """

    machine: Machine
    start: U8
    rule: U4
    rules: Rules
    ranges: Ranges
    args_size: U4 | None = None
    problems: tuple[Problem, ...] = field(default=(), repr=False)
    lost: int = 0
    normalised: bool = False

    def __repr__(self) -> str:
        return f"<Table {self.machine.name}, {len(self):,} rows, {len(self.rules):,} rules, {self.lost:,} entries left out>"

    def __len__(self) -> int:
        """How many rows there are, gaps included."""
        return len(self.start)

    @property
    def row_count(self) -> int:
        """How many rows say something: all but the gaps."""
        return int(np.count_nonzero(self.rule))

    @property
    def nbytes(self) -> int:
        """Bytes of the row columns."""
        return self.start.nbytes + self.rule.nbytes + (0 if self.args_size is None else self.args_size.nbytes)

    def row(self, index: int) -> Row:
        """The row with this index; its end is the next row's start."""
        n = len(self.start)
        if not -n <= index < n:
            raise IndexError(f"there is no row {index}")
        index %= n
        end = int(self.start[index + 1]) if index + 1 < n else int(self.start[index])
        args_size = 0 if self.args_size is None else int(self.args_size[index])
        return Row(int(self.start[index]), end, self.rules[int(self.rule[index])], args_size)

    def __iter__(self) -> Iterator[Row]:
        return self.rows()

    def rows(self, start: int = 0, end: int | None = None, *, gaps: bool = False) -> Iterator[Row]:
        """Rows that hold somewhere in the addresses from ``start`` up to ``end``; with ``gaps`` also those that say nothing."""
        first = max(self.index(start), 0)
        last = len(self.start) if end is None or end >= 1 << 64 else self.index(end - 1) + 1
        for index in range(first, last):
            if gaps or self.rule[index]:
                yield self.row(index)

    def index(self, address: int) -> int:
        """The index of the row that holds at an address; -1 before the first."""
        if not 0 <= address < 1 << 64:
            return -1
        return int(np.searchsorted(self.start, np.uint64(address), "right")) - 1

    def lookup(self, address: int) -> Row | None:
        """The row that holds at an address, or None where there is no information.

        The address is taken as it is: who has a return address looks up the byte before it.
        """
        index = self.index(address)
        if index < 0 or not self.rule[index]:
            return None
        return self.row(index)

    def range_at(self, address: int) -> Range | None:
        """The function that an address is in, by the same rule as the rows: of those around it, the one that starts last."""
        index = (
            int(np.searchsorted(self.ranges.start, np.uint64(address), "right")) - 1 if 0 <= address < 1 << 64 else -1
        )
        # Ranges that start later but end before the address do not hide one that is around it.
        steps = 0
        while index >= 0 and steps < 4096:
            if address < int(self.ranges.end[index]):
                return self.ranges[index]
            index -= 1
            steps += 1
        return None

    def invalid_expressions(self) -> list[Problem]:
        """Problems for the expressions of rules that cannot be read: what those rules say is unknown."""
        found = (problem for rule in self.rules[:_MOST_RULES] for problem in rule.invalid_problems())
        return list(dict.fromkeys(found))

    def normalise(self, padding: int = 16) -> Table:
        """The same table with as few rows as say it: see :func:`clew.table.normalise.normalise`."""
        from clew.table.normalise import normalise

        return normalise(self, padding)
