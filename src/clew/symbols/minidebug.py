"""``.gnu_debugdata``: a small ELF file inside a stripped one, xz-compressed, with the symbols of its functions.

Fedora and its kin ship libraries so; see the GDB manual, "MiniDebugInfo".
"""

from __future__ import annotations

import lzma

from clew.errors import Error, Problem
from clew.image import Image

#: No system library has a symbol table that large; xz can make a small section expand without end.
_LARGEST = 1 << 28


def minidebug_image(image: Image) -> Image | None:
    """The file in ``.gnu_debugdata``, or None where there is none that can be read (a problem of the image says why)."""
    section = image.section(".gnu_debugdata")
    if section is None or not section.has_data:
        return None
    try:
        decoder = lzma.LZMADecompressor(memlimit=1 << 28)
        data = decoder.decompress(section.data, max_length=_LARGEST)
        if not decoder.eof:
            raise Error("it is cut, or expands to more than 256 MiB")
        return Image.from_bytes(data, f"{image.name}(.gnu_debugdata)")
    except (lzma.LZMAError, Error, EOFError) as error:
        image.report(Problem(f"its symbols cannot be read: {error}", section=".gnu_debugdata", lost=False))
        return None
