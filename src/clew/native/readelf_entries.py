"""The entries of a frame section as GNU readelf takes them, and the lines that it prints for their headers."""

import cython

if cython.compiled:
    from cython.cimports.clew.native.readelf_cies import Cie, CieReader
    from cython.cimports.clew.native.readelf_rows import Rows, low32
    from cython.cimports.clew.native.textbuffer import TextBuffer
    from cython.cimports.libc.stdint import uint64_t
else:
    from clew.native.readelf_cies import Cie, CieReader
    from clew.native.readelf_rows import Rows, low32
    from clew.native.textbuffer import TextBuffer

    uint64_t = cython.longlong

from clew.native.readelf_columns import WORDS, phrase

_TERMINATOR = cython.declare(cython.size_t, phrase(b" ZERO terminator\n\n"))
_CIE = cython.declare(cython.size_t, phrase(b'CIE "'))
_CODE_FACTOR = cython.declare(cython.size_t, phrase(b'" cf='))
_DATA_FACTOR = cython.declare(cython.size_t, phrase(b" df="))
_COLUMN = cython.declare(cython.size_t, phrase(b" ra="))
_RAW_VERSION = cython.declare(cython.size_t, phrase(b"CIE\n  Version:               "))
_RAW_AUGMENTATION = cython.declare(cython.size_t, phrase(b'\n  Augmentation:          "'))
_RAW_POINTER_SIZE = cython.declare(cython.size_t, phrase(b"  Pointer Size:          "))
_RAW_SEGMENT_SIZE = cython.declare(cython.size_t, phrase(b"\n  Segment Size:          "))
_RAW_CODE_FACTOR = cython.declare(cython.size_t, phrase(b"  Code alignment factor: "))
_RAW_DATA_FACTOR = cython.declare(cython.size_t, phrase(b"\n  Data alignment factor: "))
_RAW_COLUMN = cython.declare(cython.size_t, phrase(b"\n  Return address column: "))
_RAW_DATA = cython.declare(cython.size_t, phrase(b"  Augmentation data:    "))
_FDE = cython.declare(cython.size_t, phrase(b"FDE cie="))
_FDE_ORPHAN = cython.declare(cython.size_t, phrase(b"FDE cie=invalid "))
_RANGE = cython.declare(cython.size_t, phrase(b" pc="))
_TO = cython.declare(cython.size_t, phrase(b".."))

#: The low 32 bits. Larger literals in the code would be Python objects.
_HALF = cython.declare(uint64_t, 0xFFFFFFFF)

#: Augmentation data of so many bytes and more stands in lines of 26.
_LONG_DATA = cython.declare(cython.size_t, 18)
_DATA_PER_LINE = cython.declare(cython.size_t, 26)


