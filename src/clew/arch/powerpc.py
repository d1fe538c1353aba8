"""PowerPC, 64 and 32 bits: the numbering that compilers use in ``.eh_frame``, which is that of the 64-Bit ELF V2 ABI.

ELF V2 ABI, "DWARF Definition": 0 to 31 general, 32 to 63 floating point, 65 lr, 66 ctr, 68 to 75 condition register
fields, 76 xer, 77 to 108 vector, 110 vscr, 114 tfhar to 116 texasr; GCC writes vrsave as 109. The older SVR4
numbering, that only ``.debug_frame`` may have, begins its vector registers at 1124. §2.2.1.1 "Register Roles": r1,
r14 to r31, f14 to f31, cr2 to cr4, v20 to v31 are preserved, r2 (the TOC pointer) and r13 (the thread pointer) are
reserved; the 32-bit ABI says the same of these.
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Machine, numbered, registers

POWERPC64 = Machine(
    name="powerpc64",
    synonyms=("ppc64", "ppc64le", "powerpc64le"),
    elf_machines=(21,),
    bits=64,
    byte_order="little",
    names=numbered(
        (0, "r", range(32)),
        (32, "f", range(32)),
        (64, "cr"),
        (65, "lr ctr"),
        (68, "cr", range(8)),
        (76, "xer"),
        (77, "v", range(32)),
        (109, "vrsave vscr"),
        (114, "tfhar tfiar texasr"),
    ),
    stack_pointer=1,
    frame_pointer=31,
    return_address=65,
    link_register=65,
    callee_saved=registers(2, (13, 31), (46, 63), 65, (70, 72), (97, 108), (1144, 1155)),
    code_alignment=4,
)

POWERPC = replace(
    POWERPC64, name="powerpc", synonyms=("ppc", "ppc32", "powerpc32"), elf_machines=(20,), bits=32, byte_order="big"
)
