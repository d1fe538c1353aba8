"""Counts call frame instructions by opcode, without running them."""

import cython

if cython.compiled:
    from cython.cimports.clew.native.entries import Entries
    from cython.cimports.clew.native.pointers import Pointers
    from cython.cimports.libc.stdint import uint64_t
else:
    from clew.native.entries import Entries
    from clew.native.pointers import Pointers

    uint64_t = cython.ulonglong

from clew.native.columns import zeros
from clew.native.cursor import Malformed


@cython.final
@cython.cclass
class Census(Pointers):
    """Counts of the instructions of one section.

    Args:
        entries: the section's entries.
        data: its bytes.

    Attributes:
        counts (u8[256]): how many instructions there are of each opcode; the three that have an operand in their low bits
            count under 0x40, 0x80 and 0xc0.
        broken: programs that end in the middle of an instruction, or at one whose length is not known.
    """

    def __init__(self, entries, data):
        Pointers.__init__(self, data, entries.address, entries.big, entries.address_size, *entries.bases())
        self.counts = zeros(256, "u8")
        self.broken = 0
        for record in entries.cies:
            if record.error is None:
                self.try_program(record.program, record.end, record.fde_encoding, record.address_size)
        self.count_all(entries)

    def count_all(self, entries: Entries):
        """Counts the programs of all FDEs."""
        _, finish, program, cie, _, _, _ = entries.columns
        index = None
        record = None
        for begin, end, which in zip(program.tolist(), finish.tolist(), cie.tolist()):
            if which != index:
                index = which
                record = entries.cies[which]
            self.try_program(begin, end, record.fde_encoding, record.address_size)

    def try_program(self, at, end, encoding, address_size):
        """Counts one program as far as it can be read."""
        try:
            self.program(at, end, encoding, address_size)
        except Malformed:
            self.broken += 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def program(
        self, at: cython.size_t, end: cython.size_t, encoding: cython.uint, address_size: cython.size_t
    ) -> cython.int:
        opcode: cython.uint
        self.pos = at
        self.end = end
        while self.pos < end:
            opcode = self.data[self.pos]
            self.pos += 1
            if opcode >= 0x40:
                self.counts[opcode & 0xC0] += 1
                if opcode & 0xC0 == 0x80:
                    self.uleb()
                continue
            self.counts[opcode] += 1
            if opcode in (0x00, 0x0A, 0x0B, 0x2C, 0x2D):
                continue
            if opcode in (0x06, 0x07, 0x08, 0x0D, 0x0E, 0x13, 0x2E):
                self.uleb_any()
            elif opcode in (0x05, 0x09, 0x0C, 0x11, 0x12, 0x14, 0x15, 0x2B, 0x2F):
                self.uleb_any()
                self.uleb_any()
            elif opcode in (0x0F, 0x10, 0x16):
                if opcode != 0x0F:
                    self.uleb_any()
                self.skip(self.uleb())
            elif opcode in (0x02, 0x03, 0x04):
                self.skip(1 << (opcode - 2))
            elif opcode == 0x1D:
                self.skip(8)
            elif opcode == 0x01:
                self.encoded(encoding & 0x0F, address_size)
            else:
                raise Malformed("the length of this instruction is not known")
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def uleb_any(self) -> cython.int:
        """Passes over a LEB128 number of either sign."""
        while self.pos < self.end and self.data[self.pos] >= 0x80:
            self.pos += 1
        self.skip(1)
        return 0
