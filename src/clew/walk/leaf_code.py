"""What an instruction does to the link register and the stack pointer, on machines whose calls have a link register.

:func:`clew.walk.link_register.untouched` follows these from a pc, to find whether the link register still has the
return address there. Only what matters to that is told apart.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from clew.walk.fields import aarch64_sets_frame_pointer, riscv_jal_offset, signed


class Kind(enum.Enum):
    """What an instruction tells."""

    NEXT = "next"
    """Nothing; the one behind it is next (a conditional branch is taken not to branch)."""
    JUMP = "jump"
    """The one at :attr:`Effect.target` is next."""
    RETURN = "return"
    """It returns by the link register, which therefore has the return address."""
    ENTRY = "entry"
    """It saves the link register or sets the frame pointer up: a prologue, in which no call has been made yet."""
    LOST = "lost"
    """It overwrites the link register: by a call, or with the return address that had been saved."""
    UNKNOWN = "unknown"
    """Where it goes is not known."""


class Effect(NamedTuple):
    """What an instruction does.

    Attributes:
        kind: what it tells.
        size: bytes.
        target: where a jump goes.
        moved: bytes that it adds to the stack pointer; None: it is set to something else, or the frame was made before.
        loaded: registers that it fills from the stack, and where: bytes above the stack pointer as it was before.
        base: the register, and what is added to it, that the stack pointer is set to, where it is so.
        link: the register that it copies into the link register, where it does that.
        slot: where it saves the link register: bytes above the stack pointer as it was before; None where it does not tell.
        made: bytes that an entry adds to the stack pointer as it runs; :attr:`moved` is for who stands before it.
    """

    kind: Kind
    size: int = 4
    target: int = 0
    moved: int | None = 0
    loaded: tuple[tuple[int, int], ...] = ()
    base: tuple[int, int] | None = None
    link: int | None = None
    slot: int | None = None
    made: int = 0


Decoder = Callable[[int, int], Effect]
"""From an instruction as a number (:func:`clew.walk.leaf.decoded` makes it) and its address to its effect."""


_PLAIN = Effect(Kind.NEXT)


def aarch64(word: int, address: int) -> Effect:
    """Arm Architecture Reference Manual, C4.1 and C6.2."""
    if word in (0xD65F03C0, 0xD65F0BFF, 0xD65F0FFF):  # ret, retaa, retab
        return Effect(Kind.RETURN)
    if word in (0xD503233F, 0xD503237F, 0xD503231F, 0xD503235F):  # paciasp, pacibsp, paciaz, pacibz
        return Effect(Kind.ENTRY)
    if word >> 26 == 0x25 or word & 0xFE9FFC00 in (0xD61F0000, 0xD61F0800):
        # bl, and the branches to a register: br 00, blr 01, ret 10 in bits 21 and 22.
        if word >> 26 == 0x25 or word >> 21 & 3 == 1:
            return Effect(Kind.LOST)
        # x16 and x17 are for veneers, the PLT and, where branch targets are marked, tail calls (AAPCS64 6.1.1).
        return Effect(Kind.RETURN if word >> 21 & 3 == 0 and word >> 5 & 31 in (16, 17) else Kind.UNKNOWN)
    if word >> 26 == 0x05:  # b
        return Effect(Kind.JUMP, target=address + 4 * signed(word, 26))
    if word >> 16 == 0 or word & 0xFFE0001F == 0xD4200000:  # udf, brk
        return Effect(Kind.UNKNOWN)
    if word & 0xFFE0FFFF == 0xAA0003FE:  # mov x30, …: outlined code gives the return address back
        return Effect(Kind.LOST)
    if word & 0xBF80001F == 0x9100001F:  # add, sub sp, xn, #m
        amount = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
        amount = -amount if word >> 30 & 1 else amount
        register = word >> 5 & 31
        return Effect(Kind.NEXT, moved=amount if register == 31 else None, base=(register, amount))
    if word & 0xBFE0001F == 0x8B20001F or word & 0xFF80001F == 0x9200001F:  # add, sub sp, xn, xm; and sp, xn, #m
        return Effect(Kind.NEXT, moved=None)
    if aarch64_sets_frame_pointer(word):
        return Effect(Kind.ENTRY, moved=None)
    if word & 0x3A000000 == 0x28000000:
        return _aarch64_pair(word)
    if word & 0xFF200000 == 0xF8000000 or word & 0xFF000000 == 0xF9000000:
        return _aarch64_single(word)
    return _PLAIN


def _aarch64_pair(word: int) -> Effect:
    """Loads and stores of two registers."""
    vector, load, base = word >> 26 & 1, word >> 22 & 1, word >> 5 & 31
    writeback, before = word >> 23 & 1, word >> 24 & 1
    scale = 2 + (word >> 30) if vector else 2 + (word >> 31)
    offset = signed(word >> 15, 7) << scale
    moved = offset if writeback and base == 31 else 0
    pair = () if vector else (word & 31, word >> 10 & 31)
    if word == 0xA9BF7BF0:
        # stp x16, x30, [sp, #-16]!: the PLT's head, where nothing else has changed since the call.
        return Effect(Kind.RETURN)
    first = 0 if writeback and not before else offset
    loaded = tuple((register, first + (index << scale)) for index, register in enumerate(pair)) if load else ()
    loaded = loaded if base == 31 else ()
    if 30 in pair and load:
        return Effect(Kind.LOST, moved=moved, loaded=loaded)
    if 30 in pair and base == 31:
        # A prologue makes the frame with the first store and its writeback; without, it was made before.
        return Effect(Kind.ENTRY, moved=0 if writeback and before else None)
    return Effect(Kind.NEXT, moved=moved, loaded=loaded)


def _aarch64_single(word: int) -> Effect:
    """Loads and stores of one 64-bit register, with an immediate."""
    load, base, register = word >> 22 & 3, word >> 5 & 31, word & 31
    scaled = word >> 24 & 1
    mode = 0 if scaled else word >> 10 & 3  # 1 writes back after, 3 before
    offset = (word >> 10 & 0xFFF) << 3 if scaled else signed(word >> 12, 9)
    moved = offset if mode in (1, 3) and base == 31 else 0
    loaded = ((register, 0 if mode == 1 else offset),) if load == 1 and base == 31 else ()
    if register == 30 and load == 1:
        return Effect(Kind.LOST, moved=moved, loaded=loaded)
    if register == 30 and load == 0 and base == 31:
        return Effect(Kind.ENTRY, moved=0 if mode == 3 else None)
    if register == 30 and load == 0 and base == 18 and mode == 1:  # onto a shadow call stack
        return Effect(Kind.ENTRY)
    return Effect(Kind.NEXT, moved=moved, loaded=loaded)


def riscv(word: int, address: int) -> Effect:
    """RISC-V Unprivileged ISA, chapters 2 and "C". ra is x1, sp x2, s0 x8."""
    return _riscv_short(word & 0xFFFF, address) if word & 3 != 3 else _riscv_long(word, address)


def _riscv_short(half: int, address: int) -> Effect:
    short = Effect(Kind.NEXT, 2)
    register, other = half >> 7 & 31, half >> 2 & 31
    if half & 0xE003 == 0x8002 and other == 0:  # c.jr, c.jalr, c.ebreak
        if half >> 12 & 1:
            return short._replace(kind=Kind.LOST if register else Kind.UNKNOWN)
        return short._replace(kind=Kind.RETURN if register == 1 else Kind.UNKNOWN)
    if half & 0xE003 == 0xA001:  # c.j
        offset = (half >> 2 & 0xE) | (half >> 7 & 0x10) | (half << 3 & 0x20) | (half >> 1 & 0x40)
        offset |= (half << 1 & 0x80) | (half >> 1 & 0x300) | (half << 2 & 0x400) | (half >> 1 & 0x800)
        return short._replace(kind=Kind.JUMP, target=address + signed(offset, 12))
    if half & 0xE003 == 0xE002 and other == 1:  # c.sdsp ra
        return short._replace(kind=Kind.ENTRY, moved=None)
    if half & 0xE003 == 0x6002:  # c.ldsp
        offset = (half >> 2 & 0x18) | (half >> 7 & 0x20) | (half << 4 & 0x1C0)
        return short._replace(kind=Kind.LOST if register == 1 else Kind.NEXT, loaded=((register, offset),))
    if half & 0xE003 == 0x8002 and register == 1:  # c.mv, c.add
        return short._replace(kind=Kind.LOST)
    if half & 0xE003 == 0x8002 and register == 2:
        return short._replace(moved=None, base=None if half >> 12 & 1 else (other, 0))
    if half & 0xEF83 == 0x6101:  # c.addi16sp
        amount = (
            (half >> 2 & 0x10) | (half << 3 & 0x20) | (half << 1 & 0x40) | (half << 4 & 0x180) | (half >> 3 & 0x200)
        )
        return short._replace(moved=signed(amount, 10))
    if half & 0xEF83 == 0x0101:  # c.addi sp
        return short._replace(moved=signed((half >> 2 & 31) | (half >> 7 & 32), 6))
    if half & 0xE01F == 0 and half:  # c.addi4spn s0
        return short._replace(kind=Kind.ENTRY, moved=None)
    return short._replace(kind=Kind.UNKNOWN) if half == 0 else short


def _riscv_long(word: int, address: int) -> Effect:
    opcode, register, function = word & 0x7F, word >> 7 & 31, word >> 12 & 7
    first, second = word >> 15 & 31, word >> 20 & 31
    if opcode == 0x6F:  # jal
        if register == 0:
            return Effect(Kind.JUMP, target=address + riscv_jal_offset(word))
        # t0 links to the routines that save registers for a prologue (-msave-restore).
        return Effect(Kind.ENTRY if register == 5 else Kind.LOST)
    if opcode == 0x67:  # jalr
        if register == 6 and first == 28:  # the jump of a PLT entry, jalr t1, t3 (psABI, "Procedure Linkage Table")
            return Effect(Kind.RETURN)
        if register:
            return Effect(Kind.ENTRY if register == 5 else Kind.LOST)
        return Effect(Kind.RETURN if first == 1 and word >> 20 == 0 else Kind.UNKNOWN)
    if opcode == 0x23 and function in (2, 3) and first == 2 and second == 1:  # sw, sd ra
        return Effect(Kind.ENTRY, moved=None)
    if opcode == 0x03 and function in (2, 3):  # lw, ld
        loaded = ((register, signed(word >> 20, 12)),) if first == 2 else ()
        return Effect(Kind.LOST if register == 1 else Kind.NEXT, loaded=loaded)
    if word & 0xFFFFF == 0x10113:  # addi sp, sp, n
        return Effect(Kind.NEXT, moved=signed(word >> 20, 12))
    if word & 0xFFFFF == 0x10413:  # addi s0, sp, n
        return Effect(Kind.ENTRY, moved=None)
    if opcode == 0x13 and register == 2 and function == 0:  # addi sp, s0, n
        return Effect(Kind.NEXT, moved=None, base=(first, signed(word >> 20, 12)))
    if opcode in (0x13, 0x33) and register in (1, 2):
        return Effect(Kind.LOST) if register == 1 else Effect(Kind.NEXT, moved=None)
    return Effect(Kind.UNKNOWN) if word == 0x00100073 else _PLAIN  # ebreak


def powerpc(word: int, address: int) -> Effect:
    """Power ISA, Book I, 2.4 and 3.3; ELF V2 ABI 2.3.1 for what a prologue does."""
    if word == 0x4E800020:  # blr
        return Effect(Kind.RETURN)
    if word & 0xFC1FFFFF == 0x7C0803A6:  # mtlr
        return Effect(Kind.LOST, link=word >> 21 & 31)
    if word & 0xFC1FFFFF == 0x7C0802A6:  # mflr
        return Effect(Kind.ENTRY)
    if word & 0xFFFF0003 == 0xF8210001:  # stdu r1, -n(r1)
        return Effect(Kind.ENTRY, made=signed(word & 0xFFFC, 16))
    if word & 0xFFE0FFFF == 0x7C200B78:  # mr r, r1: the frame pointer
        return Effect(Kind.ENTRY, moved=None)
    if word >> 26 == 18:  # b, bl
        if word & 1:
            return Effect(Kind.LOST)
        offset = signed(word & 0x3FFFFFC, 26)
        return Effect(Kind.JUMP, target=offset if word & 2 else address + offset)
    if word & 0xFC0007FE == 0x4C000420:  # bctr, bctrl
        return Effect(Kind.LOST if word & 1 else Kind.UNKNOWN)
    if word & 0xFC0007FF == 0x4C000021:  # blrl
        return Effect(Kind.LOST)
    if word & 0xFFE00000 == 0x38200000:  # addi r1, r, n
        register = word >> 16 & 31
        amount = signed(word, 16)
        return Effect(Kind.NEXT, moved=amount if register == 1 else None, base=(register, amount))
    if word & 0xFC1F07FE == 0x7C010378:  # mr r1, r
        return Effect(Kind.NEXT, moved=None, base=(word >> 21 & 31, 0))
    if word & 0xFC1F07FF == 0x7C01016A or (word & 0xFFE00000 == 0x7C200000 and word & 0x3FF in (532, 80)):
        return Effect(Kind.NEXT, moved=None)  # stdux r, r1, r; add, subf r1, r, r
    if word & 0xFFE00003 == 0xE8200000:  # ld r1, n(r)
        return Effect(Kind.NEXT, moved=None)
    if word >> 26 == 58 and word & 3 == 0 and word >> 16 & 31 == 1:  # ld r, n(r1)
        return Effect(Kind.NEXT, loaded=((word >> 21 & 31, signed(word & 0xFFFC, 16)),))
    return Effect(Kind.UNKNOWN) if word in (0, 0x7FE00008) else _PLAIN  # trap
