"""Function names of a binary file by address, from whatever symbols it has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from clew.errors import Error
from clew.image import Image
from clew.symbols.demangle import demangle
from clew.symbols.minidebug import minidebug_image

if TYPE_CHECKING:
    from clew.image import SymbolTable


@dataclass(frozen=True, slots=True)
class Name:
    """What an address is called.

    Attributes:
        function: the symbol's name, as it stands in the file.
        offset: bytes from where the symbol begins.
    """

    function: str
    offset: int

    @property
    def demangled(self) -> str:
        """The name as people write it."""
        return demangle(self.function)


@dataclass(frozen=True, slots=True)
class SymbolSource:
    """Where symbols come from.

    Attributes:
        file: the file's name.
        section: the section in it.
        table: the symbols.
    """

    file: str
    section: str
    table: SymbolTable


class FileNames:
    """Names of one file's functions: from ``.symtab``, else from ``.gnu_debugdata`` together with ``.dynsym``.

    Args:
        image: the file.
        debug: a file with its full symbols, if one was found.
    """

    def __init__(self, image: Image, debug: Image | None = None) -> None:
        self._image = image
        self._debug = debug

    @cached_property
    def sources(self) -> list[SymbolSource]:
        """The symbols that are asked, the fullest first."""
        found: list[SymbolSource] = []
        for image in (self._debug, self._image):
            if image is not None and len(table := image.symbols("symtab")):
                found.append(SymbolSource(image.name, ".symtab", table))
        if not found:
            mini = minidebug_image(self._image)
            if mini is not None:
                found.append(SymbolSource(self._image.name, ".gnu_debugdata", mini.symbols("symtab")))
            found.append(SymbolSource(self._image.name, ".dynsym", self._image.symbols("dynsym")))
        return [source for source in found if len(source.table)]

    def at(self, address: int) -> Name | None:
        """The function that one of the file's own addresses is in, or None.

        Of several tables the symbol that starts last counts: a mini symbol table leaves out what ``.dynsym`` has.
        """
        best: Name | None = None
        for source in self.sources:
            table = source.table
            try:
                found = table.at(address)
            except Error:
                continue
            if found is not None and (best is None or found[1] < best.offset):
                best = Name(table.name(found[0]), found[1])
        return best
