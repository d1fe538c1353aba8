"""Walks many samples in one call: each has its registers and a copy of its stack in one buffer."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.modulemap import ModuleMap
    from cython.cimports.clew.native.stepper import Stepper
    from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint32_t, uint64_t
else:
    from clew.native.modulemap import ModuleMap
    from clew.native.stepper import Stepper

    int32_t = int64_t = uint8_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros

_UNUSUAL = cython.declare(cython.int, 0)


@cython.final
@cython.cclass
class SampleColumns:
    """The stacks of samples, as columns.

    Args:
        count: how many samples there are.
        room: how many frames they have, about.
    """

    def __init__(self, count, room):
        self.used = 0
        self.pcs, self.modules = empty(room + 64, "u8"), empty(room + 64, "i4")
        self.first, self.size = zeros(count, "u4"), zeros(count, "u4")
        self.reason, self.in_call = zeros(count, "u1"), zeros(count, "u1")

    def walk(
        self,
        stepper: Stepper,
        modules: ModuleMap,
        which: cython.const[int64_t][::1],
        sp: cython.const[uint64_t][::1],
        stack_offset: cython.const[uint64_t][::1],
        stack_size: cython.const[uint32_t][::1],
        registers_offset: cython.const[uint64_t][::1],
        restarted: cython.const[uint8_t][::1],
        slots: cython.const[uint8_t][::1],
        witness: cython.size_t,
        limit: cython.size_t,
        work: cython.longlong,
    ):
        """Walks those samples of one process whose numbers are in ``which``; the columns are of all samples.

        Args:
            stepper: takes the steps; it looks at the buffer that holds the samples.
            modules: the process's.
            restarted: whether it was in the kernel, so that a system call may stand before the pc.
            witness: the slot of the register in which a system call leaves the pc, or 255.
            slots: for each word of a block of registers its slot, or 255.
            limit, work: frames, and what a walk may spend.
        """
        if not cython.compiled:
            columns = (which, sp, stack_offset, stack_size, registers_offset, restarted, slots)
            which, sp, stack_offset, stack_size, registers_offset, restarted, slots = map(memoryview, columns)
        i: cython.size_t
        n: cython.size_t
        index: cython.size_t
        for i in range(cython.cast(cython.size_t, which.shape[0])):
            index = which[i]
            stepper.take(sp[index], stack_offset[index], stack_size[index], registers_offset[index], slots)
            stepper.restarted = restarted[index] and (
                witness >= 64 or not stepper.known >> witness & 1 or stepper.value[witness] == stepper.pc
            )
            self.in_call[index] = stepper.restarted
            stepper.work = work
            self.reason[index] = stepper.go(modules, limit)
            self.first[index] = self.used
            if self.reason[index] == _UNUSUAL:
                continue
            self.reserve(stepper.count)
            for n in range(stepper.count):
                self.pcs[self.used] = stepper.out[n * stepper.width]
                self.modules[self.used] = cython.cast(int32_t, stepper.out[n * stepper.width + 3])
                self.used += 1
            self.size[index] = stepper.count

    def walk_packed(
        self, walker, buffer, which, sp, stack_offset, stack_size, registers_offset, restarted, slots, witness, limit
    ):
        """As :meth:`walk`, by packed tables; the numbers (i8) of the samples that are left to it.

        Args:
            walker: a :class:`clew.native.packed_walk.PackedWalker` of the process.
            buffer: what the offsets are of.
            slots (u1): for each word of a block of registers its DWARF number, or 255.
        """
        begin = 0
        while True:
            begin, self.used = walker.walk(
                *(buffer, which, sp, stack_offset, stack_size, registers_offset, restarted, slots),
                *map(np.asarray, (self.pcs, self.modules, self.first, self.size, self.reason, self.in_call)),
                *(witness, limit, begin, self.used),
            )
            if begin == len(which):
                return which[np.asarray(self.reason)[which] == _UNUSUAL]
            self.reserve(limit + 1)

    def reasons(self):
        """The reasons (u1) so far."""
        return np.asarray(self.reason)

    def put(self, index, reason, in_call, pcs, modules):
        """Says what another walker found for a sample."""
        self.in_call[index] = in_call
        self.first[index], self.size[index], self.reason[index] = self.used, len(pcs), reason
        self.reserve(len(pcs))
        for pc, module in zip(pcs, modules):
            self.pcs[self.used], self.modules[self.used] = pc, module
            self.used += 1

    def columns(self):
        """First frame and number of frames (u4), reason and whether in a system call (u1) of each sample; pc (u8) and module
        (i4) of each frame."""
        return (
            np.asarray(self.first),
            np.asarray(self.size),
            np.asarray(self.reason),
            np.asarray(self.in_call),
            np.asarray(self.pcs)[: self.used],
            np.asarray(self.modules)[: self.used],
        )

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve(self, more: cython.size_t) -> cython.int:
        """Makes room for so many frames more."""
        room: cython.size_t = self.pcs.shape[0]
        if self.used + more > room:
            room = 2 * room + more
            self.pcs, self.modules = enlarged(self.pcs, room), enlarged(self.modules, room)
        return 0
