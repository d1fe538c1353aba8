"""AArch64: DWARF for the Arm 64-bit Architecture (aadwarf64), and its Procedure Call Standard (AAPCS64).

aadwarf64 "DWARF register names" numbers the registers. Its "Common information entries" gives the defaults: registers
that a callee preserves, and those that a program leaves alone, keep their value, as does VG; the others are
undefined. AAPCS64 §6.1.1: x19 to x28, the frame pointer x29 and sp are preserved. Number 34 is not a register but the
state of the return address, and starts at 0, not signed.

x18 is the platform register (AAPCS64 §6.1.1); where it holds a shadow call stack, functions put it back. Of v8 to v15
only the low 64 bits are preserved (§6.1.2), and those are what a number below 96 means in call frame information
(aadwarf64, note 5).
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Dialect, Machine, numbered, registers

_VECTORS = numbered((48, "p", range(16)), (64, "v", range(32)), (96, "z", range(32)))

RA_SIGN_STATE = 34
"""The pseudo-register that says whether the return address is signed: bit 0 signed, bit 1 with the pc as well."""

AARCH64 = Machine(
    name="aarch64",
    synonyms=("arm64",),
    elf_machines=(183,),
    bits=64,
    byte_order="little",
    names={
        **numbered(
            (0, "x", range(31)),
            (31, "sp pc elr_mode ra_sign_state tpidrro_el0 tpidr_el0 tpidr_el1 tpidr_el2 tpidr_el3"),
            (46, "vg ffr"),
        ),
        **_VECTORS,
    },
    aliases={"fp": 29, "lr": 30},
    stack_pointer=31,
    frame_pointer=29,
    program_counter=32,
    return_address=30,
    link_register=30,
    callee_saved=registers((18, 30), 46, (72, 79)),
    code_alignment=4,
    cfa_dialect=Dialect.AARCH64,
    readelf={**numbered((0, "x", range(31)), (31, "sp"), (33, "elr"), (46, "vg ffr")), **_VECTORS},
    readelf_names=128,
)

AARCH64_ILP32 = replace(AARCH64, name="aarch64-ilp32", synonyms=("arm64_32",), bits=32)
"""The programs of AArch64 with addresses of four bytes."""
