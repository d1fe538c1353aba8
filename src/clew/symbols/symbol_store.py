"""Breakpad's symbol stores: directories of symbol files by name and id, ``NAME/ID/NAME.sym``.

NAME is the last part of the debug file's name; of a PDB, the symbol file has ``.sym`` in place of ``.pdb``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from clew.errors import Error
from clew.image.source import first_bytes, open_file
from clew.symbols.found import FoundPath, Tried

#: A GUID, and an age: at most eight digits.
_ID = re.compile(r"[0-9A-Fa-f]{1,40}")

#: Room for the first record.
_FIRST = 4096


def find_symbol_file(directories: Iterable[str], debug_name: str, debug_id: str) -> FoundPath:
    """The symbol file of a module, and the paths that did not serve.

    Args:
        directories: the stores.
        debug_name: the name of the module's debug file, with or without directories, such as ``libc.so.6``.
        debug_id: its id: 32 hexadecimal digits, and those of the age.
    """
    tried: list[Tried] = []
    for path in dict.fromkeys(_paths(directories, debug_name, debug_id)):
        wrong = _misfit(path, debug_id)
        if wrong is None:
            return FoundPath(path, tuple(tried))
        tried.append(Tried(path, wrong))
    return FoundPath(None, tuple(tried))


def symbol_file_name(debug_name: str) -> tuple[str, str] | None:
    """The directory in a store and the name of a module's symbol file, or None where it can have none."""
    # Names are of Windows, too.
    leaf = re.split(r"[/\\]", debug_name)[-1]
    if leaf in ("", ".", "..") or "\0" in leaf:
        return None
    stem = leaf[:-4] if leaf.lower().endswith(".pdb") and len(leaf) > 4 else leaf
    return leaf, f"{stem}.sym"


def _paths(directories: Iterable[str], debug_name: str, debug_id: str) -> Iterator[str]:
    name = symbol_file_name(debug_name)
    if name is None or _ID.fullmatch(debug_id) is None:
        return
    for directory in directories:
        # Breakpad writes capitals; stores of others have small letters as well.
        for each in (debug_id, debug_id.upper(), debug_id.lower()):
            yield os.path.join(directory, name[0], each, name[1])


def _misfit(path: str, debug_id: str) -> str | None:
    """Why a file is not the module's symbol file, or None."""
    try:
        _, descriptor, size = open_file(path)
        os.close(descriptor)
    except Error as error:
        return error.message
    if not size:
        return "the file is empty"
    # MODULE, the system, the machine, the id, the name.
    words = first_bytes(path, _FIRST).split(b"\n", 1)[0].split()
    if len(words) < 4 or words[0] != b"MODULE":
        return "does not begin with a MODULE record"
    own = words[3].decode("ascii", "replace")
    return None if own.upper() == debug_id.upper() else f"has the id {own[:64]}, not {debug_id}"
