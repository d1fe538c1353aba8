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

import numpy as np
import numpy.typing as npt

from clew.arch import Machine
from clew.native.breakpad_fields import MOST_TOLD
from clew.read.breakpad.cfi_terms import Cells, CfiTerms
from clew.read.breakpad.flaws import Flaws
from clew.table import NO_INFORMATION, RangeColumns, Ranges, Rule, Rules, Table

#: The name of the section in ranges.
SECTION = "STACK CFI"
#: Different sentences about what is wrong; the names in them are the text's, and it may have any number.
_MOST_SENTENCES = 200

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
        reading.read(bytes(text), line)
    return reading.table()


class _Records:
    """Records on their way into a table."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.terms = CfiTerms(machine)
        self.size = 0
        # One element a record that counts; a block is an INIT with the records behind it.
        self.address: list[int] = []
        self.text: list[int] = []
        self.line: list[int] = []
        self.block: list[int] = []
        self.texts: dict[bytes, int] = {}
        # One element a block: the range.
        self.start: list[int] = []
        self.end: list[int] = []
        # By sentence and whether something is lost: the first lines, and how many there are.
        self.flaws: dict[tuple[str, bool], tuple[list[int], list[int]]] = {}
        self.lost = 0

    def read(self, text: bytes, line: int) -> None:
        """Reads records; a piece of text that begins with one that is no INIT goes on with the block before."""
        self.size += len(text)
        texts = self.texts
        blocks = len(self.start)
        low, high = (self.start[-1], self.end[-1]) if blocks else (0, 0)
        for number, data in enumerate(text.split(b"\n"), line):
            match = _RECORD.fullmatch(data)
            if match is None:
                if data.split(None, 2)[:2] == [b"STACK", b"CFI"]:
                    self.note(number, "the record cannot be read")
                    # What follows belongs to nothing that is known.
                    low = high = 0
                continue
            first, size, address, rules = match.groups()
            if first is not None:
                low = int(first, 16)
                high = low + int(size, 16)
                if high >> 64:
                    self.note(number, "the range ends beyond the last address")
                    low = high = 0
                    continue
                if low == high:
                    self.note(number, "the range is empty", lost=False)
                    continue
                blocks += 1
                self.start.append(low)
                self.end.append(high)
                at = low
            else:
                at = int(address, 16)
                if not low <= at < high:
                    message = "there is no INIT record before" if not blocks else "it is not in the range of its INIT"
                    self.note(number, f"{message}; the record is left out")
                    continue
            self.address.append(at)
            self.text.append(texts.setdefault(rules.rstrip() if rules else b"", len(texts)))
            self.line.append(number)
            self.block.append(blocks - 1)

    def note(self, line: int, message: str, *, lost: bool = True) -> None:
        """What is wrong with a record, and whether it is lost by it."""
        self.lost += lost
        if (message, lost) not in self.flaws and len(self.flaws) >= _MOST_SENTENCES:
            message = "the record has a problem like others"
        lines, count = self.flaws.setdefault((message, lost), ([], [0]))
        if len(lines) < MOST_TOLD:
            lines.append(line)
        count[0] += 1

    def table(self) -> Table:
        """The table of all records that were read."""
        address = np.array(self.address, np.uint64)
        block = np.array(self.block, np.int64)
        text = np.array(self.text, np.int64)
        line = np.array(self.line, np.int64)
        start, end = np.array(self.start, np.uint64), np.array(self.end, np.uint64)
        self.address, self.block, self.text, self.line = [], [], [], []
        address, block, text, line = self._ordered(address, block, text, line)
        rule, rules = self._rules(block, text, line)
        keep = self._apart(start, end, line[np.flatnonzero(np.diff(block, prepend=-1))])
        order = np.argsort(start, kind="stable")
        order = order[keep[order]]
        flaws = Flaws()
        for (message, lost), (lines, count) in self.flaws.items():
            flaws.add(message, lines, count=count[0], lost=lost)
        rank = np.full(len(start), -1, np.int64)
        rank[order] = np.arange(len(order))
        rows = np.flatnonzero(keep[block]) if len(block) else np.empty(0, np.int64)
        rows = rows[np.argsort(rank[block[rows]], kind="stable")]
        return Table(
            self.machine,
            *_with_gaps(address[rows], rule[rows], rank[block[rows]], end[order]),
            Rules(self.machine, rules=rules),
            self._ranges(start, end, block, line, order),
            problems=tuple(flaws.problems),
            lost=self.lost,
        )

    def _ordered(
        self, *columns: npt.NDArray[np.uint64] | npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The records of each block by address; an INIT stays before what has its address."""
        address, block, text, line = columns
        inside = block[1:] == block[:-1]
        for at in np.flatnonzero(inside & (address[1:] <= address[:-1])).tolist():
            same = address[at + 1] == address[at]
            what = "has the address of the one before; both count" if same else "comes after one of a higher address"
            self.note(int(line[at + 1]), f"the record {what}", lost=False)
        if (inside & (address[1:] < address[:-1])).any():
            order = np.lexsort((np.arange(len(block)), address, block))
            address, block, text, line = address[order], block[order], text[order], line[order]
        return address.astype(np.uint64), block.astype(np.int64), text.astype(np.int64), line.astype(np.int64)

    def _rules(
        self, block: npt.NDArray[np.int64], text: npt.NDArray[np.int64], line: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint32], list[Rule]]:
        """The rule in force from each record on, and the rules by number."""
        states = _States(self.terms, list(self.texts), self.size)
        self.texts = {}
        out: list[int] = []
        before, state = -1, 0
        known, flawed = states.known, states.flawed
        for mine, words, number in zip(block.tolist(), text.tolist(), line.tolist(), strict=True):
            if mine != before:
                before, state = mine, 0
            step = state << 32 | words
            state = known.get(step, -1)
            if state < 0:
                state = states.follow(step)
            if step in flawed:
                for message, lost in flawed[step]:
                    self.note(number, message, lost=lost)
            out.append(state)
        rule = np.array(states.rule, np.uint32)
        return rule[np.array(out, np.int64)], states.rules

    def _apart(
        self, start: npt.NDArray[np.uint64], end: npt.NDArray[np.uint64], line: npt.NDArray[np.int64]
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
                self.note(int(line[at]), "the range overlaps another; it is left out")
            else:
                reach = int(end[at])
        return keep

    def _ranges(
        self,
        start: npt.NDArray[np.uint64],
        end: npt.NDArray[np.uint64],
        block: npt.NDArray[np.int64],
        line: npt.NDArray[np.int64],
        order: npt.NDArray[np.int64],
    ) -> Ranges:
        first = np.flatnonzero(np.diff(block, prepend=-1))
        count = len(order)
        columns = RangeColumns(
            start[order],
            end[order],
            line[first][order].astype(np.uint32),
            np.zeros(count, np.uint64),
            np.full(count, -1, np.int32),
            np.zeros(count, np.uint8),
        )
        return Ranges(columns, (SECTION,))


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

    def follow(self, step: int) -> int:
        """The state after a record that was not met in this state before."""
        cells = self.cells[step >> 32]
        if cells is None:
            # There was no room for the state before this one.
            self.known[step] = step >> 32
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
        self.known[step] = state
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
