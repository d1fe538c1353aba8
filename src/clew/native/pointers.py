"""Pointers in the encodings of exception tables (LSB 5, 10.5.1): a format, and what the value is relative to."""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import ONES, Cursor
    from cython.cimports.libc.stdint import uint8_t, uint64_t
else:
    from clew.native.cursor import ONES, Cursor

    uint8_t = uint64_t = cython.longlong

from clew.native.cursor import Malformed

#: ``DW_EH_PE_omit``: there is no value.
OMIT = 0xFF


@cython.cclass
class Pointers(Cursor):
    """A cursor that reads encoded pointers.

    Args:
        data: a section's bytes.
        address: the address that the section is loaded at; pc-relative pointers stand on it.
        big: big-endian.
        address_size: bytes in an address.
        text_base, data_base: what ``DW_EH_PE_textrel`` and ``DW_EH_PE_datarel`` are relative to, or None.
    """

    def __init__(self, data, address, big, address_size, text_base=None, data_base=None):
        Cursor.__init__(self, data, 0, None, big)
        self.address = address
        self.address_size = address_size
        self.has_text = text_base is not None
        self.has_data = data_base is not None
        self.text_base = text_base or 0
        self.data_base = data_base or 0
        self.function_base = 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def encoded(self, encoding: uint8_t, size: cython.size_t) -> uint64_t:
        """A pointer in a ``DW_EH_PE`` encoding (LSB 5, 10.5.1), masked to ``size`` bytes (0: the file's address size).

        A null pointer stays null whatever it is relative to.
        """
        value: uint64_t
        base: uint64_t = 0
        form: cython.uint = encoding & 0x0F
        relative: cython.uint = encoding & 0x70
        if size == 0:
            size = self.address_size
        if relative >= 0x50:  # DW_EH_PE_aligned: to the next multiple of the address size, in memory
            if relative > 0x50 or encoding & 0x0F:
                raise Malformed(f"the pointer encoding {encoding:#x} is not defined")
            self.skip((0 - (self.address + self.pos)) & (size - 1))
        here: uint64_t = self.address + self.pos
        if form == 0:
            value = self.fixed(size)
        elif form == 0x0B:
            value = self.fixed_signed(4)
        elif form == 0x03:
            value = self.fixed(4)
        elif form == 0x0C or form == 0x04:
            value = self.fixed(8)
        elif form == 0x0A:
            value = self.fixed_signed(2)
        elif form == 0x02:
            value = self.fixed(2)
        elif form == 0x08:
            value = self.fixed_signed(size)
        elif form == 0x01:
            value = self.uleb()
        elif form == 0x09:
            value = self.sleb()
        else:
            raise Malformed(f"the pointer encoding {encoding:#x} is not defined")
        if value == 0:
            return 0
        if relative == 0x10:
            base = here
        elif relative == 0x20:
            if not self.has_text:
                raise Malformed("a pointer is relative to the text section, which is not known")
            base = self.text_base
        elif relative == 0x30:
            if not self.has_data:
                raise Malformed("a pointer is relative to the data section, which is not known")
            base = self.data_base
        elif relative == 0x40:
            base = self.function_base
        return (value + base) & (ONES >> (64 - 8 * size))

    def read_encoded(self, encoding, size=0):
        """:meth:`encoded` for Python callers."""
        return self.encoded(encoding & 0x7F, size)
