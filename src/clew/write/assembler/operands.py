"""Registers, memory operands and numbers of x86-64 instructions (Intel 64 and IA-32 Architectures SDM, volume 2, 2.1.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 = range(16)
"""Registers as instructions number them, which is not how DWARF does."""

_HIGH: Final = [f"r{number}" for number in range(8, 16)]
NAMES: Final = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *_HIGH]
NAMES32: Final = ["eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", *(f"{name}d" for name in _HIGH)]
NAMES8: Final = ["al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", *(f"{name}b" for name in _HIGH)]
"""What assemblers call them: all of a register, its low four bytes, its lowest byte."""


@dataclass(frozen=True, slots=True)
class At:
    """Memory at ``base + displacement``, or at ``base + scale * index + displacement``."""

    base: int
    displacement: int = 0
    index: int | None = None
    scale: int = 1

    def __str__(self) -> str:
        parts = NAMES[self.base]
        if self.index is not None:
            parts += f"+{NAMES[self.index]}*{self.scale}"
        if self.displacement:
            parts += f"{self.displacement:+#x}"
        return f"[{parts}]"


def fits8(value: int) -> bool:
    """Whether a number fits into a signed byte."""
    return -128 <= value < 128


def fits32(value: int) -> bool:
    """Whether a number fits into four bytes with a sign."""
    return -(1 << 31) <= value < 1 << 31


def signed(value: int) -> int:
    """A number modulo 2 to the power of 64, with its sign."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def displacement(rm: At) -> tuple[int, int]:
    """Bytes of the displacement, and the mode in the ModRM byte."""
    if rm.displacement == 0 and rm.base & 7 != 5:
        return 0, 0x00
    return (1, 0x40) if fits8(rm.displacement) else (4, 0x80)
