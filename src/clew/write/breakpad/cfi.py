"""A Table as ``STACK CFI`` records of a Breakpad symbol file.

There is an ``INIT`` where a function begins (processors apply all records from there to an address, so these chains are
kept short), and where the table goes on after a gap. A gap ends it. Rows that say what the row before says need no record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.native.breakpad_cfi import CfiRecords
from clew.native.columns import distinct
from clew.table import Table
from clew.write.breakpad.cfi_rules import CfiRules

#: Rules up to so many have a table of what stands between each two of them; beyond, pairs are sorted.
_DENSE = 2048
#: Characters of changes that are made for one table; further ones are whole rules again, which only hostile input meets.
_MOST_CHANGES = 1 << 26
#: Registers that the rules of one table may name together, for the same reason; what is beyond is left out.
_MOST_CELLS = 1 << 22
#: Addresses that are kept for each thing that is not said.
_EXAMPLES = 5

TOO_MANY = "the table has more different rules than any program's"
BELOW_BASE = "the address is below the one that the module is loaded at"


@dataclass(frozen=True, slots=True)
class Unsaid:
    """Something that rows say and ``STACK CFI`` cannot.

    Attributes:
        reason: what, in words.
        rows: how many rows of the table it is about.
        examples: where the first of them begin, as addresses of the table.
        lost: whether these rows are left out altogether; else only this one thing is.
    """

    reason: str
    rows: int
    examples: tuple[int, ...]
    lost: bool


class StackCfi:
    """The records of a table; iterating makes their text, in pieces of about a mebibyte, each time anew.

    Attributes:
        records: how many there are, ``initials`` of them with ``INIT``.
        unsaid: what the text leaves out, most frequent first; empty where it says all that the table does.
    """

    def __init__(
        self,
        address: npt.NDArray[np.uint64],
        size: npt.NDArray[np.uint64],
        word: npt.NDArray[np.uint32],
        texts: list[bytes],
        unsaid: tuple[Unsaid, ...],
    ) -> None:
        self._made = address, size, word, texts
        self.records = len(address)
        self.initials = int(np.count_nonzero(size))
        self.unsaid = unsaid

    def __iter__(self) -> Iterator[bytes]:
        records = CfiRecords(*self._made)
        while piece := records.more():
            yield piece


def stack_cfi(table: Table, *, base: int = 0) -> StackCfi:
    """The ``STACK CFI`` records of a table, decoded or normalised: the text holds the same at each address.

    Args:
        table: its ranges say where functions begin.
        base: the address that the file's first byte in memory has in its own numbering; the text's addresses count from it.

    A row without CFA or without any rule for the return address is left out, for processors ignore records without them;
    a register's rule that has no form in postfix becomes ``.undef``; that a frame is a signal's, and that a return address
    is signed, is dropped. All this is counted in :attr:`StackCfi.unsaid`.
    """
    start, rule, begins = _rows(table)
    unsaid: list[Unsaid] = []
    if base and len(start) and int(start[0]) < base:
        first = int(np.searchsorted(start, np.uint64(base)))
        count = int(np.count_nonzero(rule[:first]))
        if count:
            examples = tuple(int(at) for at in start[:first][rule[:first] != 0][:_EXAMPLES])
            unsaid.append(Unsaid(BELOW_BASE, count, examples, True))
        start, rule, begins = start[first:], rule[first:], begins[first:]

    said = CfiRules(table.machine)
    cells: dict[int, dict[int, str]] = {}
    silent: list[int] = []
    reasons: dict[tuple[str, bool], list[int]] = {}
    room = _MOST_CELLS
    used = np.flatnonzero(np.bincount(rule, minlength=1)) if len(rule) else np.empty(0, np.int64)
    for number in used.tolist():
        if not number:
            continue
        mine, why = (None, (TOO_MANY,)) if room < 0 else said.cells(table.rules[number])
        room -= len(mine or ())
        if mine is None:
            silent.append(number)
        else:
            cells[number] = mine
        for reason in why:
            reasons.setdefault((reason, mine is None), []).append(number)
    for (reason, lost), numbers in reasons.items():
        at = np.flatnonzero(np.isin(rule, np.array(numbers, np.uint32)))
        unsaid.append(Unsaid(reason, len(at), tuple(int(start[i]) for i in at[:_EXAMPLES]), lost))
    unsaid.sort(key=lambda one: -one.rows)
    if silent:
        rule = np.where(np.isin(rule, np.array(silent, np.uint32)), 0, rule).astype(np.uint32)
    return StackCfi(*_records(start, rule, begins, cells, said, base), tuple(unsaid))


def _rows(table: Table) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """Starts and rules of rows that hold somewhere, and which of them begin a function."""
    start, rule = table.start, table.rule
    functions = table.ranges.start
    if len(start) > 1:
        # On equal starts the last one counts.
        last = np.append(start[1:] != start[:-1], True)
        if not last.all():
            start, rule = start[last], rule[last]
    begins = np.zeros(len(start), bool)
    if not len(start) or not len(functions):
        return start, rule, begins
    at = np.searchsorted(start, functions, "right") - 1
    inside = at >= 0
    at, functions = at[inside], functions[inside]
    there = start[at] == functions
    begins[at[there]] = True
    # Normalised rows may go on from one function into the next.
    within = ~there & (rule[at] != 0)
    if within.any():
        extra, first = np.unique(functions[within], return_index=True)
        place = at[within][first]
        start = np.insert(start, place + 1, extra)
        begins = np.insert(begins, place + 1, True)
        rule = np.insert(rule, place + 1, rule[place])
    return start, rule, begins


def _records(
    start: npt.NDArray[np.uint64],
    rule: npt.NDArray[np.uint32],
    begins: npt.NDArray[np.bool_],
    cells: dict[int, dict[int, str]],
    said: CfiRules,
    base: int,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint32], list[bytes]]:
    """Addresses, sizes (0 for records without ``INIT``) and words of the records, and the words' texts."""
    if not len(start):
        return start, start, rule, []
    known = rule != 0
    before = np.zeros(len(rule), np.uint32)
    before[1:] = rule[:-1]
    initial = known & (begins | (before == 0))
    # Neither a gap nor the begin of a function: what changes, by pairs of rules.
    later = np.flatnonzero(known & ~initial & (rule != before))
    pairs, which = _distinct(before[later], rule[later], int(rule.max()) + 1)
    texts: list[bytes] = []
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        found = numbers.get(text)
        if found is None:
            found = numbers[text] = len(texts)
            texts.append(f" {text}\n".encode())
        return found

    changes = np.full(len(pairs), -1, np.int64)
    room = _MOST_CHANGES
    for turn, (old, new) in enumerate(pairs):
        if room < 0:
            changes[turn] = -2
            continue
        room -= 32 * (len(cells[old]) + len(cells[new]))
        text = said.change(cells[old], cells[new])
        if text:
            changes[turn] = number(text)
            room -= len(text)
    word = np.full(len(rule), -1, np.int64)
    word[later] = changes[which]
    again = word == -2
    if again.any():
        initial |= again
    firsts = np.full(int(rule.max()) + 1, -1, np.int64)
    for one in distinct(rule[initial]).tolist():
        firsts[one] = number(said.initial(cells[one]))
    word[initial] = firsts[rule[initial]]
    # An INIT reaches to the next one, or to the gap before it.
    size = np.zeros(len(rule), np.uint64)
    edges = np.flatnonzero(initial | ~known)
    ends = np.append(start[edges[1:]], start[-1:])
    size[edges] = ends - start[edges]
    size[~initial] = 0
    keep = (word >= 0) & (~initial | (size > 0))
    return start[keep] - np.uint64(base), size[keep], word[keep].astype(np.uint32), texts


def _distinct(
    before: npt.NDArray[np.uint32], after: npt.NDArray[np.uint32], count: int
) -> tuple[list[tuple[int, int]], npt.NDArray[np.int64]]:
    """The different pairs of rules, and for each row which of them it has."""
    if count <= _DENSE:
        flat = before.astype(np.int64) * count + after
        seen = np.zeros(count * count, bool)
        seen[flat] = True
        pairs = np.flatnonzero(seen)
        places = np.zeros(count * count, np.int64)
        places[pairs] = np.arange(len(pairs))
        which = places[flat]
    else:
        flat = before.astype(np.int64) << 32 | after
        pairs, which = np.unique(flat, return_inverse=True)
        count = 1 << 32
    return [(int(pair) // count, int(pair) % count) for pair in pairs], which.reshape(-1)
