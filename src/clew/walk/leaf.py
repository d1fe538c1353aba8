"""Whether the return address is still in the link register, by the code around the pc: of a leaf, a prologue, an epilogue.

Two proofs are tried. From the function's start to the pc nothing touches the stack or the link register: then nothing has
changed at all since the call. Or from the pc straight on the function returns by the link register, or saves it only now;
then what it loads on the way are the caller's registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clew.walk.frame_records import BACK_CHAINS
from clew.walk.leaf_code import Decoder, Effect, Kind, aarch64, powerpc, riscv
from clew.walk.leaf_code_s390 import s390
from clew.walk.step import Here

INSTRUCTIONS = 64
"""How many instructions are followed. Leaf functions are short, and so are prologues and epilogues."""

# Machines that load the link register by way of another, which nothing else is done with in between: mtlr r0.
_COPIES = ("powerpc64",)

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
        link: where on the stack the return address is, likewise; None where it is in a register.
        copied: the register that it is in, when it is not the link register.
    """

    moved: int | None = 0
    whole: bool = True
    saved: dict[int, int | None] = field(default_factory=dict)
    link: int | None = None
    copied: int | None = None


def untouched_by_code(here: Here) -> Untouched | None:
    """What is proved, or None where nothing is."""
    decode = DECODERS.get(here.around.machine.name)
    if decode is None:
        return None
    return _from_start(here, decode) or _straight_on(here, decode)


def _from_start(here: Here, decode: Decoder) -> Untouched | None:
    """What the instructions between the function's start and the pc have left, if they have not called another.

    If none of them moves the stack pointer or saves anything, nothing has changed. On machines whose stack pointer is all
    that the next frame needs (Power's and IBM Z's back chain), a prologue may be under way. Whatever comes later in the code
    runs later, or has undone what it did: compilers lay the way in out first. It needs the function's symbol.
    """
    start, address = here.around.symbol_start(here.pc.address), here.pc.address
    if start is None or address - start > _BODY:
        return None
    place, moved, begun = start, 0, False
    slot: int | None = None
    lost = False
    while place < address:
        effect = decoded(here, decode, place)
        if effect is None or not here.work.spend(1):
            return None
        if effect.kind is Kind.LOST:
            # Not by a call: once it has been saved, IBM Z's link register may be used for anything.
            if effect.link is None or slot is None:
                return None
            lost = True
            place += effect.size
            continue
        if effect.slot is not None and not lost:
            slot = moved + effect.slot
        by = effect.made if effect.kind is Kind.ENTRY else effect.moved
        begun = begun or by != 0 or effect.kind is Kind.ENTRY
        if begun and (here.around.machine.name not in BACK_CHAINS or effect.kind not in (Kind.NEXT, Kind.ENTRY)):
            return None
        if by is None:
            return None
        moved += by
        place += effect.size
    if place != address:
        return None
    return Untouched(-moved, not begun, {}, slot - moved if lost and slot is not None else None)


def _straight_on(here: Here, decode: Decoder) -> Untouched | None:
    address = here.pc.address
    moved: int | None = _pushed_by_plt(here)
    saved: dict[int, int | None] = {}
    link: int | None = None
    copied: int | None = None
    for _ in range(INSTRUCTIONS):
        effect = decoded(here, decode, address)
        if effect is None or not here.work.spend(1):
            return None
        if effect.kind is Kind.LOST:
            # By a call; or an epilogue puts back what had been saved.
            link = _restored(here, effect, moved, saved)
            copied = effect.link if link is None and effect.link not in saved else None
            if link is None and (copied is None or here.around.machine.name not in _COPIES):
                return None
        returns = effect.kind is Kind.RETURN or (effect.kind is Kind.UNKNOWN and _leaves_stub(here, address))
        if effect.kind is Kind.UNKNOWN and not returns:
            return None
        saved.update((register, None if moved is None else moved + offset) for register, offset in effect.loaded)
        moved = _moved(here, effect, moved, saved)
        if returns or effect.kind is Kind.ENTRY:
            # A prologue may have saved more than is loaded on the way.
            whole = returns or link is not None or copied is not None
            return Untouched(moved, whole, saved, link, copied)
        address = effect.target if effect.kind is Kind.JUMP else address + effect.size
    return None


def _restored(here: Here, effect: Effect, moved: int | None, saved: dict[int, int | None]) -> int | None:
    """Where on the stack an instruction has the link register from: bytes from the stack pointer at the pc; or None."""
    if effect.link is not None:
        return saved.get(effect.link)
    for register, offset in effect.loaded:
        if register == here.around.machine.link_register and moved is not None:
            return moved + offset
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
