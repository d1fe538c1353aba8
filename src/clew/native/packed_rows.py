"""Rows of a normalised table into the pages, buckets and rows of a packed one (packed.h says how they lie)."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import uint16_t, uint32_t, uint64_t
else:
    uint16_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty

PAGE_BITS, BUCKET_BITS, ROW_PADDING = 16, 8, 8
"""As CLEW_PAGE_BITS, CLEW_BUCKET_BITS and CLEW_ROW_PADDING of packed.h."""
PAGE_BUCKETS = 1 << PAGE_BITS - BUCKET_BITS

_PAGE = cython.declare(uint64_t, 1 << 16)
_PAGE_BUCKETS = cython.declare(cython.size_t, 1 << 8)
_BUCKET_BITS = cython.declare(uint32_t, 8)
_PADDING = cython.declare(cython.size_t, 8)
_ESCAPED = cython.declare(uint32_t, 0xFFFF)
_LAST = cython.declare(uint32_t, 0xFFFF)


def pages_of(size):
    """How many pages a segment of so many bytes has."""
    return (size + (1 << PAGE_BITS) - 1) >> PAGE_BITS


def tally(rule, first, last, count):
    """Adds to ``count`` (u8), by number, how many of the rows from ``first`` to ``last`` have each rule (u4)."""
    numbers: cython.const[uint32_t][::1] = rule if cython.compiled else memoryview(rule)
    counts: uint64_t[::1] = count if cython.compiled else memoryview(count)
    row: cython.size_t
    end: cython.size_t = last
    for row in range(first, end + 1):
        counts[numbers[row]] += 1


@cython.final
@cython.cclass
class RowPacker:
    """Packs the rows of segments, one segment after another.

    Args:
        start (u8), rule (u4): the table's rows, normalised.
        number (u4): the packed number of each of the table's rules.
        rows: how many rows lie in the segments that will be packed, at most.
        sizes: those segments' sizes in bytes.
    """

    def __init__(self, start, rule, number, rows, sizes):
        pages = sum(pages_of(size) for size in sizes)
        columns = (start, rule, number)
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.start, self.rule, self.number = columns
        self.page = empty(pages, "u4")
        self.bucket = empty((PAGE_BUCKETS + 1) * pages, "u2")
        self.row = empty(rows + (1 + ROW_PADDING) * pages, "u4")
        # Pairs of a row's number and its rule's, where that does not fit the row.
        self.escape = []
        self.page_count = self.bucket_count = self.row_count = 0

    def pack(self, first, address, size):
        """Packs the segment of ``size`` bytes at an address, at which the row with the index ``first`` is in force."""
        done: uint64_t = 0
        row: cython.size_t = first
        while done < cython.cast(uint64_t, size):
            left: uint64_t = cython.cast(uint64_t, size) - done
            row = self.pack_page(row, cython.cast(uint64_t, address) + done, left if left < _PAGE else _PAGE)
            done += _PAGE

    def columns(self):
        """Pages (u4), buckets (u2), rows (u4), and the escapes as pairs."""
        return (
            np.asarray(self.page)[: self.page_count],
            np.asarray(self.bucket)[: self.bucket_count],
            np.asarray(self.row)[: self.row_count],
            self.escape,
        )

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def pack_page(self, row: cython.size_t, address: uint64_t, size: uint64_t) -> cython.Py_ssize_t:
        """One page; the index of the row that is in force behind it, or of the last one in it."""
        first: cython.size_t = self.row_count
        page: cython.size_t = self.page_count
        self.page[page] = cython.cast(uint32_t, first)
        self.page_count = page + 1
        buckets: cython.size_t = cython.cast(cython.size_t, (size + (1 << _BUCKET_BITS) - 1) >> _BUCKET_BITS)
        rows: cython.size_t = self.start.shape[0]
        bucket: cython.size_t = 1
        base: cython.size_t = (_PAGE_BUCKETS + 1) * page
        self.bucket[base] = 0
        at: uint32_t = 0
        count: cython.size_t = 0
        end: uint64_t = address + (size - 1)
        while row + 1 < rows and self.start[row + 1] <= address:
            row += 1
        number: uint32_t = self.number[self.rule[row]]
        fresh: uint32_t
        self.add(0, number)
        while row + 1 < rows and self.start[row + 1] <= end:
            row += 1
            at = cython.cast(uint32_t, self.start[row] - address)
            # The buckets that begin before this row.
            while bucket < buckets and bucket << _BUCKET_BITS < at:
                self.bucket[base + bucket] = cython.cast(uint16_t, count)
                bucket += 1
            fresh = self.number[self.rule[row]]
            if fresh == number:
                continue
            number = fresh
            self.add(at, number)
            count += 1
        while bucket <= buckets:
            self.bucket[base + bucket] = cython.cast(uint16_t, count)
            bucket += 1
        # What is behind the segment's end is only there so that the next page's buckets have their place.
        self.bucket_count = base + buckets + 1
        while bucket <= _PAGE_BUCKETS:
            self.bucket[base + bucket] = cython.cast(uint16_t, count)
            bucket += 1
        last: cython.size_t
        for last in range(_PADDING):
            self.add(_LAST, number)
        return row

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def add(self, at: uint32_t, number: uint32_t) -> cython.Py_ssize_t:
        """Adds a row that starts there in its page."""
        place: cython.size_t = self.row_count
        if number < _ESCAPED:
            self.row[place] = at << 16 | number
        else:
            self.row[place] = at << 16 | _ESCAPED
            self.escape.append((place, number))
        self.row_count = place + 1
        return 0
