"""The index of unwinding entries, ``.ARM.exidx``, and the larger entries that it points to, ``.ARM.extab``.

Exception Handling ABI for the Arm Architecture (IHI 0038), chapters 5 to 7. Each entry of the index is two words: where a
function begins, as an offset of 31 bits from the word itself, and one of

- 1, the function cannot be unwound;
- with bit 31 set, up to three unwinding instructions (the compact model 0);
- where the function's entry is in ``.ARM.extab``. That has the compact models 0 to 2, with the number of further words in
  models 1 and 2, or, in the generic model, the address of a personality routine and data of which only that knows the
  form. Assemblers (GNU's and LLVM's) write the number of words and the instructions there, whatever the routine, as
  ``__gnu_unwind_frame`` of libgcc reads them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.arch import Machine
from clew.errors import FormatError, Problem
from clew.read.arm_exidx.rules import CANNOT_UNWIND, rule_of
from clew.table import RangeColumns, Ranges, Rule, Rules, Table
from clew.table.rule import NO_INFORMATION

CANTUNWIND = 1
"""``EXIDX_CANTUNWIND``."""

_ADDRESSES = 1 << 32
_MOST_PROBLEMS = 100

Read = Callable[[int, int], bytes | memoryview | None]
"""Reads the file's memory: address and size to bytes, or None."""


@dataclass(frozen=True, slots=True)
class ExidxEntry:
    """What one function's entry says.

    Attributes:
        index: its number in the index.
        start: the function's first address, without the Thumb bit.
        table: the address of its part in ``.ARM.extab``; None where the index itself holds everything.
        model: the number of the compact model; None for the generic one, and where it cannot be unwound.
        personality: the address of the personality routine; None but for the generic model.
        data: its unwinding instructions; None where it cannot be unwound.
        lsda: the address behind them, where data for exception handling may be; None where the index holds everything.
    """

    index: int
    start: int
    table: int | None = None
    model: int | None = None
    personality: int | None = None
    data: bytes | None = None
    lsda: int | None = None


