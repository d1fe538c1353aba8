"""What further notes say of a thread, beside its general registers: of a core, and of a live thread by ``PTRACE_GETREGSET``.

Both hand out the same bytes under the same types (``linux/elf.h``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from clew.arch import Machine

NT_FPREGSET: Final = 2
NT_S390_SYSTEM_CALL: Final = 0x307
NT_ARM_SYSTEM_CALL: Final = 0x404
NT_ARM_SVE: Final = 0x405
NT_ARM_PAC_MASK: Final = 0x406

KINDS: Mapping[str, tuple[int, ...]] = {
    "aarch64": (NT_ARM_SYSTEM_CALL, NT_ARM_SVE, NT_ARM_PAC_MASK),
    "arm": (NT_ARM_SYSTEM_CALL,),
    "s390x": (NT_FPREGSET, NT_S390_SYSTEM_CALL),
    "s390": (NT_FPREGSET, NT_S390_SYSTEM_CALL),
}
"""The types that are read here, by :attr:`clew.arch.Machine.name`, which is what ``uname -m`` says of these."""

_VG = 46  # aadwarf64 "DWARF register names": the length of a vector in units of 64 bits


@dataclass(slots=True)
class ThreadNotes:
    """What the notes of one thread say, beside its general registers.

    Attributes:
        in_call: whether it is in a system call; None where no note says it.
        code_mask: the bits of a code pointer that are its authentication code (AArch64); None where no note says it.
        registers: by DWARF number: the length of vectors (AArch64 SVE), and floating-point registers of machines whose
            functions save others in them (s390x, s390: a leaf keeps r11 and r15 there).
    """

    in_call: bool | None = None
    code_mask: int | None = None
    registers: dict[int, int] = field(default_factory=dict)

    def read(self, machine: Machine, kind: int, data: bytes) -> None:
        """Read one note. One that is cut, or not in :data:`KINDS` for the machine, says nothing."""
        if kind not in KINDS.get(machine.name, ()):
            return
        order = "<" if machine.byte_order == "little" else ">"
        if kind == NT_FPREGSET and len(data) >= 136:
            # asm/ptrace.h, s390_fp_regs: the control word, padding, f0 to f15.
            for index, value in enumerate(Struct(">8x16Q").unpack_from(data)):
                number = machine.register_number(f"f{index}")
                if number is not None:
                    self.registers[number] = value
        elif kind == NT_ARM_PAC_MASK and len(data) >= 16:
            # struct user_pac_mask: of data, then of instructions.
            self.code_mask = Struct(order + "8xQ").unpack_from(data)[0]
        elif kind == NT_ARM_SYSTEM_CALL and len(data) >= 4:
            self.in_call = Struct(order + "i").unpack_from(data)[0] >= 0
        elif kind == NT_S390_SYSTEM_CALL and len(data) >= 4:
            self.in_call = Struct(order + "I").unpack_from(data)[0] != 0
        elif kind == NT_ARM_SVE and len(data) >= 16:
            # struct user_sve_header: the length of a vector in bytes is at 8.
            granule = Struct(order + "H").unpack_from(data, 8)[0] // 8
            if granule:
                self.registers[_VG] = granule
