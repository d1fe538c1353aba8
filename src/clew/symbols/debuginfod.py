"""A client of debuginfod: debug files, programs and sources by build id, from the servers that ``DEBUGINFOD_URLS`` names.

What servers send is kept where elfutils keeps it, see :mod:`clew.symbols.debuginfod_cache`; either uses what the other
got. Nothing is asked of anybody unless the user named servers, see
:meth:`clew.symbols.debuginfod_settings.DebuginfodSettings.from_environment`. This module loads what talks to the network:
import it where it is needed.
"""

from __future__ import annotations

import os
import time
import urllib.parse
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from clew.errors import Error
from clew.image import Image
from clew.symbols.debug_checks import cut, other_build_id
from clew.symbols.debuginfod_cache import Cache, Incoming
from clew.symbols.debuginfod_settings import DebuginfodSettings
from clew.symbols.debuginfod_transfer import TransferError, receive, shown
from clew.symbols.found import FoundPath, Tried

Kind = Literal["debuginfo", "executable"]

#: The longest build id that servers know; elfutils has the same limit.
_LONGEST = 64
#: Seconds for which a server that is not there is not asked again.
_SILENCE = 300


@dataclass
class Debuginfod:
    """The servers that the user named, and the cache of their files.

    Args:
        settings: which they are.
    """

    settings: DebuginfodSettings
    cache: Cache = field(init=False)
    _silent: dict[str, tuple[float, str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.cache = Cache(self.settings.cache)

    def find(self, build_id: bytes, kind: Kind = "debuginfo") -> FoundPath:
        """Where in the cache the debug file, or the program or library itself, with a build id is now.

        What has another build id is not taken. ``tried`` has places in the cache, and servers.
        """
        return self._find(build_id, self.cache.place(build_id, kind), kind)

    def find_source(self, build_id: bytes, path: str) -> FoundPath:
        """A source file.

        Nothing tells whether what a server sends is the right one.

        Args:
            build_id: of the program that was made of it.
            path: its absolute path, as the program's DWARF has it.
        """
        if not path.startswith("/"):
            return FoundPath(None, (Tried(path, "servers know sources by absolute paths only"),))
        try:
            quoted = urllib.parse.quote(os.fsencode(path), safe="/")
        except UnicodeEncodeError:
            return FoundPath(None, (Tried(path, "no file can have this name"),))
        return self._find(build_id, self.cache.place(build_id, "source", path), f"source{quoted}", source=True)

    def _find(self, build_id: bytes, place: str, what: str, *, source: bool = False) -> FoundPath:
        if not 1 < len(build_id) <= _LONGEST:
            return FoundPath(None, (Tried("debuginfod", f"no server knows a build id of {len(build_id)} bytes"),))
        self.cache.clean()
        tried: list[Tried] = []
        left = self.cache.missing_for(place)
        if left is not None:
            return FoundPath(
                None, (Tried(place, f"says that no server has it; they are asked again in {left:,.0f} s"),)
            )
        wrong = self._wrong(place, None if source else build_id)
        if wrong is None:
            self.cache.used(place)
            return FoundPath(place, ())
        if wrong:
            tried.append(Tried(place, wrong))
        try:
            self.cache.make(place)
            with self.cache.incoming(place) as file:
                found = self._ask_all(f"buildid/{build_id.hex()}/{what}", file, None if source else build_id, tried)
                if found:
                    file.keep()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return FoundPath(None, (*tried, Tried(place, f"the cache cannot be written: {reason}")))
        if found is None:
            self.cache.set_missing(place)
        return FoundPath(place if found else None, tuple(tried))

    def _ask_all(self, what: str, file: Incoming, build_id: bytes | None, tried: list[Tried]) -> bool | None:
        """Whether a server sent the file; None where every one said that it does not have it."""
        nobody = True
        for server in self.settings.urls:
            url = f"{server.rstrip('/')}/{what}"
            silent = self._silent.get(server)
            if silent is not None and time.monotonic() - silent[0] < _SILENCE:
                tried.append(Tried(shown(url), f"was not asked again: {silent[1]}"))
                nobody = False
                continue
            try:
                self._ask(url, file, build_id)
                return True
            except TransferError as error:
                tried.append(Tried(shown(url), error.reason))
                nobody = nobody and error.missing
                if error.silent:
                    self._silent[server] = (time.monotonic(), error.reason)
        return None if nobody else False

    def _ask(self, url: str, file: Incoming, build_id: bytes | None) -> None:
        for attempt in range(self.settings.retries, -1, -1):
            file.clear()
            try:
                receive(url, self.settings, file)
            except TransferError as error:
                if not (error.again and attempt):
                    raise
                continue
            wrong = self._wrong(file.path, build_id)
            if wrong is not None:
                raise TransferError(f"sent a wrong file: {wrong or 'it is empty'}")
            return

    @staticmethod
    def _wrong(path: str, build_id: bytes | None) -> str | None:
        """Why a file is not what was asked for: an empty text where there is none; None where nothing is wrong."""
        try:
            if not os.path.lexists(path) or not os.path.getsize(path):
                return ""
            if build_id is None:
                return None
            with Image.open(path) as image:
                return other_build_id(image, build_id) or cut(image)
        except Error as error:
            return error.message
        except (OSError, ValueError):
            return "cannot be read"


@lru_cache(8)
def client(settings: DebuginfodSettings) -> Debuginfod:
    """The client with these settings. It remembers which servers are not there."""
    return Debuginfod(settings)
