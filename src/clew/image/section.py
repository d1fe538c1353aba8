"""One section of an image (gABI chapter 4, "Sections")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.errors import Error
from clew.image import compress
from clew.image.elf import ET_REL, SHF_ALLOC, SHF_COMPRESSED, SHF_EXECINSTR, SHT_NOBITS, SHT_NULL, SHT_REL, SHT_RELA

if TYPE_CHECKING:
    from clew.image.image import Image

MAXIMUM_NAME = 1 << 16
"""The longest name that is read; a longer one is cut. A hostile string table need not have an end."""


def string_at(table: memoryview, offset: int) -> bytes:
    """The bytes from ``offset`` in a string table up to the next null byte, to the table's end, or to MAXIMUM_NAME."""
    size = 64
    while True:
        piece = bytes(table[offset : offset + size])
        end = piece.find(b"\0")
        if end >= 0:
            return piece[:end]
        if len(piece) < size or size >= MAXIMUM_NAME:
            return piece
        size *= 4


def text(name: bytes) -> str:
    """A name as text. Bytes that are not UTF-8 show as ``\\xNN``, so that every name can be printed."""
    return name.decode("utf-8", "backslashreplace")


class Section:
    """One section: a name, a place, and bytes that are read when asked for.

    Attributes:
        index: its number in the section header table.
        type, flags, address, offset, size, link, info, alignment, entry_size: the fields ``sh_type`` to ``sh_entsize``.
    """

    __slots__ = (
        "_data",
        "_expanded",
        "_layout_data",
        "_name",
        "_owner",
        "address",
        "alignment",
        "entry_size",
        "flags",
        "index",
        "info",
        "link",
        "offset",
        "size",
        "type",
    )

    def __init__(self, owner: Image, index: int, fields: tuple[int, ...]) -> None:
        self._owner = owner
        self.index = index
        (
            self._name,
            self.type,
            self.flags,
            self.address,
            self.offset,
            self.size,
            self.link,
            self.info,
            self.alignment,
            self.entry_size,
        ) = fields
        self._expanded: memoryview | None = None
        self._data: memoryview | None = None
        self._layout_data: memoryview | None = None

    def forget(self) -> None:
        """Let go of contents that were expanded or relocated."""
        self._expanded = self._data = self._layout_data = None

    def __repr__(self) -> str:
        return f"Section({self.index}, {self.name!r}, address={self.address:#x}, size={self.size:#x})"

    @property
    def name(self) -> str:
        """The section's name; empty where the file has no names."""
        return text(string_at(self._owner.section_names, self._name))

    def is_named(self, name: bytes) -> bool:
        """Whether the name is ``name``; cheaper than comparing :attr:`name`."""
        found = self._owner.section_names[self._name : self._name + len(name) + 1]
        return found == name + b"\0" or found == name  # The table may end without a null byte.

    @property
    def has_data(self) -> bool:
        """Whether the file holds the contents: not for ``SHT_NOBITS``, such as ``.bss``, and code in a debug file."""
        return self.type not in (SHT_NOBITS, SHT_NULL)

    @property
    def allocated(self) -> bool:
        """Whether the section is part of the running program."""
        return bool(self.flags & SHF_ALLOC)

    @property
    def executable(self) -> bool:
        """Whether the section holds machine code."""
        return bool(self.flags & SHF_EXECINSTR)

    @property
    def compressed(self) -> bool:
        """Whether the file holds the contents in compressed form."""
        return bool(self.flags & SHF_COMPRESSED and self.has_data) or self._is_zdebug

    @property
    def _is_zdebug(self) -> bool:
        start = self._owner.section_names[self._name : self._name + 8]
        return bytes(start) == b".zdebug_" and compress.is_zdebug(self.raw)

    @property
    def raw(self) -> memoryview:
        """The bytes in the file, untouched. Fewer than :attr:`size` where the file is cut; none for ``SHT_NOBITS``."""
        return self._owner.source.slice(self.offset, self.size if self.has_data else 0)

    @property
    def expanded(self) -> memoryview:
        """The contents, decompressed where they were compressed, without any relocation applied.

        Raises:
            FormatError: the compressed data is damaged, or not of the stated size.
            DependencyError: it is compressed with Zstandard, and no library for that is installed.
        """
        if self._expanded is None:
            if not self.compressed:
                return self.raw
            try:
                if self.flags & SHF_COMPRESSED:
                    data = compress.expand_section(self._owner.header.layout, self.raw)
                else:
                    data = compress.expand_zdebug(self.raw)
            except Error as error:
                error.file, error.section = self._owner.source.name, self.name
                raise
            self._expanded = memoryview(data)
            self._owner.source.release(self.offset, self.size)
        return self._expanded

    @property
    def data(self) -> memoryview:
        """The contents: decompressed, and in an object file (``ET_REL``) with this section's relocations applied.

        They are applied as ``readelf`` (binutils 2.40) applies them when it dumps debugging information: every section
        starts at its own address, which is 0, so an address in the result is relative to its section. What is not
        applied, an unknown type for example, is left as the assembler wrote it and becomes one of the image's problems.

        Raises:
            FormatError, DependencyError: as :attr:`expanded`.
        """
        if self._owner.header.type != ET_REL:
            return self.expanded
        if self._data is None:
            from clew.image.relocate import relocated

            self._data = relocated(self._owner, self, None)
        return self._data

    @property
    def layout_address(self) -> int:
        """Where the section is in :meth:`~clew.image.Image.section_addresses`: its own address, or the one laid out."""
        return self._owner.section_addresses().get(self.index, self.address)

    @property
    def data_at_layout(self) -> memoryview:
        """The contents as :attr:`data`, but in an object file with each section at its :attr:`layout_address`.

        Functions of different sections then do not overlap. Relocation types that readelf leaves alone are applied too
        where they are simple. In every other file this is :attr:`data`.

        Raises:
            FormatError, DependencyError: as :attr:`expanded`.
        """
        if self._owner.header.type != ET_REL:
            return self.expanded
        if self._layout_data is None:
            from clew.image.relocate import relocated

            self._layout_data = relocated(self._owner, self, self._owner.section_addresses())
        return self._layout_data


def relocation_sections(sections: Sequence[Section]) -> dict[int, Section]:
    """For each section that has relocations, by its index, the first section that holds them.

    As in readelf, a section of relocations that is empty, or links to no section, is passed over.
    """
    result: dict[int, Section] = {}
    for section in sections:
        if section.type in (SHT_REL, SHT_RELA) and section.size and section.link < len(sections):
            result.setdefault(section.info, section)
    return result
