"""The forms of DWARF attributes (DWARF 5, 7.5.6), each as its bytes, and the tables of strings and addresses they refer to.

>>> forms = FormEncoder(address_size=4, line_strings=StringTable())
>>> forms.encode(Form.ADDR, 0x1000).hex(), forms.encode(Form.LINE_STRP, "a.c").hex(), forms.encode(Form.SDATA, -2).hex()
('00100000', '00000000', '7e')
"""

from __future__ import annotations

from enum import IntEnum

from clew.testing.cfi_instructions import ByteOrder, fixed, sleb, uleb

FormValue = int | str | bytes


class Form(IntEnum):
    """``DW_FORM_*`` (DWARF 5, 7.5.6; those of GNU from binutils' ``include/dwarf2.def``)."""

    ADDR = 0x01
    BLOCK2 = 0x03
    BLOCK4 = 0x04
    DATA2 = 0x05
    DATA4 = 0x06
    DATA8 = 0x07
    STRING = 0x08
    BLOCK = 0x09
    BLOCK1 = 0x0A
    DATA1 = 0x0B
    FLAG = 0x0C
    SDATA = 0x0D
    STRP = 0x0E
    UDATA = 0x0F
    REF_ADDR = 0x10
    REF1 = 0x11
    REF2 = 0x12
    REF4 = 0x13
    REF8 = 0x14
    REF_UDATA = 0x15
    INDIRECT = 0x16
    SEC_OFFSET = 0x17
    EXPRLOC = 0x18
    FLAG_PRESENT = 0x19
    STRX = 0x1A
    ADDRX = 0x1B
    REF_SUP4 = 0x1C
    STRP_SUP = 0x1D
    DATA16 = 0x1E
    LINE_STRP = 0x1F
    REF_SIG8 = 0x20
    IMPLICIT_CONST = 0x21
    LOCLISTX = 0x22
    RNGLISTX = 0x23
    REF_SUP8 = 0x24
    STRX1 = 0x25
    STRX2 = 0x26
    STRX3 = 0x27
    STRX4 = 0x28
    ADDRX1 = 0x29
    ADDRX2 = 0x2A
    ADDRX3 = 0x2B
    ADDRX4 = 0x2C
    GNU_ADDR_INDEX = 0x1F01
    GNU_STR_INDEX = 0x1F02
    GNU_REF_ALT = 0x1F20
    GNU_STRP_ALT = 0x1F21


#: Forms of a fixed size in bytes.
SIZES = {
    Form.DATA1: 1,
    Form.DATA2: 2,
    Form.DATA4: 4,
    Form.DATA8: 8,
    Form.DATA16: 16,
    Form.FLAG: 1,
    Form.REF1: 1,
    Form.REF2: 2,
    Form.REF4: 4,
    Form.REF8: 8,
    Form.REF_SIG8: 8,
    Form.REF_SUP4: 4,
    Form.REF_SUP8: 8,
    Form.STRX1: 1,
    Form.STRX2: 2,
    Form.STRX3: 3,
    Form.STRX4: 4,
    Form.ADDRX1: 1,
    Form.ADDRX2: 2,
    Form.ADDRX3: 3,
    Form.ADDRX4: 4,
}
_OFFSETS = {Form.STRP, Form.LINE_STRP, Form.STRP_SUP, Form.SEC_OFFSET, Form.GNU_REF_ALT, Form.GNU_STRP_ALT}
_ULEB = {
    Form.UDATA,
    Form.REF_UDATA,
    Form.STRX,
    Form.ADDRX,
    Form.LOCLISTX,
    Form.RNGLISTX,
    Form.GNU_ADDR_INDEX,
    Form.GNU_STR_INDEX,
}
_BLOCKS = {Form.BLOCK1: 1, Form.BLOCK2: 2, Form.BLOCK4: 4}
_INDEXED_STRINGS = {Form.STRX, Form.STRX1, Form.STRX2, Form.STRX3, Form.STRX4, Form.GNU_STR_INDEX}
_INDEXED_ADDRESSES = {Form.ADDRX, Form.ADDRX1, Form.ADDRX2, Form.ADDRX3, Form.ADDRX4, Form.GNU_ADDR_INDEX}
_SUPPLEMENTARY = {Form.STRP_SUP, Form.GNU_STRP_ALT}


