"""Signal trampolines as data: their code, and where the kernel put the registers of what a signal interrupted.

A handler returns to a few instructions that ask the kernel to go on (``sigreturn``). They may have no row: then their bytes
tell what they are, and the frame that the kernel built gives every register. Layouts are those of Linux:
``arch/*/include/uapi/asm/{sigcontext,ucontext}.h`` and the ``rt_sigframe`` of ``arch/*/kernel/signal.c``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from clew.arch import Machine


@dataclass(frozen=True)
class Trampoline:
    """A signal trampoline.

    Attributes:
        code: its bytes.
        offsets: where its instructions begin.
        places: for each instruction, the distance in bytes from the stack pointer to the block that has the registers
            or, with ``pointer``, to the pointer to it.
        pointer: None, or what to add to the pointer to get to the block.
        slots: offset in the block by DWARF number.
        pc: offset in the block of the interrupted pc.
    """

    code: bytes
    offsets: tuple[int, ...]
    places: tuple[int, ...]
    slots: Mapping[int, int]
    pc: int
    pointer: int | None = None


def _trampoline(
    instructions: str, place: int | tuple[int, ...], slots: Mapping[int, int], pc: int, pointer: int | None = None
) -> Trampoline:
    """``instructions`` in hexadecimal; one ``place`` where no instruction moves the stack pointer."""
    pieces = [bytes.fromhex(piece) for piece in instructions.split()]
    offsets = tuple(sum(map(len, pieces[:index])) for index in range(len(pieces)))
    places = place if isinstance(place, tuple) else (place,) * len(pieces)
    return Trampoline(b"".join(pieces), offsets, places, slots, pc, pointer)


def _run(first: int, count: int, offset: int, step: int) -> dict[int, int]:
    return {first + index: offset + step * index for index in range(count)}


# struct ucontext begins with flags, link and stack_t: 5 words, of which stack_t has 3.

# sigcontext of x86-64, from ucontext + 40: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags. The handler's
# return took its return address off the frame, so that the stack pointer is at the ucontext.
_X86_64_SLOTS = {
    **_run(8, 8, 0, 8),
    **dict(zip((5, 4, 6, 3, 1, 0, 2, 7), range(64, 128, 8), strict=True)),
    49: 136,
}
_X86_64 = (_trampoline("48c7c00f000000 0f05", 40, _X86_64_SLOTS, 128),)

# sigcontext of i386, from ucontext + 20: gs, fs, es, ds, edi, esi, ebp, esp, ebx, edx, ecx, eax, trapno, err, eip, cs, eflags.
# An rt frame has the signal, the siginfo's and the ucontext's address; the old kind the signal and the sigcontext.
_I386_SLOTS = {**dict(zip((7, 6, 5, 4, 3, 2, 1, 0), range(16, 48, 4), strict=True)), 9: 64}
_I386 = (
    _trampoline("b8ad000000 cd80", 8, _I386_SLOTS, 56, pointer=20),
    _trampoline("58 b877000000 cd80", (4, 0, 0), _I386_SLOTS, 56),
)

# siginfo (128), ucontext: 40, signal mask and its reserve 128, padding to 16: sigcontext at ucontext + 176, which is the fault
# address, x0 to x30, sp, pc, pstate.
_AARCH64 = (_trampoline("681180d2 010000d4", 128 + 176 + 8, _run(0, 32, 0, 8), 256),)

# sigcontext of arm, from ucontext + 20: trap, error, mask, r0 to r15, cpsr. An rt frame begins with the siginfo (128).
# Kernel, glibc and musl write mov r7, #119 or #173 and svc, in either instruction set, the older ABI with the number in svc.
_ARM_SLOTS = _run(0, 15, 0, 4)
_ARM_PC = 60
_ARM = tuple(
    _trampoline(code, place, _ARM_SLOTS, _ARM_PC)
    for place, codes in (
        (32, ("7770a0e3 000000ef", "7770a0e3 770090ef", "7727 00df")),
        (128 + 32, ("ad70a0e3 000000ef", "ad70a0e3 ad0090ef", "ad27 00df")),
    )
    for code in codes
)

# siginfo (128), ucontext as on AArch64: at + 176 the pc, then x1 to x31.
_RISCV64 = (_trampoline("9308b008 73000000", 128 + 176, _run(1, 31, 8, 8), 0),)

# siginfo (128), ucontext: 40, mask and reserve 128, padding to 16: sc_pc, sc_regs (r0 to r31).
_LOONGARCH64 = (_trampoline("0b2c8203 00002b00", 128 + 176, _run(0, 32, 8, 8), 0),)

# ucontext: 40, mask 128; sigcontext: 4 words reserved, signal, handler, mask, pointer to the registers, then r0 to r31, nip,
# msr, orig_r3, ctr, link, xer, ccr. Linux first takes its 128 bytes of signal frame back (addi r1, r1, 128); qemu's
# trampoline leaves them, and 16 more.
_PPC64_SLOTS = {**_run(0, 32, 0, 8), 66: 35 * 8, 65: 36 * 8, 76: 37 * 8, 64: 38 * 8}
_PPC64_REGISTERS = 40 + 128 + 64
_PPC64 = (
    _trampoline("38210080 380000ac 44000002", (128 + _PPC64_REGISTERS, *(_PPC64_REGISTERS,) * 2), _PPC64_SLOTS, 256),
    _trampoline("380000ac 44000002", 128 + 16 + _PPC64_REGISTERS, _PPC64_SLOTS, 256),
)

# Register save area (160), the instruction (padded to 8), then for an rt frame siginfo (128) and ucontext, whose registers
# are at + 40; for the old kind the signal mask and a pointer to the registers: psw mask, psw address, r0 to r15, 16 access
# registers of 4 bytes, the floating-point control and padding, f0 to f15, in which leafs keep r11 and r15.
_S390X_FLOATS = zip((0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), range(216, 344, 8), strict=True)
_S390X_SLOTS = {**_run(0, 16, 16, 8), **{16 + number: offset for number, offset in _S390X_FLOATS}}
_S390X = (
    _trampoline("0aad", 160 + 8 + 128 + 40, _S390X_SLOTS, 8),
    _trampoline("0a77", 160 + 8, _S390X_SLOTS, 8, pointer=0),
)

_ALL: Mapping[str, tuple[Trampoline, ...]] = {
    "x86-64": _X86_64,
    "i386": _I386,
    "aarch64": _AARCH64,
    "arm": _ARM,
    "riscv64": _RISCV64,
    "loongarch64": _LOONGARCH64,
    "powerpc64": _PPC64,
    "s390x": _S390X,
}


@lru_cache(maxsize=32)
def trampolines_of(machine: Machine) -> tuple[Trampoline, ...]:
    """The trampolines of a machine, with their code in its byte order; none where clew knows none."""
    known = _ALL.get(machine.name, ())
    # Power's instructions have the byte order of its data, and are written above as numbers.
    if machine.name != "powerpc64" or machine.byte_order == "big":
        return known
    return tuple(
        Trampoline(_swapped(each.code), each.offsets, each.places, each.slots, each.pc, each.pointer) for each in known
    )


def _swapped(code: bytes) -> bytes:
    return b"".join(code[start : start + 4][::-1] for start in range(0, len(code), 4))
