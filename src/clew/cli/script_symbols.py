"""Symbols as perf takes them: which of several at one address it prefers, and how far one without a size reaches.

What perf does is described in ``tools/perf/util/symbol.c`` and ``symbol-elf.c`` of Linux: it takes functions and objects, and in
code and data also labels; ``.symtab`` and ``.dynsym`` together; and of what the linker's stubs call it makes ``NAME@plt``.
Addresses are offsets in the file.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.cli.script_demangle import perf_name
from clew.errors import Error
from clew.image import elf
from clew.image.section import text

if TYPE_CHECKING:
    from clew.image import Image, SymbolTable

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_PAGE = 4096
_SHT_REL, _SHT_RELA = 9, 4
_HIDDEN = (1, 2)
#: How many symbols before the one that starts last are looked at, for one that is around it.
_MOST_AROUND = 64
_MOST_STUBS = 1 << 16


class FileSymbols:
    """The symbols of one file.

    Args:
        image: the file.
        symbols: the file with its symbol table, which may be another; None where there is none.
    """

    def __init__(self, image: Image, symbols: Image | None) -> None:
        source = image if symbols is None else symbols
        self._tables: list[SymbolTable] = []
        parts: list[tuple[U64, U64, I64]] = []
        for which in ("symtab", "dynsym"):
            with suppress(Error):
                table = source.symbols("symtab" if which == "symtab" else "dynsym")
                chosen = _chosen(table, source)
                parts.append((_offsets(table.address[chosen], image), table.size[chosen], chosen))
                self._tables.append(table)
        self._stub_names: list[bytes] = []
        start = np.zeros(0, np.uint64)
        end, table_of, symbol = start, start.astype(np.int64), start.astype(np.int64)
        for number, (first, size, index) in enumerate(parts):
            start = np.concatenate([start, first])
            end = np.concatenate([end, first + size])
            table_of = np.concatenate([table_of, np.full(len(index), number)])
            symbol = np.concatenate([symbol, index])
            order = np.argsort(start, kind="stable")
            start, end, table_of, symbol = (
                start[order],
                _ended(start[order], end[order]),
                table_of[order],
                symbol[order],
            )
        stubs, size_of_stub = self._stubs(image)
        if len(stubs):
            start = np.concatenate([start, stubs])
            end = np.concatenate([end, stubs + np.uint64(size_of_stub)])
            table_of = np.concatenate([table_of, np.full(len(stubs), -1)])
            symbol = np.concatenate([symbol, np.arange(len(stubs))])
            order = np.argsort(start, kind="stable")
            start, end, table_of, symbol = start[order], end[order], table_of[order], symbol[order]
        self._start, self._end, self._table, self._symbol = start, end, table_of, symbol
        self._reach = np.maximum.accumulate(end) if len(end) else end
        self._best: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._start)

    def lookup(self, addresses: U64) -> tuple[I64, U64]:
        """For each address the symbol that it is in, for :meth:`name`, or -1; and how far behind its beginning (else 0)."""
        found = np.full(len(addresses), -1, np.int64)
        offsets = np.zeros(len(addresses), np.uint64)
        if not len(self._start):
            return found, offsets
        last = np.searchsorted(self._start, addresses, "right").astype(np.int64) - 1
        inside = last >= 0
        at = np.maximum(last, 0)
        alone = (at == 0) | (self._start[at - 1] != self._start[at])
        plain = inside & alone & (self._end[at] > addresses)
        found[plain] = at[plain]
        for index in np.flatnonzero(inside & ~plain & (self._reach[at] >= addresses)).tolist():
            found[index] = self._around(int(at[index]), int(addresses[index]))
        known = found >= 0
        offsets[known] = addresses[known] - self._start[found[known]]
        return found, offsets

    def name(self, index: int) -> str:
        """A symbol's name, as it is shown."""
        table, symbol = int(self._table[index]), int(self._symbol[index])
        if table < 0:
            return perf_name(text(self._stub_names[symbol])) + "@plt"
        return perf_name(text(self._tables[table].name_bytes(symbol)))

    def _around(self, last: int, address: int) -> int:
        """The symbol that an address is in: of those that start last, else of those before."""
        for _ in range(_MOST_AROUND):
            if last < 0 or int(self._reach[last]) < address:
                break
            first, best = self._preferred(last)
            if address < int(self._end[best]) or address == int(self._start[best]) == int(self._end[best]):
                return best
            last = first - 1
        return -1

    def _preferred(self, last: int) -> tuple[int, int]:
        """Of the symbols that start where this last one does: the first, and the one that perf keeps."""
        known = self._best.get(last)
        if known is None:
            first = int(np.searchsorted(self._start, self._start[last], "left"))
            # Beyond so many of one address nobody looks.
            first = max(first, last - _MOST_AROUND)
            best = first
            for other in range(first + 1, last + 1):
                if self._rank(other) > self._rank(best):
                    best = other
            known = self._best[last] = first, best
        return known

    def _rank(self, index: int) -> tuple[bool, bool, bool, int, int]:
        """A symbol with a size before one without; others before weak ones; global ones; few underscores; a long name."""
        table, symbol = int(self._table[index]), int(self._symbol[index])
        binding = elf.STB_GLOBAL if table < 0 else int(self._tables[table].binding[symbol])
        name = self.name(index)
        sized = bool(self._end[index] > self._start[index])
        underscores = len(name) - len(name.lstrip("_"))
        return sized, binding != elf.STB_WEAK, binding == elf.STB_GLOBAL, -underscores, len(name)

    def _stubs(self, image: Image) -> tuple[U64, int]:
        """Where the stubs of the procedure linkage table are, one for each of its relocations, and how large one is."""
        nothing = np.zeros(0, np.uint64)
        try:
            plt = image.section(".plt")
            if plt is None or not any(map(len, self._tables)):
                return nothing, 0
            return self._stubs_of(image, plt.offset, plt.size, plt.entry_size)
        except Error:
            return nothing, 0

    def _stubs_of(self, image: Image, offset: int, size: int, entry: int) -> tuple[U64, int]:
        nothing = np.zeros(0, np.uint64)
        relocations = image.section(".rela.plt") or image.section(".rel.plt")
        if relocations is None or relocations.type not in (_SHT_REL, _SHT_RELA) or not entry:
            return nothing, 0
        wide = image.elf_class == 64
        words = 3 if relocations.type == _SHT_RELA else 2
        kind = ("<" if image.byte_order == "little" else ">") + ("u8" if wide else "u4")
        data = relocations.raw
        count = min(len(data) // (words * (8 if wide else 4)), size // entry, _MOST_STUBS)
        info = np.frombuffer(data, kind, count * words).reshape(-1, words)[:, 1]
        symbols = (info >> np.array(32 if wide else 8, info.dtype)).astype(np.int64).tolist()
        table = image.symbols("dynsym")
        self._stub_names = [table.name_bytes(each) if each < len(table) else b"" for each in symbols]
        # The first entry is not a stub but what all of them go on to.
        return np.uint64(offset) + np.uint64(entry) * np.arange(1, count + 1, dtype=np.uint64), entry


def _chosen(table: SymbolTable, image: Image) -> I64:
    """The symbols that perf takes."""
    sections = image.sections
    allocated = np.array([*(each.allocated for each in sections), False])
    labelled = np.array([*("text" in each.name or "data" in each.name for each in sections), False])
    inside = np.minimum(table.shndx, len(sections))
    wanted = table.is_code | (table.type == elf.STT_OBJECT)
    label = (table.type == elf.STT_NOTYPE) & ~np.isin(table.other & 3, _HIDDEN) & labelled[inside]
    if len(table) and image.e_machine in (elf.EM_ARM, elf.EM_AARCH64, elf.EM_RISCV):
        names = np.array([table.name_bytes(each)[:1] == b"$" for each in np.flatnonzero(label).tolist()], bool)
        label[np.flatnonzero(label)[names]] = False
    named = (table.name_offset != 0) & (table.shndx != elf.SHN_UNDEF)
    return np.flatnonzero((wanted | label) & named & allocated[inside])


def _offsets(addresses: U64, image: Image) -> U64:
    """Where in the file addresses of it are."""
    found = addresses.copy()
    done = np.zeros(len(addresses), bool)
    for segment in image.segments:
        if segment.type != elf.PT_LOAD:
            continue
        low, high = (
            np.uint64(segment.address),
            np.uint64(min(segment.address + max(segment.memory_size, segment.file_size), (1 << 64) - 1)),
        )
        inside = ~done & (addresses >= low) & (addresses < high)
        found[inside] = addresses[inside] - low + np.uint64(segment.offset)
        done |= inside
    return found


def _ended(start: U64, end: U64) -> U64:
    """Ends, where symbols without a size reach to the next one, and the last of all to the end of a page, and one more."""
    end = np.maximum(start, end)
    if len(start):
        following = np.append(start[1:], (start[-1] + np.uint64(2 * _PAGE - 1)) & ~np.uint64(_PAGE - 1))
        end = np.where(end == start, following, end)
    return end
