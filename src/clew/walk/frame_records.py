"""Frame records and back chains as data: where a frame says where the one that called it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Record:
    """Where a frame record has what, in words from the address in the frame pointer.

    Attributes:
        register: the frame pointer.
        previous, return_address: the caller's frame pointer, and where to return to.
        stack_pointer: the caller's stack pointer, or None where the record does not tell.
    """

    register: int
    previous: int
    return_address: int
    stack_pointer: int | None

    @property
    def reach(self) -> int:
        """Words from the frame pointer to behind the record."""
        return max(self.previous, self.return_address) + 1


RECORDS: Mapping[str, tuple[Record, ...]] = {
    # System V ABI, figure 3.3.
    "x86-64": (Record(6, 0, 1, 2),),
    "i386": (Record(5, 0, 1, 2),),
    # AAPCS64 6.4.6.
    "aarch64": (Record(29, 0, 1, None),),
    # AAPCS32 6.2.1.4, as clang does; what gcc makes of -fno-omit-frame-pointer, with fp at the saved lr.
    "arm": (Record(11, 0, 1, None), Record(11, -1, 0, 1)),
    # RISC-V psABI, "Frame pointer convention": the CFA is in s0, the record below it. LoongArch likewise.
    "riscv64": (Record(8, -2, -1, 0),),
    "riscv32": (Record(8, -2, -1, 0),),
    "loongarch64": (Record(22, -2, -1, 0),),
}
"""The records of a machine, by its name; those that are tried first come first."""

BACK_CHAINS: Mapping[str, int] = {
    # The stack pointer points to the caller's; which word of the caller's frame has the return address. ELF V2 ABI 2.2.2;
    # SVR4 PowerPC supplement; s390x ELF ABI, "Register save area" (r14's word in it): chained only with -mbackchain.
    "powerpc64": 2,
    "powerpc": 1,
    "s390x": 14,
    "s390": 14,
}
"""Machines without a frame pointer of that kind: their stack pointer alone leads from frame to frame."""
