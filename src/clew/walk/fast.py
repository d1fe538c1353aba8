"""The fast walker: the compiled core takes the plain steps, the general walker everything else and every decision to stop.

Both find the same frames, since a step is plain only where the general walker would do just the same. Frames have no
:attr:`~clew.walk.Frame.reads`; who wants to see the words that were read asks the general walker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from clew.arch import Default
from clew.native.stepper import FULL, OUTERMOST_FRAME, Stepper
from clew.target.model import Target, Thread
from clew.walk.frames import Frames, Run
from clew.walk.model import End, Frame, ReturnAddress, Stack, Trust
from clew.walk.step import Here, Stop, Work
from clew.walk.steps import ModuleRows, Steps
from clew.walk.surroundings import Synthesise
from clew.walk.walker import LIMIT, Walker, no_progress, place
from clew.walk.windows import Windows


@dataclass(slots=True)
class _Walk:
    """A walk that is under way.

    Attributes:
        thread: whose stack.
        frames: those that were left.
        seen: where it has been; see :func:`clew.walk.walker.place`.
        work: what it may still spend.
        highest: the highest stack pointer so far.
    """

    thread: Thread
    frames: Frames
    seen: set[tuple[int, int | None]] = field(default_factory=set)
    work: Work = field(default_factory=Work)
    highest: int = 0


class FastWalker(Walker):
    """A :class:`Walker` for many stacks, with the same result.

    Args:
        target, limit, scan, synthesise: as for :class:`Walker`; the strategies are the usual ones.
        steps: those of another walker, for a target of the same machine that shares files with this one.
    """

    def __init__(
        self,
        target: Target,
        *,
        limit: int = LIMIT,
        scan: bool = False,
        synthesise: Synthesise | None = None,
        steps: Steps | None = None,
    ) -> None:
        super().__init__(target, limit=limit, scan=scan, synthesise=synthesise)
        self.steps = Steps(target.machine) if steps is None else steps
        self._stepper = self.stepper(True)
        self._windows = Windows(target.memory)
        self._rows = ModuleRows(self.steps, self._around)

    def stepper(self, with_registers: bool) -> Stepper | None:
        """What takes the plain steps, and notes registers if asked to; None for machines that have none."""
        return self.steps.stepper(self._facts(), with_registers) if self.steps.possible else None

    @property
    def code_mask(self) -> int:
        """The bits of a code pointer that may be pointer authentication; 0 for none."""
        return self._around.code_mask

    @property
    def rows(self) -> ModuleRows:
        """The modules, as a stepper takes them."""
        return self._rows

    def _facts(self) -> tuple[int, bool, int, int, bool, int, int, int, bool]:
        machine, around = self.target.machine, self._around
        return (
            machine.address_size,
            machine.byte_order == "big",
            self.steps.slots[machine.stack_pointer],
            self.steps.pc_slot,
            machine.sp_default is Default.CFA,
            self.steps.keep(),
            machine.address_mask & around.mask,
            around.code_mask,
            bool(self.target.code_mask),
        )

    def frames(self, thread: Thread) -> Iterator[Frame]:
        """The thread's frames; unlike those of :class:`Walker` they are all found before the first is given."""
        yield from self.walk(thread).frames

    def walk(self, thread: Thread) -> Stack:
        """The thread's stack."""
        if self._stepper is None:
            return super().walk(thread)
        walk = _Walk(thread, Frames(self._frame))
        self._stepper.show(self._windows)
        here: Here | None = None
        while True:
            following = self._plain(self._stepper, walk, here)
            if isinstance(following, Stop):
                break
            here = self._first(thread) if following is None else following
            here.work = walk.work
            outcome = self._leave(here)
            walk.frames.add(Frame(here.pc, here.trust, here.registers, here.module, outcome.cfa, outcome.rule))
            if isinstance(outcome, Stop):
                following = outcome
                break
            caller = self._next(here, outcome)
            walk.seen.add(place(here))
            stop = no_progress(here, caller, outcome, walk.seen)
            if stop is not None:
                following = stop
                break
            if len(walk.frames) >= self.limit:
                following = self._full()
                break
            here = caller
        self._stepper.show(None)
        return Stack(walk.frames, following.end, following.detail)

    def _plain(self, stepper: Stepper, walk: _Walk, here: Here | None) -> Here | Stop | None:
        """Takes plain steps from a frame (None: the first): the frame where they end, or why the stack does."""
        machine, thread = self.target.machine, walk.thread
        known = thread.registers if here is None else here.registers
        earlier = walk.highest
        sp = known.get(machine.stack_pointer)
        floor = 0 if here is None or here.floor is None else min(here.floor, self._around.mask)
        walk.highest = max(earlier, 0 if sp is None else sp & self._around.mask, floor)
        registers = None if sp is None else self.steps.encode(known)
        if registers is None:
            return here
        pc = thread.pc & machine.address_mask & self._around.mask if here is None else here.pc.address
        stepper.begin(pc, here is None or here.interrupted, here is None and thread.interrupted_call, registers)
        # The core takes an interrupted frame's own stack pointer for its caller, but that of an earlier frame is not new.
        stepper.highest = max(stepper.highest, walk.highest, 0 if here is None else min(earlier + 1, self._around.mask))
        stepper.work = walk.work.left
        reason = stepper.run(self._rows.map, self.limit - len(walk.frames))
        walk.work.left = stepper.work
        if stepper.count == 0:
            return here
        walk.highest = stepper.highest
        run = Run(here, thread, stepper.notes())
        walk.frames.add_run(run)
        if reason == OUTERMOST_FRAME:
            rule = self._rows.rule(*run.last())
            name = machine.register_name(rule.return_address)
            return Stop(End.ENTRY, f"{name} is undefined: this is the outermost frame")
        if reason == FULL:
            return self._full()
        walk.seen.update(run.places())
        return self._stuck(stepper, thread, walk.work)

    def _stuck(self, stepper: Stepper, thread: Thread, work: Work) -> Here:
        """The frame that the compiled core could not leave."""
        numbers = self.steps.numbers
        registers = {numbers[slot]: value for slot, value in stepper.registers() if slot in numbers}
        pc = ReturnAddress(stepper.pc)
        module, row = self._around.row(pc.lookup)
        limits = self.target.stack_limits.get(thread.id)
        sp = registers.get(self.target.machine.stack_pointer)
        return Here(self._around, pc, Trust.CFI, registers, sp, module, row, limits, work)

    def _full(self) -> Stop:
        return Stop(End.LIMIT, f"the limit of {self.limit} frames is reached")

    def _frame(self, run: Run, index: int) -> Frame:
        """A frame that the compiled core left."""
        pc, cfa, _, module, row, known, *values = run.at(index)
        rule = self._rows.rule(module, row)
        if index == 0:
            here = self._first(run.thread) if run.here is None else run.here
            return Frame(here.pc, here.trust, here.registers, here.module, cfa, rule)
        registers = {number: values[slot] for number, slot in self.steps.pairs(known)}
        return Frame(ReturnAddress(pc), Trust.CFI, registers, self._rows.modules[module], cfa, rule)