@cython.cclass
class EntryReader(CieReader):
    """Walks the entries of one section; see :class:`clew.native.readelf_text.FrameText` for the arguments.

    ``address_size`` is the one in force: a version 4 CIE changes it, the end of an entry changes it back to the file's.
    """

    def __init__(self, data, address, eh, big, address_size, names, known, rare_name, raw):
        CieReader.__init__(self, data, address, eh, big, address_size)
        self.raw = raw
        self.file_address_size = address_size
        self.section_size = len(data)
        words = [*WORDS, *(name or b"r%d" % i for i, name in enumerate(names))]
        words.extend(b"r%d (%s)" % (i, name) if name else b"r%d" % i for i, name in enumerate(names))
        self.out = TextBuffer(words, 1 << 16)
        # Real sections keep a few columns an FDE at most, when each leaves a remembered row behind.
        allowance = 8 * len(data) + (1 << 16)
        self.rows = Rows(self.out, len(WORDS), known, rare_name, allowance, raw)
        self.seen = {}
        self.ahead = {}
        self.cie = None
        # Looking ahead may read each byte as part of one CIE, not of many.
        self.effort = 2 * len(data) + (1 << 16)
        self.length = self.code_factor = self.data_factor = self.location = self.encoding = self.pointer_width = 0
        self.is_cie = False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter(self) -> cython.bint:
        """Reads the header of the entry at ``pos`` and prints its line; False when the listing ends here.

        Afterwards the program is what lies between ``pos`` and ``end``; it is empty after a terminator.
        """
        width: cython.size_t = 4
        ident: uint64_t
        out: TextBuffer = self.out
        self.at = self.pos
        self.end = self.section_size
        self.is_cie = False
        self.length = self.some(4)
        if self.length == 0:
            out.byte(0x0A)
            out.hex(self.at, 8)
            out.word(_TERMINATOR)
            while self.pos < self.end and self.data[self.pos] == 0:
                self.pos += 1
            self.end = self.pos
            return True
        if self.length == _HALF:
            self.length = self.some(8)
            width = 8
        if self.length > self.end - self.pos:
            self.note("the entry's length runs past the end of the section")
        else:
            self.end = self.pos + self.length
        ident = self.some(width)
        if self.names_cie(ident, width):
            return self.enter_cie(ident, width)
        return self.enter_fde(ident, width)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter_cie(self, ident: uint64_t, width: cython.size_t) -> cython.bint:
        """A CIE's header."""
        cie: Cie = self.read_cie(self.at)
        if cie is None:
            return False
        self.is_cie = True
        self.location = 0
        self.rows.start(None)
        self.rows.return_address = cie.return_address
        if not self.rows.widen(self.least_column(cie.return_address)):
            self.note("the return-address column is no register of the machine")
            return False
        self.cie = cie
        self.adopt(cie)
        self.head(ident, width, cie.address_size)
        self.cie_line(cie)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def least_column(self, register: uint64_t) -> uint64_t:
        """The highest column that an entry must have, when it must have ``register``."""
        if self.rows.widest > register + 1:
            return self.rows.widest - 1
        return register

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def adopt(self, cie: Cie) -> cython.int:
        """Takes over what a CIE says about the numbers in its entries."""
        self.encoding = cie.encoding
        self.code_factor = cie.code_factor
        self.data_factor = cie.data_factor
        if cie.encoding:
            self.pointer_width = self.pointer_size(cie.encoding)
        else:
            self.pointer_width = self.file_address_size
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter_fde(self, ident: uint64_t, width: cython.size_t) -> cython.bint:
        """An FDE's header."""
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        segment: uint64_t = 0
        length: uint64_t
        size: uint64_t
        cie_at: uint64_t = ident
        cie: Cie
        if self.eh:
            if width == 4 and ident >> 31:
                cie_at |= ones << 32 & ones
            cie_at = (self.pos - 4 - cie_at) & ones
        if not self.find(cie_at):
            return False
        cie = self.cie
        self.rows.start(cie)
        if cie is None:
            self.note("the CIE pointer does not lead to a CIE")
            self.encoding = 0
            self.code_factor = self.data_factor = 0
            self.pointer_width = self.file_address_size
        else:
            self.address_size = cie.address_size
            self.adopt(cie)
        if self.rows.widest:
            self.rows.widen(self.rows.widest - 1)
        else:
            self.rows.widen(0)
        if cie is not None and cie.segment_size:
            segment = self.some(cie.segment_size)
        self.location = self.pointer(self.encoding)
        size = self.some(self.pointer_width)
        self.extra = 0
        if cie is not None and cie.sized:
            length = self.leb(False)
            if length > self.end - self.pos:
                self.note("the augmentation data runs past the end of the entry")
                self.pos = self.end
            else:
                self.extra_at = self.pos
                self.extra = length
                self.pos += self.extra
        self.head(ident, width, self.address_size)
        self.fde_line(cie, segment, size)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def find(self, cie_at: uint64_t) -> cython.bint:
        """Makes the CIE at an offset the one at hand, or none; False when the listing ends here."""
        ahead: cython.bint = cie_at > self.at
        cie: Cie = self.cie
        if cie is not None and cie.at == cie_at and cie.ahead == ahead:
            return True
        cie = None
        if not ahead:
            cie = self.seen.get(cie_at)
        elif cie_at < self.section_size:
            cie = self.ahead.get(cie_at)
            if cie is None and not self.look_ahead(cie_at):
                return False
            cie = self.ahead.get(cie_at)
        self.cie = cie
        if cie is not None:
            self.rows.load(cie)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def look_ahead(self, at: cython.size_t) -> cython.bint:
        """Reads the CIE behind the entry at hand, if there is one at ``at``; False when the listing ends here.

        The entry's length becomes that of what stands there.
        """
        back: cython.size_t = self.pos
        back_end: cython.size_t = self.end
        width: cython.size_t = 4
        cie: Cie
        self.pos = at
        self.end = self.section_size
        self.length = self.some(4)
        if self.length == _HALF:
            self.length = self.some(8)
            width = 8
        if self.length and self.length <= self.end - self.pos:
            self.end = self.pos + self.length
            if self.names_cie(self.some(width), width):
                cie = self.read_cie(at)
                if cie is None:
                    return False
                if self.pos - at > self.effort:
                    self.note("too many CIEs stand behind their FDEs, one inside the other")
                    return False
                self.effort -= self.pos - at
                self.rows.start(None)
                if not self.rows.widen(self.least_column(cie.return_address)):
                    self.note("the return-address column is no register of the machine")
                    return False
                cie.columns = self.rows.columns
                cie.ahead = True
                self.ahead[at] = cie
        self.pos = back
        self.end = back_end
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def head(self, ident: uint64_t, width: cython.size_t, size: cython.size_t) -> cython.int:
        """An entry's offset, length and identity."""
        out: TextBuffer = self.out
        out.byte(0x0A)
        out.hex(self.at, 8)
        out.byte(0x20)
        out.hex(self.masked(self.length, size), 2 * size)
        out.byte(0x20)
        out.hex(ident, 2 * width)
        return out.byte(0x20)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def cie_line(self, cie: Cie) -> cython.int:
        """What a CIE says: one line, or in the raw listing several."""
        out: TextBuffer = self.out
        if not self.raw:
            out.word(_CIE)
            out.copy(self.data, self.augmentation, self.augmentation_end)
            out.word(_CODE_FACTOR)
            out.integer(low32(cie.code_factor), False)
            out.word(_DATA_FACTOR)
            out.integer(low32(cie.data_factor), False)
            out.word(_COLUMN)
            out.integer(low32(cie.return_address), False)
            return out.byte(0x0A)
        out.word(_RAW_VERSION)
        out.natural(self.version)
        out.word(_RAW_AUGMENTATION)
        out.copy(self.data, self.augmentation, self.augmentation_end)
        out.byte(0x22)
        out.byte(0x0A)
        if self.version >= 4:
            out.word(_RAW_POINTER_SIZE)
            out.natural(cie.address_size)
            out.word(_RAW_SEGMENT_SIZE)
            out.natural(cie.segment_size)
            out.byte(0x0A)
        out.word(_RAW_CODE_FACTOR)
        out.natural(cie.code_factor)
        out.word(_RAW_DATA_FACTOR)
        out.integer(low32(cie.data_factor), False)
        out.word(_RAW_COLUMN)
        out.integer(low32(cie.return_address), False)
        out.byte(0x0A)
        self.extra_text()
        return out.byte(0x0A)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def fde_line(self, cie: Cie, segment: uint64_t, size: uint64_t) -> cython.int:
        """What an FDE says."""
        out: TextBuffer = self.out
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        width: cython.size_t = self.address_size
        if cie is None:
            out.word(_FDE_ORPHAN)
        else:
            out.word(_FDE)
            out.hex(cie.at, 8)
        out.word(_RANGE)
        if cie is not None and cie.segment_size:
            out.hex(segment, 4)
            out.byte(0x3A)
        out.hex(self.masked(self.location, width), 2 * width)
        out.word(_TO)
        out.hex(self.masked((self.location + size) & ones, width), 2 * width)
        out.byte(0x0A)
        if self.raw and self.extra:
            self.extra_text()
            out.byte(0x0A)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def extra_text(self) -> cython.int:
        """The augmentation data's bytes, if any."""
        out: TextBuffer = self.out
        i: cython.size_t
        if not self.extra:
            return 0
        out.word(_RAW_DATA)
        for i in range(self.extra):
            if self.extra >= _LONG_DATA and i % _DATA_PER_LINE == 0:
                out.byte(0x0A)
            out.byte(0x20)
            out.hex(self.data[self.extra_at + i], 2)
        return 0
