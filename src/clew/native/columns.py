"""Columns of numbers for the core: numpy arrays when compiled, memoryviews of them when not.

Uncompiled code must not compute with numpy's scalars, which overflow; a memoryview hands out plain Python numbers.
"""

import cython
import numpy as np


def empty(count, code):
    """An uninitialised column; ``code`` is numpy's name of the type."""
    array = np.empty(count, code)
    return array if cython.compiled else memoryview(array)


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
