"""From addresses, one or a million, to what ``clew symbolize`` prints for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from clew.cli.symbolize_input import UNKNOWN
from clew.cli.symbolize_linker import LinkerSymbols
from clew.errors import NotFoundError
from clew.image.elf import ET_REL
from clew.symbols.lookup import Lookup, SourceFrame

if TYPE_CHECKING:
    from clew.cli.symbolize_text import Form
    from clew.image import Section
    from clew.symbols import Symbolizer
    from clew.symbols.symbol_map import U64

#: From so many addresses on the whole file is read.
_MANY = 256
#: Answers that are kept. Only a file of many million lines has more.
_MOST_ANSWERS = 1 << 18


class Answers:
    """Answers in the form that is asked for.

    Args:
        symbols: the file's.
        form: what is printed.
        section: the name of the section whose offsets are given, instead of addresses.

    Raises:
        NotFoundError: there is no such section.
    """

    def __init__(self, symbols: Symbolizer, form: Form, section: str | None = None) -> None:
        self.symbols = symbols
        self._form = form
        self._mask = np.uint64((1 << symbols.image.elf_class) - 1)
        self._parts = _parts(symbols, section)
        self._texts: dict[tuple[int, int, int], str] = {}

    def text(self, addresses: Sequence[int]) -> str:
        """The answers for addresses, one after the other; UNKNOWN ones are 0, and nothing is there."""
        places = self._masked(addresses)
        if self._parts is None and len(places) >= _MANY:
            answers = self._many(places)
            if UNKNOWN in addresses:
                nothing = self._form.answer(())
                answers = [nothing if given < 0 else text for given, text in zip(addresses, answers, strict=True)]
        else:
            answers = map(self._form.answer, self._each(addresses, places))
        if not self._form.addresses:
            return "".join(answers)
        heading = self._form.address
        return "".join([heading(place) + text for place, text in zip(places.tolist(), answers, strict=True)])

    def frames(self, addresses: Sequence[int]) -> Iterable[tuple[SourceFrame, ...]]:
        """What addresses stand for, the innermost function first."""
        places = self._masked(addresses)
        if self._parts is not None or UNKNOWN in addresses or len(places) < _MANY:
            return self._each(addresses, places)
        return map(self._by_linker, places.tolist(), self.symbols.lookup_many(places))

    def _masked(self, addresses: Sequence[int]) -> U64:
        """The addresses, as wide as the file's are."""
        known = [max(each, 0) for each in addresses] if UNKNOWN in addresses else addresses
        return np.array(known, np.uint64) & self._mask

    def _each(self, addresses: Sequence[int], places: U64) -> Iterable[tuple[SourceFrame, ...]]:
        for given, place in zip(addresses, places.tolist(), strict=True):
            yield self._one(place) if given >= 0 else ()

    def _one(self, given: int) -> tuple[SourceFrame, ...]:
        """What an address, or an offset, stands for; in an object file, where each section begins at 0, of the first
        section that has something there."""
        for place in self._places(given):
            frames = self._by_linker(place, self.symbols.lookup(place))
            if frames:
                return frames
        return ()

    def _places(self, given: int) -> Iterable[int]:
        if self._parts is None:
            return (given,)
        return [start + given for start, size in self._parts if given < size and start + given < 1 << 64]

    def _many(self, places: U64) -> Iterable[str]:
        """The answers for addresses of the file. Those of equal lines and calls are made once."""
        texts, form = self._texts, self._form
        if len(texts) > _MOST_ANSWERS:
            texts.clear()
        found = self._lookup.find(places)
        unknown = np.flatnonzero(found.function < 0)
        if len(unknown):
            # The linker's number in the place of a line's.
            found.line[unknown] = self._linker.find(places[unknown])
        keys = list(zip(found.function.tolist(), found.line.tolist(), found.inline.tolist(), strict=True))
        for key, place in zip(keys, places.tolist(), strict=True):
            if key not in texts:
                frames = self._lookup.frames(place) if key[0] >= 0 else ()
                texts[key] = form.answer(self._by_linker(place, frames))
        return map(texts.__getitem__, keys)

    def _by_linker(self, place: int, frames: tuple[SourceFrame, ...]) -> tuple[SourceFrame, ...]:
        """The same frames, or, where no line is known, what symbols say."""
        if frames and (len(frames) > 1 or frames[0].file is not None):
            return frames
        number = int(self._linker.find(np.array([place], np.uint64))[0])
        if number >= 0:
            return (self._linker.frame(number, place, frames[0] if frames else None),)
        # A symbol of data is no function.
        data = any(table.at(place) is not None for table in self.symbols.tables)
        return () if data else frames

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.symbols.whole)

    @cached_property
    def _linker(self) -> LinkerSymbols:
        return LinkerSymbols(self.symbols.image, self.symbols.tables)


def _parts(symbols: Symbolizer, name: str | None) -> list[tuple[int, int]] | None:
    """Where the parts of the file that are asked for begin, and their sizes; None for all of it, by address."""
    image = symbols.image
    wanted: Sequence[Section] = image.sections
    if name is not None:
        # addr2line takes the first of several.
        wanted = [section for section in image.sections if section.name == name][:1]
        if not wanted:
            raise NotFoundError(f"there is no section {name!r}", file=image.name, hint="`readelf -S` lists what it has")
    elif image.type != ET_REL:
        return None
    addresses = image.section_addresses()
    return [(addresses[section.index], section.size) for section in wanted if section.allocated]
