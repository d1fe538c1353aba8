"""The separate files with the symbols and the DWARF of a stripped one, wherever they are.

Looked for, in this order: in the file itself; by its build id, in directories; by the name in ``.gnu_debuglink``, beside it
and in directories; from the servers that ``DEBUGINFOD_URLS`` names. Symbols and DWARF need not come from one file: a file
with symbols does not end the search for DWARF. Where such files are, the GDB manual tells under "Separate Debug Files".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.errors import Error
from clew.image import Image, breakpad_id
from clew.symbols.debug_checks import cut, other_build_id, other_checksum, without_dwarf, without_symbols
from clew.symbols.debug_links import alternate_link, debug_link
from clew.symbols.debug_places import Places, build_id_paths
from clew.symbols.found import DebugFile, FoundPath, Tried, merged

if TYPE_CHECKING:
    from clew.symbols.debuginfod_settings import DebuginfodSettings


@dataclass(frozen=True, slots=True)
class DebugFiles:
    """What the search for a file's debugging information found. The images are the caller's to close.

    Attributes:
        symbols: the file with its symbol table: itself, or another; None where neither was found. What is in
            ``.gnu_debugdata`` is not here, see :func:`clew.symbols.minidebug_image`.
        dwarf: the file with its DWARF: itself, the same other, or a third; None where none was found or none was wanted.
        alternate: the supplementary file that the DWARF refers to, or None.
        symbol_file: the path of its Breakpad symbol file, or None.
        symbols_tried, dwarf_tried, alternate_tried, symbol_file_tried: places that did not serve for these, and why, in
            the order in which they were tried.
    """

    symbols: Image | None
    dwarf: Image | None = None
    alternate: Image | None = None
    symbol_file: str | None = None
    symbols_tried: tuple[Tried, ...] = ()
    dwarf_tried: tuple[Tried, ...] = ()
    alternate_tried: tuple[Tried, ...] = ()
    symbol_file_tried: tuple[Tried, ...] = ()

    @property
    def tried(self) -> tuple[Tried, ...]:
        """Every place once that did not serve for something, with all the reasons."""
        return merged([*self.symbols_tried, *self.dwarf_tried, *self.alternate_tried, *self.symbol_file_tried])


def find_debug_information(
    image: Image,
    places: Places,
    *,
    symbols: bool = True,
    dwarf: bool = True,
    build_id: bytes | None = None,
    path: str | None = None,
    debug_id: tuple[str, str] | None = None,
) -> DebugFiles:
    """The files with the symbols and the DWARF of a file.

    A file whose build id is another one is not taken; without build ids, the checksum in ``.gnu_debuglink`` decides.

    Args:
        image: the file, stripped or not.
        places: where to look.
        symbols, dwarf: whether these are wanted.
        build_id: its build id, where that is known otherwise than from the file.
        path: where the file was when it ran, if that is another place than now.
        debug_id: its name and id in Breakpad's stores, where they are known otherwise than from the file.
    """
    search = _Search(image, build_id or image.build_id, debug_link(image), symbols=symbols, dwarf=dwarf)
    search.own()
    for candidate in dict.fromkeys(_paths(image.name, path, places.directories, search.build_id, search.link)):
        if search.done:
            break
        search.other(candidate)
    if places.debuginfod is not None and search.build_id is not None and search.asks_servers():
        search.servers(places.debuginfod)
    alternate = _alternate(search.dwarf, places)
    stored = _stored(image, places, search.build_id, debug_id, path) if places.stores else FoundPath(None)
    return DebugFiles(
        search.symbols,
        search.dwarf,
        alternate.image,
        stored.path,
        tuple(search.symbols_tried),
        tuple(search.dwarf_tried),
        alternate.tried,
        stored.tried,
    )


def find_debug_file(
    image: Image, directories: Sequence[str], *, build_id: bytes | None = None, path: str | None = None
) -> DebugFile:
    """The debug file with the symbols of a stripped file, in directories only; never the file itself.

    Args:
        image, build_id, path: as in :func:`find_debug_information`.
        directories: where debug files are installed, such as :data:`~clew.symbols.debug_places.SYSTEM_DIRECTORY`.
    """
    search = _Search(image, build_id or image.build_id, debug_link(image), symbols=True, dwarf=False)
    for candidate in dict.fromkeys(_paths(image.name, path, directories, search.build_id, search.link)):
        if search.other(candidate):
            break
    return DebugFile(search.symbols, tuple(search.symbols_tried))


class _Search:
    """A search under way: what was found, what is still wanted, and what did not serve."""

    def __init__(
        self, image: Image, build_id: bytes | None, link: tuple[str, int] | None, *, symbols: bool, dwarf: bool
    ) -> None:
        self.image = image
        self.build_id = build_id
        self.link = link
        self.symbols: Image | None = None
        self.dwarf: Image | None = None
        self.symbols_tried: list[Tried] = []
        self.dwarf_tried: list[Tried] = []
        self._wants_symbols = symbols
        self._wants_dwarf = dwarf

    @property
    def done(self) -> bool:
        """Whether nothing is wanted any more."""
        return not (self._wants_symbols or self._wants_dwarf)

    def own(self) -> None:
        """Takes what the file itself has. Where it has nothing, it says what else it does not have that would lead on."""
        self._take(self.image, self._no_lead())

    def other(self, path: str) -> bool:
        """Takes what a file has that may be the debug file. Returns whether it has something that was wanted."""
        try:
            found = Image.open(path)
        except Error as error:
            self._refuse(path, error.message)
            return False
        try:
            wrong = self._misfit(found)
            if wrong is None and self._take(found, ""):
                return True
        except Error as error:
            wrong = error.message
        if wrong is not None:
            self._refuse(path, wrong)
        found.close()
        return False

    def asks_servers(self) -> bool:
        """Whether a file is wanted that is worth a download: for the names of functions, ``.gnu_debugdata`` is enough."""
        if self._wants_dwarf or not self._wants_symbols:
            return self._wants_dwarf
        from clew.symbols.minidebug import minidebug_image

        return minidebug_image(self.image) is None

    def servers(self, settings: DebuginfodSettings) -> None:
        """Asks debuginfod's servers for the debug file."""
        # The first thing that loads what talks to the network.
        from clew.symbols.debuginfod import client

        fetched = client(settings).find(self.build_id or b"")
        for path, reason in fetched.tried:
            self._refuse(path, reason)
        if fetched.path is not None:
            self.other(fetched.path)

    def _take(self, image: Image, lead: str) -> bool:
        taken = False
        if self._wants_symbols:
            wrong = _checked(without_symbols, image)
            if wrong is None:
                self.symbols, self._wants_symbols, taken = image, False, True
            else:
                self.symbols_tried.append(Tried(image.name, wrong + lead))
        if self._wants_dwarf:
            wrong = _checked(without_dwarf, image)
            if wrong is None:
                self.dwarf, self._wants_dwarf, taken = image, False, True
            else:
                self.dwarf_tried.append(Tried(image.name, wrong + lead))
        return taken

    def _refuse(self, path: str, reason: str) -> None:
        if self._wants_symbols:
            self.symbols_tried.append(Tried(path, reason))
        if self._wants_dwarf:
            self.dwarf_tried.append(Tried(path, reason))

    def _misfit(self, found: Image) -> str | None:
        """Why a file is not the debug file, or None."""
        if found.build_id is not None and self.build_id is not None:
            return other_build_id(found, self.build_id) or cut(found)
        if self.link is None:
            return cut(found) or "has no build id that says that it belongs to the file"
        return other_checksum(found, self.link[1])

    def _no_lead(self) -> str:
        absent = [name for name, there in (("build id", self.build_id), (".gnu_debuglink", self.link)) if there is None]
        return "".join(f", and no {name}" for name in absent)


