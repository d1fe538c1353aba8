"""Walks the samples of a recording, batch after batch, without an object for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from clew.arch import Machine
from clew.native.perf_records import NONE
from clew.native.sampler import SampleColumns
from clew.native.stepper import COPY_END, FULL, OUTERMOST_FRAME, UNUSUAL
from clew.target.perfdata import Batch, PerfData, SampledProcess
from clew.target.perfdata.records import MISC_CPUMODE, MISC_KERNEL
from clew.target.perfdata.registers import SYSCALL_RETURN, register_plan
from clew.walk.fast import FastWalker
from clew.walk.frames import Frames
from clew.walk.model import End, Stack
from clew.walk.packed import packed_walker
from clew.walk.step import WORK
from clew.walk.steps import Steps
from clew.walk.walker import LIMIT

if TYPE_CHECKING:
    from clew.native.packed_walk import PackedWalker

ENDS = tuple(End)
"""The reasons by number, as in :attr:`SampleStacks.end`."""

NO_STACK = 255
"""In place of a reason: the sample has nothing of a program, such as those of the kernel's own threads."""

_MOST_WALKERS = 4096
"""States of processes whose walkers are kept. A file that makes up processes has more."""

_NUMBER = {end: number for number, end in enumerate(ENDS)}
_BY_REASON = np.full(256, NO_STACK, np.uint8)
for _reason, _end in ((OUTERMOST_FRAME, End.ENTRY), (FULL, End.LIMIT), (COPY_END, End.STACK_COPY_END)):
    _BY_REASON[_reason] = _NUMBER[_end]


@dataclass(eq=False)
class SampleStacks:
    """The stacks of a batch's samples, as columns.

    Attributes:
        batch: the samples.
        first, size (u4): each sample's frames, innermost first, in the columns below.
        end (u1): why it ended: an index in :data:`ENDS`, or ``NO_STACK``.
        in_call (u1): whether a system call may stand before the first frame's pc.
        pc (u8): each frame's pc. The first of a sample was interrupted; the others are mostly return addresses.
        module (i4): index in ``batch.data.state(...).target.modules`` of what it is in, or -1.
        others: by the sample's number, the stacks for which the general walker was asked: there, frames may have been found
            in another way than by the table, and pcs other than the first may be interrupted ones.
    """

    batch: Batch
    first: npt.NDArray[np.uint32]
    size: npt.NDArray[np.uint32]
    end: npt.NDArray[np.uint8]
    in_call: npt.NDArray[np.uint8]
    pc: npt.NDArray[np.uint64]
    module: npt.NDArray[np.int32]
    others: dict[int, Stack] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.size)

    def pcs(self, index: int) -> npt.NDArray[np.uint64]:
        """The pcs of a sample's frames."""
        return self.pc[self.first[index] : self.first[index] + self.size[index]]


