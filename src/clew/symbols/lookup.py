"""From an address to the functions, files and lines that it stands for, in a :class:`~clew.symbols.SymbolMap`."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clew.native.symbol_index import SymbolIndex
from clew.symbols.demangle import demangle
from clew.symbols.symbol_map import NO_FILE, NO_NAME, U64, SymbolMap

I32 = npt.NDArray[np.int32]

#: Calls this deep in others are put together anew each time.
_DEEPEST_KEPT = 100


class SourceFrame(NamedTuple):
    """A function as the source has it, and where in it the code is.

    Attributes:
        function: the name, as the debugging information has it; None where nobody knows.
        file: the path of the source file; None where nobody knows.
        line: in that file; 0 where nobody knows, or where the code belongs to no line.
        discriminator: which of several blocks of the line; 0 for none, or where nobody asked.
        inlined: whether the function was inlined into the one that follows.
        offset: bytes from where the function begins, of one that was not inlined; None where that is not known.
    """

    function: str | None
    file: str | None
    line: int
    discriminator: int = 0
    inlined: bool = False
    offset: int | None = None

    @property
    def demangled(self) -> str | None:
        """The name as people write it."""
        return None if self.function is None else demangle(self.function)


@dataclass(frozen=True, slots=True)
class Found:
    """What many addresses are in; -1 for nothing.

    Attributes:
        function: int32[n], indices of the map's functions.
        line: int32[n], of its lines.
        inline: int32[n], of its inlined calls: the innermost one.
    """

    function: I32
    line: I32
    inline: I32


class Lookup:
    """Looks addresses up in a map.

    Args:
        symbols: the map.
        otherwise: what gives the frames of an address that is in no function; by default the map's symbols of the linker.
    """

    def __init__(self, symbols: SymbolMap, otherwise: Callable[[int], tuple[SourceFrame, ...]] | None = None) -> None:
        self.symbols = symbols
        self._otherwise = self._public if otherwise is None else otherwise
        self._calls: dict[int, tuple[str | None, tuple[SourceFrame, ...], tuple[str | None, int]]] = {}

    @cached_property
    def _index(self) -> SymbolIndex:
        return SymbolIndex(self.symbols.functions, self.symbols.lines, self.symbols.inlines)

    @cached_property
    def _callers(self) -> I32:
        return self._index.callers()

    def frames(self, address: int) -> tuple[SourceFrame, ...]:
        """What an address of the file stands for, the innermost function first; empty where no function is."""
        if not 0 <= address < 1 << 64:
            return ()
        function, line, inline = self._index.find(address)
        if function < 0:
            return self._otherwise(address)
        return self._chain(address, function, line, inline)

    def find(self, addresses: U64) -> Found:
        """Functions, lines and inlined calls of many addresses, as columns."""
        return Found(*self._index.find_many(np.ascontiguousarray(addresses, np.uint64)))

    def frames_of(self, addresses: U64) -> list[tuple[SourceFrame, ...]]:
        """:meth:`frames` of many addresses: half a million in a second."""
        given = np.ascontiguousarray(addresses, np.uint64)
        names, files = self.symbols.names, self.symbols.files
        # Nothing here is garbage, and looking for some among a million new objects takes as long as making them.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._index.chains(given, SourceFrame, names, files, self._calls, self._calls_above, self._otherwise)
        finally:
            if collecting:
                gc.enable()

    def _chain(self, address: int, function: int, line: int, inline: int) -> tuple[SourceFrame, ...]:
        functions = self.symbols.functions
        offset = address - int(functions.address[function])
        name = self._name(int(functions.name[function]))
        file, number, discriminator = self._line(line)
        if inline < 0:
            return (SourceFrame(name, file, number, discriminator, False, offset),)
        called, calls, (call_file, call_line) = self._calls_above(inline)
        leaf = SourceFrame(called, file, number, discriminator, True)
        return (leaf, *calls, SourceFrame(name, call_file, call_line, 0, False, offset))

    def _calls_above(self, inline: int) -> tuple[str | None, tuple[SourceFrame, ...], tuple[str | None, int]]:
        """What an inlined call is of; the frames of the calls around it; and where the outermost of them was made."""
        known = self._calls.get(inline)
        if known is None:
            inlines = self.symbols.inlines
            place = self._file(int(inlines.call_file[inline])), int(inlines.call_line[inline])
            called = self._name(int(inlines.name[inline]))
            around = int(self._callers[inline])
            if inlines.depth[inline] > _DEEPEST_KEPT:
                # Hostile: what is kept of each would be long, and so many calls deep this function cannot call itself.
                frames = []
                while around >= 0:
                    frames.append(SourceFrame(self._name(int(inlines.name[around])), *place, 0, True))
                    place = self._file(int(inlines.call_file[around])), int(inlines.call_line[around])
                    around = int(self._callers[around])
                return called, tuple(frames), place
            if around < 0:
                known = called, (), place
            else:
                name, calls, outermost = self._calls_above(around)
                known = called, (SourceFrame(name, *place, 0, True), *calls), outermost
            self._calls[inline] = known
        return known

    def _line(self, line: int) -> tuple[str | None, int, int]:
        if line < 0:
            return None, 0, 0
        lines = self.symbols.lines
        discriminator = 0 if lines.discriminator is None else int(lines.discriminator[line])
        return self._file(int(lines.file[line])), int(lines.line[line]), discriminator

    def _name(self, number: int) -> str | None:
        return None if number == NO_NAME else self.symbols.names[number]

    def _file(self, number: int) -> str | None:
        return None if number == NO_FILE else self.symbols.files[number]

    def _public(self, address: int) -> tuple[SourceFrame, ...]:
        """A symbol of the linker reaches to where the next one, or a function, begins."""
        publics, functions = self.symbols.publics, self.symbols.functions
        place = int(np.searchsorted(publics.address, np.uint64(address), "right")) - 1
        if place < 0:
            return ()
        start = int(publics.address[place])
        before = int(np.searchsorted(functions.address, np.uint64(address), "right")) - 1
        if before >= 0 and int(functions.address[before]) >= start:
            return ()
        return (SourceFrame(self._name(int(publics.name[place])), None, 0, offset=address - start),)
