"""The walker: frame after frame by the first strategy that applies, until there is a reason to stop."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from clew.errors import Error
from clew.target.model import Target, Thread
from clew.walk.apply import apply
from clew.walk.arm_frames import arm_interrupted
from clew.walk.bottom import bottom, context_bottom, go_bottom
from clew.walk.frame_pointer import cfa_of_record, frame_pointer
from clew.walk.go_files import is_go
from clew.walk.go_stacks import go_stack
from clew.walk.link_register import link_register, untouched
from clew.walk.model import End, Frame, Interrupted, Stack, Trust
from clew.walk.scan import scan as scan_stack
from clew.walk.signals import behind_handler, trampoline
from clew.walk.step import SAME_STACK, Caller, Here, Outcome, Stop, Strategy, Work
from clew.walk.surroundings import Surroundings, Synthesise
from clew.walk.widths import register_width

LIMIT = 10_000
"""Frames that a walk goes, unless told. Compilers' own stacks have been seen with more than a thousand."""


def by_table(here: Here) -> Outcome:
    """The caller by the unwind table's row for this pc."""
    if here.row is None:
        return None
    rule = here.row.rule
    outcome = apply(here, rule, Trust.CFI)
    if isinstance(outcome, Stop) and outcome.end is End.UNKNOWN_REGISTER and outcome.cfa is None:
        cfa = cfa_of_record(here, rule)
        if cfa is not None:
            return apply(here, rule, Trust.FRAME_POINTER, cfa)
    if isinstance(outcome, Stop) and outcome.end is End.ENTRY and here.module is not None and is_go(here.module):
        return behind_handler(here, outcome.cfa) or outcome
    return outcome


def by_synthesis(here: Here) -> Outcome:
    """The caller by a rule made from the machine code, where the walker was given what makes them."""
    module = here.module
    if here.row is not None or module is None or here.around.synthesise is None:
        return None
    try:
        rule = here.around.synthesise(module, (here.pc.lookup - module.bias) & here.around.mask)
    except Error:
        return None
    return None if rule is None else apply(here, rule, Trust.SYNTHESISED)


STRATEGIES: tuple[Strategy, ...] = (
    trampoline,
    go_bottom,
    go_stack,
    context_bottom,
    arm_interrupted,
    by_table,
    by_synthesis,
    untouched,
    bottom,
    frame_pointer,
    link_register,
)
"""The ways to leave a frame, in the order in which they are tried.

The fast walker goes by the table without asking those before it: of each, :mod:`clew.walk.steps` has to know for which rows it
may apply.
"""

# After these, even a walker that may scan stops: the stack is whole, or there is nothing to scan.
_FINAL = (End.ENTRY, End.STACK_COPY_END, End.LIMIT)


