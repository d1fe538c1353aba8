"""Samples, one at a time or in batches, and the processes that they are of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.arch import Machine
from clew.target.model import Target, Thread
from clew.target.perfdata.attributes import Event
from clew.target.perfdata.memory import SampleMemory
from clew.target.perfdata.records import MISC_CPUMODE, MISC_KERNEL, MISC_USER
from clew.target.perfdata.registers import SYSCALL_RETURN, RegisterPlan, register_plan

if TYPE_CHECKING:
    from clew.target.perfdata.opening import PerfData

# enum perf_callchain_context: what the addresses that follow are of. All are among the last 4095 numbers.
_CONTEXT_MAX = (1 << 64) - 4095
_CONTEXT_HYPERVISOR, _CONTEXT_KERNEL, _CONTEXT_USER = (1 << 64) - 32, (1 << 64) - 128, (1 << 64) - 512


@dataclass(eq=False, slots=True, weakref_slot=True)
class SampledProcess:
    """A process, as long as it has the same code mapped.

    Attributes:
        pid: its number; -1 where the kernel did not know it any more.
        command: its name, that is its main thread's, if known.
        target: its modules, and the memory of the sample that is shown. Its threads are not listed.
        memory: the same as ``target.memory``.
    """

    pid: int
    command: str | None
    target: Target
    memory: SampleMemory


@dataclass(slots=True)
class Sample:
    """One sample.

    Attributes:
        process: whose; its memory shows this sample until the next is taken.
        thread: where it was in its own program; None where it has no such part, as the kernel's threads, or none was sampled.
        thread_id: the thread's number, also where ``thread`` is None; -1 where it is not known.
        time: in nanoseconds of perf's clock; 0 where it was not sampled.
        cpu: the processor's number, or -1.
        event: what it counts.
        period: how many of these events it stands for; 0 where that was not sampled.
        ip: the instruction pointer, of the kernel if the sample hit there.
        in_kernel: whether it hit in the kernel.
        kernel_chain: the kernel's frames from the innermost out: the first is where it was, the others where calls return to.
        user_chain: the program's frames in the same way, where perf followed frame pointers.
    """

    process: SampledProcess
    thread: Thread | None
    thread_id: int
    time: int
    cpu: int
    event: Event
    period: int
    ip: int
    in_kernel: bool
    kernel_chain: tuple[int, ...]
    user_chain: tuple[int, ...]


@lru_cache(maxsize=1024)
def _words(order: str, count: int) -> Struct:
    return Struct(f"{order}{count}Q")


def split_chain(chain: tuple[int, ...], in_kernel: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The kernel's and the program's part of a call chain, at the marks that the kernel puts between them.

    >>> split_chain(((1 << 64) - 128, 0xffff800000001000, (1 << 64) - 512, 0x1000), True)
    ((18446603336221200384,), (4096,))
    """
    kernel: list[int] = []
    user: list[int] = []
    current: list[int] | None = kernel if in_kernel else user
    for address in chain:
        if address >= _CONTEXT_MAX:
            if address == _CONTEXT_USER:
                current = user
            else:
                # Those of guests are of another machine.
                current = kernel if address in (_CONTEXT_KERNEL, _CONTEXT_HYPERVISOR) else None
        elif current is not None:
            current.append(address)
    return tuple(kernel), tuple(user)


