"""What ``addr2line`` says of code that only the linker's symbols know: their name, and the source file that the linker noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.image.elf import SHF_TLS, STB_LOCAL, STT_FILE, STT_NOTYPE
from clew.symbols.lookup import SourceFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.image import Image, SymbolTable
    from clew.symbols.symbol_map import U64

I64 = npt.NDArray[np.int64]


class LinkerSymbols:
    """The functions of symbol tables, by address.

    Data has no function: symbols of objects count for nothing here. Nor does a symbol beyond the end of its section, where
    one without a size would reach for ever.

    Args:
        image: the file, which says where sections are.
        tables: its tables of symbols, the fullest first.
    """

    def __init__(self, image: Image, tables: Sequence[SymbolTable]) -> None:
        self._tables = tables
        self._first = np.cumsum([0, *map(len, tables)]).tolist()
        self._files: list[I64 | None] = [None] * len(tables)
        addresses = image.section_addresses()
        # Of thread-local storage, .tbss has addresses that are also those of others.
        parts = sorted(
            (start := addresses[each.index], min(start + each.size, (1 << 64) - 1))
            for each in image.sections
            if each.allocated and each.size and not each.flags & SHF_TLS
        )
        self._starts = np.array([start for start, _ in parts] or [0], np.uint64)
        self._ends = np.array([end for _, end in parts] or [(1 << 64) - 1], np.uint64)

    def find(self, addresses: U64) -> I64:
        """A number (int64) of the symbol that each address is in; −1 for none."""
        result = np.full(len(addresses), -1, np.int64)
        rest = np.arange(len(addresses))
        for table, first in zip(self._tables, self._first, strict=False):
            found, _ = table.lookup(addresses[rest])
            there = np.flatnonzero(found >= 0)
            symbol, at = found[there], addresses[rest[there]]
            good = table.is_code[symbol] | (table.type[symbol] == STT_NOTYPE)
            part = self._part(at)
            good &= (part >= 0) & (part == self._part(table.address[symbol]))
            result[rest[there[good]]] = symbol[good] + first
            rest = np.delete(rest, there)
        return result

    def _part(self, addresses: U64) -> I64:
        """Which section addresses are in, as numbers (int64); −1 for none."""
        found = np.searchsorted(self._starts, addresses, "right") - 1
        return np.where((found >= 0) & (addresses < self._ends[found]), found, -1)

    def frame(self, number: int, address: int, known: SourceFrame | None = None) -> SourceFrame:
        """A symbol as a frame.

        Args:
            number: from :meth:`find`.
            address: what was looked for.
            known: a function that is known better, but without a line.
        """
        which = int(np.searchsorted(self._first, number, "right")) - 1
        symbol = number - int(self._first[which])
        table = self._tables[which]
        file = self._file(which, symbol)
        if known is not None and known.function is not None:
            return SourceFrame(known.function, file, 0, offset=known.offset)
        return SourceFrame(table.name(symbol), file, 0, offset=address - int(table.address[symbol]))

    def _file(self, which: int, symbol: int) -> str | None:
        """The source file of a symbol, if the linker says it.

        In a symbol table a file (STT_FILE) comes before the symbols that are local to it (gABI chapter 4, "Symbol Table");
        one without a name before those that the linker made local. The global ones come behind all others: theirs is known
        only where the table begins with its only file.
        """
        table = self._tables[which]
        files = self._files[which]
        if files is None:
            files = self._files[which] = np.flatnonzero(table.type == STT_FILE)
        before = int(np.searchsorted(files, symbol))
        # The first symbol is none.
        if not before or (table.binding[symbol] != STB_LOCAL and files[before - 1] != before):
            return None
        return table.name(int(files[before - 1]))
