"""``STACK CFI`` records of a Breakpad symbol file into a Table.

The format's document says what records mean and what order they have. Real files do not always keep to it, and the
processors read on; so does this, and tells:

- records that are not in the order of their addresses are put into it, within their ``INIT`` and the ``INIT`` records among
  each other;
- of ``INIT`` ranges that overlap the one that begins first counts, as for rust-minidump; of equal starts the first one;
- a record before any ``INIT``, or with an address outside of its range, is left out;
- where there is no rule for ``.cfa`` or ``.ra`` the table has no information: processors ignore the others then;
- a constant below 4096 as return address is where walkers end: it is *undefined*.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.arch import Machine
from clew.native.breakpad_cfi_lines import CHANGE, INIT, ODD, CfiLines, CfiSteps
from clew.native.breakpad_fields import MOST_TOLD
from clew.read.breakpad.cfi_terms import Cells, CfiTerms
from clew.read.breakpad.flaws import Flaws
from clew.table import NO_INFORMATION, RangeColumns, Ranges, Rule, Rules, Table

#: The name of the section in ranges.
SECTION = "STACK CFI"
#: Different sentences about what is wrong; the names in them are the text's, and it may have any number.
_MOST_SENTENCES = 200

#: Kinds of lines besides those that the compiled core tells.
_UNREADABLE, _OTHER = 10, 11

_RECORD = re.compile(
    rb"\s*STACK\s+CFI\s+(?:INIT\s+([0-9A-Fa-f]{1,16})\s+([0-9A-Fa-f]{1,16})|([0-9A-Fa-f]{1,16}))(?:\s+(.*))?", re.DOTALL
)


def read_cfi(text: bytes, machine: Machine) -> Table:
    """The Table of all ``STACK CFI`` records in a text; other lines are passed over.

    Args:
        text: a symbol file, or part of one.
        machine: whose registers it names.
    """
    return read_cfi_runs([(text, 1)], machine)


def read_cfi_runs(runs: Iterable[tuple[bytes | memoryview, int]], machine: Machine) -> Table:
    """The Table of ``STACK CFI`` records that stand in several places, such as :class:`~clew.read.breakpad.CfiText` has.

    Args:
        runs: pieces of text of whole lines, each with the number of its first line.
        machine: whose registers they name.

    Returns:
        A Table, decoded, of addresses relative to the module's own. ``entry`` of a range is the line of its ``INIT``.
    """
    reading = _Records(machine)
    for text, line in runs:
        reading.read(text, line)
    return reading.table()


class _Records:
    """Records on their way into a table."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.terms = CfiTerms(machine)
        self.size = 0
        self.texts: dict[bytes, int] = {}
        # Of each piece of text the kinds of its records, addresses, sizes, numbers of their texts, and lines.
        self.parts: list[tuple[npt.NDArray[np.uint64], ...]] = []
        # By sentence and whether something is lost: the first lines, and how many there are.
        self.flaws: dict[tuple[str, bool], tuple[list[int], list[int]]] = {}
        self.lost = 0

    def read(self, text: bytes | memoryview, line: int) -> None:
        """Splits a piece of text; one that begins with a record that is no INIT goes on with the piece before."""
        self.size += len(text)
        lines = CfiLines(text, line)
        kind, address, size, word, number = (column.astype(np.uint64) for column in lines.run())
        texts = [self.texts.setdefault(words, len(self.texts)) for words in lines.texts()]
        plain = kind != ODD
        if texts:
            word[plain] = np.array(texts, np.uint64)[word[plain].astype(np.int64)]
        for at in np.flatnonzero(~plain).tolist():
            kind[at], address[at], size[at], word[at] = self._odd(bytes(text[int(address[at]) : int(size[at])]))
        mine = kind != _OTHER
        self.parts.append((kind[mine], address[mine], size[mine], word[mine], number[mine]))

    def _odd(self, line: bytes) -> tuple[int, int, int, int]:
        """Kind, address, size and number of the text of a line that is not of the plain form."""
        match = _RECORD.fullmatch(line)
        if match is None:
            return (_UNREADABLE if line.split(None, 2)[:2] == [b"STACK", b"CFI"] else _OTHER), 0, 0, 0
        first, size, address, rules = match.groups()
        word = self.texts.setdefault(rules.rstrip() if rules else b"", len(self.texts))
        return (CHANGE, int(address, 16), 0, word) if first is None else (INIT, int(first, 16), int(size, 16), word)

    def note(self, lines: npt.NDArray[Any] | list[int], message: str, *, lost: bool = True) -> None:
        """What is wrong with records, by line, and whether they are lost by it."""
        if not len(lines):
            return
        self.lost += lost * len(lines)
        if (message, lost) not in self.flaws and len(self.flaws) >= _MOST_SENTENCES:
            message = "the record has a problem like others"
        told, count = self.flaws.setdefault((message, lost), ([], [0]))
        told += [int(line) for line in lines[: max(MOST_TOLD - len(told), 0)]]
        count[0] += len(lines)

    def table(self) -> Table:
        """The table of all records that were read."""
        columns = zip(*self.parts, strict=True) if self.parts else (5 * [[np.empty(0, np.uint64)]])
        kind, address, size, text, line = (np.concatenate(column) for column in columns)
        self.parts = []
        # A block is an INIT with the records behind it. What follows one that is of no use belongs to nothing that is known.
        head = kind != CHANGE
        self.note(line[kind == _UNREADABLE], "the record cannot be read")
        beyond = (kind == INIT) & (size > ~address)
        self.note(line[beyond], "the range ends beyond the last address")
        self.note(line[(kind == INIT) & (size == 0)], "the range is empty", lost=False)
        good = (kind == INIT) & ~beyond & (size != 0)
        mine = np.cumsum(head) - 1
        heads = np.flatnonzero(head)
        early = ~head & (mine < 0)
        self.note(line[early], "there is no INIT record before; the record is left out")
        start, end, fine = address[heads], address[heads] + size[heads], good[heads]
        keep = good.copy()
        later = np.flatnonzero(~head & (mine >= 0))
        around = mine[later]
        inside = fine[around] & (start[around] <= address[later]) & (address[later] < end[around])
        keep[later] = inside
        self.note(line[later[~inside]], "it is not in the range of its INIT; the record is left out")
        block = (np.cumsum(fine) - 1)[mine[keep]]
        return self._table(start[fine], end[fine], address[keep], block, text[keep].astype(np.int64), line[keep])

    def _table(
        self,
        start: npt.NDArray[np.uint64],
        end: npt.NDArray[np.uint64],
        address: npt.NDArray[np.uint64],
        block: npt.NDArray[np.int64],
        text: npt.NDArray[np.int64],
        line: npt.NDArray[np.uint64],
    ) -> Table:
        """The table of blocks, by their ranges, and of the records in them."""
        first = np.flatnonzero(np.diff(block, prepend=-1))
        entry = line[first].astype(np.uint32)
        inside = block[1:] == block[:-1]
        at = np.flatnonzero(inside & (address[1:] == address[:-1])) + 1
        self.note(line[at], "the record has the address of the one before; both count", lost=False)
        at = np.flatnonzero(inside & (address[1:] < address[:-1])) + 1
        self.note(line[at], "the record comes after one of a higher address", lost=False)
        if len(at):
            order = np.lexsort((np.arange(len(block)), address, block))
            address, block, text, line = address[order], block[order], text[order], line[order]
        rule, rules = self._rules(block, text, line)
        keep = self._apart(start, end, entry)
        order = np.argsort(start, kind="stable")
        order = order[keep[order]]
        rank = np.full(len(start), -1, np.int64)
        rank[order] = np.arange(len(order))
        rows = np.flatnonzero(keep[block])
        rows = rows[np.argsort(rank[block[rows]], kind="stable")]
        flaws = Flaws()
        for (message, lost), (lines, number) in self.flaws.items():
            flaws.add(message, lines, count=number[0], lost=lost)
        count = len(order)
        ranges = RangeColumns(
            start[order],
            end[order],
            entry[order],
            np.zeros(count, np.uint64),
            np.full(count, -1, np.int32),
            np.zeros(count, np.uint8),
        )
        return Table(
            self.machine,
            *_with_gaps(address[rows], rule[rows], rank[block[rows]], end[order]),
            Rules(self.machine, rules=rules),
            Ranges(ranges, (SECTION,)),
            problems=tuple(flaws.problems),
            lost=self.lost,
        )

    def _rules(
        self, block: npt.NDArray[np.int64], text: npt.NDArray[np.int64], line: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint32], list[Rule]]:
        """The rule in force from each record on, and the rules by number."""
        states = _States(self.terms, list(self.texts), self.size)
        self.texts = {}
        state, flawed = CfiSteps().run(block, text, states.follow)
        for at in flawed:
            before = int(state[at - 1]) if at and block[at] == block[at - 1] else 0
            for message, lost in states.flawed[before << 32 | int(text[at])]:
                self.note([int(line[at])], message, lost=lost)
        return np.array(states.rule, np.uint32)[state], states.rules

    def _apart(
        self, start: npt.NDArray[np.uint64], end: npt.NDArray[np.uint64], line: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.bool_]:
        """Which blocks count where ranges overlap."""
        keep = np.ones(len(start), bool)
        order = np.argsort(start, kind="stable")
        if (start[order][1:] >= end[order][:-1]).all():
            return keep
        reach = 0
        for at in order.tolist():
            if int(start[at]) < reach:
                keep[at] = False
                self.note([int(line[at])], "the range overlaps another; it is left out")
            else:
                reach = int(end[at])
        return keep


