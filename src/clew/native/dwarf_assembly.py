"""The columns that a :class:`clew.symbols.SymbolMap` is made of, growing while functions are added."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import uint32_t, uint64_t
else:
    uint64_t = uint32_t = cython.longlong

from clew.native.columns import empty, enlarged

#: Lines that room is made for from the beginning.
_MOST_ROOM = 1 << 22


@cython.cclass
class Assembly:
    """Columns of functions, lines, inlined calls and their ranges.

    Args:
        discriminators: whether lines keep theirs.
        most: how many lines there may be, at most: room that is not used takes no memory, and copies are saved.

    Attributes:
        functions, lines, inlines, ranges: how many there are so far.
    """

    def __init__(self, discriminators=False, most=0):
        self.discriminators = discriminators
        self.functions = self.lines = self.inlines = self.ranges = 0
        self.f_address = empty(64, "u8")
        self.f_size = empty(64, "u8")
        self.f_name = empty(64, "u4")
        self.f_first_line = empty(64, "u4")
        self.f_end_line = empty(64, "u4")
        self.f_first_inline = empty(64, "u4")
        self.f_end_inline = empty(64, "u4")
        self.f_orphan = empty(64, "u1")
        room = max(256, min(most, _MOST_ROOM))
        self.l_address = empty(room, "u8")
        self.l_size = empty(room, "u4")
        self.l_line = empty(room, "u4")
        self.l_file = empty(room, "u4")
        self.l_discriminator = empty(room if discriminators else 0, "u4")
        self.i_depth = empty(64, "u2")
        self.i_name = empty(64, "u4")
        self.i_file = empty(64, "u4")
        self.i_line = empty(64, "u4")
        self.i_first_range = empty(65, "u4")
        self.r_address = empty(64, "u8")
        self.r_size = empty(64, "u8")

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def begin(self, low: uint64_t, high: uint64_t, name: uint32_t, orphan: cython.bint) -> cython.int:
        """Begins a function."""
        n: cython.size_t = self.functions
        if n >= cython.cast(cython.size_t, self.f_name.shape[0]):
            self.grow_functions()
        self.f_address[n] = low
        self.f_size[n] = high - low
        self.f_name[n] = name
        self.f_first_line[n] = self.f_end_line[n] = self.lines
        self.f_first_inline[n] = self.f_end_inline[n] = self.inlines
        self.f_orphan[n] = orphan
        self.functions = n + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_functions(self) -> cython.int:
        """Makes room for more functions."""
        room: cython.size_t = 2 * self.f_name.shape[0]
        self.f_address = enlarged(self.f_address, room)
        self.f_size = enlarged(self.f_size, room)
        self.f_name = enlarged(self.f_name, room)
        self.f_first_line = enlarged(self.f_first_line, room)
        self.f_end_line = enlarged(self.f_end_line, room)
        self.f_first_inline = enlarged(self.f_first_inline, room)
        self.f_end_inline = enlarged(self.f_end_inline, room)
        self.f_orphan = enlarged(self.f_orphan, room)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_lines(self) -> cython.int:
        """Makes room for more lines."""
        room: cython.size_t = self.l_line.shape[0] + (self.l_line.shape[0] >> 1)
        self.l_address = enlarged(self.l_address, room)
        self.l_size = enlarged(self.l_size, room)
        self.l_line = enlarged(self.l_line, room)
        self.l_file = enlarged(self.l_file, room)
        if self.discriminators:
            self.l_discriminator = enlarged(self.l_discriminator, room)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_inlines(self) -> cython.int:
        """Makes room for more inlined calls."""
        room: cython.size_t = 2 * self.i_name.shape[0]
        self.i_depth = enlarged(self.i_depth, room)
        self.i_name = enlarged(self.i_name, room)
        self.i_file = enlarged(self.i_file, room)
        self.i_line = enlarged(self.i_line, room)
        self.i_first_range = enlarged(self.i_first_range, room + 1)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_ranges(self) -> cython.int:
        """Makes room for more ranges."""
        room: cython.size_t = 2 * self.r_address.shape[0]
        self.r_address = enlarged(self.r_address, room)
        self.r_size = enlarged(self.r_size, room)
        return 0

    def function_columns(self):
        """address, size (u8), name, first_line, end_line, first_inline, end_inline (u4), orphan (u1)."""
        n = self.functions
        return (
            np.asarray(self.f_address)[:n],
            np.asarray(self.f_size)[:n],
            np.asarray(self.f_name)[:n],
            np.asarray(self.f_first_line)[:n],
            np.asarray(self.f_end_line)[:n],
            np.asarray(self.f_first_inline)[:n],
            np.asarray(self.f_end_inline)[:n],
            np.asarray(self.f_orphan)[:n],
        )

    def line_columns(self):
        """address (u8), size, line, file (u4), discriminator (u4) or None."""
        n = self.lines
        return (
            np.asarray(self.l_address)[:n],
            np.asarray(self.l_size)[:n],
            np.asarray(self.l_line)[:n],
            np.asarray(self.l_file)[:n],
            np.asarray(self.l_discriminator)[:n] if self.discriminators else None,
        )

    def inline_columns(self):
        """depth (u2), name, call_file, call_line, first_range (u4), range_address, range_size (u8)."""
        n = self.inlines
        self.i_first_range[n] = self.ranges
        return (
            np.asarray(self.i_depth)[:n],
            np.asarray(self.i_name)[:n],
            np.asarray(self.i_file)[:n],
            np.asarray(self.i_line)[:n],
            np.asarray(self.i_first_range)[: n + 1],
            np.asarray(self.r_address)[: self.ranges],
            np.asarray(self.r_size)[: self.ranges],
        )
