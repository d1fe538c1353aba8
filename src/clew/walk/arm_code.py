"""What instructions of 32-bit Arm do to the stack pointer and to registers on the stack, in both instruction sets.

Arm Architecture Reference Manual for A-profile, F5 (base instructions) and F6 (floating point). Only what prologues and
epilogues are made of is told apart, and what leads elsewhere.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from clew.walk.fields import signed

SP, LR, PC = 13, 14, 15
_D = 256  # aadwarf32, "DWARF register names"


class Kind(enum.Enum):
    """Where an instruction leads."""

    NEXT = "next"
    JUMP = "jump"
    """To :attr:`Effect.target`."""
    RETURN = "return"
    """To the address in lr, or in the pc that it loads."""
    CALL = "call"
    SYSTEM = "system"
    """A system call, whose number is in r7."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Effect:
    """What an instruction does. Offsets are from the stack pointer before it.

    Attributes:
        kind: where it leads.
        size: bytes.
        target: of a jump.
        moved: what it adds to the stack pointer.
        saved, loaded: registers that it stores to the stack and loads from it, by DWARF number, and where.
        made: a register that it sets to the stack pointer plus an offset.
        taken: a register whose value, plus an offset, becomes the stack pointer.
        changed: a register that it changes: by the offset, or, None, to something else.
        then: how many of the next instructions are conditional (IT).
    """

    kind: Kind = Kind.NEXT
    size: int = 4
    target: int = 0
    moved: int = 0
    saved: tuple[tuple[int, int], ...] = ()
    loaded: tuple[tuple[int, int], ...] = ()
    made: tuple[int, int] | None = None
    taken: tuple[int, int] | None = None
    changed: tuple[int, int | None] | None = None
    then: int = 0

    @property
    def on_stack(self) -> bool:
        """Whether it has to do with the frame."""
        return bool(self.moved or self.saved or self.loaded or self.made or self.taken)


_UNKNOWN = Effect(Kind.UNKNOWN)
_PLAIN = Effect()


def _list(mask: int, first: int = 0) -> tuple[tuple[int, int], ...]:
    registers = [number for number in range(16) if mask >> number & 1]
    return tuple((number, first + 4 * index) for index, number in enumerate(registers))


def push(mask: int, size: int = 4) -> Effect:
    """The push of the registers in a mask."""
    amount = -4 * mask.bit_count()
    return _UNKNOWN if mask >> SP & 1 else Effect(size=size, moved=amount, saved=_list(mask, amount))


def pop(mask: int, size: int = 4) -> Effect:
    """The pop of the registers in a mask."""
    if mask >> SP & 1:
        return _UNKNOWN
    kind = Kind.RETURN if mask >> PC & 1 else Kind.NEXT
    return Effect(kind, size, moved=4 * mask.bit_count(), loaded=_list(mask))


