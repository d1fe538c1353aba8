"""Names, files, lines and inlined calls of a file's addresses, from the best debugging information that there is.

with Symbolizer.open("/usr/bin/python3.11") as symbols:
    for frame in symbols.lookup(0x5dd20):
        print(frame.demangled, frame.file, frame.line)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from clew.errors import Problem
from clew.image import Image, SymbolTable
from clew.native.dwarf_assemble import Assembler
from clew.symbols.assembled import Linker, finished
from clew.symbols.debug_file import DebugFiles, find_debug_information
from clew.symbols.debug_links import alternate_link
from clew.symbols.debug_places import Places
from clew.symbols.dwarf.info import DebugInfo, silent
from clew.symbols.dwarf.split import Splits
from clew.symbols.found import DebugFile, Tried
from clew.symbols.symbol_map import U64, SymbolMap

if TYPE_CHECKING:
    from clew.symbols.lookup import Lookup, SourceFrame

#: Units that are kept.
_MOST_UNITS = 4096
#: Units that are looked at for one address; where more claim it, the file is read as a whole.
_MOST_CLAIMS = 64
#: Stands for all units that do not say where their code is.
_WORDLESS = ()

#: Places that a sentence lists.
_MOST_PLACES = 4


def _places(tried: Sequence[Tried]) -> str:
    """Places that did not serve, as the end of a sentence."""
    listed = "".join(f"; {path} {reason}" for path, reason in tried[:_MOST_PLACES])
    return listed + (f"; and {len(tried) - _MOST_PLACES} more places" if len(tried) > _MOST_PLACES else "")


class Symbolizer:
    """Looks up the addresses of one file.

    Args:
        image: the file.
        files: where its symbols and its DWARF are; by default they are looked for.
        places: where to look; by default the system's directories, and the servers in the environment.
        discriminators: whether frames tell those of their lines.
    """

    def __init__(
        self,
        image: Image,
        files: DebugFiles | None = None,
        *,
        places: Places | None = None,
        discriminators: bool = False,
    ) -> None:
        self.image = image
        self.places = Places.default() if places is None else places
        self.files = find_debug_information(image, self.places) if files is None else files
        self._discriminators = discriminators
        self._left_out: list[Problem] = []
        self._units: dict[tuple[int, ...], Lookup] = {}

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, places: Places | None = None, discriminators: bool = False
    ) -> Symbolizer:
        """The symboliser of a file. Raises as :meth:`clew.image.Image.open`."""
        return cls(Image.open(path), places=places, discriminators=discriminators)

    def close(self) -> None:
        """Lets go of the files."""
        for image in (self.image, self.files.symbols, self.files.dwarf, self.files.alternate):
            if image is not None:
                image.close()

    def __enter__(self) -> Symbolizer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def info(self) -> DebugInfo | None:
        """The DWARF, or None where none was found."""
        image = self.files.dwarf
        if image is None:
            return None
        images = [image, self.image] if image is not self.image else [image]
        directories = self.places.directories

        def package() -> DebugFile:
            from clew.symbols.split_file import find_split_package

            return find_split_package(images, directories)

        def file(name: str, directory: str | None) -> DebugFile:
            from clew.symbols.split_file import find_split_file

            return find_split_file(name, directory, images, directories)

        splits = Splits(package, file)
        return DebugInfo(image, supplement=self.files.alternate, splits=splits, discriminators=self._discriminators)

    @cached_property
    def tables(self) -> list[SymbolTable]:
        """The linker's symbols, the fullest first."""
        found = []
        for image in dict.fromkeys((self.files.symbols, self.files.dwarf, self.image)):
            if image is not None:
                found.append(image.symbols("symtab"))
        if not any(len(table) for table in found):
            from clew.symbols.minidebug import minidebug_image

            mini = minidebug_image(self.image)
            if mini is not None:
                found.append(mini.symbols("symtab"))
        found.append(self.image.symbols("dynsym"))
        return [table for table in found if len(table)]

    @cached_property
    def _linker(self) -> Linker:
        return Linker(self.tables)

    @property
    def problems(self) -> list[Problem]:
        """What was wrong with the DWARF, as far as it was read."""
        return [] if self.info is None else [*self.info.problems, *dict.fromkeys(self._left_out)]

    @property
    def missing(self) -> list[str]:
        """What of the debugging information was not found, and where it was looked for: a sentence for each."""
        found: list[str] = []
        if self.files.dwarf is None:
            found.append(f"no lines: no debugging information was found{_places(self.files.dwarf_tried)}")
        elif self.files.alternate is None and alternate_link(self.files.dwarf) is not None:
            places = _places(self.files.alternate_tried)
            found.append(f"what its debugging information shares with others (dwz) was not found{places}")
        return found

    def lookup(self, address: int) -> tuple[SourceFrame, ...]:
        """What an address of the file stands for, the innermost function first; empty where nothing is known."""
        for units in self._units_at(address):
            lookup = self._whole_lookup if len(units) > _MOST_CLAIMS else self._lookup_of(units)
            frames = lookup.frames(address)
            if frames:
                return frames
        return self._symbol(address)

    def lookup_many(self, addresses: U64 | Sequence[int]) -> list[tuple[SourceFrame, ...]]:
        """:meth:`lookup` of many addresses. From some hundred on, the whole file is read."""
        addresses = np.asarray(addresses, np.uint64)
        if "whole" not in self.__dict__ and len(addresses) < 256:
            return [self.lookup(address) for address in addresses.tolist()]
        return self._whole_lookup.frames_of(addresses)

    @cached_property
    def whole(self) -> SymbolMap:
        """Everything that is known of the file."""
        return self.read_whole()

    def read_whole(self, progress: Callable[[int], None] = silent, *, processes: int = 1) -> SymbolMap:
        """:attr:`whole`, for a caller who takes it as its own: it is not kept here.

        Args:
            progress: is called now and then with how many units of DWARF are done.
            processes: how many may share the work, where there is much of it. Others than this one are forked from it.
        """
        info = self.info
        if info is None:
            return finished(Assembler(), [], [], self._linker)
        if processes > 1:
            from clew.symbols.dwarf.shares import LARGE, read_shares

            if info.size >= LARGE:
                columns, names, files, problems = read_shares(info, self._discriminators, processes, progress)
                self._left_out.extend(problem for problem in problems if problem not in info.problems)
                return finished(columns, names, files, self._linker, problems=self._left_out)
        assembler = Assembler(self._discriminators, info.line_bound)
        info.read_all(assembler, progress)
        return finished(assembler, info.names, info.files, self._linker, problems=self._left_out)

    @cached_property
    def _whole_lookup(self) -> Lookup:
        from clew.symbols.lookup import Lookup

        # Symbols are looked up as :meth:`lookup` does it: they end where they say.
        return Lookup(self.whole, self._symbol)

    def forget(self) -> None:
        """Lets go of the bytes of the DWARF, which are read again when they are asked for; maps stay as they are."""
        self.__dict__.pop("info", None)
        self.__dict__.pop("_claims", None)
        self._units.clear()
        for image in (self.files.dwarf, self.files.alternate):
            if image is not None:
                image.forget()

    def _units_at(self, address: int) -> list[tuple[int, ...]]:
        """The units that an address may be in: those that claim it, which are looked at together; then those without claims."""
        if self.info is None or not 0 <= address < 1 << 64:
            return []
        starts, ends, owners, reach, wordless = self._claims
        last = int(np.searchsorted(starts, np.uint64(address), "right"))
        # Before that no claim reaches so far.
        first = int(np.searchsorted(reach[:last], np.uint64(address), "right"))
        claiming = owners[first:last][ends[first:last] > np.uint64(address)].tolist()
        found = [tuple(sorted(set(claiming)))] if claiming else []
        return [*found, _WORDLESS] if wordless else found

    @cached_property
    def _claims(self) -> tuple[U64, U64, np.ndarray[tuple[int], np.dtype[np.int64]], U64, list[int]]:
        assert self.info is not None
        starts, ends, owners, wordless = self.info.claims
        return starts, ends, owners, np.maximum.accumulate(ends) if len(ends) else ends, wordless

    def _lookup_of(self, units: tuple[int, ...]) -> Lookup:
        """Looks up in some units, as if there were no others."""
        known = self._units.get(units)
        if known is None:
            from clew.symbols.lookup import Lookup

            assert self.info is not None
            assembler = Assembler(self._discriminators)
            # Those that do not say where their code is are many where the linker optimised, and mostly have none.
            for each in units or self._claims[4]:
                self.info.read(each, assembler)
            if len(self._units) >= _MOST_UNITS:
                self._units = {key: kept for key, kept in self._units.items() if key == _WORDLESS}
            known = Lookup(finished(assembler, self.info.names, self.info.files, self._linker, publics=False))
            self._units[units] = known
        return known

    def _symbol(self, address: int) -> tuple[SourceFrame, ...]:
        from clew.symbols.lookup import SourceFrame

        for table in self.tables:
            found = table.at(address)
            if found is not None:
                return (SourceFrame(table.name(found[0]), None, 0, offset=found[1]),)
        return ()