class StringTable:
    """Strings one after another, each once: ``.debug_str`` and ``.debug_line_str``.

    >>> strings = StringTable()
    >>> strings.add("a"), strings.add("bc"), strings.add("a"), strings.data
    (0, 2, 0, b'a\\x00bc\\x00')
    """

    def __init__(self) -> None:
        self.data = b""
        self._offsets: dict[str, int] = {}

    def add(self, text: str) -> int:
        """The offset of a string, which is added if it is not there."""
        if text not in self._offsets:
            self._offsets[text] = len(self.data)
            self.data += text.encode("utf-8", "surrogateescape") + b"\0"
        return self._offsets[text]


class IndexTable:
    """Things known by their index: the addresses of ``.debug_addr``, the offsets of ``.debug_str_offsets``."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def add(self, value: int) -> int:
        """The index of a value, which is added if it is not there."""
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


class FormEncoder:
    """Encodes the values of attributes and of other fields that have a form.

    A string for a form that refers to a table is put there; a number is taken for the offset or index itself. With
    ``DW_FORM_addrx`` and its like a number is an address, which is put into the table; as ``bytes`` it is the index.

    Args:
        byte_order, address_size, dwarf64, version: of the unit.
        strings, line_strings, supplementary: ``.debug_str``, ``.debug_line_str``, ``.debug_str`` of the supplementary file.
        string_offsets, addresses: ``.debug_str_offsets`` and ``.debug_addr``.
    """

    def __init__(
        self,
        *,
        byte_order: ByteOrder = "little",
        address_size: int = 8,
        dwarf64: bool = False,
        version: int = 5,
        strings: StringTable | None = None,
        line_strings: StringTable | None = None,
        supplementary: StringTable | None = None,
        string_offsets: IndexTable | None = None,
        addresses: IndexTable | None = None,
    ) -> None:
        self.byte_order: ByteOrder = byte_order
        self.address_size = address_size
        self.offset_size = 8 if dwarf64 else 4
        self.version = version
        self.strings = strings or StringTable()
        self.line_strings = line_strings or StringTable()
        self.supplementary = supplementary or StringTable()
        self.string_offsets = string_offsets or IndexTable()
        self.addresses = addresses or IndexTable()

    def size(self, form: int) -> int | None:
        """The bytes that a reference of that form takes; None where that depends on its value."""
        if form == Form.REF_ADDR:
            # In version 2 it has the size of an address (DWARF 2, 7.5.4), then that of an offset.
            return self.address_size if self.version == 2 else self.offset_size
        if form in _OFFSETS:
            return self.offset_size
        return SIZES.get(Form(form))

    def encode(self, form: int, value: FormValue) -> bytes:
        """The bytes of a value. ``ValueError`` where it does not fit the form."""
        order = self.byte_order
        if form == Form.STRING and isinstance(value, str):
            return value.encode("utf-8", "surrogateescape") + b"\0"
        if isinstance(value, str):
            value = self._placed(form, value)
        if form in _BLOCKS and isinstance(value, bytes):
            return fixed(len(value), _BLOCKS[Form(form)], order) + value
        if form in (Form.BLOCK, Form.EXPRLOC) and isinstance(value, bytes):
            return uleb(len(value)) + value
        if form == Form.DATA16 and isinstance(value, bytes) and len(value) == 16:
            return value
        if form in _INDEXED_ADDRESSES:
            value = int.from_bytes(value, "little") if isinstance(value, bytes) else self.addresses.add(value)
        if not isinstance(value, int):
            raise ValueError(f"{value!r} is nothing that form {form:#x} can say")
        if form == Form.ADDR:
            return fixed(value, self.address_size, order)
        if form == Form.SDATA:
            return sleb(value)
        if form in _ULEB:
            return uleb(value)
        if form in (Form.FLAG_PRESENT, Form.IMPLICIT_CONST):
            return b""
        size = self.size(form)
        if size is None:
            raise ValueError(f"{value!r} is nothing that form {form:#x} can say")
        return fixed(value, size, order)

    def _placed(self, form: int, text: str) -> int:
        """Where a string is that a form refers to: an offset or an index."""
        if form == Form.STRP:
            return self.strings.add(text)
        if form == Form.LINE_STRP:
            return self.line_strings.add(text)
        if form in _SUPPLEMENTARY:
            return self.supplementary.add(text)
        if form in _INDEXED_STRINGS:
            return self.string_offsets.add(self.strings.add(text))
        raise ValueError(f"{text!r} is nothing that form {form:#x} can say")