def _alternate(dwarf: Image | None, places: Places) -> DebugFile:
    """The supplementary file, where the DWARF refers to one."""
    if dwarf is None or alternate_link(dwarf) is None:
        return DebugFile(None)
    from clew.symbols.alternate_file import find_alternate_file

    return find_alternate_file(dwarf, places)


def _stored(
    image: Image, places: Places, build_id: bytes | None, debug_id: tuple[str, str] | None, path: str | None
) -> FoundPath:
    """The symbol file in Breakpad's stores."""
    from clew.symbols.symbol_store import find_symbol_file

    if debug_id is not None:
        return find_symbol_file(places.stores, *debug_id)
    try:
        identifier = build_id or breakpad_id.identifier(image)
        # A library's own name, which may be another than that of its file.
        names = dict.fromkeys(
            [breakpad_id.module_name(image), os.path.basename(path or image.name), os.path.basename(image.name)]
        )
    except Error as error:
        return FoundPath(None, (Tried(image.name, error.message),))
    if identifier is None:
        return FoundPath(
            None, (Tried(image.name, "has neither a build id nor code: nothing tells which symbol file is its own"),)
        )
    tried: list[Tried] = []
    for name in names:
        found = find_symbol_file(places.stores, name, breakpad_id.debug_id(identifier))
        tried += found.tried
        if found.path is not None:
            return FoundPath(found.path, tuple(tried))
    return FoundPath(None, tuple(tried))


def _checked(check: Callable[[Image], str | None], image: Image) -> str | None:
    try:
        return check(image)
    except Error as error:
        return error.message


def _paths(
    file: str, path: str | None, directories: Sequence[str], build_id: bytes | None, link: tuple[str, int] | None
) -> Iterator[str]:
    """Where the debug file may be, best first."""
    yield from build_id_paths(directories, build_id)
    if link is None:
        return
    name = link[0]
    # What is no path at all, such as the vdso's name, is in no folder.
    folder = os.path.dirname(os.path.abspath(file) if os.path.exists(file) else file)
    if folder.startswith("/"):
        yield f"{folder}/{name}"
        yield f"{folder}/.debug/{name}"
    ran_in = os.path.dirname(os.path.normpath("/" + (path or file).lstrip("/")))
    for directory in directories:
        yield f"{directory}{ran_in.rstrip('/')}/{name}"
        yield f"{directory}/{name}"
