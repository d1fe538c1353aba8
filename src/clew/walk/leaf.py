"""Whether the return address is still in the link register, by the code around the pc: of a leaf, a prologue, an epilogue.

Two proofs are tried. From the function's start to the pc nothing touches the stack or the link register: then nothing has
changed at all since the call. Or from the pc straight on the function returns by the link register, or saves it only now;
then what it loads on the way are the caller's registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clew.walk.leaf_code import Decoder, Effect, Kind, aarch64, powerpc, riscv
from clew.walk.leaf_code_s390 import s390
from clew.walk.step import Here

INSTRUCTIONS = 64
"""How many instructions are followed. Leaf functions are short, and so are prologues and epilogues."""

_BODY = 1024
"""How many bytes of a function are looked at before the pc. The longest leafs are those that copy memory."""

DECODERS: dict[str, Decoder] = {
    "aarch64": aarch64,
    "riscv64": riscv,
    "riscv32": riscv,
    "powerpc64": powerpc,
    "s390x": s390,
    "s390": s390,
}

# Jumps to an address from a register that end a stub of the linker's, by the instruction before them: ELF V2 ABI 4.2.5.3,
# mtctr r12; bctr. RISC-V psABI, head of the PLT, ld t0, 8(t0); jr t3. s390x ABI, "Procedure linkage table", lg %r1, 0(%r1)
# or 16(%r1); br %r1.
_STUBS: dict[str, tuple[tuple[bytes, bytes], ...]] = {
    "powerpc64": ((bytes.fromhex("7d8903a6"), bytes.fromhex("4e800420")),),
    "riscv64": ((bytes.fromhex("83b28200"), bytes.fromhex("67000e00")),),
    "riscv32": ((bytes.fromhex("83a24200"), bytes.fromhex("67000e00")),),
    "s390x": (
        (bytes.fromhex("e31010000004"), bytes.fromhex("07f1")),
        (bytes.fromhex("e31010100004"), bytes.fromhex("07f1")),
    ),
}

# AArch64: the PLT's head begins with stp x16, x30, [sp, #-16]! and ends four instructions later with br x17.
_PLT_PUSH, _PLT_JUMP, _PLT_HEAD = bytes.fromhex("f07bbfa9"), bytes.fromhex("20021fd6"), 16


@dataclass(frozen=True)
class Untouched:
    """What there is of the caller, where the link register has the return address.

    Attributes:
        moved: bytes from the stack pointer to the caller's; None where that is not known.
        whole: whether registers that functions preserve have the caller's values, but for those in ``saved``.
        saved: registers whose values are on the stack: bytes from the stack pointer, or None where it is not known.
    """

    moved: int | None = 0
    whole: bool = True
    saved: dict[int, int | None] = field(default_factory=dict)


def untouched_by_code(here: Here) -> Untouched | None:
    """What is proved, or None where nothing is."""
    decode = DECODERS.get(here.around.machine.name)
    if decode is None:
        return None
    return Untouched() if _nothing_yet(here, decode) else _straight_on(here, decode)


def _nothing_yet(here: Here, decode: Decoder) -> bool:
    """Whether no instruction between the function's start and the pc moves the stack pointer or saves what it must.

    It needs the function's symbol. Whatever comes later in its code runs later, or has undone what it did: compilers lay the
    way in out first.
    """
    start, address = here.around.symbol_start(here.pc.address), here.pc.address
    if start is None or address - start > _BODY:
        return False
    place = start
    while place < address:
        effect = decoded(here, decode, place)
        if effect is None or effect.kind in (Kind.ENTRY, Kind.LOST) or effect.moved != 0:
            return False
        place += effect.size
    return place == address


def _straight_on(here: Here, decode: Decoder) -> Untouched | None:
    address = here.pc.address
    moved: int | None = _pushed_by_plt(here)
    saved: dict[int, int | None] = {}
    for _ in range(INSTRUCTIONS):
        effect = decoded(here, decode, address)
        if effect is None or effect.kind is Kind.LOST:
            return None
        returns = effect.kind is Kind.RETURN or (effect.kind is Kind.UNKNOWN and _leaves_stub(here, address))
        if effect.kind is Kind.UNKNOWN and not returns:
            return None
        saved.update((register, None if moved is None else moved + offset) for register, offset in effect.loaded)
        moved = _moved(here, effect, moved, saved)
        if returns or effect.kind is Kind.ENTRY:
            # A prologue may have saved more than is loaded on the way.
            return Untouched(moved, returns, saved)
        address = effect.target if effect.kind is Kind.JUMP else address + effect.size
    return None


def _moved(here: Here, effect: Effect, moved: int | None, saved: dict[int, int | None]) -> int | None:
    """Bytes from the stack pointer at the pc to what it is behind an instruction."""
    if effect.moved is not None:
        return None if moved is None else moved + effect.moved
    sp = here.value(here.around.machine.stack_pointer)
    if effect.base is None or sp is None or effect.base[0] in saved:
        return None
    value = here.value(effect.base[0])
    return None if value is None else value + effect.base[1] - sp


def _leaves_stub(here: Here, address: int) -> bool:
    order = here.around.machine.byte_order
    for before, jump in _STUBS.get(here.around.machine.name, ()):
        if here.around.machine.name.startswith("powerpc") and order == "little":
            before, jump = before[::-1], jump[::-1]
        if here.around.code(address - len(before), len(before) + len(jump)) == before + jump:
            return True
    return False


def _pushed_by_plt(here: Here) -> int:
    """Bytes that the PLT's head has pushed before the pc, if that is where it is."""
    if here.around.machine.name != "aarch64":
        return 0
    for back in range(4, _PLT_HEAD + 1, 4):
        code = here.around.code(here.pc.address - back, _PLT_HEAD + 4)
        if code is not None and code.startswith(_PLT_PUSH) and code.endswith(_PLT_JUMP):
            return 16
    return 0


def decoded(here: Here, decode: Decoder, address: int) -> Effect | None:
    """What the instruction at an address does, or None where it cannot be read."""
    code, address = here.around.code, address & here.around.mask
    if decode is s390:
        data = code(address, 6) or code(address, 4) or code(address, 2)
        return None if data is None else decode(int.from_bytes(data.ljust(6, b"\0"), "big"), address)
    data = code(address, 4) or code(address, 2)
    if data is None:
        return None
    # AArch64's and RISC-V's instructions are little-endian also where data are not. A short one is the low half.
    machine = here.around.machine
    order = machine.byte_order if machine.name.startswith("powerpc") else "little"
    return decode(int.from_bytes(data, order), address)
