"""Where debugging information is looked for beside the file itself."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.symbols.debuginfod_settings import DebuginfodSettings

SYSTEM_DIRECTORY = "/usr/lib/debug"
"""Where distributions install debug files."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look.

    Attributes:
        directories: where debug files are installed, the first one first: by build id under ``.build-id``, supplementary
            files in ``.dwz``, and by name.
        stores: directories of Breakpad symbol files, ``NAME/ID/NAME.sym``.
        debuginfod: the servers to ask for what no directory has; None for none, and then nothing of the network is used.
    """

    directories: tuple[str, ...] = (SYSTEM_DIRECTORY,)
    stores: tuple[str, ...] = ()
    debuginfod: DebuginfodSettings | None = None

    @classmethod
    def default(cls, directories: Iterable[str] = (), stores: Iterable[str] = ()) -> Places:
        """The places that the user names, then the system's; and the servers in the environment, if it names any.

        Args:
            directories: the user's, for debug files.
            stores: the user's, for Breakpad symbol files.
        """
        found = dict.fromkeys([*directories, SYSTEM_DIRECTORY])
        servers: DebuginfodSettings | None = None
        if os.environ.get("DEBUGINFOD_URLS"):
            from clew.symbols.debuginfod_settings import DebuginfodSettings

            servers = DebuginfodSettings.from_environment()
        return cls(tuple(found), tuple(dict.fromkeys(stores)), servers)


def build_id_paths(directories: Iterable[str], build_id: bytes | None, suffix: str = ".debug") -> list[str]:
    """Where a file is in directories that are ordered by build id."""
    # Files are named by two digits, and the rest; a name that no file system takes is none.
    if build_id is None or not 1 < len(build_id) <= 64:
        return []
    text = build_id.hex()
    return [f"{directory}/.build-id/{text[:2]}/{text[2:]}{suffix}" for directory in directories]
