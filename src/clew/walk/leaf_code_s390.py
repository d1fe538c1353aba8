"""What an instruction of IBM Z does to the link register and the stack pointer; see :mod:`clew.walk.leaf_code`.

A function that calls others first saves its registers in the area that its caller left for them: r14's place is 112 bytes
above the stack pointer on s390x, 56 on s390 (ELF ABI s390x Supplement, "Register save area").
"""

from __future__ import annotations

from clew.walk.fields import signed
from clew.walk.leaf_code import Effect, Kind

_LINK, _STACK = 14, 15


def size_of(first: int) -> int:
    """Bytes of an instruction, from its first byte (Principles of Operation, "Instruction formats")."""
    return (2, 4, 4, 6)[first >> 6]


def s390(word: int, address: int) -> Effect:
    """z/Architecture Principles of Operation, chapter 7. ``word`` is the instruction, with zeroes behind it up to 48 bits."""
    first = word >> 40
    size = size_of(first)
    effect = {2: _two, 4: _four, 6: _six}[size](word >> 8 * (6 - size), address)
    return effect._replace(size=size)


_PLAIN = Effect(Kind.NEXT)
_LOST = Effect(Kind.LOST)
_UNKNOWN = Effect(Kind.UNKNOWN)


def _two(word: int, address: int) -> Effect:
    opcode, first, second = word >> 8, word >> 4 & 15, word & 15
    if opcode == 0x07 and first == 15:  # br
        return Effect(Kind.RETURN) if second == _LINK else _UNKNOWN if second else _PLAIN
    if opcode == 0x0D and (second or first == _LINK):  # basr; without a second register it only takes the address
        return _LOST
    if opcode in (0x18, 0x1A, 0x1B) and first == _LINK:  # lr, ar, sr
        return _LOST
    if opcode in (0x18, 0x1A, 0x1B) and first == _STACK:
        return Effect(Kind.NEXT, moved=None)
    return _UNKNOWN if opcode == 0 else _PLAIN


def _four(word: int, address: int) -> Effect:
    opcode, first, base = word >> 24, word >> 20 & 15, word >> 12 & 15
    if opcode == 0xA7:
        operation = word >> 16 & 15
        if operation == 4 and first == 15:  # j
            return Effect(Kind.JUMP, target=address + 2 * signed(word, 16))
        if operation == 5 or (first == _LINK and operation in (8, 9)):  # bras; lhi, lghi
            return _LOST
        if operation in (10, 11) and first == _STACK:  # ahi, aghi
            return Effect(Kind.NEXT, moved=signed(word, 16))
        return _PLAIN
    if opcode == 0x41 and first == _STACK:  # la
        alone = base == _STACK and word >> 16 & 15 == 0
        return Effect(Kind.NEXT, moved=word & 0xFFF if alone else None)
    if opcode == 0x47 and first == 15:  # b
        return _UNKNOWN
    if opcode == 0x4D or (opcode in (0x41, 0x58) and first == _LINK):  # bas; la, l
        return _LOST
    if opcode in (0x50, 0x90):  # st, stm
        return _stored(first, first if opcode == 0x50 else word >> 16 & 15, base, word & 0xFFF, 4)
    if opcode == 0x98:  # lm
        return _loaded(first, word >> 16 & 15, base, word & 0xFFF, 4)
    target = word >> 4 & 15
    if word >> 16 in (0xB908, 0xB909, 0xB90A, 0xB90B) and target == _STACK:  # agr, sgr, algr, slgr
        return Effect(Kind.NEXT, moved=None)
    if word >> 16 in (0xB904, 0xB3CD):  # lgr, lgdr
        if target == _LINK:
            return Effect(Kind.LOST, link=word & 15)
        return Effect(Kind.NEXT, moved=None) if target == _STACK else _PLAIN
    return _PLAIN


def _six(word: int, address: int) -> Effect:
    opcode, first = word >> 40, word >> 36 & 15
    if opcode == 0xC0:
        operation = word >> 32 & 15
        if operation == 4 and first == 15:  # jg
            return Effect(Kind.JUMP, target=address + 2 * signed(word, 32))
        return _LOST if operation == 5 or first == _LINK else _PLAIN  # brasl; larl and others
    if opcode == 0xC2 and word >> 32 & 15 in (8, 9) and first == _STACK:  # agfi, afi
        return Effect(Kind.NEXT, moved=signed(word, 32))
    last, base = word >> 32 & 15, word >> 28 & 15
    displacement = signed((word >> 8 & 0xFF) << 12 | (word >> 16 & 0xFFF), 20)
    operation = opcode << 8 | word & 0xFF
    if operation == 0xEB24:  # stmg
        return _stored(first, last, base, displacement, 8)
    if operation == 0xEB04:  # lmg
        return _loaded(first, last, base, displacement, 8)
    if operation == 0xE324:  # stg
        return _stored(first, first, base, displacement, 8)
    if operation == 0xE304:  # lg
        return _loaded(first, first, base, displacement, 8)
    if operation == 0xE371 and first == _LINK:  # lay
        return _LOST
    if operation == 0xE371 and first == _STACK:
        return Effect(Kind.NEXT, moved=displacement if base == _STACK and last == 0 else None)
    return _PLAIN


def _stored(first: int, last: int, base: int, displacement: int, width: int) -> Effect:
    """Registers from ``first`` to ``last``, which may go around from 15 to 0."""
    place = _LINK - first & 15
    if base != _STACK or place > last - first & 15:
        return _PLAIN
    # In the place that the ABI gives it, no frame has been made yet.
    slot = displacement + place * width
    return Effect(Kind.ENTRY, moved=0 if slot == _LINK * width else None, slot=slot)


def _loaded(first: int, last: int, base: int, displacement: int, width: int) -> Effect:
    count = (last - first & 15) + 1
    registers = [(first + index & 15, displacement + index * width) for index in range(count)]
    kind = Kind.LOST if any(register == _LINK for register, _ in registers) else Kind.NEXT
    moved = None if any(register == _STACK for register, _ in registers) else 0
    return Effect(kind, moved=moved, loaded=tuple(registers) if base == _STACK else ())
