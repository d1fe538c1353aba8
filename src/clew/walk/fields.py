"""Fields of instructions that more than one decoder needs."""

from __future__ import annotations


def signed(value: int, bits: int) -> int:
    """The lowest bits of a number as two's complement.

    >>> signed(0x1FF, 8), signed(0x7F, 8)
    (-1, 127)
    """
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def riscv_jal_offset(word: int) -> int:
    """How far JAL jumps, in bytes (RISC-V Unprivileged ISA 2.3, "J-immediate")."""
    offset = (word >> 20 & 0x7FE) | (word >> 9 & 0x800) | (word & 0xFF000) | (word >> 11 & 0x100000)
    return signed(offset, 21)


def aarch64_sets_frame_pointer(word: int) -> bool:
    """Whether it is ``add x29, sp, #n``, of which ``mov x29, sp`` is one (Arm ARM C6.2, ADD (immediate))."""
    return word & 0xFF8003FF == 0x910003FD
