"""The records of a Breakpad symbol file as a :class:`~clew.symbols.SymbolMap`.

A map's functions and lines overlap nowhere; a file's may. The rules:

- Where functions overlap, the one that begins last counts, as far as it reaches; of those that begin together, the one that
  stands first in the file. Around it the other goes on, so a function can become several pieces. Lines of one function likewise.
- A line counts where its own function does; the rest of it is cut off.
- Of ``FILE`` and ``INLINE_ORIGIN`` records with one number the first counts. A number that has none is an unknown file or name,
  and so are an empty name and ``<name omitted>``.
- Of ``PUBLIC`` records at one address the first counts.

Those for inlined calls are in :mod:`clew.symbols.sym_inlines`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.native.breakpad_fields import MOST_TOLD
from clew.native.intervals import Intervals, Lists
from clew.read.breakpad.flaws import Flaws
from clew.read.breakpad.records import Records
from clew.symbols.sym_inlines import Pieces, inlined_calls, is_old, old_origins
from clew.symbols.sym_numbers import resolved, tell, tell_duplicates
from clew.symbols.symbol_map import NO_NAME, Functions, Lines, Publics, SymbolMap

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

OMITTED = b"<name omitted>"
"""What dump_syms writes in the place of a name that it does not know."""


def symbol_map(records: Records, flaws: Flaws) -> SymbolMap:
    """The map of a file's records. What contradicts another record is told to ``flaws``."""
    pieces = _pieces(records, flaws)
    name = _Names(records)
    bounds, inlines = inlined_calls(records, pieces, name.origins, name.declared, flaws)
    line_bounds, lines = _lines(records, pieces, flaws)
    functions, owner = records.functions, pieces.owner
    return SymbolMap(
        functions=Functions(
            address=pieces.first,
            size=pieces.last - pieces.first + np.uint64(1),
            name=name.functions[owner],
            parameter_size=functions.parameter_size[owner],
            multiple=functions.multiple[owner],
            first_line=line_bounds[0],
            end_line=line_bounds[1],
            first_inline=bounds[0],
            end_inline=bounds[1],
        ),
        lines=lines,
        inlines=inlines,
        publics=_publics(records, name, flaws),
        names=name.texts,
        files=records.files.names,
    )


class _Names:
    """All names of a file: those of functions, then of publics, then of origins.

    Attributes:
        functions, publics, origins: for each record the index of its name.
        declared: for each origin the number of its file, where the file is of the old form; else None.
        texts: the names.
    """

    def __init__(self, records: Records) -> None:
        origins = records.origins.names
        self.declared: U32 | None = None
        if is_old(records.inlines):
            self.declared, origins = old_origins(records.origins)
        parts = (records.functions.names, records.publics.names, origins)
        self.texts = parts[0].followed_by(*parts[1:])
        numbers = np.arange(len(self.texts), dtype=np.uint32)
        numbers[self.texts.length == 0] = NO_NAME
        numbers[self.texts.where(OMITTED)] = NO_NAME
        begin = len(parts[0])
        end = begin + len(parts[1])
        self.functions, self.publics, self.origins = numbers[:begin], numbers[begin:end], numbers[end:]


def _pieces(records: Records, flaws: Flaws) -> Pieces:
    functions = records.functions
    address, last = functions.address, functions.address + (functions.size - np.uint64(1))
    count = len(address)
    order = np.argsort(address, kind="stable")
    if not (last[order][:-1] >= address[order][1:]).any():
        return Pieces(order, address[order], last[order])
    order = np.lexsort((-np.arange(count), address))
    which, first, end = Intervals(np.zeros(count, np.uint32), address[order], last[order]).flat()
    owner = order[which]
    covered = np.zeros(count, np.uint64)
    np.add.at(covered, owner, end - first + np.uint64(1))
    hidden = np.flatnonzero(covered != functions.size)
    lost = covered[hidden] == 0
    tell(flaws, "another function has the code of this one; it is left out", functions.text_line[hidden[lost]])
    tell(flaws, "other functions have part of the code of this one", functions.text_line[hidden[~lost]])
    return Pieces(owner, first, end)


# Lines