@dataclass(eq=False)
class Batch:
    """Samples that follow one another in the file; each column has an element for each of them.

    Attributes:
        data: what they were read from.
        buffer: holds their registers and stacks, at the offsets below.
        state: which state of a process they are of: see :meth:`PerfData.state`.
        event: index in ``data.events``.
        misc: of the record's header; its low three bits say what the processor did (``PERF_RECORD_MISC_CPUMODE_MASK``).
        pid, tid, cpu: -1 where unknown.
        time, period, ip: as in :class:`Sample`.
        abi: 0 where there are no registers of the program, 1 for a 32-bit one, 2 for a 64-bit one.
        pc, sp: of the program, where ``abi`` is not 0.
        registers_offset: of the block of registers.
        stack_offset, stack_size: of the stack's copy.
        chain_offset, chain_count: of the call chain, in words of eight bytes.
    """

    data: PerfData
    buffer: memoryview
    state: npt.NDArray[np.int64]
    event: npt.NDArray[np.uint16]
    misc: npt.NDArray[np.uint16]
    pid: npt.NDArray[np.int32]
    tid: npt.NDArray[np.int32]
    cpu: npt.NDArray[np.int32]
    time: npt.NDArray[np.uint64]
    period: npt.NDArray[np.uint64]
    ip: npt.NDArray[np.uint64]
    abi: npt.NDArray[np.uint8]
    pc: npt.NDArray[np.uint64]
    sp: npt.NDArray[np.uint64]
    registers_offset: npt.NDArray[np.uint64]
    stack_offset: npt.NDArray[np.uint64]
    stack_size: npt.NDArray[np.uint32]
    chain_offset: npt.NDArray[np.uint64]
    chain_count: npt.NDArray[np.uint32]
    when: npt.NDArray[np.uint64]
    """Their place in time, or, where time was not sampled, in the file."""
    rounds: npt.NDArray[np.int64]
    """How many of the samples stand before each mark that perf has gone round all its buffers
    (``PERF_RECORD_FINISHED_ROUND``): what follows the second mark from here is later than all before the first."""

    def __len__(self) -> int:
        return len(self.pid)

    @cached_property
    def _lists(self) -> tuple[list[int], ...]:
        # Plain numbers, all at once: taking them out of the arrays one by one costs ten times as much.
        columns = (self.state, self.event, self.misc, self.tid, self.cpu, self.time, self.period, self.ip, self.abi)
        more = (self.pc, self.sp, self.registers_offset, self.stack_offset, self.stack_size, self.chain_offset)
        return tuple(column.tolist() for column in (*columns, *more, self.chain_count, self.when))

    def samples(self) -> Iterator[Sample]:
        """Each sample; its process's memory shows it until the next one is taken."""
        return self._range(0, len(self))

    def show(self, index: int) -> Thread | None:
        """Lets its process's memory show a sample; its thread, as :attr:`Sample.thread`."""
        return next(self._range(index, index + 1)).thread

    def _range(self, first: int, last: int) -> Iterator[Sample]:
        data, buffer = self.data, self.buffer
        events, order = data.events, "<" if data.order == "little" else ">"
        threads = data.history.threads
        states: dict[int, SampledProcess] = {}
        plans: dict[tuple[int, int], RegisterPlan] = {}
        for (
            index,
            number,
            misc,
            tid,
            cpu,
            time,
            period,
            ip,
            abi,
            pc,
            sp,
            registers_at,
            stack_at,
            stack_size,
            chain_at,
            chain_count,
            when,
        ) in zip(*(column[first:last] for column in self._lists), strict=True):
            process = states.get(index)
            if process is None:
                process = states[index] = data.state(index)
            event = events[number]
            mode = misc & MISC_CPUMODE
            kernel_chain: tuple[int, ...] = ()
            user_chain: tuple[int, ...] = ()
            if chain_count:
                chain = _words(order, chain_count).unpack_from(buffer, chain_at)
                kernel_chain, user_chain = split_chain(chain, mode == MISC_KERNEL)
            thread: Thread | None = None
            if abi:
                plan = plans.get((number, abi))
                if plan is None:
                    plan = plans[number, abi] = register_plan(data.machine, event.sample_regs_user, abi)
                words = plan.words.unpack_from(buffer, registers_at)
                registers = dict(zip(plan.numbers, words, strict=True))
                in_call = mode == MISC_KERNEL and _may_be_call(plan.machine, registers, pc)
                if plan.pc < _NONE or mode == MISC_USER:
                    pc = pc if plan.pc < _NONE else ip
                    names = threads.get(tid)
                    thread = Thread(tid, registers, pc, names.at(when) if names is not None else None, in_call)
                process.memory.show(buffer, stack_at, stack_size if plan.sp < _NONE else 0, sp)
            else:
                process.memory.show(buffer, 0, 0, 0)
                if mode == MISC_USER or user_chain:
                    pc = ip if mode == MISC_USER else user_chain[0]
                    names = threads.get(tid)
                    thread = Thread(tid, {}, pc, names.at(when) if names is not None else None, mode != MISC_USER)
            yield Sample(
                process,
                thread,
                tid,
                time,
                cpu,
                event,
                period,
                ip,
                mode == MISC_KERNEL,
                kernel_chain,
                user_chain,
            )


_NONE = 0xFFFF


def _may_be_call(machine: Machine, registers: dict[int, int], pc: int) -> bool:
    """Whether a program that is in the kernel may be there because of a system call, and its pc behind that instruction.

    On x86-64, ``syscall`` leaves the pc in rcx, too (AMD64 Architecture Programmer's Manual, volume 3). Without that, it
    was a fault or an interrupt, and the pc is at the instruction that runs next, which may be the first of a function.
    """
    number = SYSCALL_RETURN.get(machine.name)
    return number is None or registers.get(number, pc) == pc
