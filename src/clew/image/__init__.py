"""What a binary file is: its sections, segments, symbols and notes, and which bytes it puts at which address.

    from clew.image import Image

    with Image.open("/bin/true") as image:
        print(image.build_id, image.section(".eh_frame"))

Images are ELF files: read from a file, from bytes, or from the memory of another process. Everything is read when it is
asked for. Damage is left out and told in ``image.problems``; only :class:`clew.errors.Error` is ever raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.image.image import Image, open_image
from clew.image.notes import Note
from clew.image.section import Section
from clew.image.segment import Segment

if TYPE_CHECKING:
    from clew.image.symbols import SymbolTable

__all__ = ["Image", "Note", "Section", "Segment", "SymbolTable", "open_image"]


def __getattr__(name: str) -> object:
    # Symbols need numpy, which takes longer to load than most files take to read.
    if name == "SymbolTable":
        from clew.image.symbols import SymbolTable

        return SymbolTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
