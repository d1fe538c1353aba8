"""The general registers as Linux hands them out: ``NT_PRSTATUS`` of a core, and ``PTRACE_GETREGSET`` of a live thread.

Both are the same words in the same order: ``elf_gregset_t``, which each machine's ``asm/elf.h`` and ``asm/ptrace.h``
define. In ``struct elf_prstatus`` (``linux/elfcore.h``) a head of 112 bytes stands before them where ``long`` has eight
bytes, of 72 where it has four; the thread's number is at 32 or 24 in it, the signal's at 12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from struct import Struct

from clew.arch import Machine


@dataclass(frozen=True, slots=True)
class RegisterLayout:
    """How one machine's registers are laid out.

    Attributes:
        words: the name of each word, in order. One that is no register of the machine is kept by name; ``_`` is not kept.
        codes: the ``struct`` code of each word, its width.
        pc: the name of the program counter among the words.
        wide_head: whether ``long`` has eight bytes, which tells the size of the head in ``struct elf_prstatus``.
        in_call: from the words by name, whether the thread is in a system call; None where the words do not tell.
    """

    words: tuple[str, ...]
    codes: str
    pc: str
    wide_head: bool
    in_call: Callable[[Mapping[str, int]], bool] | None = None

    @property
    def size(self) -> int:
        """Bytes in the words."""
        return Struct("<" + self.codes).size

    @property
    def offset(self) -> int:
        """Where the words begin in ``struct elf_prstatus``."""
        return 112 if self.wide_head else 72

    @property
    def thread_offset(self) -> int:
        """Where the thread's number is in ``struct elf_prstatus``."""
        return 32 if self.wide_head else 24


def register_names(text: str) -> list[str]:
    """A list of names; ``r0-3`` stands for ``r0 r1 r2 r3``."""
    names: list[str] = []
    for word in text.split():
        first, _, last = word.partition("-")
        stem = first.rstrip("0123456789")
        names += [f"{stem}{n}" for n in range(int(first[len(stem) :]), int(last) + 1)] if last else [word]
    return names


def _layout(
    names: str,
    code: str,
    pc: str,
    *,
    wide_head: bool | None = None,
    in_call: Callable[[Mapping[str, int]], bool] | None = None,
) -> RegisterLayout:
    """A layout from names as of :func:`register_names`; ``a0-3:I`` gives a width of their own."""
    words: list[str] = []
    codes = ""
    for part in names.split():
        name, _, own = part.partition(":")
        run = register_names(name)
        words += run
        codes += (own or code) * len(run)
    return RegisterLayout(tuple(words), codes, pc, code == "Q" if wide_head is None else wide_head, in_call)


# On x86 the kernel keeps the number of the call, and -1 where it was entered in another way (asm/ptrace.h).
def _x86_64_call(words: Mapping[str, int]) -> bool:
    return not words["orig_rax"] >> 63


def _i386_call(words: Mapping[str, int]) -> bool:
    return not words["orig_eax"] >> 31


# The vector that the kernel was entered through: sc, or scv (Power ISA, book III).
def _power_call(words: Mapping[str, int]) -> bool:
    return words["trap"] & ~0xF in (0xC00, 0x3000)


_X86_64 = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs rflags rsp ss fs.base gs.base ds es fs gs"
_RISCV = "pc x1-31"
_POWER = "r0-31 pc _ _ ctr lr xer cr _ trap _ _ _ _ _ _ _"

LAYOUTS: Mapping[str, RegisterLayout] = {
    # asm/user_64.h, struct user_regs_struct. An x32 program has the same registers behind the narrow head.
    "x86-64": _layout(_X86_64, "Q", "rip", in_call=_x86_64_call),
    "x32": _layout(_X86_64, "Q", "rip", wide_head=False, in_call=_x86_64_call),
    # asm/user_32.h, struct user_regs_struct
    "i386": _layout(
        "ebx ecx edx esi edi ebp eax ds es fs gs orig_eax eip cs eflags esp ss", "I", "eip", in_call=_i386_call
    ),
    # asm/ptrace.h, struct user_pt_regs
    "aarch64": _layout("x0-30 sp pc pstate", "Q", "pc"),
    # asm/ptrace.h, struct pt_regs; its last word is r0 as it was before a system call.
    "arm": _layout("r0-12 sp lr pc cpsr orig_r0", "I", "pc"),
    # asm/ptrace.h, struct user_regs_struct
    "riscv64": _layout(_RISCV, "Q", "pc"),
    "riscv32": _layout(_RISCV, "I", "pc"),
    # asm/ptrace.h, struct pt_regs, up to ELF_NGREG 48 words
    "powerpc64": _layout(_POWER, "Q", "pc", in_call=_power_call),
    "powerpc": _layout(_POWER, "I", "pc", in_call=_power_call),
    # asm/ptrace.h, s390_regs: access registers have 32 bits.
    "s390x": _layout("pswm pswa r0-15 a0-15:I orig_gpr2", "Q", "pswa"),
    "s390": _layout("pswm pswa r0-15 a0-15 orig_gpr2", "I", "pswa"),
    # asm/ptrace.h, struct user_pt_regs: then the address of the fault, and ten reserved words.
    "loongarch64": _layout("r0-31 orig_a0 pc _ _ _ _ _ _ _ _ _ _ _", "Q", "pc"),
}
"""By :attr:`clew.arch.Machine.name`. Of machines that are not here, threads cannot be read."""


@dataclass(frozen=True, slots=True)
class Registers:
    """A thread's registers, read.

    Attributes:
        values: DWARF number to value; the pc is there too where it has a number.
        pc: the program counter.
        in_call: whether the thread is in a system call; False also where the words do not tell.
    """

    values: Mapping[int, int]
    pc: int
    in_call: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to read a machine's words: which of them have DWARF numbers, which do not, and where the pc is."""

    layout: RegisterLayout
    record: Struct
    numbers: tuple[int, ...]
    numbered: Callable[[tuple[int, ...]], tuple[int, ...]]
    other: tuple[tuple[int, str], ...]
    pc: int
    mask: int


@lru_cache(maxsize=32)
def _plan(machine: Machine) -> _Plan | None:
    layout = LAYOUTS.get(machine.name)
    if layout is None:
        return None
    record = Struct((">" if machine.byte_order == "big" else "<") + layout.codes)
    found = {index: machine.register_number(word) for index, word in enumerate(layout.words)}
    numbered = {index: number for index, number in found.items() if number is not None}
    other = tuple((i, word) for i, word in enumerate(layout.words) if i not in numbered and word != "_")
    mask = machine.address_mask & ((1 << machine.bits) - 1)
    pick = itemgetter(*numbered)
    return _Plan(layout, record, tuple(numbered.values()), pick, other, layout.words.index(layout.pc), mask)


def read_registers(machine: Machine, data: bytes) -> Registers | None:
    """The registers in the words of ``elf_gregset_t``, or None where the machine has no layout or the bytes are too few."""
    plan = _plan(machine)
    if plan is None or len(data) < plan.record.size:
        return None
    words = plan.record.unpack_from(data)
    in_call = plan.layout.in_call is not None and plan.layout.in_call({name: words[i] for i, name in plan.other})
    # What was read is read for every thread of every stop, so no loop of Python's.
    return Registers(dict(zip(plan.numbers, plan.numbered(words), strict=True)), words[plan.pc] & plan.mask, in_call)
