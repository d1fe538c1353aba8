"""The ``INLINE`` records of a symbol file as inlined calls.

- Breakpad's document says that a record belongs to the last one before it that is one less deep. Symbol files of mozilla's
  dump_syms keep the order of addresses instead, and one record may lie in several calls. Where a function's records are not
  nested as the document says, those of each depth are found by address, as Breakpad's and rust-minidump's readers do, and such a
  record becomes one call in each.
- A call counts where the call around it does; what is not inside one is left out. Where records of one depth overlap, the one
  that begins last counts, of those that begin together the first.
- Of a function in pieces, the first :data:`MAXIMUM_PIECES` have its calls.
- In the old form, a call is made in the file that the ``INLINE_ORIGIN`` of the call around it names. Where it was made from
  the function itself, its file is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.native.inline_nests import WHOLE, Nests
from clew.native.intervals import Intervals
from clew.read.breakpad.flaws import Flaws
from clew.read.breakpad.records import NO_NUMBER, InlineRecords, NamedRecords, Records
from clew.read.breakpad.texts import Texts
from clew.symbols.sym_numbers import resolved, tell, tell_duplicates
from clew.symbols.symbol_map import NO_NAME, Inlines

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

MAXIMUM_PIECES = 16
"""How many pieces of one function have its inlined calls; more would let a small file grow without bound."""

MAXIMUM_DEPTH = 1024
"""How deep calls are followed that are not in the document's order."""

MAXIMUM_GROWTH = 8
"""How many times the ranges of a file's records those of its calls may become, where they are not in the document's order."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Functions as a map has them: which record each comes from, and its first and last byte; by address."""

    owner: Indices
    first: U64
    last: U64


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls with their ranges: ``first``, ``end`` uint32, a function's calls; ``which``, the record of each; and ranges."""

    first: U32
    end: U32
    which: U32
    bounds: U32
    address: U64
    last: U64


def is_old(inlines: InlineRecords) -> bool:
    """Whether most of the records are of the old form."""
    return 2 * int(inlines.old.sum()) > len(inlines.old)


def old_origins(origins: NamedRecords) -> tuple[U32, Texts]:
    """The number of the file and the name of each origin of the old form; what does not begin with a number is all name."""
    file = np.full(len(origins.number), NO_NUMBER, np.uint32)
    lengths = np.zeros(len(file), np.uint32)
    for index, name in enumerate(origins.names.raws()):
        number, blank, _ = name.partition(b" ")
        if blank and number.isdigit() and len(number) < 10:
            file[index] = int(number)
            lengths[index] = len(number) + 1
    offset, length = origins.names.offset + lengths, origins.names.length - lengths
    return file, origins.names.moved(offset, length)


def inlined_calls(
    records: Records, pieces: Pieces, names: U32, declared: U32 | None, flaws: Flaws
) -> tuple[tuple[U32, U32], Inlines]:
    """The calls of a file, and for each piece which are its own: the first, and behind the last.

    Args:
        names: the name of each origin.
        declared: the number of the file of each origin, where the file is of the old form.
    """
    inlines = records.inlines
    tell_duplicates(records.origins, "INLINE_ORIGIN", flaws)
    origin, missing = resolved(inlines.origin, records.origins)
    tell(flaws, "no INLINE_ORIGIN record has the number of what is called", inlines.text_line[missing])
    number = inlines.call_file if declared is None else _old_files(inlines, declared, origin)
    file, missing = resolved(number, records.files)
    tell(flaws, "no FILE record has the number of this call's file", inlines.text_line[missing])
    calls = _nested(records, flaws)
    first, end = calls.first[pieces.owner], calls.end[pieces.owner]
    which, bounds, address, last = calls.which, calls.bounds, calls.address, calls.last
    functions, owner = records.functions, pieces.owner
    size = functions.size[owner] - np.uint64(1)
    if (pieces.first != functions.address[owner]).any() or (pieces.last - pieces.first != size).any():
        end = _few_pieces(records, pieces, first, end, flaws)
        cutter = Nests(inlines.depth[which], bounds, address, last)
        first, end, again, bounds, address, last = cutter.cut(first, end, pieces.first, pieces.last)
        which = which[again]
    names = np.append(names, np.uint32(NO_NAME))
    return (first, end), Inlines(
        depth=inlines.depth[which],
        name=names[np.minimum(origin[which], np.uint32(len(names) - 1))],
        call_file=file[which],
        call_line=inlines.call_line[which],
        first_range=bounds,
        range_address=address,
        range_size=last - address + np.uint64(1),
    )


