"""Ranges of code: ``.debug_ranges`` (DWARF 4, 2.17.3), ``.debug_rnglists`` and ``.debug_addr`` (DWARF 5, 7.27 and 7.28).

Linkers that throw code away leave its ranges: at 0, at 1, or at the end of the address space (gABI tombstones; LLVM's
``-z dead-reloc-in-nonalloc``). What does not begin in the file's own code is dropped here, once and for all readers.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import ONES, WORD, Cursor
    from cython.cimports.libc.stdint import int64_t, uint64_t
else:
    from clew.native.cursor import ONES, WORD, Cursor

    uint64_t = int64_t = cython.longlong

import numpy as np

from clew.native.columns import empty, enlarged
from clew.native.cursor import Malformed


@cython.cclass
class RangeReader:
    """Reads ranges into two columns.

    Args:
        ranges, rnglists, addresses: the three sections, empty where there is none.
        big: whether numbers are big-endian.
        code_start, code_end (u8): where the file's code is, sorted, without overlaps.

    Attributes:
        count: ranges so far.
        budget: entries of lists that may still be read.
        address_size, offset_size, base, addr_base, rnglists_base, ranges_base: the unit's, set by whoever reads one.
            ``base`` is its DW_AT_low_pc.
    """

    def __init__(self, ranges, rnglists, addresses, big, code_start, code_end):
        self.ranges = Cursor(ranges, 0, None, big)
        self.rnglists = Cursor(rnglists, 0, None, big)
        self.addresses = Cursor(addresses, 0, None, big)
        if cython.compiled:
            self.code_start, self.code_end = code_start, code_end
        else:
            self.code_start, self.code_end = memoryview(code_start), memoryview(code_end)
        self.low = empty(256, "u8")
        self.high = empty(256, "u8")
        self.recent = 0
        self.count = 0
        # A hostile file can name one long list from each of its entries. An entry takes 8 bytes or more of .debug_ranges.
        self.budget = len(ranges) // 4 + 2 * len(rnglists) + 65536
        self.address_size = 8
        self.offset_size = 4
        self.base = 0
        self.addr_base = self.rnglists_base = self.ranges_base = 0

    def clear(self):
        """Forgets the ranges so far."""
        self.count = 0

    def columns(self):
        """The ranges so far: lows and highs (u8), copies."""
        return np.array(self.low[: self.count], "u8"), np.array(self.high[: self.count], "u8")

    def add_range(self, low, high):
        """:meth:`add` for Python callers."""
        self.add(low, high)

    def list_at(self, form, value, version):
        """Reads the list that an attribute DW_AT_ranges names. Raises Malformed."""
        self.read_list(form, value, version)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_list(self, form: uint64_t, value: uint64_t, version: cython.int) -> cython.int:
        """The same for the core."""
        if version >= 5:
            return self.read_rnglist(self.rnglist_offset(value) if form == 0x23 else value)
        if self.ranges_base > self.ranges.end or value > self.ranges.end:
            raise Malformed("a range list beyond the end of .debug_ranges")
        return self.read_ranges(value + self.ranges_base)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def address(self, index: uint64_t) -> uint64_t:
        """The address with this index in ``.debug_addr``."""
        cursor: Cursor = self.addresses
        if index > cursor.end or self.addr_base > cursor.end:
            raise Malformed("an index of .debug_addr beyond its end")
        cursor.pos = self.addr_base + index * self.address_size
        return cursor.fixed(self.address_size)

    def address_of(self, index):
        """:meth:`address` for Python callers."""
        return self.address(index)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def code_at(self, address: uint64_t) -> cython.Py_ssize_t:
        """Which piece of code an address is in, or -1."""
        low: cython.size_t = 0
        high: cython.size_t = self.code_start.shape[0]
        middle: cython.size_t
        if self.recent < high and self.code_start[self.recent] <= address < self.code_end[self.recent]:
            return self.recent
        while low < high:
            middle = (low + high) // 2
            if self.code_start[middle] <= address:
                low = middle + 1
            else:
                high = middle
        if low == 0 or address >= self.code_end[low - 1]:
            return -1
        self.recent = low - 1
        return cython.cast(cython.Py_ssize_t, low) - 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, low: uint64_t, high: uint64_t) -> cython.int:
        """Adds a range, if it begins in code. It ends where that code ends at the latest."""
        piece: cython.Py_ssize_t
        if low >= high:
            return 0
        piece = self.code_at(low)
        if piece < 0:
            return 0
        if high > self.code_end[piece]:
            high = self.code_end[piece]
        if self.count >= cython.cast(cython.size_t, self.low.shape[0]):
            self.grow(self.count + 1)
        self.low[self.count] = low
        self.high[self.count] = high
        self.count += 1
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self, count: cython.size_t) -> cython.int:
        """Makes room for so many ranges."""
        self.low = enlarged(self.low, 2 * count)
        self.high = enlarged(self.high, 2 * count)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def spend(self) -> cython.int:
        """Counts an entry of a list."""
        self.budget -= 1
        if self.budget < 0:
            raise Malformed("range lists are named over and over")
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_ranges(self, offset: uint64_t) -> cython.int:
        """A list of ``.debug_ranges``: pairs of addresses, or of the largest address and a new base."""
        cursor: Cursor = self.ranges
        size: cython.int = self.address_size
        ones: uint64_t = ONES if size == 8 else WORD if size == 4 else 0xFFFF
        base: uint64_t = self.base
        low: uint64_t
        high: uint64_t
        if offset >= cursor.end:
            raise Malformed("a range list beyond the end of .debug_ranges")
        cursor.pos = offset
        while True:
            low = cursor.fixed(size)
            high = cursor.fixed(size)
            self.spend()
            if low == 0 and high == 0:
                return 0
            if low == ones:
                base = high
            elif base < ones - 1:
                self.add((base + low) & ones, (base + high) & ones)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def rnglist_offset(self, index: uint64_t) -> uint64_t:
        """Where the list with this index begins in ``.debug_rnglists``."""
        cursor: Cursor = self.rnglists
        base: uint64_t = self.rnglists_base
        value: uint64_t
        if base == 0:
            # Behind the first header (DWARF 5, 7.28), whose length tells which DWARF it is.
            base = 20 if self.offset_size == 8 else 12
        if base < 12 or base > cursor.end:
            raise Malformed("no list of range lists is there")
        # The header's last field, offset_entry_count.
        cursor.pos = base - 4
        if index >= cursor.fixed(4):
            raise Malformed("an index of .debug_rnglists beyond its end")
        cursor.pos = base + index * self.offset_size
        value = cursor.fixed(self.offset_size)
        if value > cursor.end:
            raise Malformed("a range list beyond the end of .debug_rnglists")
        return base + value

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_rnglist(self, offset: uint64_t) -> cython.int:
        """A list of ``.debug_rnglists``."""
        cursor: Cursor = self.rnglists
        size: cython.int = self.address_size
        ones: uint64_t = ONES if size == 8 else WORD if size == 4 else 0xFFFF
        base: uint64_t = self.base
        low: uint64_t
        high: uint64_t
        kind: uint64_t
        if offset >= cursor.end:
            raise Malformed("a range list beyond the end of .debug_rnglists")
        cursor.pos = offset
        while True:
            kind = cursor.fixed(1)
            self.spend()
            if kind == 0:  # DW_RLE_end_of_list
                return 0
            if kind == 1:  # base_addressx
                base = self.address(cursor.uleb())
            elif kind == 2:  # startx_endx
                low = self.address(cursor.uleb())
                high = self.address(cursor.uleb())
                self.add(low, high)
            elif kind == 3:  # startx_length
                low = self.address(cursor.uleb())
                self.add(low, (low + cursor.uleb()) & ones)
            elif kind == 4:  # offset_pair
                low = cursor.uleb()
                high = cursor.uleb()
                # Of a base that a linker put out of the way nothing counts, wherever it would wrap around to.
                if base < ones - 1:
                    self.add((base + low) & ones, (base + high) & ones)
            elif kind == 5:  # base_address
                base = cursor.fixed(size)
            elif kind == 6:  # start_end
                low = cursor.fixed(size)
                self.add(low, cursor.fixed(size))
            elif kind == 7:  # start_length
                low = cursor.fixed(size)
                self.add(low, (low + cursor.uleb()) & ones)
            else:
                raise Malformed("an entry of .debug_rnglists that no standard defines")
