"""CIEs as GNU readelf takes them: what it reads of one, what it keeps, and when it gives up.

Unlike :mod:`clew.native.entries`, which reads what the standards say and refuses the rest, this reader goes on where
readelf goes on and stops where it stops. What is readelf's and not DWARF's is listed in :mod:`clew.write.readelf`.
"""

from array import array

import cython

if cython.compiled:
    from cython.cimports.clew.native.lenient import Lenient
    from cython.cimports.libc.stdint import uint8_t, uint64_t
else:
    from clew.native.lenient import Lenient

    uint8_t = uint64_t = cython.longlong

#: The low 32 bits. Larger literals in the code would be Python objects.
_HALF = cython.declare(uint64_t, 0xFFFFFFFF)

#: Problems kept with their text; hostile input cannot fill the memory with them.
MOST_PROBLEMS = 1000


@cython.final
@cython.cclass
class Cie:
    """What readelf keeps of a CIE for its FDEs. The columns are those that it mentions, by register number."""

    def __init__(self, at):
        self.at = at
        self.ahead = self.sized = False
        self.columns = self.cfa_register = self.cfa_offset = self.return_address = 0
        self.code_factor = self.data_factor = self.encoding = self.address_size = self.segment_size = 0
        self.registers = array("q")
        self.kinds = bytearray()
        self.offsets = array("q")


@cython.cclass
class CieReader(Lenient):
    """Reads CIEs; keeps what went wrong.

    ``address_size`` is the one in force: a version 4 CIE changes it.
    """

    def __init__(self, data, address, eh, big, address_size):
        Lenient.__init__(self, data, address, address_size, big)
        self.eh = eh
        self.problems = []
        self.at = self.augmentation = self.augmentation_end = self.extra_at = self.extra = self.version = 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def note(self, text: str) -> cython.int:
        """Keeps a problem of the entry at hand."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append((self.at, text))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def masked(self, value: uint64_t, size: cython.size_t) -> uint64_t:
        """The low ``size`` bytes of a number."""
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        if size >= 8:
            return value
        return value & (ones >> (64 - 8 * size))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def names_cie(self, ident: uint64_t, width: cython.size_t) -> cython.bint:
        """Whether an entry's second field says that it is a CIE."""
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        if self.eh:
            return ident == 0
        return ident == (ones if width == 8 else _HALF)

    @cython.cfunc
    def read_cie(self, at: cython.size_t):
        """The CIE whose header is at ``at`` and whose version is at ``pos``, or None if it cannot be read."""
        name: cython.size_t = self.pos + 1
        finish: cython.size_t = name
        cie: Cie = Cie(at)
        if self.pos >= self.end:
            self.note("the entry ends before it says anything")
            return None
        self.version = self.data[self.pos]
        while finish < self.end and self.data[finish]:
            finish += 1
        if finish + 1 >= self.end:
            self.note("the augmentation has no end")
            return None
        self.augmentation = name
        self.augmentation_end = finish
        self.pos = finish + 1
        self.extra = 0
        # gcc 2 put the address of its exception table behind the augmentation "eh".
        if finish == name + 2 and self.data[name] == 0x65 and self.data[name + 1] == 0x68:
            if self.address_size > self.end - self.pos:
                self.note("the entry ends inside the CIE's header")
                return None
            self.pos += self.address_size
        cie.address_size = self.address_size
        if self.version >= 4 and not self.read_sizes(cie):
            return None
        cie.code_factor = self.leb(False) & _HALF
        cie.data_factor = self.factor()
        if self.pos < self.end:
            cie.return_address = (self.some(1) if self.version == 1 else self.leb(False)) & _HALF
            cie.sized = finish > name and self.data[name] == 0x7A
            if not cie.sized:
                return cie
            if self.pos < self.end and self.read_augmentation(cie):
                return cie
        self.note("the entry ends inside the CIE's header")
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_sizes(self, cie: Cie) -> cython.bint:
        """The sizes of addresses and segment selectors, from version 4 on; False if they make no sense."""
        if self.end - self.pos < 2:
            self.note("the entry ends inside the CIE's header")
            return False
        cie.address_size = self.data[self.pos]
        cie.segment_size = self.data[self.pos + 1]
        self.pos += 2
        if not 1 <= cie.address_size <= 8 or cie.segment_size + cie.address_size > 8:
            self.note("the CIE's address and segment sizes make no sense")
            return False
        self.address_size = cie.address_size
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def factor(self) -> uint64_t:
        """A signed LEB128 number cut to 32 bits, as 64 bits of two's complement."""
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        value: uint64_t = self.leb(True) & _HALF
        if value >> 31:
            value |= ones << 32 & ones
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_augmentation(self, cie: Cie) -> cython.bint:
        """The augmentation data, for the pointer encoding of the FDEs; False if its length is wrong."""
        size: uint64_t = self.leb(False)
        at: cython.size_t = self.pos
        finish: cython.size_t
        letter: cython.size_t
        kind: uint8_t
        if size > self.end - self.pos:
            return False
        self.extra_at = at
        self.extra = size
        finish = at + self.extra
        self.pos = finish
        for letter in range(self.augmentation + 1, self.augmentation_end):
            if at >= finish:
                break
            kind = self.data[letter]
            if kind == 0x4C:  # L: the encoding of the pointers to language-specific data
                at += 1
            elif kind == 0x50:  # P: the encoding of the personality routine, and its address
                at += 1 + cython.cast(cython.size_t, self.pointer_size(self.data[at]))
            elif kind == 0x52:  # R: the encoding of the FDE's own addresses
                cie.encoding = self.data[at]
                at += 1
            elif kind != 0x53 and kind != 0x42:  # S, B: a signal frame, the other signing key; nothing to read
                break
        return True
