"""Columns of numbers for the core: numpy arrays when compiled, memoryviews of them when not.

Uncompiled code must not compute with numpy's scalars, which overflow; a memoryview hands out plain Python numbers.
"""

import contextlib
import mmap

import cython
import numpy as np

#: From this many bytes on, columns get memory of their own in large pages. Measured: 12 MiB touched for the first time cost
#: 0.3 ms so, and 7 ms in pages of 4 KiB, which is half as long as decoding into them.
_LARGE = 1 << 20
_PAGE = 1 << 21


def empty(count, code):
    """An uninitialised column; ``code`` is numpy's name of the type."""
    array = np.empty(count, code)
    return array if cython.compiled else memoryview(array)


def together(count, codes):
    """Uninitialised columns of one length, side by side in one piece of memory."""
    offsets = []
    end = 0
    for code in codes:
        offsets.append(end)
        end += (count * np.dtype(code).itemsize + 63) & ~63
    room = _memory(end)
    arrays = [np.frombuffer(room, code, count, offset) for code, offset in zip(codes, offsets)]
    return arrays if cython.compiled else [memoryview(array) for array in arrays]


def _memory(size):
    """Writable memory of so many bytes."""
    if size < _LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return bytearray(size)
    # Linux aligns a mapping for large pages only when its length is a multiple of theirs (mm/mmap.c, since 6.12).
    room = mmap.mmap(-1, (size + _PAGE - 1) & -_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without large pages
        room.madvise(mmap.MADV_HUGEPAGE)
    return room


def full(count, value, code):
    """A column of one value."""
    array = np.full(count, value, code)
    return array if cython.compiled else memoryview(array)


def zeros(count, code):
    """A column of zeros, whose pages take no memory before they are written."""
    array = np.zeros(count, code)
    return array if cython.compiled else memoryview(array)


def enlarged(column, count, fill=None):
    """A copy of a column with room for ``count`` elements, the new ones set to ``fill`` if it is given."""
    old = np.asarray(column)
    new = np.empty(count, old.dtype)
    new[: len(old)] = old
    if fill is not None:
        new[len(old) :] = fill
    return new if cython.compiled else memoryview(new)


def distinct(column):
    """The different numbers of a column, sorted, as an array. numpy's own ``unique`` loads numpy's masked arrays first, which
    takes 12 ms and 4 MiB."""
    ordered = np.sort(np.asarray(column))
    first = np.ones(len(ordered), bool)
    last = max(len(ordered) - 1, 0)
    first[1:] = ordered[1:] != ordered[:last]
    return ordered[first]