def _old_files(inlines: InlineRecords, declared: U32, origin: U32) -> U32:
    """The number of the file that each call of the old form is made in."""
    declared = np.append(declared, np.uint32(NO_NUMBER))
    parent = _parents(inlines.depth)
    around = np.where(parent >= 0, origin[parent], np.uint32(NO_NUMBER))
    return declared[np.minimum(around, np.uint32(len(declared) - 1))]


def _parents(depth: U16) -> Indices:
    """For each record the last one before it that is one less deep; -1 where there is none."""
    order = np.argsort(depth, kind="stable")
    levels, starts = np.unique(depth[order], return_index=True)
    members = dict(zip(levels.tolist(), np.split(order, starts[1:]), strict=True))
    parent = np.full(len(depth), -1, np.int64)
    for level, calls in members.items():
        around = members.get(level - 1)
        if around is not None:
            at = np.searchsorted(around, calls) - 1
            parent[calls] = np.where(at >= 0, around[at], -1)
    return parent


def _few_pieces(records: Records, pieces: Pieces, first: U32, end: U32, flaws: Flaws) -> U32:
    """Where the calls of each piece end: at once for those that are too many."""
    order = np.argsort(pieces.owner, kind="stable")
    owner = pieces.owner[order]
    rank = np.empty(len(owner), np.int64)
    rank[order] = np.arange(len(owner)) - np.searchsorted(owner, owner)
    beyond = rank >= MAXIMUM_PIECES
    lost = np.unique(pieces.owner[beyond & (first < end)])
    message = f"others cut this function into more than {MAXIMUM_PIECES} pieces; those behind have no inlined calls"
    tell(flaws, message, records.functions.text_line[lost])
    return np.where(beyond, first, end)


def _ranges(inlines: InlineRecords, flaws: Flaws) -> tuple[U32, U64, U64]:
    """The ranges of the records, by address within each; those of the form that is not the file's have none."""
    bounds = inlines.first_range.astype(np.int64)
    count = bounds[1:] - bounds[:-1]
    other = (inlines.old != 0) != is_old(inlines)
    tell(flaws, "most INLINE records of the file are of another form; this one is left out", inlines.text_line[other])
    call = np.repeat(np.arange(len(count)), count)
    address, last = inlines.range_address, inlines.range_address + (inlines.range_size - np.uint64(1))
    if other.any():
        kept = ~other[call]
        call, address, last = call[kept], address[kept], last[kept]
        bounds = np.append(0, np.cumsum(np.bincount(call, minlength=len(count))))
    if ((address[1:] < address[:-1]) & (call[1:] == call[:-1])).any():
        order = np.lexsort((address, call))
        address, last = address[order], last[order]
    return bounds.astype(np.uint32), address, last


def _nested(records: Records, flaws: Flaws) -> _Calls:
    """The calls of each function in preorder, each inside the one around it."""
    inlines, functions = records.inlines, records.functions
    bounds, address, last = _ranges(inlines, flaws)
    first, end = functions.first_inline, functions.end_inline
    low, high = functions.address, functions.address + (functions.size - np.uint64(1))
    nests = Nests(inlines.depth, bounds, address, last)
    calls = _Calls(*nests.cut(first, end, low, high))
    wrong = np.append(0, np.cumsum(nests.flaws() != WHOLE))
    bad = np.flatnonzero((wrong[end] > wrong[first]) | _overlapping(calls, nests.unsorted(), inlines.depth))
    if not len(bad):
        return calls
    end = end.copy()
    end[bad] = first[bad]
    good = _Calls(*nests.cut(first, end, low, high))
    return _joined(good, bad, _by_address(records, bad, bounds, address, last, flaws))


