"""Frames and stacks: what a walk finds, how it found it, and why it ended."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clew.table.evaluate import UnknownRegisterError

if TYPE_CHECKING:
    from clew.table import Rule
    from clew.target import Module


class Trust(enum.Enum):
    """How a frame was found."""

    CONTEXT = "context"
    CFI = "cfi"
    FRAME_POINTER = "frame_pointer"
    LINK_REGISTER = "link_register"
    SYNTHESISED = "synthesised"
    SIGNAL = "signal"
    STACK_WIN = "stack_win"
    SCAN = "scan"
    CFI_SCAN = "cfi_scan"


class End(enum.Enum):
    """Why a stack ended. Only ``ENTRY`` is a whole stack."""

    ENTRY = "entry"
    """The outermost frame: by its rule, whose return address is undefined, or by code that begins stacks; without a row, by
    the program's entry point, a back chain that ends, or a frame pointer of zero."""
    NULL_RETURN_ADDRESS = "null_return_address"
    NO_MODULE = "no_module"
    NO_RULE = "no_rule"
    BAD_RULE = "bad_rule"
    UNKNOWN_REGISTER = "unknown_register"
    UNREADABLE_MEMORY = "unreadable_memory"
    STACK_COPY_END = "stack_copy_end"
    NO_PROGRESS = "no_progress"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A pc that was interrupted: the instruction at it has not run. It is looked up as it is."""

    address: int

    @property
    def lookup(self) -> int:
        """The address that tells which row holds."""
        return self.address


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """A pc that a call will return to: the call is the instruction before it, which may be the last of its function."""

    address: int

    @property
    def lookup(self) -> int:
        """The address that tells which row holds: one byte inside the call."""
        return self.address - 1


CodeAddress = Interrupted | ReturnAddress


@dataclass(frozen=True, slots=True)
class Read:
    """A word that a step read.

    Attributes:
        register: what it became: a register's name.
        address: where it was read.
        value: what was there; None where it could not be read.
    """

    register: str
    address: int
    value: int | None


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    Attributes:
        pc: where it stands; its type says how to look it up.
        trust: how it was found.
        registers: DWARF number to value of what is known of its registers; the rest is unknown, never zero.
        module: what the pc is in, or None.
        cfa: its canonical frame address, once the step out of it was taken.
        rule: the rule by which it was left; None where another strategy was used, or none.
        reads: the words that the step out of it read.
    """

    pc: CodeAddress
    trust: Trust
    registers: Mapping[int, int] = field(repr=False)
    module: Module | None = None
    cfa: int | None = None
    rule: Rule | None = field(default=None, repr=False)
    reads: tuple[Read, ...] = field(default=(), repr=False)

    def register(self, number: int) -> int:
        """The value of a register, by its DWARF number.

        Raises:
            UnknownRegisterError: it is not known in this frame: functions that were called may have overwritten it.
        """
        value = self.registers.get(number)
        if value is None:
            raise UnknownRegisterError(number)
        return value


@dataclass(frozen=True, slots=True)
class Stack:
    """What a walk found: frames from the innermost out, and why there are no more.

    Attributes:
        frames: never empty when the thread's pc is known; a tuple, or what is equal to one.
        end: the reason.
        detail: the reason in words: which register, which address.
    """

    frames: Sequence[Frame]
    end: End
    detail: str = ""
