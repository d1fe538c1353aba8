"""What a compiled unwinder takes and gives: registers, outcomes, and the data by which a loader knows it again."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from struct import Struct
from typing import Final, Literal

from clew.arch import Machine
from clew.errors import UsageError

AbiName = Literal["full", "paper"]

FULL: Final = "full"
"""Every integer register, in a ``struct clew_frame`` that is updated in place."""

PAPER: Final = "paper"
"""The context of Bastian, Kell and Zappa Nardelli, "Reliable and Fast DWARF-Based Stack Unwinding" (OOPSLA 2019), listing 4."""


class Outcome(enum.IntEnum):
    """What the function of the full ABI returns: the status of a step, as ``native/step.h`` has it. Of a negative one, the frame
    is as it was. A return address of 0 is a caller like any other here."""

    CALLED = 0
    """The frame is now its caller's, whose pc is a return address: look up the address before it."""
    INTERRUPTED = 1
    """As well, but the caller was interrupted, by a signal: its pc is looked up as it is."""
    OUTERMOST = -1
    """The return address is undefined: there is no caller."""
    NO_ROW = -2
    """The table says nothing at this address."""
    UNKNOWN_REGISTER = -3
    """The CFA or the return address needs a register whose value is not known."""
    UNREADABLE = -4
    """The CFA or the return address needs memory that cannot be read."""
    BAD_RULE = -5
    """The rule gives no CFA or no return address, or its expression cannot be evaluated."""


@dataclass(frozen=True, slots=True)
class Abi:
    """An interface of compiled unwinders.

    Attributes:
        name: ``full`` or ``paper``.
        machine: whose registers they are.
        registers: DWARF numbers of those that a frame has, in the order of their slots. All have 8 bytes.
        known: for each of them, the bit by which the frame says that it is known.
        symbol: the function's name.
    """

    name: AbiName
    machine: Machine
    registers: tuple[int, ...]
    known: tuple[int, ...]
    symbol: str

    def bit(self, register: int) -> int | None:
        """The number of the bit that says that a register is known; None for a register that a frame has not."""
        return self.known[self.registers.index(register)] if register in self.registers else None

    @property
    def pc(self) -> int:
        """The DWARF number of the pc."""
        assert self.machine.program_counter is not None
        return self.machine.program_counter


def abi_of(machine: Machine, name: AbiName = FULL) -> Abi:
    """The interface of this name for a machine.

    Raises:
        UsageError: there is none.
    """
    if name == PAPER:
        if machine.name != "x86-64":
            raise UsageError(f"the paper's context has registers of x86-64, and this is {machine.name}")
        # Listing 3: rip and rsp are 3u.
        return Abi(PAPER, machine, (16, 7, 6, 3), (0, 1, 2, 3), "_eh_elf")
    count = {"x86-64": 17, "aarch64": 33}.get(machine.name)
    if count is None:
        raise UsageError(f"there are compiled unwinders for x86-64 and aarch64, and this is {machine.name}")
    numbers = tuple(range(count))
    return Abi(FULL, machine, numbers, numbers, "clew_unwind")


INFORMATION: Final = "clew_unwind_information"
"""The symbol of the data beside the function."""

MAGIC: Final = b"clewcode"
VERSION: Final = 1
"""Of the interface: an unwinder with another one is not to be called."""

_HEAD = Struct("<8sIHBBQQII")


@dataclass(frozen=True, slots=True)
class Information:
    """The data that a compiled unwinder exports as :data:`INFORMATION`, little-endian.

    ``char magic[8]; uint32_t version; uint16_t machine; uint8_t abi, deref; uint64_t start, end; uint32_t registers,
    build_id_size; uint8_t build_id[];``

    Attributes:
        machine: ``e_machine`` of the file that was compiled.
        abi: 0 full, 1 paper.
        deref: whether the function takes the parameter that loads.
        start, end: the addresses of the file that the table is about.
        registers: how many a frame has.
        build_id: the file's, empty where it has none.
    """

    machine: int
    abi: int
    deref: bool
    start: int
    end: int
    registers: int
    build_id: bytes

    def pack(self) -> bytes:
        """The bytes."""
        return (
            _HEAD.pack(
                MAGIC,
                VERSION,
                self.machine,
                self.abi,
                self.deref,
                self.start,
                self.end,
                self.registers,
                len(self.build_id),
            )
            + self.build_id
        )

    @classmethod
    def of(cls, abi: Abi, machine: int, deref: bool, start: int, end: int, build_id: bytes | None) -> Information:
        """What an object with an interface says of itself."""
        return cls(machine, int(abi.name == PAPER), deref, start, end, len(abi.registers), build_id or b"")

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Information | None:
        """What bytes say; None where they are something else, of another version, or cut."""
        if len(data) < _HEAD.size:
            return None
        magic, version, machine, abi, deref, start, end, registers, size = _HEAD.unpack_from(data)
        if magic != MAGIC or version != VERSION or len(data) < _HEAD.size + size:
            return None
        return cls(machine, abi, bool(deref), start, end, registers, bytes(data[_HEAD.size : _HEAD.size + size]))