def _overlapping(calls: _Calls, unsorted: U8, depth: U16) -> npt.NDArray[np.bool_]:
    """Which functions have calls of one depth that overlap; only the unsorted ones can."""
    found = np.zeros(len(unsorted), bool)
    some = np.flatnonzero(unsorted)
    count = calls.end[some].astype(np.int64) - calls.first[some]
    call = _spread(calls.first[some].astype(np.int64), count)
    pieces = calls.bounds[call + 1].astype(np.int64) - calls.bounds[call]
    ranges = _spread(calls.bounds[call].astype(np.int64), pieces)
    function, level = np.repeat(np.repeat(some, count), pieces), np.repeat(depth[calls.which[call]], pieces)
    order = np.lexsort((calls.address[ranges], level, function))
    ranges, function, level = ranges[order], function[order], level[order]
    same = (function[1:] == function[:-1]) & (level[1:] == level[:-1])
    found[function[1:][same & (calls.address[ranges[1:]] <= calls.last[ranges[:-1]])]] = True
    return found


def _joined(good: _Calls, bad: Indices, made: _Calls) -> _Calls:
    """The calls of some functions behind those of the others."""
    first, end = good.first.copy(), good.end.copy()
    base, ranges = np.uint32(len(good.which)), np.uint32(len(good.address))
    first[bad], end[bad] = made.first + base, made.end + base
    return _Calls(
        first,
        end,
        np.concatenate([good.which, made.which]),
        np.concatenate([good.bounds[:-1], made.bounds + ranges]),
        np.concatenate([good.address, made.address]),
        np.concatenate([good.last, made.last]),
    )


# By address


@dataclass(frozen=True, slots=True)
class _Level:
    """The calls of one depth: their parts by function and address, and for each call the one around it and its record.

    Attributes:
        node: the call of each part. Numbers go on from those of the level above; below are those of the functions.
        function (uint32), first, last: of each part.
        parent, record: of each call, in the order of their numbers.
    """

    node: Indices
    function: U32
    first: U64
    last: U64
    parent: Indices
    record: Indices


def _by_address(records: Records, bad: Indices, bounds: U32, address: U64, last: U64, flaws: Flaws) -> _Calls:
    """The calls of these functions, those of each depth found by address."""
    inlines, functions = records.inlines, records.functions
    begin, end = functions.first_inline[bad].astype(np.int64), functions.end_inline[bad].astype(np.int64)
    record = _spread(begin, end - begin)
    function = np.repeat(np.arange(len(bad)), end - begin)
    count = bounds[record + 1].astype(np.int64) - bounds[record]
    ranges = _spread(bounds[record].astype(np.int64), count)
    owner, function = np.repeat(record, count), np.repeat(function, count)
    first, last = address[ranges], last[ranges]
    depth = inlines.depth[owner]
    # The first of equals counts, so it has to stand last.
    order = np.lexsort((-owner, first, function, depth))
    owner, function, first, last, depth = owner[order], function[order], first[order], last[order], depth[order]
    low = functions.address[bad]
    order = np.argsort(np.arange(len(bad)))
    top = _Level(
        node=order,
        function=order.astype(np.uint32),
        first=low,
        last=low + (functions.size[bad] - np.uint64(1)),
        parent=np.full(len(bad), -1),
        record=order,
    )
    levels = [top]
    room = MAXIMUM_GROWTH * len(owner) + 1024
    total = len(bad)
    for level in range(min(int(depth[-1]), MAXIMUM_DEPTH) + 1 if len(depth) else 0):
        this = slice(*np.searchsorted(depth, np.asarray([level, level + 1], np.uint16)).tolist())
        made = _level(levels[-1], owner[this], function[this].astype(np.uint32), first[this], last[this], total)
        room -= len(made.node)
        if not len(made.node) or room < 0:
            break
        total += len(made.parent)
        levels.append(made)
    _tell_lost(records, owner, last - first + np.uint64(1), levels, flaws)
    return _preorder(levels, total)