class ExidxSection:
    """An index in memory.

    One entry is for a whole function and says how to unwind from its calls. In a prologue or an epilogue it is not true, so
    that rows hold where a return address points to, and may not hold at an interrupted pc; the walker looks at the code
    there. That something *cannot be unwound* is what compilers and linkers say of all code for which they have no table, so
    it is no information, but for the function at ``entry``, which nobody calls.

    Args:
        data: the section's bytes.
        address: where it is loaded.
        read: reads the rest of the file's memory, for ``.ARM.extab``.
        machine: Arm, in the file's byte order.
        code: the executable address ranges, (start, end), sorted; entries outside of them are left out, and the last
            function ends where its range does.
        entry: the address of the program's entry point; 0 for none.
        name: what problems call it.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        *,
        address: int,
        read: Read,
        machine: Machine,
        code: Sequence[tuple[int, int]],
        entry: int = 0,
        name: str = ".ARM.exidx",
    ) -> None:
        self.data = memoryview(data)
        self.address = address
        self.machine = machine
        self.name = name
        self.entry = entry & ~1
        self._read = read
        self._code = list(code)
        self._words: npt.NDArray[np.uint32] = np.frombuffer(
            self.data[: len(self.data) // 8 * 8], "<u4" if machine.byte_order == "little" else ">u4"
        ).astype(np.uint32)

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._words) // 2

    def _starts(self) -> npt.NDArray[np.int64]:
        places = self.address + 8 * np.arange(len(self), dtype=np.int64)
        return np.asarray((_prel31(self._words[::2]) + places) % _ADDRESSES & ~1, np.int64)

    def _word(self, address: int) -> int:
        data = self._read(address, 4)
        if data is None or len(data) < 4:
            raise FormatError(f"an entry at {address:#x} is not in the file")
        return int.from_bytes(data, self.machine.byte_order)

    def entry_at(self, index: int) -> ExidxEntry:
        """The entry with this number.

        Raises:
            FormatError: it is malformed, or what it points to is not there.
        """
        place = self.address + 8 * index
        start = int(self._starts_of(index, place))
        second = int(self._words[2 * index + 1])
        if second == CANTUNWIND:
            return ExidxEntry(index, start)
        if second >> 31:
            if second >> 24 != 0x80:
                raise FormatError(
                    f"the index holds the compact model {second >> 24 & 0x7F}, which is not defined there"
                )
            return ExidxEntry(index, start, model=0, data=second.to_bytes(4, "big")[1:])
        return self._large(index, start, (place + 4 + _signed31(second)) % _ADDRESSES)

    def _starts_of(self, index: int, place: int) -> int:
        return (place + _signed31(int(self._words[2 * index]))) % _ADDRESSES & ~1

    def _large(self, index: int, start: int, table: int) -> ExidxEntry:
        word = self._word(table)
        personality = model = None
        at = table + 4
        if word >> 31:
            model = word >> 24 & 0x7F
            if model > 2:
                raise FormatError(f"the compact model {model} is not defined")
            more = word >> 16 & 0xFF if model else 0
            first = word.to_bytes(4, "big")[2 if model else 1 :]
        else:
            personality = (table + _signed31(word)) % _ADDRESSES & ~1
            word = self._word(at)
            at += 4
            more, first = word >> 24, word.to_bytes(4, "big")[1:]
        data = self._read(at, 4 * more) if more else b""
        if data is None or len(data) < 4 * more:
            raise FormatError(f"an entry of {more} words at {table:#x} is not in the file")
        # The first instruction is in the highest byte of a word.
        rest = bytes(data)
        if self.machine.byte_order == "little":
            rest = np.frombuffer(rest, "<u4").astype(">u4").tobytes()
        return ExidxEntry(index, start, table, model, personality, first + rest, at + 4 * more)

    def entries(self) -> Iterator[ExidxEntry]:
        """All entries, in the index's order.

        Raises:
            FormatError: one cannot be read.
        """
        return (self.entry_at(index) for index in range(len(self)))

    def table(self) -> Table:
        """The Table of all functions: one row each.

        Entries that cannot be read are in the Table's problems; there, and where a function cannot be unwound, is no
        information.
        """
        book = _Book(self)
        starts = self._starts()
        order = np.argsort(starts, kind="stable")
        rising = starts[order]
        if len(starts) and bool(np.any(starts[1:] < starts[:-1])):
            book.report("its entries are not sorted", None, lost=False)
        ends = np.append(rising[1:], _ADDRESSES)[: len(rising)]
        rows: list[tuple[int, int, int, int]] = []
        firsts = [low for low, _ in self._code]
        outside = 0
        for index, start, end in zip(order.tolist(), rising.tolist(), ends.tolist(), strict=True):
            if start >= end:
                continue
            at = bisect_right(firsts, start) - 1
            if at < 0 or start >= self._code[at][1]:
                outside += 1
                continue
            rows.append((start, min(end, self._code[at][1]), book.number(index), index))
        if outside:
            book.report(f"{outside} entries are for addresses that are no code", None)
        return self._made(rows, book, outside)

    def _made(self, rows: list[tuple[int, int, int, int]], book: _Book, outside: int) -> Table:
        starts: list[int] = []
        numbers: list[int] = []
        reach = 0
        for start, end, number, _ in rows:
            if starts and start > reach:
                starts.append(reach)
                numbers.append(0)
            starts.append(start)
            numbers.append(number)
            reach = end
        if starts:
            starts.append(reach)
            numbers.append(0)
        known = [row for row in rows if row[2]]
        indices = [row[3] for row in known]
        columns = RangeColumns(
            np.array([row[0] for row in known], np.uint64),
            np.array([row[1] for row in known], np.uint64),
            np.array(indices, np.uint32) * np.uint32(8),
            np.array([book.lsda.get(index, 0) for index in indices], np.uint64),
            np.array([book.personality.get(index, -1) for index in indices], np.int32),
            np.zeros(len(known), np.uint8),
        )
        return Table(
            self.machine,
            np.array(starts, np.uint64),
            np.array(numbers, np.uint32),
            Rules(self.machine, rules=book.rules),
            Ranges(columns, (self.name,), list(book.routines)),
            None,
            tuple(book.problems),
            book.lost + outside,
        )


class _Book:
    """The different rules of an index, by their instructions, and what was found besides."""

    def __init__(self, section: ExidxSection) -> None:
        self._section = section
        self._known: dict[bytes | None, int] = {None: 0}
        # Entries may overlap in a damaged file: what they come to is bounded by its size.
        self._left = 64 * len(section.data) + (1 << 16)
        self.rules: dict[Rule, int] = {NO_INFORMATION: 0}
        self.routines: dict[int, int] = {}
        self.personality: dict[int, int] = {}
        self.lsda: dict[int, int] = {}
        self.problems: list[Problem] = []
        self.lost = 0

    def number(self, index: int) -> int:
        """The number of the rule that an entry comes to; 0 where it says nothing, or cannot be read."""
        section = self._section
        try:
            entry = section.entry_at(index)
            if entry.data is None:
                outermost = entry.start == section.entry and section.entry
                return self.rules.setdefault(CANNOT_UNWIND, len(self.rules)) if outermost else 0
            if entry.personality is not None:
                self.personality[index] = self.routines.setdefault(entry.personality, len(self.routines))
            if entry.lsda is not None:
                self.lsda[index] = entry.lsda
            number = self._known.get(entry.data)
            if number is None:
                self._left -= len(entry.data)
                if self._left < 0:
                    raise FormatError("its entries have more instructions than there is room for")
                rule = rule_of(entry.data, section.machine)
                number = 0 if rule is None else self.rules.setdefault(rule, len(self.rules))
                self._known[entry.data] = number
            return number
        except FormatError as error:
            self.lost += 1
            self.report(error.message, 8 * index)
            return 0

    def report(self, message: str, offset: int | None, *, lost: bool = True) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(Problem(message, self._section.name, offset, lost))


def _signed31(word: int) -> int:
    word &= 0x7FFF_FFFF
    return word - (1 << 31) if word >> 30 else word


def _prel31(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    low = (words & np.uint32(0x7FFF_FFFF)).astype(np.int64)
    return np.where(low >> 30, low - (1 << 31), low)