class SampleWalker:
    """Walks samples.

    Args:
        data: the recording that they are of.
        limit: the most frames of a stack.
        scan: whether to look for return addresses on the stack where nothing else helps.
    """

    def __init__(self, data: PerfData, *, limit: int = LIMIT, scan: bool = False) -> None:
        self.data = data
        self.limit = limit
        self.scan = scan
        self._steps: dict[Machine, Steps] = {}
        # Frames that a sample had in the batch before.
        self._depth = 32.0
        self._walkers: dict[int, tuple[SampledProcess, FastWalker]] = {}
        self._packed: WeakKeyDictionary[FastWalker, PackedWalker | None] = WeakKeyDictionary()

    def walker(self, state: int) -> FastWalker:
        """What walks the samples of one state of a process."""
        found = self._walkers.get(state)
        if found is None:
            if len(self._walkers) >= _MOST_WALKERS:
                self._walkers.clear()
            # The process is kept with its walker: of one that is not, another is made with a memory of its own.
            process = self.data.state(state)
            steps = self._steps.get(process.target.machine)
            if steps is None:
                steps = self._steps[process.target.machine] = Steps(process.target.machine)
            walker = FastWalker(process.target, limit=self.limit, scan=self.scan, steps=steps)
            found = self._walkers[state] = (process, walker)
        return found[1]

    def _packed_walker(self, walker: FastWalker) -> PackedWalker | None:
        """What walks the samples of a walker's target by packed tables, or None."""
        if walker not in self._packed:
            self._packed[walker] = packed_walker(walker)
        return self._packed[walker]

    def walk(self, batch: Batch, chosen: npt.NDArray[np.bool_] | None = None) -> SampleStacks:
        """The stacks of a batch's samples.

        Args:
            chosen (bool): which of them to walk; by default all. The others have no frames, and ``NO_STACK``.
        """
        columns = SampleColumns(len(batch), round(1.1 * self._depth * len(batch)))
        pending: list[int] = []
        # State, event and kind of registers as one number.
        events = len(self.data.events)
        kinds, kind = np.unique((batch.state * events + batch.event) * 256 + batch.abi, return_inverse=True)
        order = np.argsort(kind, kind="stable").astype(np.int64)
        bounds = np.searchsorted(kind[order], np.arange(len(kinds) + 1))
        in_kernel = (batch.misc & MISC_CPUMODE == MISC_KERNEL).astype(np.uint8)
        looking: set[int] = set()
        for number, key in enumerate(kinds.tolist()):
            state, event, abi = key // 256 // events, key // 256 % events, key % 256
            which = order[bounds[number] : bounds[number + 1]]
            if chosen is not None:
                which = which[chosen[which]]
                if not len(which):
                    continue
            walker = self.walker(state)
            plan = register_plan(self.data.machine, self.data.events[event].sample_regs_user, abi)
            stepper = walker.stepper(False)
            if not abi or stepper is None or NONE in (plan.pc, plan.sp):
                pending.extend(which.tolist())
                continue
            if id(stepper) not in looking:
                looking.add(id(stepper))
                stepper.look(0, batch.buffer, 0, 0)
            witness = SYSCALL_RETURN.get(walker.target.machine.name, -1)
            fast = self._packed_walker(walker)
            if fast is not None:
                which = columns.walk_packed(
                    fast,
                    batch.buffer,
                    which,
                    batch.sp,
                    batch.stack_offset,
                    batch.stack_size,
                    batch.registers_offset,
                    in_kernel,
                    np.array([each if 0 <= each < 64 else 255 for each in plan.order], np.uint8),
                    witness if witness >= 0 else 255,
                    self.limit,
                )
            slots = np.array([walker.steps.slots.get(each, 255) for each in plan.order], np.uint8)
            columns.walk(
                stepper,
                walker.rows.map,
                which,
                batch.sp,
                batch.stack_offset,
                batch.stack_size,
                batch.registers_offset,
                in_kernel,
                slots,
                walker.steps.slots.get(witness, 255),
                self.limit,
                WORK,
            )
            pending.extend(which[columns.reasons()[which] == UNUSUAL].tolist())
        return self._finish(batch, columns, pending, chosen)

    def _finish(
        self, batch: Batch, columns: SampleColumns, pending: list[int], chosen: npt.NDArray[np.bool_] | None
    ) -> SampleStacks:
        """The stacks that the compiled core could not walk to their end."""
        others: dict[int, Stack] = {}
        ends: dict[int, int] = {}
        for index in sorted(pending):
            walker = self.walker(int(batch.state[index]))
            thread = batch.show(index)
            if thread is None:
                ends[index] = NO_STACK
                continue
            stack = walker.walk(thread)
            number = walker.rows.number
            if isinstance(stack.frames, Frames):
                pcs, modules = stack.frames.pcs, stack.frames.modules(number)
            else:
                pcs = [frame.pc.address for frame in stack.frames]
                modules = [number(frame.module) for frame in stack.frames]
            columns.put(index, UNUSUAL, thread.interrupted_call, pcs, modules)
            ends[index] = _NUMBER[stack.end]
            others[index] = stack
        first, size, reason, in_call, pc, module = columns.columns()
        end = _BY_REASON[reason]
        end[list(ends)] = list(ends.values())
        if chosen is not None:
            end[~chosen] = NO_STACK
        self._depth = len(pc) / max(1, len(batch))
        return SampleStacks(batch, first, size, end, in_call, pc, module, others)