def _spread(begin: Indices, count: Indices) -> Indices:
    """The numbers of several runs, each from ``begin`` on."""
    return np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)


def _level(above: _Level, owner: Indices, function: U32, first: U64, last: U64, total: int) -> _Level:
    """The calls of the next depth."""
    part, first, last = Intervals(function, first, last).flat()
    other, which, first, last = Intervals(function[part], first, last).cut(above.function, above.first, above.last)
    parent, record = above.node[other], owner[part[which]]
    # A pair of numbers as one: neither reaches 2^31, as a record takes fifteen bytes of text.
    pairs, node = np.unique(parent << 31 | record, return_inverse=True)
    return _Level(node + total, above.function[other], first, last, pairs >> 31, pairs & 0x7FFFFFFF)


def _tell_lost(records: Records, owner: Indices, size: U64, levels: list[_Level], flaws: Flaws) -> None:
    """Tells of records that are nowhere, or not everywhere that they say."""
    named, covered = np.zeros(len(records.inlines.depth), np.uint64), np.zeros(len(records.inlines.depth), np.uint64)
    np.add.at(named, owner, size)
    below = 0
    for level in levels:
        if level is not levels[0]:
            np.add.at(covered, level.record[level.node - below], level.last - level.first + np.uint64(1))
        below += len(level.parent)
    lines = records.inlines.text_line
    message = "no code of an inlined call is inside what is around it; it is left out"
    tell(flaws, message, lines[(covered == 0) & (named != 0)])
    message = "part of an inlined call's code is not inside what is around it, or another call's"
    tell(flaws, message, lines[(covered != 0) & (covered != named)])


def _preorder(levels: list[_Level], total: int) -> _Calls:
    """The calls of all levels, each before those inside it."""
    functions = len(levels[0].node)
    size = np.ones(total, np.int64)
    begins = np.cumsum([0, *(len(level.parent) for level in levels)]).tolist()
    for level, begin in zip(levels[:0:-1], begins[-2:0:-1], strict=True):
        np.add.at(size, level.parent, size[begin : begin + len(level.parent)])
    place, function = np.zeros(total, np.int64), np.zeros(total, np.int64)
    place[:functions] = np.cumsum(size[:functions]) - size[:functions]
    function[:functions] = np.arange(functions)
    for level, begin in zip(levels[1:], begins[1:-1], strict=True):
        count = len(level.parent)
        start = np.full(count, np.iinfo(np.uint64).max, np.uint64)
        np.minimum.at(start, level.node - begin, level.first)
        order = np.lexsort((start, level.parent))
        sizes, parent = size[begin : begin + count][order], level.parent[order]
        before = np.cumsum(sizes) - sizes
        heads = np.append(True, parent[1:] != parent[:-1])
        since = before - np.repeat(before[heads], np.diff(np.append(np.flatnonzero(heads), count)))
        place[begin + order] = place[parent] + 1 + since
        function[begin + order] = function[parent]
    # Functions have places too; without them, a call's is one less for each function up to its own.
    place -= function + 1
    record = np.concatenate([level.record for level in levels[1:]] or [np.zeros(0, np.int64)])
    which = np.empty(total - functions, np.uint32)
    which[place[functions:]] = record
    node = np.concatenate([level.node for level in levels[1:]] or [np.zeros(0, np.int64)])
    first = np.concatenate([level.first for level in levels[1:]] or [np.zeros(0, np.uint64)])
    last = np.concatenate([level.last for level in levels[1:]] or [np.zeros(0, np.uint64)])
    order = np.lexsort((first, place[node]))
    bounds = np.append(0, np.cumsum(np.bincount(place[node], minlength=total - functions)))
    calls = np.append(0, np.cumsum(size[:functions] - 1)).astype(np.uint32)
    return _Calls(calls[:-1], calls[1:], which, bounds.astype(np.uint32), first[order], last[order])
