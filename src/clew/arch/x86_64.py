"""x86-64: System V ABI, AMD64 Architecture Processor Supplement.

"DWARF Register Number Mapping" numbers the registers; 16 is the return-address column and, in an expression, the pc.
"Register Usage" says what a function preserves. A call pushes the return address, so that the CFA is the caller's
stack pointer.
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Machine, numbered, registers

_NAMES = numbered(
    (0, "rax rdx rcx rbx rsi rdi rbp rsp"),
    (8, "r", range(8, 16)),
    (16, "rip"),
    (17, "xmm", range(16)),
    (33, "st", range(8)),
    (41, "mm", range(8)),
    (49, "rflags es cs ss ds fs gs"),
    (58, "fs.base gs.base"),
    (62, "tr ldtr mxcsr fcw fsw"),
    (67, "xmm", range(16, 32)),
    (118, "k", range(8)),
)

X86_64 = Machine(
    name="x86-64",
    synonyms=("x86_64", "amd64"),
    # EM_X86_64, and Intel's L1OM and K1OM, which share its registers.
    elf_machines=(62, 180, 181),
    bits=64,
    byte_order="little",
    names=_NAMES,
    stack_pointer=7,
    frame_pointer=6,
    program_counter=16,
    return_address=16,
    callee_saved=registers(3, 6, (12, 15)),
    readelf=_NAMES,
    readelf_names=126,
)

X32 = replace(X86_64, name="x32", synonyms=("x86-64-x32",), bits=32)
"""The ILP32 programs of x86-64: the same registers, addresses of four bytes."""
