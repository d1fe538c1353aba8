"""The fast walker: the compiled core takes the plain steps, the general walker everything else and every decision to stop.

Both find the same frames, since a step is plain only where the general walker would do just the same. Frames have no
:attr:`~clew.walk.Frame.reads`; who wants to see the words that were read asks the general walker.
"""

from __future__ import annotations

from collections.abc import Iterator

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
        self._rows = self.steps.rows_of(target.modules)
        self._rows.around = self._around

    def stepper(self, with_registers: bool) -> Stepper | None:
        """What takes the plain steps, and notes registers if asked to; None for machines that have none."""
        return self.steps.stepper(self._facts(), with_registers) if self.steps.possible else None

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
        frames = Frames(self._frame)
        seen: set[tuple[int, int | None]] = set()
        work = Work()
        self._stepper.show(self._windows)
        self._stepper.highest = 0
        here: Here | None = None
        while True:
            following = self._plain(thread, here, frames, seen, work)
            if isinstance(following, Stop):
                break
            here = following
            if here is None:
                here = self._first(thread)
            here.work = work
            outcome = self._leave(here)
            frames.add(Frame(here.pc, here.trust, here.registers, here.module, outcome.cfa, outcome.rule))
            if isinstance(outcome, Stop):
                following = outcome
                break
            caller = self._next(here, outcome)
            seen.add(place(here))
            stop = no_progress(here, caller, outcome, seen)
            if stop is not None:
                following = stop
                break
            if len(frames) >= self.limit:
                following = self._full()
                break
            here = caller
        return Stack(frames, following.end, following.detail)

    def _plain(
        self, thread: Thread, here: Here | None, frames: Frames, seen: set[tuple[int, int | None]], work: Work
    ) -> Here | Stop | None:
        """Takes plain steps from a frame (None: the first): the frame where they end, or why the stack does."""
        stepper = self._stepper
        assert stepper is not None
        if here is None:
            registers = self.steps.encode(thread.registers)
            pc = thread.pc & self.target.machine.address_mask & self._around.mask
        else:
            registers = self.steps.encode(here.registers)
            pc = here.pc.address
        if registers is None:
            return here
        highest = stepper.highest
        stepper.begin(pc, here is None or here.interrupted, here is None and thread.interrupted_call, registers)
        stepper.highest = max(highest, stepper.highest, here.floor or 0 if here is not None else 0)
        stepper.work = work.left
        reason = stepper.run(self._rows.map, self.limit - len(frames))
        work.left = stepper.work
        if stepper.count == 0:
            return here
        run = Run(here, thread, stepper.notes())
        frames.add_run(run)
        if reason == OUTERMOST_FRAME:
            rule = self._rows.rule(*run.last())
            name = self.target.machine.register_name(rule.return_address)
            return Stop(End.ENTRY, f"{name} is undefined: this is the outermost frame")
        if reason == FULL:
            return self._full()
        seen.update(run.places())
        return self._stuck(stepper, thread, work)

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
