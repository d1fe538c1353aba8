"""The separate file with the symbols of a stripped one: found by its build id, else by the name in ``.gnu_debuglink``.

Where such files are, the GDB manual tells under "Separate Debug Files".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from clew.errors import Error
from clew.image import Image

SYSTEM_DIRECTORY = "/usr/lib/debug"
"""Where distributions install debug files."""

_PIECE = 1 << 24


@dataclass(frozen=True, slots=True)
class DebugFile:
    """What the search for a debug file found.

    Attributes:
        image: the file, or None.
        tried: paths that did not serve, and why.
    """

    image: Image | None
    tried: tuple[tuple[str, str], ...]


def find_debug_file(
    image: Image, directories: Sequence[str], *, build_id: bytes | None = None, path: str | None = None
) -> DebugFile:
    """The debug file of a stripped file.

    A file whose build id is another one is not taken; without build ids, the checksum in ``.gnu_debuglink`` decides.

    Args:
        image: the stripped file.
        directories: where debug files are installed, such as :data:`SYSTEM_DIRECTORY`.
        build_id: its build id, where that is known otherwise than from the file.
        path: where the file was when it ran, if that is another place than now.
    """
    build_id = build_id or image.build_id
    link = debug_link(image)
    tried: list[tuple[str, str]] = []
    for candidate in dict.fromkeys(_paths(image.name, path, directories, build_id, link[0] if link else None)):
        try:
            found = Image.open(candidate)
        except Error as error:
            tried.append((candidate, error.message))
            continue
        wrong = _misfit(found, build_id, link[1] if link else None)
        if wrong is None:
            return DebugFile(found, tuple(tried))
        tried.append((candidate, wrong))
        found.close()
    return DebugFile(None, tuple(tried))


def debug_link(image: Image) -> tuple[str, int] | None:
    """The name and the checksum (CRC-32 of the whole file) in ``.gnu_debuglink``, or None where there are none."""
    section = image.section(".gnu_debuglink")
    if section is None or not section.has_data:
        return None
    try:
        data = bytes(section.data[:4096])
    except Error:
        return None
    end = data.find(b"\0")
    start = end + 1 + -(end + 1) % 4
    if end <= 0 or len(data) < start + 4:
        return None
    name = os.fsdecode(data[:end])
    # A name, not a way to somewhere else.
    if "/" in name or name in (".", ".."):
        return None
    return name, int.from_bytes(data[start : start + 4], image.byte_order)


def _paths(
    file: str, path: str | None, directories: Sequence[str], build_id: bytes | None, link: str | None
) -> Iterator[str]:
    """Where the debug file may be, best first."""
    if build_id is not None and len(build_id) > 1:
        text = build_id.hex()
        for directory in directories:
            yield f"{directory}/.build-id/{text[:2]}/{text[2:]}.debug"
    if link is None:
        return
    folder = os.path.dirname(file)
    if folder.startswith("/"):
        yield f"{folder}/{link}"
        yield f"{folder}/.debug/{link}"
    ran_in = os.path.dirname(os.path.normpath("/" + (path or file).lstrip("/")))
    for directory in directories:
        yield f"{directory}{ran_in.rstrip('/')}/{link}"
        yield f"{directory}/{link}"


def _misfit(found: Image, build_id: bytes | None, checksum: int | None) -> str | None:
    """Why a file is not the debug file, or None."""
    own = found.build_id
    if own is not None and build_id is not None:
        if own != build_id:
            return f"has build id {own.hex()}, not {build_id.hex()}"
    elif checksum is not None:
        if _checksum(found) != checksum:
            return "has another checksum than .gnu_debuglink says"
    else:
        return "has no build id that says that it belongs to the file"
    return None if len(found.symbols("symtab")) else "has no symbols"


def _checksum(image: Image) -> int:
    value = 0
    for start in range(0, image.source.size, _PIECE):
        value = crc32(image.source.slice(start, _PIECE), value)
    return value
