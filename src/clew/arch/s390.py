"""IBM Z and S/390: ELF Application Binary Interface, s390x Supplement, and the 31-bit one.

"DWARF register number mapping": 0 to 15 general, 16 to 31 floating point (even numbers first in each half), 32
control, 48 access, 64 and 65 the program status word, 68 to 83 the vector registers that are not floating-point
registers as well. "Register roles": r6 to r13 and r15, the stack pointer, are preserved; f8 to f15 on s390x, f4 and
f6 on s390.

The CFA is the caller's stack pointer *plus* the register save area (160 bytes, 96 on s390), so the stack pointer is
not the CFA: where no rule names it, the function has not moved it. Bit 31 of a 31-bit code pointer is the addressing
mode.
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Default, Machine, numbered, registers

_SPECIAL = numbered(
    (16, "f0 f2 f4 f6 f1 f3 f5 f7 f8 f10 f12 f14 f9 f11 f13 f15"),
    (32, "cr", range(16)),
    (48, "a", range(16)),
    (64, "pswm pswa"),
    (68, "v16 v18 v20 v22 v17 v19 v21 v23 v24 v26 v28 v30 v25 v27 v29 v31"),
)

S390X = Machine(
    name="s390x",
    elf_machines=(22,),
    bits=64,
    byte_order="big",
    names={**numbered((0, "r", range(16))), **_SPECIAL},
    stack_pointer=15,
    frame_pointer=11,
    program_counter=65,
    return_address=14,
    link_register=14,
    callee_saved=registers((6, 14), (24, 31)),
    sp_default=Default.SAME_VALUE,
    code_alignment=2,
    readelf=_SPECIAL,
    readelf_names=84,
)

S390 = replace(S390X, name="s390", bits=32, callee_saved=registers((6, 14), 18, 19), address_mask=0x7FFF_FFFF)
