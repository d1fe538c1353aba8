"""Builders of lists of ranges: ``.debug_ranges`` (DWARF 2 to 4, 2.17.3) and ``.debug_rnglists`` (DWARF 5, 2.17.3 and 7.28).

>>> lists = RangeListTable()
>>> low, high = lists.add([Rle.base_address(0x1000), Rle.offset_pair(0, 4)]), lists.add([Rle.start_length(0x2000, 8)])
>>> (low.index, high.index), lists.build().hex(" ", 4)
((0, 1), '28000000 05000800 02000000 08000000 15000000 05001000 00000000 00040004 00070020 00000000 00000800')
>>> lists.base, low.offset, high.offset
(12, 20, 33)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew.testing.cfi_instructions import ByteOrder, fixed, uleb


@dataclass(frozen=True, slots=True)
class RangeEntry:
    """One entry of a list: its kind, what it holds, and which of that are addresses."""

    kind: int
    operands: tuple[int, ...]
    addresses: tuple[bool, ...]

    def encode(self, address_size: int, byte_order: ByteOrder) -> bytes:
        """Its bytes."""
        data = bytes((self.kind,))
        for operand, is_address in zip(self.operands, self.addresses, strict=True):
            data += fixed(operand, address_size, byte_order) if is_address else uleb(operand)
        return data


class Rle:
    """The entries ``DW_RLE_*`` (DWARF 5, 7.25)."""

    @staticmethod
    def end_of_list() -> RangeEntry:
        """Ends a list; :class:`RangeListTable` adds it by itself."""
        return RangeEntry(0, (), ())

    @staticmethod
    def base_addressx(index: int) -> RangeEntry:
        """A base address by its index in ``.debug_addr``."""
        return RangeEntry(1, (index,), (False,))

    @staticmethod
    def startx_endx(start: int, end: int) -> RangeEntry:
        """Start and end by their indices."""
        return RangeEntry(2, (start, end), (False, False))

    @staticmethod
    def startx_length(start: int, length: int) -> RangeEntry:
        """The start by its index, and a length."""
        return RangeEntry(3, (start, length), (False, False))

    @staticmethod
    def offset_pair(start: int, end: int) -> RangeEntry:
        """Start and end as offsets from the base address."""
        return RangeEntry(4, (start, end), (False, False))

    @staticmethod
    def base_address(address: int) -> RangeEntry:
        """A base address."""
        return RangeEntry(5, (address,), (True,))

    @staticmethod
    def start_end(start: int, end: int) -> RangeEntry:
        """Start and end as addresses."""
        return RangeEntry(6, (start, end), (True, True))

    @staticmethod
    def start_length(start: int, length: int) -> RangeEntry:
        """The start as an address, and a length."""
        return RangeEntry(7, (start, length), (True, False))


@dataclass(frozen=True, slots=True)
class RangeList:
    """A list in a table: its index there, and where it is once all lists are added."""

    table: RangeListTable
    index: int

    @property
    def offset(self) -> int:
        """Its offset in the section."""
        return self.table.offset(self.index)


class RangeListTable:
    """One table of ``.debug_rnglists``.

    Args:
        byte_order, address_size, dwarf64: of the units that it is for.
        offsets: whether the offsets of the lists stand before them, so that ``DW_FORM_rnglistx`` can name them.
        at: where the table begins in the section.
    """

    def __init__(
        self,
        *,
        byte_order: ByteOrder = "little",
        address_size: int = 8,
        dwarf64: bool = False,
        offsets: bool = True,
        at: int = 0,
    ) -> None:
        self.byte_order: ByteOrder = byte_order
        self.address_size = address_size
        self.dwarf64 = dwarf64
        self.offsets = offsets
        self.at = at
        self._lists: list[bytes] = []

    @property
    def base(self) -> int:
        """``DW_AT_rnglists_base``: the offset behind the header."""
        return self.at + (20 if self.dwarf64 else 12)

    def add(self, entries: Sequence[RangeEntry | bytes], *, end: bool = True) -> RangeList:
        """Adds a list of entries; raw bytes are as good as one. ``end`` says whether it ends as it should."""
        entries = [*entries, Rle.end_of_list()] if end else entries
        data = b"".join(
            entry if isinstance(entry, bytes) else entry.encode(self.address_size, self.byte_order) for entry in entries
        )
        self._lists.append(data)
        return RangeList(self, len(self._lists) - 1)

    def offset(self, index: int) -> int:
        """Where a list is in the section, if no other is added."""
        return self.base + self._relative(index)

    def build(self) -> bytes:
        """The table's bytes."""
        width = 8 if self.dwarf64 else 4
        count = len(self._lists) if self.offsets else 0
        body = fixed(5, 2, self.byte_order) + bytes((self.address_size, 0)) + fixed(count, 4, self.byte_order)
        for index in range(count):
            body += fixed(self._relative(index), width, self.byte_order)
        body += b"".join(self._lists)
        return (b"\xff" * 4 if self.dwarf64 else b"") + fixed(len(body), width, self.byte_order) + body

    def _relative(self, index: int) -> int:
        width = (8 if self.dwarf64 else 4) if self.offsets else 0
        return width * len(self._lists) + sum(map(len, self._lists[:index]))


def range_list(
    entries: Sequence[tuple[int, int]], *, byte_order: ByteOrder = "little", address_size: int = 8, end: bool = True
) -> bytes:
    """A list of ``.debug_ranges``: pairs of start and end, counted from the base address.

    A pair whose first is -1 makes its second the base address.

    >>> range_list([(-1, 0x100), (0, 4)], address_size=4).hex(" ", 4)
    'ffffffff 00010000 00000000 04000000 00000000 00000000'
    """
    pairs = [*entries, (0, 0)] if end else entries
    return b"".join(fixed(value, address_size, byte_order) for pair in pairs for value in pair)
