"""Registers as perf samples them: by the machine's ``asm/perf_regs.h``, one bit of ``sample_regs_user`` each.

A sample has eight bytes for each bit that is set, in the order of the bits, also where the program's registers have four
(``PERF_SAMPLE_REGS_ABI_32``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from clew.arch import ByteOrder, Machine, machine_named
from clew.errors import UsageError
from clew.native.perf_records import NONE
from clew.target.register_layouts import register_names

SYSCALL_RETURN = {"x86-64": 2, "x32": 2}
"""The register, by DWARF number, in which a system call's instruction leaves the pc as well, by machine (AMD64 Architecture
Programmer's Manual, volume 3, SYSCALL: rcx)."""

ABI_NONE, ABI_32, ABI_64 = 0, 1, 2

_X86_TAIL = "cs ss ds es fs gs r8-15"
_S390 = "r0-15 f0-15 pswm pswa"
_POWER = "r0-31 nip msr orig_r3 ctr lr xer cr"
_RISCV = "pc ra sp gp tp t0-2 s0-1 a0-7 s2-11 t3-6"
# The word for r0, which is always zero, holds the pc.
_LOONGARCH = "pc r1-31"


NAMES: Mapping[str, list[str]] = {
    "x86-64": register_names(f"rax rbx rcx rdx rsi rdi rbp rsp rip rflags {_X86_TAIL}"),
    "i386": register_names(f"eax ebx ecx edx esi edi ebp esp eip eflags {_X86_TAIL}"),
    "arm": register_names("r0-12 sp lr pc"),
    "aarch64": register_names("x0-30 sp pc"),
    "powerpc64": register_names(_POWER),
    "powerpc": register_names(_POWER),
    "s390x": register_names(_S390),
    "s390": register_names(_S390),
    "riscv64": register_names(_RISCV),
    "riscv32": register_names(_RISCV),
    "loongarch64": register_names(_LOONGARCH),
    "loongarch32": register_names(_LOONGARCH),
}
"""The name of each bit, from bit 0 on, by :attr:`clew.arch.Machine.name`. Bits beyond are no registers that unwinding knows.

A 32-bit Arm program under a 64-bit kernel has its own registers in the first sixteen words (``arch/arm64/kernel/perf_regs.c``).
"""

_PC = {"x86-64": "rip", "i386": "eip", "powerpc64": "nip", "powerpc": "nip", "s390x": "pswa", "s390": "pswa"}

_NARROW = {
    "x86-64": "i386",
    "aarch64": "arm",
    "powerpc64": "powerpc",
    "s390x": "s390",
    "riscv64": "riscv32",
    "loongarch64": "loongarch32",
}

_UNAME = {
    "x86_64": "x86-64",
    "amd64": "x86-64",
    "aarch64": "aarch64",
    "aarch64_be": "aarch64",
    "arm64": "aarch64",
    "ppc64": "powerpc64",
    "ppc64le": "powerpc64",
    "ppc": "powerpc",
    "s390x": "s390x",
    "s390": "s390",
    "riscv64": "riscv64",
    "riscv32": "riscv32",
    "loongarch64": "loongarch64",
    "loongarch32": "loongarch32",
}


def machine_of(arch: str, order: ByteOrder) -> Machine | None:
    """The machine that ``uname -m`` calls so, or None.

    >>> machine_of("ppc64le", "little").name, machine_of("armv7l", "little").name, machine_of("i686", "little").name
    ('powerpc64', 'arm', 'i386')
    """
    name = _UNAME.get(arch)
    if name is None and arch[:1] == "i" and arch[2:] == "86":
        name = "i386"
    if name is None and arch.startswith("arm"):
        name = "arm"
    try:
        return machine_named(name or arch, order)
    except UsageError:
        return None


def machine_for_abi(machine: Machine, abi: int) -> Machine:
    """The machine that a program's registers are of, on one of this kind: its 32-bit one where the ABI says so."""
    narrow = _NARROW.get(machine.name) if abi == ABI_32 else None
    return machine if narrow is None else machine_named(narrow, machine.byte_order)


def place_in_block(mask: int, bit: int | None) -> int:
    """Which word of the block a bit's register is, or ``NONE`` where it is not there."""
    if bit is None or not mask >> bit & 1:
        return NONE
    return (mask & ((1 << bit) - 1)).bit_count()


def pc_and_sp(machine: Machine, mask: int) -> tuple[int, int]:
    """Which words of a block of registers are the pc and the stack pointer, or ``NONE``."""
    names = NAMES.get(machine.name, [])
    numbers = [machine.register_number(name) for name in names]
    pc = _PC.get(machine.name, "pc")
    return (
        place_in_block(mask, names.index(pc) if pc in names else None),
        place_in_block(mask, numbers.index(machine.stack_pointer) if machine.stack_pointer in numbers else None),
    )


@dataclass(frozen=True, slots=True)
class RegisterPlan:
    """How to read a block of registers.

    Attributes:
        machine: whose registers they are.
        words: reads the words; those that have no DWARF number are skipped.
        numbers: the DWARF number of each word that is read.
        pc, sp: where the pc and the stack pointer are among all words, or ``NONE``.
        order: the DWARF number of each word, -1 for one that has none.
    """

    machine: Machine
    words: Struct
    numbers: tuple[int, ...]
    pc: int
    sp: int
    order: tuple[int, ...]


@lru_cache(maxsize=256)
def register_plan(machine: Machine, mask: int, abi: int) -> RegisterPlan:
    """The plan for a program that was sampled on this machine with those bits of ``sample_regs_user``."""
    own = machine_for_abi(machine, abi)
    names = NAMES.get(own.name, [])
    codes, numbers, order = "", [], []
    for bit in range(64):
        if not mask >> bit & 1:
            continue
        number = own.register_number(names[bit]) if bit < len(names) else None
        # In i386's tables, r8 to r15 are numbers and no registers.
        if number is None or (own.name == "i386" and bit >= 16):
            codes += "8x"
            order.append(-1)
        else:
            codes += "Q"
            numbers.append(number)
            order.append(number)
    words = Struct(("<" if machine.byte_order == "little" else ">") + codes)
    return RegisterPlan(own, words, tuple(numbers), *pc_and_sp(own, mask), tuple(order))