def _lines(records: Records, pieces: Pieces, flaws: Flaws) -> tuple[tuple[U32, U32], Lines]:
    rows, functions = records.lines, records.functions
    tell_duplicates(records.files, "FILE", flaws)
    file, missing = resolved(rows.file, records.files)
    if missing.any():
        lacking = np.flatnonzero(missing)
        told = rows.text_line(lacking[:MOST_TOLD])
        flaws.add("no FILE record has the number of this line's file", told.tolist(), count=len(lacking))
    owner = pieces.owner
    first, end = functions.first_line[owner], functions.end_line[owner]
    bad = Lists(first, end, pieces.first, pieces.last, rows.address, rows.size).untidy() != 0
    if not bad.any():
        return (first, end), Lines(rows.address, rows.size, rows.line, file)
    # The lines of these functions are made anew, behind all others.
    made = _tidied(records, pieces, np.flatnonzero(bad), flaws)
    base = len(rows.address)
    groups, starts = np.unique(made.piece, return_index=True)
    first, end = first.copy(), end.copy()
    first[bad] = end[bad] = 0
    first[groups] = starts + base
    end[groups] = np.append(starts[1:], len(made.piece)) + base
    which = made.which
    return (first, end), Lines(
        address=np.concatenate([rows.address, made.first]),
        size=np.concatenate([rows.size, (made.last - made.first + np.uint64(1)).astype(np.uint32)]),
        line=np.concatenate([rows.line, rows.line[which]]),
        file=np.concatenate([file, file[which]]),
    )


@dataclass(frozen=True, slots=True)
class _Tidied:
    """Lines cut to pieces of functions: the piece, the record, its first and last byte; by piece and address."""

    piece: Indices
    which: Indices
    first: U64
    last: U64


def _tidied(records: Records, pieces: Pieces, bad: Indices, flaws: Flaws) -> _Tidied:
    rows, functions = records.lines, records.functions
    owners = np.unique(pieces.owner[bad])
    begin, end = functions.first_line[owners].astype(np.int64), functions.end_line[owners].astype(np.int64)
    count = end - begin
    group = np.repeat(np.arange(len(owners)), count)
    which = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
    # The first of equals counts, so it has to stand last.
    order = np.lexsort((-which, rows.address[which], group))
    numbered, which = group[order].astype(np.uint32), which[order]
    address = rows.address[which]
    part, first, last = Intervals(numbered, address, address + (rows.size[which] - np.uint32(1))).flat()
    _tell_lines(records, owners, which, (part, first, last), flaws)
    chosen = bad[np.lexsort((pieces.first[bad], pieces.owner[bad]))]
    piece_group = np.searchsorted(owners, pieces.owner[chosen]).astype(np.uint32)
    other, cut, first, last = Intervals(numbered[part], first, last).cut(
        piece_group, pieces.first[chosen], pieces.last[chosen]
    )
    piece = chosen[other]
    order = np.argsort(piece, kind="stable")
    return _Tidied(piece[order], which[part[cut]][order], first[order], last[order])


def _tell_lines(records: Records, owners: Indices, which: Indices, flat: tuple[U32, U64, U64], flaws: Flaws) -> None:
    """Tells of lines that others hide, and of those that are not inside the function that they are for."""
    rows, functions = records.lines, records.functions
    part, first, last = flat
    left = np.zeros(len(which), np.uint64)
    np.add.at(left, part, last - first + np.uint64(1))
    hidden = which[left != rows.size[which]]
    of = owners[np.searchsorted(functions.first_line[owners], which, "right") - 1]
    low, high = functions.address[of], functions.address[of] + (functions.size[of] - np.uint64(1))
    address = rows.address[which]
    outside = which[(address < low) | (address > high) | (rows.size[which] - np.uint32(1) > high - address)]
    for found, message in (
        (hidden, "line records of one function overlap"),
        (outside, "a line reaches out of its function"),
    ):
        if len(found):
            told = rows.text_line(np.sort(found)[:MOST_TOLD])
            flaws.add(message, told.tolist(), count=len(found))


def _publics(records: Records, names: _Names, flaws: Flaws) -> Publics:
    publics = records.publics
    order = np.argsort(publics.address, kind="stable")
    address = publics.address[order]
    again = np.append(False, address[1:] == address[:-1])[: len(order)]
    tell(flaws, "another PUBLIC record has this address; the first one counts", publics.text_line[order[again]])
    chosen = order[~again]
    return Publics(
        publics.address[chosen], names.publics[chosen], publics.parameter_size[chosen], publics.multiple[chosen]
    )
