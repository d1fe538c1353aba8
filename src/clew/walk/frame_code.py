"""What a function's code does with the frame pointer, on machines where a few instructions tell: AArch64 and RISC-V; x86.

A chain of frame records skips a function that sets no record up, without a word; and a register that is free for anything
where no records are may be zero. The code tells, where the function's symbol says which it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.walk.fields import aarch64_sets_frame_pointer
from clew.walk.leaf import DECODERS, decoded
from clew.walk.step import Here

_BODY = 4096
"""How many bytes of a function are looked at."""

_PROLOGUE = 512
"""How many bytes before the pc."""

_NEAR = 64
"""As many where no symbol says which function it is. Start-up code is short."""


def sets_record_up(here: Here) -> bool:
    """Whether the function at the pc may point the frame pointer at a record of its own."""
    extent = here.around.symbol_extent(here.pc.lookup)
    if extent is None or not 0 < extent[1] - extent[0] <= _BODY:
        return True
    if here.around.machine.name in _X86:
        # Leafs without a frame are many, and often where a program is interrupted: better to miss one caller than all.
        code = None if here.interrupted else here.around.code(extent[0], extent[1] - extent[0])
        return code is None or any(each in code for each in _X86_SETS_UP)
    if here.around.machine.name not in _TOLD:
        return True
    return here.around.once(extent, lambda: _somewhere(here, *extent)) is not False


def _somewhere(here: Here, start: int, end: int) -> bool | None:
    """Whether an instruction sets the frame pointer up; None where the code cannot be read to its end."""
    reached = None
    for place, word in _words(here, start, end):
        if _sets_up(here.around.machine.name, word):
            return True
        reached = place
    return None if reached is None or reached + 4 < end else False


def clears_pointer(here: Here) -> bool:
    """Whether the function at the pc may have cleared the frame pointer before it, as start-up code does."""
    extent = here.around.symbol_extent(here.pc.lookup)
    before = _NEAR if extent is None else here.pc.address - extent[0]
    if here.around.machine.name in _X86:
        # Threads begin with a zero, which any function without records may still have: it has to be seen.
        if before > _PROLOGUE:
            return False
        code = here.around.code(here.pc.address - before, before)
        return code is None or any(each in code for each in _X86_CLEARS)
    if here.around.machine.name not in _TOLD or extent is None or before > _PROLOGUE:
        return True
    zero = _ZERO[here.around.machine.name]
    return any(word in zero or word & 0xFFFF in zero for _, word in _words(here, extent[0], here.pc.address))


def may_have_changed_pointer(here: Here) -> bool:
    """Whether an instruction between the function's start and the pc may have written the frame pointer."""
    extent = here.around.symbol_extent(here.pc.lookup)
    if here.around.machine.name not in _TOLD or extent is None:
        return False
    if here.pc.address - extent[0] > _PROLOGUE:
        return True
    return any(_writes(here.around.machine.name, word) for _, word in _words(here, extent[0], here.pc.address))


_X86 = ("x86-64", "i386")
_TOLD = ("aarch64", "riscv64", "riscv32")

# mov %esp,%ebp in both its forms; lea n(%esp),%ebp; without the prefix that makes the registers wide. Other instructions may
# have these bytes, too.
_X86_SETS_UP = (b"\x89\xe5", b"\x8b\xec", b"\x8d\x6c\x24", b"\x8d\xac\x24", b"\xc8")

# xor %ebp,%ebp in both its forms; mov $0,%ebp.
_X86_CLEARS = (b"\x31\xed", b"\x33\xed", b"\xbd\0\0\0\0")

_ZERO = {
    "aarch64": (0xD280001D, 0xAA1F03FD),  # mov x29, #0; mov x29, xzr
    "riscv64": (0x4401, 0x00000413),  # c.li s0, 0; li s0, 0
    "riscv32": (0x4401, 0x00000413),
}


def _words(here: Here, start: int, end: int) -> Iterator[tuple[int, int]]:
    decode = DECODERS[here.around.machine.name]
    address = start
    while address < end:
        effect = decoded(here, decode, address) if here.work.spend(1) else None
        data = None if effect is None else here.around.code(address, effect.size)
        if effect is None or data is None:
            return
        yield address, int.from_bytes(data, "little")
        address += effect.size


def _sets_up(machine: str, word: int) -> bool:
    if machine == "aarch64":
        return aarch64_sets_frame_pointer(word)
    if word & 3 != 3:
        return word & 0xE01F == 0 and word != 0  # c.addi4spn s0, sp, n
    return word & 0xFFFFF == 0x10413  # addi s0, sp, n


def _writes(machine: str, word: int) -> bool:
    """Whether x29, or s0, is the destination. It may say so of an instruction that has none."""
    if machine == "aarch64":
        if word & 0x0A000000 == 0x08000000:  # loads and stores
            load = word >> 22 & 3 if word & 0x38000000 == 0x38000000 else word >> 22 & 1
            return bool(load) and 29 in (word & 31, word >> 10 & 31)
        return word & 31 == 29
    if word & 3 == 3:
        return word >> 7 & 31 == 8 and word & 0x7F not in (0x23, 0x27, 0x63)  # not stores, branches
    function, quadrant = word >> 13, word & 3
    if quadrant == 0:
        return function < 4 and word >> 2 & 7 == 0
    if quadrant == 1:
        return word >> 7 & 7 == 0 if function == 4 else word >> 7 & 31 == 8 and function < 4
    return word >> 7 & 31 == 8 and function < 5
