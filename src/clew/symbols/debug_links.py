"""Links from a file to another that holds part of its debugging information: a name, and what tells whether it is the one.

``.gnu_debuglink`` leads from a stripped file to its debug file (GDB manual, "Separate Debug Files"). What several debug
files have in common, ``dwz -m`` moves to a supplementary file: ``.gnu_debugaltlink``, and ``.debug_sup`` (DWARF 5,
section 7.3.6), lead there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from clew.errors import Error
from clew.image import Image

#: Longer than any name that a file system takes, and than any checksum.
_LONGEST = 1 << 13


@dataclass(frozen=True, slots=True)
class AlternateLink:
    """What a file says of its supplementary file.

    Attributes:
        section: where it says so.
        name: the file's name: absolute, or relative to the directory of the file with the link. Any name is possible.
        build_id: the build id of the supplementary file, or, of ``.debug_sup``, the checksum that it has as well. It may
            be empty: then nothing tells whether a file is the right one.
    """

    section: str
    name: str
    build_id: bytes


def debug_link(image: Image) -> tuple[str, int] | None:
    """The name and the checksum (CRC-32 of the whole file) in ``.gnu_debuglink``, or None where there are none."""
    data = _contents(image, ".gnu_debuglink")
    end = data.find(b"\0")
    start = end + 1 + -(end + 1) % 4
    if end <= 0 or len(data) < start + 4:
        return None
    name = os.fsdecode(data[:end])
    # A name, not a way to somewhere else.
    if "/" in name or name in (".", ".."):
        return None
    return name, int.from_bytes(data[start : start + 4], image.byte_order)


def alternate_link(image: Image) -> AlternateLink | None:
    """The link to the supplementary file, or None where there is none, or none that makes sense."""
    # A null byte ends the name, and the build id takes the rest of the section.
    data = _contents(image, ".gnu_debugaltlink")
    end = data.find(b"\0")
    if end > 0:
        return AlternateLink(".gnu_debugaltlink", os.fsdecode(data[:end]), data[end + 1 :])
    found = supplement(image)
    if found is None or found[0] or not found[1]:
        return None
    return AlternateLink(".debug_sup", found[1], found[2])


def supplement(image: Image) -> tuple[bool, str, bytes] | None:
    """What ``.debug_sup`` says: whether this is a supplementary file itself, the name of the one, and its checksum."""
    data = _contents(image, ".debug_sup")
    end = data.find(b"\0", 3)
    # A version, of two bytes, and whether this is the supplementary file.
    if end < 0 or int.from_bytes(data[:2], image.byte_order) != 5 or data[2] > 1:
        return None
    size = shift = 0
    for position in range(end + 1, min(end + 4, len(data))):
        # The size is an unsigned LEB128; three bytes of it are more than the section may hold.
        size |= (data[position] & 0x7F) << shift
        shift += 7
        if data[position] < 0x80:
            checksum = data[position + 1 : position + 1 + size]
            return (data[2] == 1, os.fsdecode(data[3:end]), checksum) if len(checksum) == size else None
    return None


def _contents(image: Image, name: str) -> bytes:
    """The contents of a small section; none where there are none that can be read."""
    section = image.section(name)
    if section is None or not section.has_data:
        return b""
    try:
        return bytes(section.data[:_LONGEST])
    except Error:
        return b""
