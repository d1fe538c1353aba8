"""Every different expression of a section once, by where its bytes stand."""

import cython

if cython.compiled:
    from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
else:
    int64_t = uint32_t = uint64_t = int32_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros

#: How far a look-up in the table of slots goes before it gives up.
_PROBES = cython.declare(cython.size_t, 64)


@cython.final
@cython.cclass
class ExpressionBook:
    """Numbers for expressions; equal bytes, equal number (but for input that is made to collide: then two may be equal)."""

    def __init__(self, data):
        self.data = data
        self.count = 0
        self.at = empty(64, "u4")
        self.size = empty(64, "u4")
        self.slots = zeros(256, "i4")

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def number(self, at: cython.size_t, size: cython.size_t) -> int64_t:
        """The number of the expression whose bytes are ``data[at : at + size]``."""
        i: cython.size_t
        mix: uint64_t = size
        for i in range(size):
            mix = (mix ^ self.data[at + i]) * 16777619 & 0xFFFFFFFF
        mix ^= mix >> 15
        mask: cython.size_t = self.slots.shape[0] - 1
        slot: cython.size_t = mix & mask
        probes: cython.size_t = 0
        n: cython.size_t
        while self.slots[slot] and probes < _PROBES:
            n = self.slots[slot] - 1
            if self.size[n] == size:
                i = 0
                while i < size and self.data[self.at[n] + i] == self.data[at + i]:
                    i += 1
                if i == size:
                    return n
            slot = (slot + 1) & mask
            probes += 1
        n = self.count
        if n == cython.cast(cython.size_t, self.at.shape[0]):
            self.at = enlarged(self.at, 2 * n)
            self.size = enlarged(self.size, 2 * n)
        self.at[n] = at
        self.size[n] = size
        self.count = n + 1
        if probes < _PROBES:
            self.slots[slot] = n + 1
        if 2 * self.count > mask and mask < 1 << 20:
            self.spread()
        return n

    def spread(self):
        """Quadruples the slots, entering the expressions again in the order of their numbers."""
        count: cython.size_t = self.count
        n: cython.size_t
        self.slots = zeros(4 * self.slots.shape[0], "i4")
        for n in range(count):
            self.count = n
            self.number(self.at[n], self.size[n])
        self.count = count

    def place(self, number: cython.size_t):
        """Offset and size of the expression with this number."""
        if number >= self.count:
            raise IndexError(number)
        return self.at[number], self.size[number]
