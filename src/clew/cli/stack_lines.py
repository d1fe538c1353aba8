"""Where a module's code comes from in the source: from its DWARF, else from its Breakpad symbol file."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from clew.errors import Error, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clew.image import Image
    from clew.symbols.debug_file import DebugFiles
    from clew.symbols.debug_places import Places
    from clew.symbols.lookup import Lookup, SourceFrame
    from clew.symbols.symbolizer import Symbolizer
    from clew.target import Module


class ModuleLines:
    """Looks up addresses of one module. What that takes is opened for the first address that is asked for.

    Args:
        image: the module's file; None where there is none.
        debug: where its DWARF and its symbol file are.
        places: where they were looked for.
        base: the address, in the file's own numbering, that a symbol file counts from.
    """

    def __init__(self, image: Image | None, debug: DebugFiles, places: Places, base: int) -> None:
        self._image = image
        self._debug = debug
        self._places = places
        self._base = base
        self._errors: dict[str, None] = {}
        self._read: dict[str, Callable[[], Sequence[Problem]]] = {}

    def at(self, address: int) -> tuple[SourceFrame, ...]:
        """The functions that one of the file's own addresses is in, the innermost first; empty where nothing is known."""
        try:
            if self._symbolizer is not None:
                return self._symbolizer.lookup(address)
            return () if self._symbol_file is None else self._symbol_file.frames(address - self._base)
        except Error as error:
            self._errors[str(error)] = None
            return ()

    @property
    def problems(self) -> list[Problem]:
        """What was wrong with what was read so far, with the names of files. No frame is lost by it."""
        found = list(self._errors)
        for name, problems in self._read.items():
            # What cannot be opened has said so when it was asked.
            with suppress(Error):
                found += [f"{name}: {problem}" for problem in problems()]
        return [Problem(each, lost=False) for each in found]

    @cached_property
    def _symbolizer(self) -> Symbolizer | None:
        if self._image is None or self._debug.dwarf is None:
            return None
        from clew.symbols.symbolizer import Symbolizer

        symbolizer = Symbolizer(self._image, self._debug, places=self._places)
        self._read[self._debug.dwarf.name] = lambda: symbolizer.problems
        return symbolizer

    @cached_property
    def _symbol_file(self) -> Lookup | None:
        if self._debug.symbol_file is None:
            return None
        from clew.symbols.lookup import Lookup
        from clew.symbols.sym_file import SymbolFile

        try:
            file = SymbolFile.open(self._debug.symbol_file)
            self._read[file.name] = lambda: file.problems
            return Lookup(file.symbols)
        except Error as error:
            self._errors[str(error)] = None
            return None


def stored_symbols(module: Module, places: Places) -> DebugFiles | None:
    """The symbol file of a module whose own file is not here; None where nothing says which that is."""
    if not places.stores or (module.debug_id is None and module.build_id is None):
        return None
    from clew.image import breakpad_id
    from clew.symbols.debug_file import DebugFiles
    from clew.symbols.symbol_store import find_symbol_file

    named = module.debug_id or (os.path.basename(module.name), breakpad_id.debug_id(module.build_id))
    found = find_symbol_file(places.stores, *named)
    return DebugFiles(None, symbol_file=found.path, symbol_file_tried=found.tried)
