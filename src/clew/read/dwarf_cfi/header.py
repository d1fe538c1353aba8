"""``.eh_frame_hdr``: the table by which an unwinder finds an FDE without reading them all (LSB 5, 10.6.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from clew.errors import FormatError
from clew.native.cursor import Malformed
from clew.native.pointers import Pointers

if TYPE_CHECKING:
    from typing_extensions import Buffer

_OMIT = 0xFF
_SECTION = ".eh_frame_hdr"


@dataclass(frozen=True, slots=True)
class HeaderEntry:
    """One line of the search table.

    Attributes:
        start: where the function begins.
        fde: address of its FDE.
    """

    start: int
    fde: int


@dataclass(frozen=True, slots=True)
class EhFrameHeader:
    """The header, and its table as it stands.

    Attributes:
        version: 1.
        eh_frame: address of ``.eh_frame``, or None where it is left out.
        count: how many lines the table has, or None.
        table_encoding: of its two columns; 0xff where there is none.
        data, address, byte_order, address_size: where it was read from.
        table: where the lines begin, an offset.
    """

    version: int
    eh_frame: int | None
    count: int | None
    table_encoding: int
    data: memoryview
    address: int
    byte_order: Literal["little", "big"]
    address_size: int
    table: int

    @classmethod
    def parse(
        cls,
        data: Buffer,
        *,
        address: int,
        byte_order: Literal["little", "big"] = "little",
        address_size: int = 8,
    ) -> EhFrameHeader:
        """Reads the header. Data-relative pointers are relative to its own start.

        Raises:
            FormatError: the section is cut, of another version, or of an encoding that does not exist.
        """
        view = memoryview(data)
        cursor = Pointers(view, address, byte_order == "big", address_size, None, address)
        try:
            version = cursor.read_fixed(1)
            if version != 1:
                raise Malformed(f"its version is {version}, not 1")
            encodings = [cursor.read_fixed(1) for _ in range(3)]
            eh_frame = None if encodings[0] == _OMIT else cursor.read_encoded(encodings[0])
            count = None if encodings[1] == _OMIT else cursor.read_encoded(encodings[1])
        except Malformed as error:
            raise FormatError(str(error), section=_SECTION, offset=cursor.pos) from None
        return cls(version, eh_frame, count, encodings[2], view, address, byte_order, address_size, cursor.pos)

    def entries(self) -> Iterator[HeaderEntry]:
        """The table's lines, in the order in which they stand, which should be that of their starts.

        Raises:
            FormatError: at the line where the section ends, when it states more lines than it has.
        """
        if self.count is None or self.table_encoding == _OMIT:
            return
        cursor = Pointers(self.data, self.address, self.byte_order == "big", self.address_size, None, self.address)
        cursor.pos = self.table
        for number in range(self.count):
            try:
                start = cursor.read_encoded(self.table_encoding)
                fde = cursor.read_encoded(self.table_encoding)
            except Malformed as error:
                raise FormatError(
                    f"the table states {self.count} lines and ends in line {number}: {error}",
                    section=_SECTION,
                    offset=cursor.pos,
                ) from None
            yield HeaderEntry(start, fde)
