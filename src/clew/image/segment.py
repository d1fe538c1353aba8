"""One segment of an image: a program header (gABI chapter 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.image.source import Source


class Segment:
    """One segment.

    Attributes:
        type, flags: ``p_type`` and ``p_flags``.
        offset, file_size: the bytes of the file that it holds.
        address, memory_size: where it is in memory; what lies beyond the file's bytes is zero when the program starts.
        physical_address, alignment: ``p_paddr`` and ``p_align``.
    """

    __slots__ = (
        "_source",
        "address",
        "alignment",
        "file_size",
        "flags",
        "memory_size",
        "offset",
        "physical_address",
        "type",
    )

    def __init__(self, source: Source, bits: int, fields: tuple[int, ...]) -> None:
        self._source = source
        if bits == 64:
            self.type, self.flags, *rest, self.alignment = fields
        else:
            self.type, *rest, self.flags, self.alignment = fields
        self.offset, self.address, self.physical_address, self.file_size, self.memory_size = rest

    def __repr__(self) -> str:
        return f"Segment(type={self.type:#x}, address={self.address:#x}, size={self.memory_size:#x})"

    @property
    def data(self) -> memoryview:
        """The bytes in the file. Fewer than :attr:`file_size` where the file is cut."""
        return self._source.slice(self.offset, self.file_size)

    @property
    def end(self) -> int:
        """The address after the segment's last byte in memory."""
        return self.address + self.memory_size
