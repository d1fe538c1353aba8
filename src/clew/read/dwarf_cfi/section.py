"""A section of call frame information, read in layers or all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import numpy.typing as npt

from clew.arch import Dialect, Machine, machine_named
from clew.errors import FormatError, Problem
from clew.native.census import Census
from clew.native.cursor import Malformed
from clew.native.entries import Entries
from clew.native.expressionbook import ExpressionBook
from clew.native.overlaps import Overlay
from clew.native.program import AARCH64, GENERIC, MIPS, SPARC, Interpreter
from clew.native.tabulate import Tabulator
from clew.read.dwarf_cfi.entries import Cie, Entry, Fde, Terminator
from clew.read.dwarf_cfi.instructions import Instruction
from clew.table import RangeColumns, Ranges, Row, Rule, RuleColumns, Rules, Table

if TYPE_CHECKING:
    from typing_extensions import Buffer

_DIALECTS = {Dialect.GENERIC: GENERIC, Dialect.AARCH64: AARCH64, Dialect.SPARC: SPARC, Dialect.MIPS: MIPS}


class _Expressions(Sequence[bytes]):
    """The bytes of expressions by number, taken from the section when they are asked for."""

    def __init__(self, data: memoryview, book: ExpressionBook) -> None:
        self._data = data
        self._book = book

    def __len__(self) -> int:
        return self._book.count

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        at, size = self._book.place(index)
        return bytes(self._data[at : at + size])


class CfiSection:
    """Call frame information in memory.

    Args:
        data: the section's bytes, relocated and decompressed.
        name: ``.eh_frame`` or ``.debug_frame``, or another name whose kind ``eh`` tells.
        address: where the section is loaded; pc-relative pointers stand on it.
        machine: whose registers and instructions these are: a :class:`~clew.arch.Machine` or its name.
        address_size: bytes in an address, for CIEs that do not say; the machine's where it is left out.
        text_base, data_base: what text- and data-relative pointers are relative to.
        eh: whether it is read as ``.eh_frame``; by default its name decides.
        code: the executable address ranges as (start, end) pairs, where they are known. An FDE at address 0 is dead when
            none of them holds 0: linkers leave such for functions that they dropped.

    Raises:
        FormatError: the section is too large (4 GiB).

    Which FDEs count: an empty one describes nothing, and one of a function that the linker dropped (its start is 0 outside
    the code, or the highest address or the one below, the tombstones of lld) is dead. Where FDEs overlap, the one that
    starts last counts, of equal starts the one that stands last; where it ends, the one around it goes on.
    """

    def __init__(
        self,
        data: Buffer,
        *,
        name: str = ".eh_frame",
        address: int = 0,
        machine: Machine | str = "x86-64",
        address_size: int | None = None,
        text_base: int | None = None,
        data_base: int | None = None,
        eh: bool | None = None,
        code: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.data = memoryview(data)
        self.name = name
        self.address = address
        self.machine = machine_named(machine) if isinstance(machine, str) else machine
        self.byte_order: Literal["little", "big"] = self.machine.byte_order
        self.address_size = address_size or self.machine.address_size
        self.bases = (text_base, data_base)
        self.eh = "eh_frame" in name if eh is None else eh
        self._idle: list[Interpreter] = []
        self._zero_is_dead = code is not None and not any(start <= 0 < end for start, end in code)
        try:
            self._entries = Entries(
                self.data, address, self.eh, self.byte_order == "big", self.address_size, text_base, data_base
            )
        except Malformed as error:
            raise FormatError(str(error), section=name) from None

    @cached_property
    def cies(self) -> list[Cie]:
        """All CIEs that something names or that stand by themselves, in the order in which they are met."""
        return [Cie.of(self, index, record) for index, record in enumerate(self._entries.cies)]

    def __len__(self) -> int:
        """How many FDEs there are."""
        return self._entries.count

    def fde(self, index: int) -> Fde:
        """The FDE with this number, in file order."""
        offset, end, program, cie, start, stop, lsda = (int(column[index]) for column in self._entries.columns)
        return Fde(self.cies[cie], index, offset, end, program, start, stop, lsda)

    def fdes(self) -> Iterator[Fde]:
        """All FDEs, in file order."""
        return (self.fde(index) for index in range(len(self)))

    def fdes_at(self, address: int) -> list[Fde]:
        """The FDEs whose range holds an address; the one that counts is the last."""
        if not 0 <= address < 1 << 64:
            return []
        start, stop = self._entries.columns[4:6]
        inside = (start <= np.uint64(address)) & (np.uint64(address) < stop)
        alive = self._alive()
        where = np.flatnonzero(inside if alive is None else inside & alive)
        return [self.fde(int(index)) for index in where[np.argsort(start[where], kind="stable")]]

    def nearest(self, address: int) -> Fde | None:
        """The FDE whose range is nearest to an address that none covers, or None where there are none."""
        start, stop = self._entries.columns[4:6]
        known = self._alive()
        alive = np.arange(len(start)) if known is None else np.flatnonzero(known)
        if not len(alive):
            return None
        here = np.uint64(min(max(address, 0), (1 << 64) - 1))
        below = np.where(stop[alive] <= here, here - stop[alive], np.uint64((1 << 64) - 1))
        above = np.where(start[alive] > here, start[alive] - here, np.uint64((1 << 64) - 1))
        return self.fde(int(alive[np.argmin(np.minimum(below, above))]))

    def entries(self) -> Iterator[Entry]:
        """CIEs, FDEs and terminators, in file order. What cannot be read is in :attr:`problems`."""
        cies = sorted(self.cies, key=lambda cie: cie.offset)
        ends = [Terminator(*place) for place in self._entries.terminators]
        others: list[Cie | Terminator] = sorted([*cies, *ends], key=lambda entry: entry.offset)
        turn = 0
        for fde in self.fdes():
            while turn < len(others) and others[turn].offset < fde.offset:
                yield others[turn]
                turn += 1
            yield fde
        yield from others[turn:]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Entries that cannot be read, with their offsets; when there are very many, the first of them."""
        return tuple(Problem(message, self.name, offset) for offset, message in self._entries.problems)

    def trace(self, fde: Fde) -> Iterator[tuple[Instruction | None, Row | None]]:
        """Runs an FDE's program step by step.

        Yields:
            each instruction with the row that it completes, if it does; at the end, None with the last row.

        Raises:
            FormatError: an instruction cannot be read or makes no sense.
        """
        for instruction, _, row in self.steps(fde):
            if instruction is not None or row is not None:
                yield instruction, row

    def steps(self, fde: Fde) -> Iterator[tuple[Instruction | None, Rule, Row | None]]:
        """As :meth:`trace`, with the rule in force after each instruction; the first step is the rule before any."""
        if fde.cie.opaque or fde.stop <= fde.start:
            return
        # One machine after the other, as far as they overlap: it remembers what the CIEs' programs came to.
        machine = self._idle.pop() if self._idle else self._interpreter()
        at = fde.program
        try:
            number = machine.begin(self._entries.cies[fde.cie.index], fde.cie.index, fde.start)
            rule = self._rule(machine, number)
            yield None, rule, None
            begin, args_size = fde.start, 0
            for instruction in fde.instructions():
                at = instruction.offset
                after = machine.step(instruction.offset, instruction.end, number)
                row = None
                if machine.location != begin:
                    row = Row(begin, min(machine.location, fde.stop), rule, args_size)
                    begin = machine.location
                if after != number:
                    number, rule = after, self._rule(machine, after)
                args_size = machine.args_size
                yield instruction, rule, row
                if begin >= fde.stop:
                    return
            yield None, rule, Row(begin, fde.stop, rule, args_size)
        except Malformed as error:
            raise FormatError(str(error), section=self.name, offset=at) from None
        finally:
            self._idle.append(machine)

    def _interpreter(self) -> Interpreter:
        return Interpreter(self._entries, self.data, _DIALECTS[self.machine.cfa_dialect], 0)

    def _rule(self, machine: Interpreter, number: int) -> Rule:
        return self._rules(machine, np.array([number]))[0]

    def _rules(self, machine: Interpreter, numbers: npt.NDArray[np.integer]) -> Rules:
        expressions = _Expressions(self.data, machine.expressions)
        return Rules(self.machine, RuleColumns(*machine.rules.heads(numbers), *machine.rules.cells(), expressions))

    def _alive(self) -> npt.NDArray[np.bool_] | None:
        """Which FDEs describe something; None for all."""
        entries = self._entries
        start, stop = entries.columns[4:6]
        tombstone = (1 << 8 * self.address_size) - 2
        if not entries.empty and entries.most < tombstone and (entries.least or not self._zero_is_dead):
            return None
        alive = (stop > start) & (start < np.uint64(tombstone))
        return alive & (start != 0) if self._zero_is_dead else alive

    def _order(self) -> npt.NDArray[np.int64] | None:
        """The FDEs that describe something, by number, sorted by start and then by place; None where that is file order."""
        start = self._entries.columns[4]
        alive = self._alive()
        order = None if alive is None or alive.all() else np.flatnonzero(alive)
        if self._entries.rising:
            return order
        # A few sorted runs, one a section of the linker's input, which is what a merge sort is good at; and of equal starts
        # the last must come last.
        by_start = np.argsort(start if order is None else start[order], kind="stable")
        return by_start if order is None else order[by_start]

    def _ranges(self, order: npt.NDArray[np.int64] | None, failed: list[int]) -> RangeColumns:
        """The FDEs that have rows, sorted."""
        offset, _, _, cie, start, stop, lsda = self._entries.columns
        columns = RangeColumns(start, stop, offset, lsda, cie, np.zeros(len(start), np.uint8))
        if order is not None:
            columns = columns.take(order)
        return columns.take(np.delete(np.arange(len(columns.start)), failed)) if failed else columns

    def census(self) -> list[int]:
        """How many instructions of each opcode the programs have: 256 numbers (see :class:`clew.native.census.Census`)."""
        return list(Census(self._entries, self.data).counts)

    def table(self) -> Table:
        """The Table of all rows, decoded: one row for each that the programs make, rows of no length left out.

        FDEs that cannot be read, or whose programs cannot be run, are left out and are in the Table's problems.
        """
        entries = self._entries
        order = self._order()
        dialect = _DIALECTS[self.machine.cfa_dialect]
        machine = Tabulator(entries, self.data, dialect, order)
        row_start, row_rule, row_args, first = machine.run()
        if machine.overlaps:
            # Rare enough to be run again for what is not noted otherwise.
            machine = Tabulator(entries, self.data, dialect, order, note_first=True)
            row_start, row_rule, row_args, first = machine.run()
        problems = list(self.problems)
        problems += [Problem(message, self.name, offset) for offset, message in machine.problems]
        ranges = Ranges(
            lambda: self._ranges(order, machine.failed),
            (self.name,),
            [record.personality for record in entries.cies],
        )
        if machine.overlaps:
            args = np.zeros(len(row_start), np.uint32) if row_args is None else row_args
            first = np.delete(first, machine.failed)
            row_start, row_rule, args = Overlay(ranges.start, ranges.end, first, row_start, row_rule, args).run()
            row_args = None if row_args is None else args
            message = "FDEs overlap; of those around an address the one that starts last counts"
            problems.append(Problem(message, self.name, lost=False))
        return Table(
            self.machine,
            row_start,
            row_rule,
            self._rules(machine, machine.rules_of_rows()),
            ranges,
            row_args,
            tuple(problems),
            entries.problem_count + machine.problem_count,
        )
