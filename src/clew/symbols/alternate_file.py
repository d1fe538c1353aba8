"""The supplementary file that several debug files share: what ``dwz -m`` took out of them.

Debian and Fedora install these under ``/usr/lib/debug/.dwz``; their debug files refer to them by a path and a build id.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from clew.errors import Error
from clew.image import Image
from clew.symbols.debug_checks import cut, other_build_id, without_supplement
from clew.symbols.debug_links import AlternateLink, alternate_link, supplement
from clew.symbols.debug_places import Places, build_id_paths
from clew.symbols.found import DebugFile, Tried


def find_alternate_file(image: Image, places: Places) -> DebugFile:
    """The supplementary file of a file with DWARF, and the places that did not serve.

    It is looked for by the name in the link: absolute, or from the directory of the file, also of the one that a symbolic
    link stands for; in the ``.dwz`` directories, by build id, and on debuginfod's servers. Only a file with the build id
    (or, of ``.debug_sup``, the checksum) of the link is taken.

    Args:
        image: the file with DWARF, stripped of nothing that refers to the other.
        places: where to look.
    """
    link = alternate_link(image)
    if link is None:
        return DebugFile(None)
    if not link.build_id:
        return DebugFile(None, (Tried(link.name, f"{link.section} says no build id by which it could be told"),))
    tried: list[Tried] = []
    for path in dict.fromkeys(_paths(image.name, link, places)):
        found = _open(path, link, tried)
        if found is not None:
            return DebugFile(found, tuple(tried))
    if places.debuginfod is not None:
        # The first thing that loads what talks to the network.
        from clew.symbols.debuginfod import client

        fetched = client(places.debuginfod).find(link.build_id)
        tried += fetched.tried
        if fetched.path is not None:
            found = _open(fetched.path, link, tried)
            if found is not None:
                return DebugFile(found, tuple(tried))
    return DebugFile(None, tuple(tried))


def _open(path: str, link: AlternateLink, tried: list[Tried]) -> Image | None:
    try:
        image = Image.open(path)
    except Error as error:
        tried.append(Tried(path, error.message))
        return None
    try:
        wrong = _misfit(image, link) or without_supplement(image)
    except Error as error:
        wrong = error.message
    if wrong is None:
        return image
    tried.append(Tried(path, wrong))
    image.close()
    return None


def _misfit(image: Image, link: AlternateLink) -> str | None:
    said = supplement(image)
    if link.section == ".debug_sup" and said is not None and said[0]:
        return None if said[2] == link.build_id else "has another checksum than .debug_sup says"
    if link.section == ".debug_sup" and image.build_id is None:
        return cut(image) or "has no .debug_sup that says that it belongs to the file"
    return other_build_id(image, link.build_id)


def _paths(file: str, link: AlternateLink, places: Places) -> Iterator[str]:
    """Where the file may be, best first."""
    last = os.path.basename(link.name)
    # A debug file is often found by a symbolic link in .build-id; the name is meant from where the file really is.
    folders = dict.fromkeys([os.path.dirname(_real(file)), os.path.dirname(file)])
    if link.name.startswith("/"):
        yield link.name
    else:
        yield from (os.path.normpath(os.path.join(folder, link.name)) for folder in folders)
    yield from build_id_paths(places.directories, link.build_id)
    if last not in ("", ".", ".."):
        below = _below_dwz(link.name)
        for directory in places.directories:
            if below != last:
                yield f"{directory}/.dwz/{below}"
            yield f"{directory}/.dwz/{last}"
        yield from (os.path.join(folder, ".dwz", last) for folder in folders)


def _below_dwz(name: str) -> str:
    """The part of a path below its last ``.dwz`` directory: Debian has one for each architecture there."""
    parts = name.split("/")
    if ".dwz" not in parts:
        return parts[-1]
    below = parts[len(parts) - parts[::-1].index(".dwz") :]
    return parts[-1] if ".." in below else "/".join(below)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path
