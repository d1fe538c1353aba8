"""The header of a line number program (DWARF 5, 6.2.4; DWARF 2 to 4, 6.2.4): its numbers, and where its parts are.

The tables of directories and files, which stand between these numbers and the program, are passed over here:
``header_length`` says where the program begins. Whoever wants a path reads them (:mod:`clew.native.dwarf_line_tables`).
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import ONES, WORD, Cursor
    from cython.cimports.libc.stdint import int64_t, uint64_t
else:
    from clew.native.cursor import ONES, WORD, Cursor

    int64_t = uint64_t = cython.longlong

from clew.native.cursor import Malformed, Truncated

#: Lengths from here on are reserved (DWARF 5, 7.4); the greatest announces a 64-bit length.
_RESERVED = cython.declare(uint64_t, 0xFFFFFFF0)


@cython.cclass
class LineProgram(Cursor):
    """Reads headers of one ``.debug_line`` section.

    Args:
        data: the section's bytes.
        big: whether numbers are big-endian.
    """

    def __init__(self, data, big=False):
        Cursor.__init__(self, data, 0, None, big)
        self.reset()

    def reset(self):
        """Forgets the header that was read last."""
        self.version = self.width = self.address_size = self.tables = self.program = self.lengths = 0
        self.min_instruction = self.most_operations = self.line_range = self.opcode_base = 0
        self.line_base = 0
        self.default_address_size = 0
        self.unit_end = 0
        self.cut = False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_header(self, offset: uint64_t) -> cython.int:
        """Reads the header at an offset. Raises Malformed where it makes no sense.

        ``unit_end`` is where the next one begins, or the section's end where that is not known. ``cut`` says that the length
        runs past the section's end; the header is read all the same, and the window ends with the section.
        """
        size: cython.size_t = len(self.data)
        length: uint64_t
        at: cython.size_t
        self.unit_end = self.end = size
        self.cut = False
        if offset >= size:
            raise Malformed("the offset of a line program lies outside of the section")
        self.pos = offset
        self.width = 4
        length = self.fixed(4)
        if length == WORD:
            self.width = 8
            length = self.fixed(8)
        elif length >= _RESERVED:
            raise Malformed("the length of a line program is a reserved value")
        if length > size - self.pos:
            self.cut = True
        else:
            self.unit_end = self.end = self.pos + length
        self.version = self.fixed(2)
        if self.version < 2 or self.version > 5:
            raise Malformed(f"a line program of version {self.version} cannot be read")
        self.address_size = self.default_address_size
        if self.version >= 5:
            self.address_size = self.fixed(1)
            self.skip(1)  # segment_selector_size: no standard opcode has a segment.
        length = self.fixed(self.width)
        if length > self.end - self.pos:
            raise Truncated("the header of a line program runs past its end")
        self.program = self.pos + length
        at = self.program
        self.min_instruction = self.fixed(1)
        self.most_operations = 1
        if self.version >= 4:
            self.most_operations = self.fixed(1)
        self.skip(1)  # default_is_stmt: of rows alike for who looks up an address.
        self.line_base = self.fixed_signed(1)
        self.line_range = self.fixed(1)
        self.opcode_base = self.fixed(1)
        self.lengths = self.pos
        if self.opcode_base == 0 or self.most_operations == 0:
            raise Malformed("the header of a line program has a zero where none may be")
        self.skip(self.opcode_base - 1)
        self.tables = self.pos
        if self.tables > at:
            raise Truncated("the header of a line program is longer than it says")
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def address_mask(self) -> uint64_t:
        """The bits of an address; all 64 where the size is none that a machine has."""
        if 0 < self.address_size < 8:
            return ONES >> (64 - 8 * self.address_size)
        return ONES