class Walker:
    """Walks the stacks of one target. Total: every walk ends, with a reason, and nothing that a target says makes it raise.

    Args:
        target: whose threads to walk.
        strategies: ways to leave a frame, in order; :data:`STRATEGIES` unless given.
        limit: the most frames of a stack.
        scan: whether to look for return addresses on the stack where nothing else helps.
        synthesise: makes a rule from machine code, for a module and an address of its file, where the table has none.
    """

    def __init__(
        self,
        target: Target,
        strategies: Sequence[Strategy] = STRATEGIES,
        *,
        limit: int = LIMIT,
        scan: bool = False,
        synthesise: Synthesise | None = None,
    ) -> None:
        self.target = target
        self.strategies = tuple(strategies)
        self.limit = max(1, limit)
        self.scan = scan
        self._around = Surroundings(target, synthesise)

    def walk(self, thread: Thread) -> Stack:
        """The thread's stack."""
        frames: list[Frame] = []
        steps = self._steps(thread)
        while True:
            try:
                frames.append(next(steps))
            except StopIteration as finished:
                stop: Stop = finished.value
                return Stack(tuple(frames), stop.end, stop.detail)

    def frames(self, thread: Thread) -> Iterator[Frame]:
        """The thread's frames, one at a time; :meth:`walk` also says why they end."""
        yield from self._steps(thread)

    def _steps(self, thread: Thread) -> Generator[Frame, None, Stop]:
        here = self._first(thread)
        seen = {place(here)}
        for count in range(1, self.limit + 1):
            outcome = self._leave(here)
            reads = outcome.reads if isinstance(outcome, Stop) and outcome.reads else tuple(here.reads)
            frame = Frame(here.pc, here.trust, here.registers, here.module, outcome.cfa, outcome.rule, reads)
            if isinstance(outcome, Stop):
                yield frame
                return outcome
            following = self._next(here, outcome)
            stop = no_progress(here, following, outcome, seen)
            yield frame
            if stop is not None:
                return stop
            if count < self.limit:
                seen.add(place(following))
                here = following
        return Stop(End.LIMIT, f"the limit of {self.limit} frames is reached")

    def _first(self, thread: Thread) -> Here:
        machine, around = self.target.machine, self._around
        registers: dict[int, int] = {}
        for number, value in thread.registers.items():
            width = register_width(machine, number) or around.word
            registers[number] = value & ((1 << 8 * width) - 1)
        pc = Interrupted(thread.pc & machine.address_mask & around.mask)
        module, row = around.lookup(pc, thread.interrupted_call)
        limits = self.target.stack_limits.get(thread.id)
        sp = registers.get(machine.stack_pointer)
        return Here(around, pc, Trust.CONTEXT, registers, sp, module, row, limits, Work())

    def _next(self, here: Here, caller: Caller) -> Here:
        module, row = self._around.row(caller.pc.lookup)
        sp = caller.registers.get(self.target.machine.stack_pointer)
        return replace(
            here,
            pc=caller.pc,
            trust=caller.trust,
            registers=caller.registers,
            floor=sp if caller.floor is None else caller.floor,
            module=module,
            row=row,
            reads=[],
        )

    def _leave(self, here: Here) -> Caller | Stop:
        """What the first strategy says that applies, or the reason why none does."""
        kept: Stop | None = None
        for strategy in self.strategies:
            here.reads.clear()
            outcome = strategy(here)
            if isinstance(outcome, Caller):
                return outcome
            if outcome is not None:
                outcome = replace(outcome, reads=tuple(here.reads))
                if not outcome.soft:
                    kept = outcome
                    break
                kept = kept or outcome
        here.reads.clear()
        stop = kept or _no_way(here)
        if self.scan and stop.end not in _FINAL:
            return scan_stack(here) or stop
        return stop


def _no_way(here: Here) -> Stop:
    """The reason when no strategy applies."""
    address = here.pc.lookup
    if here.module is None:
        return Stop(End.NO_MODULE, f"nothing that is loaded is at {address:#x}")
    name = here.module.name
    if here.row is None and here.module.table is None:
        trouble = here.module.trouble
        why = "it has none" if trouble is None else trouble.message
        return Stop(End.NO_RULE, f"{name} has no unwind table: {why}")
    return Stop(End.NO_RULE, f"{name} has no row for {address:#x}, and no frame pointer leads on")


def place(here: Here) -> tuple[int, int | None]:
    """What tells that a walk has been somewhere already."""
    sp = here.value(here.around.machine.stack_pointer)
    return here.pc.address, here.floor if sp is None else sp


def no_progress(here: Here, following: Here, caller: Caller, seen: set[tuple[int, int | None]]) -> Stop | None:
    """Why a frame that was found is none: it was there before, or lies where the stack has been already.

    The stack may go the other way from one stack to another: through a signal, or where a rule says so, as those of
    functions that switch stacks do.
    """
    pc = following.pc.address
    if place(following) in seen:
        return Stop(End.NO_PROGRESS, f"the caller, at {pc:#x}, is a frame that is there already")
    if caller.from_signal or caller.other_stack or here.floor is None or following.floor is None:
        return None
    if following.floor >= here.floor:
        return None
    if here.limits is not None and here.on_own_stack:
        same = here.limits[0] <= following.floor
    else:
        same = here.floor - following.floor < SAME_STACK
    if not same:
        return None
    return Stop(End.NO_PROGRESS, f"the stack goes the wrong way, from {here.floor:#x} to {following.floor:#x}")
