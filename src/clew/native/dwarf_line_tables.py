"""The tables of directories and files in the header of a line number program (DWARF 5, 6.2.4.1; DWARF 2 to 4, 6.2.4).

Of an entry only its name and its directory are kept, and of the name only where it stands: the strings are read when
somebody asks for a path. Times, sizes, checksums and what vendors add are passed over.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import ONES
    from cython.cimports.clew.native.dwarf_line_program import LineProgram
    from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
else:
    from clew.native.cursor import ONES
    from clew.native.dwarf_line_program import LineProgram

    uint8_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros
from clew.native.cursor import Malformed, Truncated

#: What the number of a name means: an offset in .debug_line, .debug_str, .debug_line_str, the strings of the supplementary
#: file; an index of .debug_str_offsets. NONE is an entry without a name that could be read.
NONE, INLINE, STR, LINE_STR, SUPPLEMENTARY, INDEXED = range(6)
_KIND_INLINE = cython.declare(uint8_t, 1)

#: DW_LNCT_path and DW_LNCT_directory_index (DWARF 5, 7.22).
_PATH = cython.declare(uint64_t, 1)
_DIRECTORY = cython.declare(uint64_t, 2)
_MOST = cython.declare(uint64_t, 0xFFFFFFFF)


@cython.final
@cython.cclass
class LineTables(LineProgram):
    """Reads the tables of one header.

    Args:
        data: the bytes of ``.debug_line``.
        big: whether numbers are big-endian.
        offset: where the line program begins; None to read none yet.

    After construction ``directories`` and ``files`` are tuples of arrays, one element an entry in the order of the header:
    what the name's number means (u1), the number (u8), and the directory's index (u4, 0 in ``directories``). ``error`` says
    why they are not complete, or is None, and ``version`` and ``width`` (bytes of an offset) are those of the header.
    """

    def __init__(self, data, big, offset=None):
        LineProgram.__init__(self, data, big)
        self.error = None
        self.room = 64
        self.kind, self.number, self.directory = zeros(64, "u1"), zeros(64, "u8"), zeros(64, "u4")
        self.count = self.first_file = 0
        if offset is not None:
            self.read(offset)

    def read(self, offset):
        """Reads the tables of another header."""
        self.error = None
        self.count = self.first_file = 0
        self.reset()
        is_second: cython.bint = False
        try:
            self.read_header(offset)
            self.end = self.program
            self.pos = self.tables
            self.read_table(True)
            self.first_file = self.count
            is_second = True
            self.read_table(False)
        except Malformed as error:
            self.error = str(error)
        if not is_second:
            self.first_file = self.count

    @property
    def directories(self):
        """The directories."""
        return self.part(0, self.first_file)

    @property
    def files(self):
        """The files."""
        return self.part(self.first_file, self.count)

    def part(self, first, last):
        """Some of the entries as arrays."""
        return (
            np.array(self.kind[first:last], "u1"),
            np.array(self.number[first:last], "u8"),
            np.array(self.directory[first:last], "u4"),
        )

    def grow(self):
        """Makes room for as many entries again."""
        self.room *= 2
        self.kind = enlarged(self.kind, self.room)
        self.number = enlarged(self.number, self.room)
        self.directory = enlarged(self.directory, self.room)

    def read_table(self, directories):
        """Reads the table of directories, or that of files."""
        if self.version >= 5:
            self.read_entries()
        else:
            self.read_names(directories)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def keep(self, kind: uint8_t, number: uint64_t, directory: uint64_t) -> cython.int:
        """Adds an entry."""
        i: cython.size_t = self.count
        if i == self.room:
            self.grow()
        self.kind[i] = kind
        self.number[i] = number
        self.directory[i] = directory if directory < _MOST else _MOST
        self.count = i + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def skip_string(self) -> cython.int:
        """Passes over a string and the zero that ends it."""
        while self.pos < self.end:
            self.pos += 1
            if self.data[self.pos - 1] == 0:
                return 0
        raise Truncated("a string in the header of a line program does not end")

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_names(self, directories: cython.bint) -> cython.int:
        """A table of versions 2 to 4: names up to an empty one; behind that of a file its directory, time and size."""
        name: cython.size_t
        directory: uint64_t = 0
        while True:
            name = self.pos
            self.skip_string()
            if self.pos == name + 1:
                return 0
            if not directories:
                directory = self.uleb()
                self.uleb()
                self.uleb()
            self.keep(_KIND_INLINE, name, directory)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_entries(self) -> cython.int:
        """A table of version 5: the format of its entries, how many they are, and they."""
        i: cython.uint
        fields: cython.uint = self.fixed(1)
        content: uint64_t[::1] = empty(256, "u8")
        form: uint64_t[::1] = empty(256, "u8")
        left: uint64_t
        number: uint64_t
        name: uint64_t
        directory: uint64_t
        kind: uint8_t
        for i in range(fields):
            content[i] = self.uleb()
            form[i] = self.uleb()
        left = self.uleb()
        if left and not fields:
            raise Malformed("entries of a line program's header have no format")
        while left:
            left -= 1
            kind = 0
            name = directory = 0
            for i in range(fields):
                number = self.field(form[i])
                if content[i] == _PATH:
                    kind = _kind(form[i])
                    name = number
                elif content[i] == _DIRECTORY:
                    directory = number
            self.keep(kind, name, directory)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def field(self, form: uint64_t) -> uint64_t:
        """Reads a field: its number, the place of its string, or 0 for what is neither. Every form takes a byte or more."""
        start: cython.size_t = self.pos
        if form == 0x08:  # DW_FORM_string
            self.skip_string()
            return start
        if form == 0x1F or form == 0x0E or form == 0x1D or form == 0x17 or form == 0x1F21:
            return self.fixed(self.width)  # line_strp, strp, strp_sup, sec_offset, GNU_strp_alt
        if form == 0x0F or form == 0x1A or form == 0x1F02:  # udata, strx, GNU_str_index
            return self.uleb()
        if form == 0x0B or form == 0x25 or form == 0x0C:  # data1, strx1, flag
            return self.fixed(1)
        if form == 0x05 or form == 0x26:  # data2, strx2
            return self.fixed(2)
        if form == 0x27:  # strx3
            return self.fixed(3)
        if form == 0x06 or form == 0x28:  # data4, strx4
            return self.fixed(4)
        if form == 0x07:  # data8
            return self.fixed(8)
        if form == 0x0D:  # sdata
            return self.sleb() & ONES
        if form == 0x1E:  # data16
            self.skip(16)
        elif form == 0x09:  # block
            self.skip(self.uleb())
        elif form == 0x0A:  # block1
            self.skip(self.fixed(1))
        elif form == 0x03:  # block2
            self.skip(self.fixed(2))
        elif form == 0x04:  # block4
            self.skip(self.fixed(4))
        else:
            raise Malformed(f"a line program's header has a field of the unknown form {form:#x}")
        return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _kind(form: uint64_t) -> uint8_t:
    """What the number of a name in that form means."""
    if form == 0x08:
        return 1
    if form == 0x0E:
        return 2
    if form == 0x1F:
        return 3
    if form == 0x1D or form == 0x1F21:
        return 4
    if form == 0x1A or form == 0x1F02 or 0x25 <= form <= 0x28:
        return 5
    return 0
