"""Leaving one frame: what a strategy is told, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from clew.table import Row, Rule
from clew.target.model import Module
from clew.walk.model import CodeAddress, End, Interrupted, Read, Trust
from clew.walk.surroundings import Surroundings

SAME_STACK = 1 << 26
"""Addresses no farther apart than this lie on one stack, where nothing says how far the stack reaches. Threads get 8 MiB
by default (``RLIMIT_STACK``); programs that need more seldom ask for more than 64."""

WORK = 500_000
"""Rules' registers and expressions' steps that one walk may take. Real stacks of 10,000 frames take half of it at most."""


@dataclass(slots=True)
class Work:
    """What a walk may still spend, so that no table can make it run long."""

    left: int = WORK

    def spend(self, amount: int) -> bool:
        """Whether there was as much."""
        self.left -= amount
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class Caller:
    """The frame that a strategy found.

    Attributes:
        pc: where it stands.
        trust: how it was found.
        registers: what is known of its registers, by DWARF number.
        cfa: the canonical frame address of the frame that was left, if the strategy knows it.
        rule: the rule by which it was left, if there was one.
        floor: the lowest address at which its part of the stack may begin; its stack pointer, when not given.
        other_stack: whether the frame is known to be on another stack than the one that was left.
    """

    pc: CodeAddress
    trust: Trust
    registers: dict[int, int]
    cfa: int | None = None
    rule: Rule | None = None
    floor: int | None = None
    other_stack: bool = False

    @property
    def from_signal(self) -> bool:
        """Whether a signal lies between the two frames: then they may be on different stacks."""
        return self.trust is Trust.SIGNAL or (self.rule is not None and self.rule.signal_frame)


@dataclass(frozen=True, slots=True)
class Stop:
    """There is no way out of this frame.

    Attributes:
        end, detail: why.
        cfa, rule: how far it got.
        soft: whether another strategy may still try; the reason is kept for the case that none succeeds.
        reads: the words that it read.
    """

    end: End
    detail: str
    cfa: int | None = None
    rule: Rule | None = None
    soft: bool = False
    reads: tuple[Read, ...] = ()


Outcome: TypeAlias = Caller | Stop | None
"""What a strategy answers: the caller, a reason why there is none, or None where it does not apply."""


@dataclass(slots=True)
class Here:
    """A frame that is to be left, and what is at hand for that.

    Attributes:
        around: the target.
        pc, trust, registers: as in :class:`clew.walk.Frame`.
        floor: the lowest address at which the rest of the stack may begin, or None.
        module, row: what the table says here.
        limits: start and end of the thread's stack, where they are known; a frame may be on another stack.
        work: what the walk may still spend.
        reads: the words that the current strategy has read.
    """

    around: Surroundings
    pc: CodeAddress
    trust: Trust
    registers: Mapping[int, int]
    floor: int | None
    module: Module | None
    row: Row | None
    limits: tuple[int, int] | None
    work: Work
    reads: list[Read] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        """Whether the frame has called nobody, so that its return address may be where the call left it."""
        return isinstance(self.pc, Interrupted)

    def value(self, register: int) -> int | None:
        """A register's value, or None where it is unknown. The pc is the unadjusted one."""
        if register == self.around.machine.program_counter:
            return self.pc.address
        return self.registers.get(register)

    def load(self, register: str, address: int, size: int) -> int | None:
        """The number of ``size`` bytes at an address, noted as what that register became; None where unreadable."""
        data = self.around.memory.read(address & self.around.mask, size)
        value = None if data is None else int.from_bytes(data, self.around.machine.byte_order)
        self.reads.append(Read(register, address & self.around.mask, value))
        return value

    def word(self, register: str, address: int) -> int | None:
        """As :meth:`load`, with the size of an address."""
        return self.load(register, address, self.around.word)

    def unreadable(self, register: str, address: int, size: int, *, soft: bool = False) -> Stop:
        """The reason when memory that is needed cannot be read.

        A sample has a copy of the stack's first bytes; its memory says in an attribute ``stack_end`` where the copy ends.
        """
        address &= self.around.mask
        stack_end = getattr(self.around.memory, "stack_end", None)
        detail = f"{register} is at {address:#x}, which cannot be read"
        if isinstance(stack_end, int) and stack_end - size < address < stack_end + SAME_STACK:
            return Stop(
                End.STACK_COPY_END,
                f"{register} is at {address:#x}, behind the copied stack's end {stack_end:#x}",
                soft=soft,
            )
        return Stop(End.UNREADABLE_MEMORY, detail, soft=soft)

    def on_stack(self, address: int, size: int) -> bool:
        """Whether these bytes may belong to the part of the stack that has not been walked."""
        if self.floor is not None and address < self.floor:
            return False
        if self.limits is not None and self.on_own_stack:
            return self.limits[0] <= address and address + size <= self.limits[1]
        return self.floor is None or address - self.floor < SAME_STACK

    @property
    def on_own_stack(self) -> bool:
        """Whether this frame is known to be on the thread's own stack, not on one for signals or of a coroutine."""
        return self.limits is not None and self.floor is not None and self.limits[0] <= self.floor <= self.limits[1]

    def keep(self, *extra: int | None, callee_saved: bool = False) -> dict[int, int]:
        """A copy of the registers with these numbers, and of those that functions preserve if so asked."""
        wanted = set(self.around.machine.callee_saved) if callee_saved else set()
        wanted.update(number for number in extra if number is not None)
        return {number: value for number, value in self.registers.items() if number in wanted}


Strategy: TypeAlias = Callable[[Here], Outcome]
"""One way to leave a frame."""