def _vector(word: int, size: int = 4) -> Effect | None:
    """VPUSH and VPOP; the forms of older processors (FSTMX) move a word more."""
    pushing = word & 0x0FBF0E00 == 0x0D2D0A00
    if not pushing and word & 0x0FBF0E00 != 0x0CBD0A00:
        return None
    amount = 4 * (word & 0xFF)
    first = (word >> 18 & 0x10) | (word >> 12 & 0xF)
    base = -amount if pushing else 0
    places = tuple((_D + first + index, base + 8 * index) for index in range((word & 0xFF) // 2))
    if not word & 0x100:  # single precision: halves of those
        places = ()
    if pushing:
        return Effect(size=size, moved=-amount, saved=places)
    return Effect(size=size, moved=amount, loaded=places)


def arm(word: int, address: int) -> Effect:
    """An instruction of the A32 set."""
    condition = word >> 28
    if condition == 0xF:
        return Effect(Kind.CALL) if word >> 25 == 0x7D else _PLAIN
    effect = _arm(word, address)
    if condition == 0xE or effect.kind is Kind.CALL:
        return effect
    if effect.kind is not Kind.NEXT:
        # It is taken not to branch; what it would do on the way does not happen then.
        return _PLAIN
    return _UNKNOWN if effect.on_stack else effect


def _arm(word: int, address: int) -> Effect:
    base = word & 0x0FFF0000
    register = word >> 12 & 0xF
    if word & 0x0E000000 == 0x0A000000:
        if word & 0x01000000:
            return Effect(Kind.CALL)
        return Effect(Kind.JUMP, target=address + 8 + 4 * signed(word, 24))
    if word & 0x0FFFFFF0 in (0x012FFF10, 0x012FFF30):
        kind = Kind.CALL if word & 0x20 else Kind.RETURN if word & 0xF == LR else Kind.UNKNOWN
        return Effect(kind)
    if base == 0x092D0000:
        return push(word & 0xFFFF)
    if base == 0x08BD0000:
        return pop(word & 0xFFFF)
    if base == 0x052D0000:  # str r, [sp, #-n]!
        return Effect(moved=-(word & 0xFFF), saved=((register, -(word & 0xFFF)),))
    if base == 0x049D0000:  # ldr r, [sp], #n
        return Effect(Kind.RETURN if register == PC else Kind.NEXT, moved=word & 0xFFF, loaded=((register, 0),))
    if word & 0x0FFFF000 == 0x05BCF000:  # ldr pc, [ip, #n]!, the jump of a PLT entry
        return Effect(Kind.RETURN)
    if base in (0x058D0000, 0x059D0000) and register != PC:  # str, ldr r, [sp, #n]
        places = ((register, word & 0xFFF),)
        return Effect(loaded=places) if word >> 20 & 1 else Effect(saved=places)
    return _vector(word) or _arm_double(word) or _arm_sum(word) or _arm_rest(word)


def _arm_double(word: int) -> Effect | None:
    """LDRD and STRD at the stack pointer."""
    if word & 0x0E5F00D0 != 0x004D00D0:
        return None
    offset = (word >> 4 & 0xF0) | (word & 0xF)
    offset = offset if word >> 23 & 1 else -offset
    before, writes = word >> 24 & 1, word >> 21 & 1
    first = offset if before else 0
    pair = ((word >> 12 & 0xF, first), ((word >> 12 & 0xF) + 1, first + 4))
    moved = offset if writes or not before else 0
    return Effect(moved=moved, saved=pair) if word & 0x20 else Effect(moved=moved, loaded=pair)


def _arm_sum(word: int) -> Effect | None:
    """ADD and SUB of a constant, and MOV, where the stack pointer has part in it."""
    target, source = word >> 12 & 0xF, word >> 16 & 0xF
    if word & 0x0FEF0FF0 == 0x01A00000:
        source, amount = word & 0xF, 0
    elif word & 0x0FE00000 in (0x02800000, 0x02400000):
        turn = word >> 7 & 0x1E
        amount = word & 0xFF
        amount = (amount >> turn | amount << (32 - turn)) & 0xFFFFFFFF
        amount = amount if word & 0x00800000 else -amount
    else:
        return None
    return _sum(target, source, amount, 4)


def _sum(target: int, source: int, amount: int, size: int) -> Effect | None:
    if target == PC:
        return Effect(Kind.RETURN if (source, amount) == (LR, 0) else Kind.UNKNOWN, size)
    if target == source:
        return Effect(size=size, moved=amount) if target == SP else Effect(size=size, changed=(target, amount))
    if source == SP:
        return Effect(size=size, made=(target, amount))
    if target == SP:
        return Effect(size=size, taken=(source, amount))
    return Effect(size=size, changed=(target, None))


def _arm_rest(word: int) -> Effect:
    target = word >> 12 & 0xF
    kind = word >> 25 & 7
    if kind in (0, 1):
        if kind == 0 and word & 0x90 == 0x90:  # multiplications and loads of halves
            target = word >> 16 & 0xF if word & 0x0F000060 == 0 else target
        elif word & 0x01900000 == 0x01000000:  # no S bit: system instructions, movw and movt
            if word & 0x0FF000F0 == 0x01200070 or word & 0x0FB00000 not in (0x03000000, 0x03400000):
                return _UNKNOWN if word & 0x0FF000F0 == 0x01200070 else _PLAIN
        elif word >> 23 & 3 == 2:  # comparisons
            return _PLAIN
        return _UNKNOWN if target in (SP, PC) else Effect(changed=(target, None))
    if kind in (2, 3):
        if kind == 3 and word & 0x10:
            return _UNKNOWN if word & 0x0FF000F0 == 0x07F000F0 else Effect(changed=(target, None))
        writes = word >> 16 & 0xF == SP and (not word >> 24 & 1 or word >> 21 & 1)
        if writes or (word >> 20 & 1 and target in (SP, PC)):
            return _UNKNOWN
        return Effect(changed=(target, None)) if word >> 20 & 1 else _PLAIN
    if kind == 4:
        at_stack = word >> 16 & 0xF == SP and word >> 21 & 1
        return _UNKNOWN if at_stack or (word >> 20 & 1 and word & 0xA000) else _PLAIN
    return Effect(Kind.SYSTEM) if word & 0x0F000000 == 0x0F000000 else _PLAIN


def thumb(first: int, second: int, address: int) -> Effect:
    """An instruction of the T32 set, from its first halfword and the next."""
    return _wide(first, second, address) if first >> 11 >= 0x1D else _narrow(first, address)


_SHORT = Effect(size=2)
_LOST = Effect(Kind.UNKNOWN, 2)


def _narrow(half: int, address: int) -> Effect:
    low = (half & 0xFF) << 2
    register = half >> 8 & 7
    if half & 0xFE00 == 0xB400:
        return push((half & 0xFF) | (half & 0x100) << 6, 2)
    if half & 0xFE00 == 0xBC00:
        return pop((half & 0xFF) | (half & 0x100) << 7, 2)
    if half & 0xFF00 == 0xB000:
        amount = (half & 0x7F) << 2
        return Effect(size=2, moved=-amount if half & 0x80 else amount)
    if half & 0xF800 == 0xA800:  # add r, sp, #n
        return Effect(size=2, made=(register, low))
    if half & 0xF800 in (0x9000, 0x9800):  # str, ldr r, [sp, #n]
        places = ((register, low),)
        return Effect(size=2, loaded=places) if half & 0x800 else Effect(size=2, saved=places)
    if half & 0xF800 in (0x3000, 0x3800):  # adds, subs r, #n
        return Effect(size=2, changed=(register, half & 0xFF if half < 0x3800 else -(half & 0xFF)))
    if half & 0xFC00 == 0x4400:
        return _high(half)
    if half & 0xF000 == 0xD000:
        number = half >> 8 & 0xF
        return Effect(Kind.SYSTEM, 2) if number == 0xF else _LOST if number == 0xE else _SHORT
    if half & 0xF800 == 0xE000:
        return Effect(Kind.JUMP, 2, address + 4 + 2 * signed(half, 11))
    if half & 0xFF00 == 0xBF00 and half & 0xF:
        mask = half & 0xF
        return Effect(size=2, then=4 - ((mask & -mask).bit_length() - 1))
    if half & 0xFF00 == 0xBE00:  # bkpt
        return _LOST
    return _narrow_changes(half)


def _high(half: int) -> Effect:
    """ADD, CMP and MOV of any registers, and BX and BLX."""
    target, source = (half & 7) | (half >> 4 & 8), half >> 3 & 15
    match half >> 8 & 3:
        case 0:
            return _LOST if target in (SP, PC) else Effect(size=2, changed=(target, None))
        case 1:
            return _SHORT
        case 2:
            return _sum(target, source, 0, 2) or _SHORT
        case _:
            kind = Kind.CALL if half & 0x80 else Kind.RETURN if source == LR else Kind.UNKNOWN
            return Effect(kind, 2)


def _narrow_changes(half: int) -> Effect:
    """Which low register one of the others changes."""
    if half < 0x2000 or 0x4000 <= half < 0x4400 or (0x6800 <= half < 0x9000 and half & 0x0800):
        return Effect(size=2, changed=(half & 7, None))
    if half & 0xF800 in (0x2000, 0x4800, 0xA000):
        return Effect(size=2, changed=(half >> 8 & 7, None))
    return _SHORT


def _wide(first: int, second: int, address: int) -> Effect:
    register = second >> 12
    at_stack = first & 0xF == SP
    if first == 0xE92D:
        return push(second)
    if first == 0xE8BD:
        return pop(second)
    if first == 0xF84D and second & 0x0F00 == 0x0D00:  # str r, [sp, #-n]!
        return Effect(moved=-(second & 0xFF), saved=((register, -(second & 0xFF)),))
    if first == 0xF85D and second & 0x0F00 == 0x0B00:  # ldr r, [sp], #n
        kind = Kind.RETURN if register == PC else Kind.NEXT
        return Effect(kind, moved=second & 0xFF, loaded=((register, 0),))
    if first in (0xF8CD, 0xF8DD) and register != PC:
        places = ((register, second & 0xFFF),)
        return Effect(loaded=places) if first == 0xF8DD else Effect(saved=places)
    if at_stack and first & 0xFE40 == 0xE840 and first & 0x0120:
        return _thumb_double(first, second)
    word = first << 16 | second
    vector = _vector(word) if first >> 12 == 0xE else None
    return vector or _thumb_sum(first, second) or _wide_rest(first, second, address)


def _thumb_double(first: int, second: int) -> Effect:
    """LDRD and STRD at the stack pointer."""
    offset = (second & 0xFF) << 2
    offset = offset if first & 0x80 else -offset
    before, writes = first >> 8 & 1, first >> 5 & 1
    place = offset if before else 0
    pair = ((second >> 12, place), (second >> 8 & 0xF, place + 4))
    moved = offset if writes else 0
    return Effect(moved=moved, loaded=pair) if first & 0x10 else Effect(moved=moved, saved=pair)


def _thumb_sum(first: int, second: int) -> Effect | None:
    """ADD and SUB of a constant, in both wide forms."""
    value = (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | (second & 0xFF)
    if second & 0x8000:
        return None
    if first & 0xFBE0 in (0xF100, 0xF1A0):
        amount = _expanded(value)
    elif first & 0xFBF0 in (0xF200, 0xF2A0):
        amount = value
    else:
        return None
    if second >> 8 & 0xF == PC:  # cmp, cmn
        return _PLAIN
    subtracts = first & 0x00A0 == 0x00A0
    return _sum(second >> 8 & 0xF, first & 0xF, -amount if subtracts else amount, 4)


def _expanded(value: int) -> int:
    """ThumbExpandImm of the manual: a byte, repeated or turned."""
    low = value & 0xFF
    if value >> 10 == 0:
        return (low, low * 0x10001, low * 0x1000100, low * 0x1010101)[value >> 8]
    turn = value >> 7
    full = 0x80 | (value & 0x7F)
    return (full >> turn | full << (32 - turn)) & 0xFFFFFFFF


def _wide_rest(first: int, second: int, address: int) -> Effect:
    if first >> 11 == 0x1E and second & 0x8000:
        if second & 0x4000:
            return Effect(Kind.CALL)
        if second & 0x1000:
            sign, j1, j2 = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
            offset = sign << 24 | (1 ^ j1 ^ sign) << 23 | (1 ^ j2 ^ sign) << 22 | (first & 0x3FF) << 12
            return Effect(Kind.JUMP, target=address + 4 + signed(offset | (second & 0x7FF) << 1, 25))
        return _UNKNOWN if first & 0xFFF0 == 0xF7F0 and second & 0xF000 == 0xA000 else _PLAIN
    if first & 0xFFF0 == 0xE8D0 and second & 0xFFE0 == 0xF000:  # tbb, tbh
        return _UNKNOWN
    if first & 0xFE50 == 0xE810:  # ldm
        return _UNKNOWN if second & 0xA000 or (first & 0x2F == 0x2D) else _PLAIN
    if first & 0xFE00 == 0xE800:
        return _UNKNOWN if first & 0x2F == 0x2D else Effect(changed=(second >> 12, None))
    if first & 0xFE00 == 0xF800:
        load, register = first >> 4 & 1, second >> 12
        writes = first & 0x80 == 0 and second & 0x0900 == 0x0900
        if (writes and first & 0xF == SP) or (load and register in (SP, PC) and first & 0x60 == 0x40):
            return _UNKNOWN
        return Effect(changed=(register, None)) if load else _PLAIN
    target = second >> 8 & 0xF
    if first & 0xFE00 in (0xEA00, 0xF000, 0xF200) or first & 0xFF00 in (0xFA00, 0xFB00):
        if target == SP:
            return _UNKNOWN
        return _PLAIN if target == PC else Effect(changed=(target, None))
    return _PLAIN
