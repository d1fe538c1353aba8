"""Pointers in call frame information: the ``DW_EH_PE`` encodings, and the header that is searched by address.

Sources: LSB 5, 10.5.1 (encodings) and 10.6.2 (``.eh_frame_hdr``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew.testing.cfi_instructions import ByteOrder, fixed, sleb, uleb

OMIT = 0xFF
_SIZES = {0x02: 2, 0x03: 4, 0x04: 8, 0x0A: 2, 0x0B: 4, 0x0C: 8}


@dataclass(frozen=True, slots=True)
class PointerEncoder:
    """Writes addresses in the ``DW_EH_PE`` encodings (LSB 5, 10.5.1).

    Attributes:
        byte_order, address_size: of the target, the size in bytes.
        text_base, data_base: what textrel and datarel pointers are relative to.
    """

    byte_order: ByteOrder = "little"
    address_size: int = 8
    text_base: int = 0
    data_base: int = 0

    def format(self, value: int, encoding: int) -> bytes:
        """A number in the format that the low four bits of an encoding name, relative to nothing."""
        form = encoding & 0x0F
        if form == 0x01:
            return uleb(value)
        if form == 0x09:
            return sleb(value)
        if form not in (0x00, 0x08) and form not in _SIZES:
            raise ValueError(f"the pointer encoding {encoding:#x} has no format")
        return fixed(value, _SIZES.get(form, self.address_size), self.byte_order)

    def encode(self, target: int, encoding: int, here: int, function: int = 0) -> bytes:
        """The bytes of a pointer to ``target``.

        Args:
            target: the address; for an indirect encoding (0x80) that of the slot that holds it.
            encoding: a ``DW_EH_PE`` byte; 0xff (omit) makes no bytes.
            here: the address of the pointer itself.
            function: the start of the function, for funcrel.

        >>> PointerEncoder().encode(0x1000, 0x1b, 0x2020).hex()
        'e0efffff'
        """
        if encoding == OMIT:
            return b""
        relative = encoding & 0x70
        if relative == 0x50:
            return bytes(-here % self.address_size) + fixed(target, self.address_size, self.byte_order)
        bases = {0x00: 0, 0x10: here, 0x20: self.text_base, 0x30: self.data_base, 0x40: function}
        if relative not in bases:
            raise ValueError(f"the pointer encoding {encoding:#x} is relative to nothing known")
        distance = target - bases[relative]
        if relative:
            if not distance:
                raise ValueError(f"a pointer to {target:#x} relative to itself would read as null")
            # Distances wrap around the address space; a signed format takes the shorter way.
            distance &= (1 << 8 * self.address_size) - 1
            if encoding & 0x08 and distance >> (8 * self.address_size - 1):
                distance -= 1 << 8 * self.address_size
        return self.format(distance, encoding)

    def nullable(self, target: int, encoding: int, here: int, function: int = 0) -> bytes:
        """:meth:`encode`, but address 0 is the null pointer: zero, whatever the encoding is relative to."""
        if not target and encoding != OMIT and encoding & 0x70 != 0x50:
            encoding &= 0x0F
        return self.encode(target, encoding, here, function)


def eh_frame_hdr(
    entries: Sequence[tuple[int, int]],
    *,
    address: int = 0,
    eh_frame: int = 0,
    byte_order: ByteOrder = "little",
    address_size: int = 8,
    version: int = 1,
    eh_frame_encoding: int = 0x1B,
    count_encoding: int = 0x03,
    table_encoding: int = 0x3B,
    count: int | None = None,
    ordered: bool = True,
) -> bytes:
    """The bytes of ``.eh_frame_hdr``: where ``.eh_frame`` is, and the table to search for an FDE (LSB 5, 10.6.2).

    Args:
        entries: ``(start, address of the FDE)`` pairs, as :meth:`clew.testing.CfiBuilder.search_table` gives them.
        address: of this section; datarel pointers are relative to it.
        eh_frame: the address of ``.eh_frame``.
        byte_order, address_size: of the target, the size in bytes.
        version: 1 by the standard.
        eh_frame_encoding, count_encoding, table_encoding: ``DW_EH_PE`` bytes; 0xff leaves the part out.
        count: the number of entries that is stated, when it shall be wrong.
        ordered: sort the table by start, as the standard demands.

    >>> eh_frame_hdr([(0x1000, 0x2018)], address=0x3000, eh_frame=0x2000).hex(" ", 4)
    '011b033b fcefffff 01000000 00e0ffff 18f0ffff'
    """
    encoder = PointerEncoder(byte_order, address_size, data_base=address)
    data = bytes((version, eh_frame_encoding, count_encoding, table_encoding))
    data += encoder.encode(eh_frame, eh_frame_encoding, address + len(data))
    if count_encoding != OMIT:
        stated = len(entries) if count is None else count
        data += encoder.nullable(stated, count_encoding, address + len(data))
    if table_encoding != OMIT:
        for pair in sorted(entries) if ordered else entries:
            for target in pair:
                data += encoder.encode(target, table_encoding, address + len(data))
    return data
