"""The text of ``STACK CFI`` records: addresses and sizes are written here, the rules are words that were made before."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.textbuffer import TextBuffer
    from cython.cimports.libc.stdint import uint64_t
else:
    from clew.native.textbuffer import TextBuffer

    uint64_t = cython.longlong

#: Text is handed over when so much of it has gathered.
_CHUNK = cython.declare(cython.size_t, 1 << 20)

_INIT = cython.declare(cython.size_t, 0)
_DELTA = cython.declare(cython.size_t, 1)
#: How many words stand before the rules.
_OWN = cython.declare(cython.size_t, 2)


@cython.final
@cython.cclass
class CfiRecords:
    """Records in the order in which they are given.

    Args:
        address (u8): where each record's rules begin.
        size (u8): bytes that an ``INIT`` is for; 0 for a record without.
        word (u4): the number of its rules among ``texts``.
        texts: rules as bytes, each with a space before and a newline behind.
    """

    def __init__(self, address, size, word, texts):
        columns = [np.ascontiguousarray(column, code) for column, code in ((address, "u8"), (size, "u8"), (word, "u4"))]
        if not cython.compiled:
            columns = [memoryview(column) for column in columns]
        self.address, self.size, self.word = columns
        self.count = len(address)
        self.turn = 0
        self.out = TextBuffer([b"STACK CFI INIT ", b"STACK CFI ", *texts], _CHUNK + (1 << 12))

    def more(self):
        """The next piece of text, about a mebibyte, of whole records; empty when there is no more."""
        i: cython.size_t
        size: uint64_t
        out: TextBuffer = self.out
        while self.turn < self.count and out.pos < _CHUNK:
            i = self.turn
            size = self.size[i]
            out.word(_INIT if size else _DELTA)
            out.hex(self.address[i], 1)
            if size:
                out.byte(0x20)
                out.hex(size, 1)
            out.word(_OWN + self.word[i])
            self.turn = i + 1
        return out.take()
