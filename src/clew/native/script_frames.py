"""Gives each different frame of a recording's samples a number: an address, and the space that it is an address in.

Frames come from call chains (``PERF_SAMPLE_CALLCHAIN`` of ``linux/perf_event.h``), which are read here out of the buffer that
holds the samples, and from walks of copied stacks.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import Cursor
    from cython.cimports.libc.stdint import int32_t, uint8_t, uint16_t, uint32_t, uint64_t
else:
    from clew.native.cursor import Cursor

    int32_t = uint8_t = uint16_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros

#: The spaces that are no process's: of addresses that are nowhere, and of the kernel.
NOWHERE, KERNEL = 0, 1
#: Added to a space for a frame that is not part of a call chain but all that a sample has.
ALONE = 0x80000000

# enum perf_callchain_context: all marks are among the last 4095 numbers.
_MARKS = cython.declare(uint64_t, (1 << 64) - 4095)
_MARK_HYPERVISOR = cython.declare(uint64_t, (1 << 64) - 32)
_MARK_KERNEL = cython.declare(uint64_t, (1 << 64) - 128)
_MARK_USER = cython.declare(uint64_t, (1 << 64) - 512)
_ONES = cython.declare(uint64_t, (1 << 64) - 1)

_ALONE = cython.declare(uint32_t, 0x80000000)
_KERNEL_SPACE = cython.declare(uint32_t, 1)


@cython.final
@cython.cclass
class FrameNumbers(Cursor):
    """Numbers frames, from 0 on, in the order in which they are first seen.

    Args:
        odd: any odd number, below 2**64, that a file's author cannot know: whoever knows it can make look-ups slow.
        big: whether call chains are big-endian.
    """

    def __init__(self, odd, big):
        Cursor.__init__(self, b"", 0, None, big)
        self.odd = odd
        self.count = self.used = 0
        self.bits = 12
        self.slots = zeros(1 << 12, "u4")
        self.spaces, self.addresses = empty(1 << 11, "u4"), empty(1 << 11, "u8")
        self.numbers = empty(64, "u4")

    def __len__(self):
        return self.count

    def known(self, since):
        """The space (u4) and the address (u8) of each frame from number ``since`` on."""
        return np.asarray(self.spaces)[since : self.count], np.asarray(self.addresses)[since : self.count]

    def samples(
        self,
        data,
        space: cython.const[uint32_t][::1],
        chained: cython.const[uint8_t][::1],
        misc: cython.const[uint16_t][::1],
        ip: cython.const[uint64_t][::1],
        chain_offset: cython.const[uint64_t][::1],
        chain_count: cython.const[uint32_t][::1],
        first: cython.const[uint32_t][::1],
        size: cython.const[uint32_t][::1],
        pc: cython.const[uint64_t][::1],
        exact: cython.const[uint8_t][::1],
        cut: cython.const[uint8_t][::1],
        most: cython.size_t,
    ):
        """The frames of a batch's samples.

        Args:
            data: the buffer that holds the call chains.
            space: of each sample's process.
            chained: whether the sample has a call chain; else its frame is where it was, alone.
            misc, ip, chain_offset, chain_count: as in :class:`clew.target.perfdata.Batch`.
            first, size: each sample's walked frames, in ``pc``.
            exact: for each walked frame whether it is shown as it is; the others are return addresses, which are shown by the
                byte before them, but for the first of each sample.
            cut: whether the sample's copy of the stack was too short; a frame at the last address then says so, as in perf.
            most: how many frames a call chain has at most.

        Returns:
            where each sample's frames begin (u8, one more than samples); their numbers (u4); and for each sample whether it
            has one frame alone (u1).
        """
        if not cython.compiled:
            columns = (space, chained, misc, ip, chain_offset, chain_count, first, size, pc, exact, cut)
            space, chained, misc, ip, chain_offset, chain_count, first, size, pc, exact, cut = map(memoryview, columns)
        self.data = data
        limit: cython.size_t = len(data)
        i: cython.size_t
        j: cython.size_t
        at: cython.size_t
        address: uint64_t
        count: cython.size_t = space.shape[0]
        begin: uint64_t[::1] = empty(count + 1, "u8")
        alone: uint8_t[::1] = zeros(count, "u1")
        self.used = 0
        self.numbers = empty(self.numbers.shape[0], "u4")
        for i in range(count):
            begin[i] = self.used
            self.reserve(size[i])
            if chained[i]:
                self.pos, self.end = chain_offset[i], limit
                if not self.chain(chain_count[i], space[i], most):
                    self.used = begin[i]
            else:
                alone[i] = 1
                self.add(self.mode_space(misc[i] & 7, space[i]) | _ALONE, ip[i])
                continue
            at = first[i]
            for j in range(size[i]):
                address = pc[at + j]
                if j and not exact[at + j]:
                    address = address - 1 if address else _ONES
                elif not address:
                    continue
                self.add(space[i], address)
            if cut[i]:
                self.add(0, _ONES)
        begin[count] = self.used
        self.data = b""
        return np.asarray(begin), np.asarray(self.numbers)[: self.used], np.asarray(alone)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def mode_space(self, mode: cython.int, space: uint32_t) -> uint32_t:
        """The space of an address, by what the processor did (``PERF_RECORD_MISC_CPUMODE_MASK``)."""
        if mode == 2:
            return space
        return _KERNEL_SPACE if mode == 1 else 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def chain(self, count: cython.size_t, space: uint32_t, most: cython.size_t) -> cython.int:
        """Adds the frames of a call chain; 0 where it has a mark that nobody knows, for then nothing of it can be relied on."""
        address: uint64_t
        left: cython.size_t = most
        # A chain without a mark before its first frame is of a program.
        current: uint32_t = space
        while count and left:
            count -= 1
            address = self.fixed(8)
            if address < _MARKS:
                left -= 1
                self.add(current, address)
            elif address == _MARK_KERNEL:
                current = _KERNEL_SPACE
            elif address == _MARK_USER:
                current = space
            elif address == _MARK_HYPERVISOR:
                current = 0
            else:
                return 0
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve(self, more: cython.size_t) -> cython.int:
        """Makes room for so many frames more, and one."""
        room: cython.size_t = self.numbers.shape[0]
        if self.used + more + 1 > room:
            self.numbers = enlarged(self.numbers, 2 * room + more + 1)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, space: uint32_t, address: uint64_t) -> cython.int:
        """Adds a frame to the sample at hand."""
        slot: cython.size_t
        mask: cython.size_t = self.slots.shape[0] - 1
        number: uint32_t
        mixed: uint64_t
        if self.used >= cython.cast(cython.size_t, self.numbers.shape[0]):
            self.reserve(1)
        # Multiplication by a random odd number spreads any addresses (Dietzfelbinger and others 1997); the space is mixed in
        # before it, where addresses have no bits.
        mixed = (address ^ cython.cast(uint64_t, space) << 40) * self.odd & _ONES
        slot = mixed >> (64 - self.bits)
        while True:
            number = self.slots[slot]
            if not number:
                break
            if self.addresses[number - 1] == address and self.spaces[number - 1] == space:
                self.numbers[self.used] = number - 1
                self.used += 1
                return 0
            slot = (slot + 1) & mask
        number = self.count
        if number >= cython.cast(cython.size_t, self.spaces.shape[0]):
            self.grow()
            return self.add(space, address)
        self.spaces[number] = space
        self.addresses[number] = address
        self.slots[slot] = number + 1
        self.count += 1
        self.numbers[self.used] = number
        self.used += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        """Doubles the room for frames; at most half of the slots are taken."""
        i: cython.size_t
        slot: cython.size_t
        mask: cython.size_t
        mixed: uint64_t
        room: cython.size_t = 2 * self.spaces.shape[0]
        self.spaces, self.addresses = enlarged(self.spaces, room), enlarged(self.addresses, room)
        self.bits += 1
        self.slots = zeros(2 * room, "u4")
        mask = self.slots.shape[0] - 1
        for i in range(self.count):
            mixed = (self.addresses[i] ^ cython.cast(uint64_t, self.spaces[i]) << 40) * self.odd & _ONES
            slot = mixed >> (64 - self.bits)
            while self.slots[slot]:
                slot = (slot + 1) & mask
            self.slots[slot] = i + 1
        return 0
