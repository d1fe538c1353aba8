"""From the functions that units say they have to a map: sorted, without overlaps, named by the linker where nobody else does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from clew.errors import Problem
from clew.image import SymbolTable
from clew.image.elf import SHN_UNDEF
from clew.native.columns import distinct
from clew.symbols.pieces import own_calls, own_lines
from clew.symbols.symbol_map import NO_NAME, U32, U64, Functions, Inlines, Lines, Publics, SymbolMap

if TYPE_CHECKING:
    from clew.symbols.dwarf.shares import Columns

Indices = npt.NDArray[np.int64]

#: How names begin that compilers made of the whole of a function's type: Itanium's C++ ABI, Rust's second mangling.
_MANGLED = ("_Z", "_RN", "_RI")
_MANGLED_BYTES = (b"_Z", b"_RN", b"_RI")

NO_PUBLICS = Publics(np.zeros(0, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.uint8))


def finished(
    assembler: Columns,
    names: list[str],
    files: Sequence[str],
    symbols: Linker,
    *,
    publics: bool = True,
    problems: list[Problem] | None = None,
) -> SymbolMap:
    """The map of all units that the assembler was given.

    Of functions at one place the first one counts; a longer one goes on behind it. Where one begins inside another, it
    counts up to its end and the other goes on behind it. Code that has lines but is in no function is one without a name,
    unless a symbol of the linker says what it is: so with assembler's code, and padding.

    Args:
        names: those that the assembler's numbers mean; names of symbols are added to it.
        files: likewise.
        symbols: the linker's.
        publics: whether symbols that are in no function belong to the map.
        problems: takes what had to be left out.
    """
    address, size, name, first_line, end_line, first_inline, end_inline, orphan = assembler.function_columns()
    real = np.flatnonzero(orphan == 0)
    real = real[np.argsort(address[real], kind="stable")]
    again = np.zeros(len(real), bool)
    again[1:] = address[real[1:]] == address[real[:-1]]
    multiple = np.zeros(len(address), np.uint8)
    if again.any():
        first = np.maximum.accumulate(np.where(again, 0, np.arange(len(real))))
        kept = real[first]
        other = again & (name[real] != name[kept])
        multiple[kept[other]] = 1
        real = _longer(real, size, first)
    starts, ends, real = _untangled(address[real], address[real] + size[real], real)
    lone = np.flatnonzero(orphan)
    lone = lone[np.argsort(address[lone], kind="stable")]
    lone_starts, lone_ends, lone = _outside(address[lone], address[lone] + size[lone], lone, starts, ends)
    lone_starts, lone_ends, lone, lone_names = _named(lone_starts, lone_ends, lone, names, symbols)
    real_names = symbols.mangled(starts, name[real], names)
    order = np.argsort(np.concatenate([starts, lone_starts]), kind="stable")
    start, end = np.concatenate([starts, lone_starts])[order], np.concatenate([ends, lone_ends])[order]
    which = np.concatenate([real, lone])[order]
    lines, inlines = Lines(*assembler.line_columns()), Inlines(*assembler.inline_columns())
    changed = np.flatnonzero((start != address[which]) | (end - start != size[which]))
    first_line, end_line = own_lines(start, end, changed, first_line[which], end_line[which], lines.address)
    first_inline = first_inline[which]
    end_inline, too_many = own_calls(changed, first_inline, end_inline[which], assembler.inlines)
    if too_many and problems is not None:
        message = (
            "functions are cut into too many parts by others inside them; some calls inlined into them are left out"
        )
        problems.append(Problem(message, ".debug_info"))
    functions = Functions(
        start,
        end - start,
        np.concatenate([real_names, lone_names])[order],
        np.zeros(len(start), np.uint32),
        multiple[which],
        first_line,
        end_line,
        first_inline,
        end_inline,
    )
    return SymbolMap(
        functions,
        lines,
        inlines,
        _publics(functions, names, symbols.tables) if publics else NO_PUBLICS,
        names,
        files,
    )


def _longer(real: Indices, size: U64, first: Indices) -> Indices:
    """Of functions at one place the first one, and before it those that go on behind all that are earlier, the longest first.

    Args:
        real: functions by address. size: their sizes. first: for each, which of ``real`` is the first at its address.
    """
    stays = first == np.arange(len(first))
    place = np.arange(len(first))
    sizes, firsts = size[real].tolist(), first.tolist()
    end = 0
    for i in np.flatnonzero(~stays).tolist():
        if firsts[i] == i - 1:
            end = sizes[i - 1]
        if sizes[i] > end:
            end, stays[i] = sizes[i], True
            # Behind what is longer.
            place[i] = 2 * firsts[i] - i
    ordered: Indices = real[stays][np.lexsort((place[stays], first[stays]))]
    return ordered


def _untangled(starts: U64, ends: U64, which: Indices) -> tuple[U64, U64, Indices]:
    """The same pieces, sorted by start, without overlaps: what begins inside another counts up to its end."""
    if not len(starts) or not (np.maximum.accumulate(ends)[:-1] > starts[1:]).any():
        return starts, ends, which
    result: list[tuple[int, int, int]] = []
    around: list[tuple[int, int]] = []
    at = 0

    def close(until: int) -> None:
        """Ends what ends up to here; each then goes on from where the one inside it ended."""
        nonlocal at
        while around and around[-1][0] <= until:
            end, piece = around.pop()
            if at < end:
                result.append((at, end, piece))
                at = end

    for start, end, piece in zip(starts.tolist(), ends.tolist(), which.tolist(), strict=True):
        close(start)
        if around and at < start:
            result.append((at, start, around[-1][1]))
        at = start
        around.append((end, piece))
    close(1 << 64)
    result.sort()
    columns = np.array([each[:2] for each in result], np.uint64).reshape(-1, 2)
    return columns[:, 0].copy(), columns[:, 1].copy(), np.array([each[2] for each in result], np.int64)


def _outside(starts: U64, ends: U64, which: Indices, inner_starts: U64, inner_ends: U64) -> tuple[U64, U64, Indices]:
    """The parts of some pieces that are outside of others; both sorted, the others without overlaps."""
    starts, ends, which = _untangled(starts, ends, which)
    first = np.searchsorted(inner_ends, starts, "right")
    last = np.searchsorted(inner_starts, ends, "left")
    if not len(starts) or (first >= last).all():
        return starts, ends, which
    result: list[tuple[int, int, int]] = []
    for start, end, piece, low, high in zip(
        starts.tolist(), ends.tolist(), which.tolist(), first.tolist(), last.tolist(), strict=True
    ):
        for inner in range(low, high):
            if start < inner_starts[inner]:
                result.append((start, int(inner_starts[inner]), piece))
            start = max(start, int(inner_ends[inner]))
        if start < end:
            result.append((start, end, piece))
    columns = np.array([each[:2] for each in result], np.uint64).reshape(-1, 2)
    return columns[:, 0].copy(), columns[:, 1].copy(), np.array([each[2] for each in result], np.int64)


def _named(starts: U64, ends: U64, which: Indices, names: list[str], symbols: Linker) -> tuple[U64, U64, Indices, U32]:
    """Pieces without names, cut where symbols of the linker begin and end, with the names of these."""
    if not len(starts):
        return starts, ends, which, np.zeros(0, np.uint32)
    edge = symbols.edges
    low = np.searchsorted(edge, starts, "right")
    high = np.searchsorted(edge, ends, "left")
    # One piece more for each edge inside.
    counts = np.maximum(high - low, 0) + 1
    total = int(counts.sum())
    first = np.cumsum(counts) - counts
    rank = np.arange(total) - np.repeat(first, counts)
    cut_starts = np.repeat(starts, counts)
    inner = np.flatnonzero(rank)
    cut_starts[inner] = edge[(np.repeat(low, counts) + rank - 1)[inner]]
    cut_ends = np.empty(total, np.uint64)
    cut_ends[:-1] = cut_starts[1:]
    cut_ends[first + counts - 1] = ends
    return cut_starts, cut_ends, np.repeat(which, counts), symbols.numbers(cut_starts, names)


class Linker:
    """The names of the linker's symbols for code that nobody else names.

    Args:
        tables: tables of symbols, the fullest first.
    """

    def __init__(self, tables: Sequence[SymbolTable]) -> None:
        self.tables = tables
        self._known: dict[int, int] = {}

    @cached_property
    def edges(self) -> U64:
        """Where functions begin and end (uint64), sorted."""
        if not self.tables:
            return np.zeros(0, np.uint64)
        table = self.tables[0]
        wanted = (table.shndx != SHN_UNDEF) & table.is_code
        start, size = table.address[wanted], table.size[wanted]
        return cast(U64, distinct(np.concatenate([start, start + size])))

    def mangled(self, addresses: U64, numbers: U32, names: list[str]) -> U32:
        """Numbers (uint32) of functions' names, better ones where the linker has them.

        Compilers give functions of anonymous namespaces no DW_AT_linkage_name; what is left is the bare name. A symbol that
        begins where the function does, and is mangled, says the whole of it. Some functions have no name at all, such as
        those that clang makes to start a unit, compiled for lines only.
        """
        nameless = np.flatnonzero(numbers == NO_NAME)
        if len(nameless):
            numbers = numbers.copy()
            numbers[nameless] = self.numbers(addresses[nameless], names)
        if not self._any_mangled:
            return numbers
        bare = np.flatnonzero(
            np.array([n != NO_NAME and not names[n].startswith(_MANGLED) for n in numbers.tolist()], bool)
        )
        found, offsets = self.tables[0].lookup(addresses[bare])
        result = numbers.copy()
        for place, symbol in zip(
            bare[(found >= 0) & (offsets == 0)], found[(found >= 0) & (offsets == 0)], strict=True
        ):
            if self.tables[0].name_bytes(int(symbol)).startswith(_MANGLED_BYTES):
                result[place] = self._number(int(symbol), names)
        return result

    @cached_property
    def _any_mangled(self) -> bool:
        return bool(self.tables) and self.tables[0].has_prefix(*_MANGLED_BYTES)

    def _number(self, symbol: int, names: list[str]) -> int:
        number = self._known.get(symbol)
        if number is None:
            number = self._known[symbol] = len(names)
            names.append(self.tables[0].name(symbol))
        return number

    def numbers(self, addresses: U64, names: list[str]) -> U32:
        """The numbers (uint32) of the names of addresses, which are added to ``names``."""
        result = np.full(len(addresses), NO_NAME, np.uint32)
        if not self.tables:
            return result
        found, _ = self.tables[0].lookup(addresses)
        for place in np.flatnonzero(found >= 0).tolist():
            result[place] = self._number(int(found[place]), names)
        return result


def _publics(functions: Functions, names: list[str], symbols: Sequence[SymbolTable]) -> Publics:
    """The functions of symbol tables that are in no function of the map, one for each address."""
    chosen: dict[int, str] = {}
    multiple: set[int] = set()
    for table in symbols:
        wanted = np.flatnonzero((table.shndx != SHN_UNDEF) & table.is_code)
        at = table.address[wanted]
        inside = np.searchsorted(functions.address, at, "right") - 1
        covered = inside >= 0
        if covered.any():
            covered &= at - functions.address[inside] < functions.size[inside]
        for index in wanted[~covered].tolist():
            name, place = table.name(index), int(table.address[index])
            if chosen.setdefault(place, name) != name:
                multiple.add(place)
    places = sorted(chosen)
    first = len(names)
    names.extend(chosen[place] for place in places)
    return Publics(
        np.array(places, np.uint64),
        np.arange(first, first + len(places), dtype=np.uint32),
        np.zeros(len(places), np.uint32),
        np.array([place in multiple for place in places], np.uint8),
    )