class _States:
    """What is in force after records, each different state once.

    State 0 is before an INIT, where nothing is. ``known`` has the state that follows on one (above bit 32) by a text (its
    number); ``flawed`` what is wrong with such a step.
    """

    def __init__(self, terms: CfiTerms, texts: list[bytes], size: int) -> None:
        self.terms = terms
        self.texts = texts
        self.known: dict[int, int] = {}
        self.flawed: dict[int, list[tuple[str, bool]]] = {}
        self.cells: list[Cells | None] = [{}]
        self.rules: list[Rule] = [NO_INFORMATION]
        self.rule: list[int] = [0]
        self._numbers: dict[Rule, int] = {NO_INFORMATION: 0}
        self._states: dict[tuple[object, ...], int] = {}
        # A state is a copy of the one before: hostile text has as many as it has lines, as large as it likes.
        self.allowance = (1 << 18) + size // 16

    def follow(self, step: int) -> tuple[int, bool]:
        """The state after a record in a state, and whether something is wrong with it."""
        if step not in self.known:
            self.known[step] = self._follow(step)
        return self.known[step], step in self.flawed

    def _follow(self, step: int) -> int:
        cells = self.cells[step >> 32]
        if cells is None:
            # There was no room for the state before this one.
            return step >> 32
        changes, flaws = self.terms.changes(self.texts[step & 0xFFFFFFFF])
        after: Cells | None = None
        self.allowance -= len(cells) + len(changes)
        if self.allowance >= 0:
            after = {**cells, **dict(changes)}
            rule, oddity = self.terms.rule(after)
            if oddity is not None:
                flaws.append(oddity)
        else:
            rule = NO_INFORMATION
            flaws.append(("the text has more different rules than its size warrants", True))
        if flaws:
            self.flawed[step] = flaws
        key = (None,) if after is None else tuple(sorted(after.items(), key=lambda item: item[0]))
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = len(self.cells)
            self.cells.append(after)
            number = self._numbers.setdefault(rule, len(self.rules))
            if number == len(self.rules):
                self.rules.append(rule)
            self.rule.append(number)
        return state


def _with_gaps(
    address: npt.NDArray[np.uint64],
    rule: npt.NDArray[np.uint32],
    rank: npt.NDArray[np.int64],
    end: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Rows with one of no information behind each range that another does not follow at once; no two of one address."""
    if not len(address):
        return np.empty(0, np.uint64), np.empty(0, np.uint32)
    last = np.append(rank[1:] != rank[:-1], True)
    behind = np.flatnonzero(last) + 1
    following = np.append(address[behind[:-1]], np.uint64(0))
    gap = following != end
    gap[-1] = True
    address = np.insert(address, behind[gap], end[gap])
    rule = np.insert(rule, behind[gap], 0)
    keep = np.append(address[1:] != address[:-1], True)
    return address[keep], rule[keep]
