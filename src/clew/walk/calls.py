"""Whether a call instruction stands before an address: what tells a return address from a number that looks like one."""

from __future__ import annotations

from collections.abc import Callable

from clew.arch import Machine
from clew.walk.fields import riscv_jal_offset, signed

Code = Callable[[int, int], bytes | None]
"""Reads machine code: address and size to bytes, or None."""


def stands_before(address: int, machine: Machine, code: Code) -> bool | None:
    """Whether the instruction before an address is a call; None where its bytes or the machine's code are unknown.

    On machines whose instructions have different lengths, bytes in the middle of others may look like a call.
    """
    test = _TESTS.get(machine.name)
    if test is None:
        return None
    data = None
    # The longest form may begin before what can be read.
    for size in test[0]:
        data = code(address - size, size)
        if data is not None:
            break
    return None if data is None else test[1](data, machine)


def call_target(address: int, machine: Machine, code: Code) -> int | None:
    """Where the call before an address goes to, on machines with a link register; None where its bytes do not say."""
    size = 6 if machine.name.startswith("s390") else 4
    data = code(address - size, size)
    if data is None:
        return None
    if size == 6:
        # BRASL: 32 bits of halfwords.
        return address - 6 + 2 * signed(int.from_bytes(data[2:], "big"), 32) if data[1] & 0xF == 5 else None
    word = _word(data, machine) if machine.name.startswith("powerpc") else int.from_bytes(data, "little")
    if machine.name == "aarch64" and word >> 26 == 0x25:
        return address - 4 + 4 * signed(word, 26)
    if machine.name.startswith("powerpc") and word & 0xFC000003 == 0x48000001:
        return address - 4 + signed(word & 0x3FFFFFC, 26)
    if machine.name.startswith("riscv") and word & 0xFFF == 0x0EF:
        return address - 4 + riscv_jal_offset(word)
    return None


def _x86(data: bytes, machine: Machine) -> bool:
    """Intel SDM 2A, CALL: ``e8`` with a displacement of 4 bytes, or ``ff /2`` with a register or memory operand."""
    if len(data) >= 5 and data[-5] == 0xE8:
        return True
    for size in (2, 3, 4, 6, 7):
        if len(data) >= size and data[-size] == 0xFF and data[1 - size] >> 3 & 7 == 2:
            mode, base = data[1 - size] >> 6, data[1 - size] & 7
            length = 2 if mode == 3 else 2 + (base == 4) + (0, 1, 4)[mode]
            if mode == 0 and (base == 5 or (base == 4 and size == 7 and data[2 - size] & 7 == 5)):
                length += 4
            if length == size:
                return True
    return False


def _word(data: bytes, machine: Machine) -> int:
    return int.from_bytes(data[-4:], machine.byte_order)


def _aarch64(data: bytes, machine: Machine) -> bool:
    """Arm ARM, C6.2: BL, BLR, and BLRAA to BLRABZ. Instructions are little-endian also where data are not."""
    word = int.from_bytes(data[-4:], "little")
    return word >> 26 == 0x25 or word & 0xFFFFFC1F == 0xD63F0000 or word & 0xFEFFF800 == 0xD63F0800


def _arm(data: bytes, machine: Machine) -> bool:
    """Arm ARM (A-profile, AArch32): BL and BLX, in either instruction set; which one is not known here."""
    if len(data) >= 4:
        word = int.from_bytes(data[-4:], "little")
        if word >> 24 & 0xF == 0xB or word >> 25 == 0x7D or word & 0x0FFFFFF0 == 0x012FFF30:
            return True
        first, second = word & 0xFFFF, word >> 16
        if first >> 11 == 0x1E and second >> 14 == 3:
            return True
    return int.from_bytes(data[-2:], "little") & 0xFF87 == 0x4780


def _riscv(data: bytes, machine: Machine) -> bool:
    """RISC-V ISA: JAL and JALR that leave the return address in ra; C.JALR, and C.JAL of RV32."""
    if len(data) >= 4:
        word = int.from_bytes(data[-4:], "little")
        if word & 0xFFF == 0x0EF or word & 0x7FFF == 0x00E7:
            return True
    half = int.from_bytes(data[-2:], "little")
    if half & 0xF07F == 0x9002 and half >> 7 & 31:
        return True
    return machine.bits == 32 and half & 0xE003 == 0x2001


def _powerpc(data: bytes, machine: Machine) -> bool:
    """Power ISA, Book I: BL and BLA, BCTRL, BLRL. What restores the TOC pointer stands behind the return address."""
    word = _word(data, machine)
    return word & 0xFC000001 == 0x48000001 or word in (0x4E800421, 0x4E800021)


def _s390(data: bytes, machine: Machine) -> bool:
    """z/Architecture Principles of Operation: BRASL, BRAS, BAS and BASR."""
    if len(data) >= 6 and data[-6] == 0xC0 and data[-5] & 0xF == 5:
        return True
    if len(data) >= 4 and ((data[-4] == 0xA7 and data[-3] & 0xF == 5) or data[-4] == 0x4D):
        return True
    return data[-2] == 0x0D and data[-1] & 0xF != 0


def _loongarch(data: bytes, machine: Machine) -> bool:
    """LoongArch Reference Manual: BL, and JIRL that leaves the return address in ra."""
    word = int.from_bytes(data[-4:], "little")
    return word >> 26 == 0x15 or word & 0xFC00001F == 0x4C000001


_TESTS: dict[str, tuple[tuple[int, ...], Callable[[bytes, Machine], bool]]] = {
    "x86-64": ((7, 5, 2), _x86),
    "x32": ((7, 5, 2), _x86),
    "i386": ((7, 5, 2), _x86),
    "aarch64": ((4,), _aarch64),
    "arm": ((4, 2), _arm),
    "riscv64": ((4, 2), _riscv),
    "riscv32": ((4, 2), _riscv),
    "powerpc64": ((4,), _powerpc),
    "powerpc": ((4,), _powerpc),
    "s390x": ((6, 4, 2), _s390),
    "s390": ((6, 4, 2), _s390),
    "loongarch64": ((4,), _loongarch),
}
