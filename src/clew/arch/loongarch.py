"""LoongArch, 64 and 32 bits: the LoongArch ELF psABI and its Procedure Call Standard.

"DWARF register numbers": 0 to 31 general, 32 to 63 floating point. "General-purpose registers": sp, fp and s0 to s8
are preserved, tp and r21 are not allocatable; "Floating-point registers": fs0 to fs7 are preserved.
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Machine, numbered, registers

LOONGARCH64 = Machine(
    name="loongarch64",
    synonyms=("loongarch",),
    elf_machines=(258,),
    bits=64,
    byte_order="little",
    names=numbered(
        (0, "zero ra tp sp"),
        (4, "a", range(8)),
        (12, "t", range(9)),
        (21, "r21 fp"),
        (23, "s", range(9)),
        (32, "fa", range(8)),
        (40, "ft", range(16)),
        (56, "fs", range(8)),
    ),
    aliases={"s9": 22, **{f"r{number}": number for number in range(32)}},
    stack_pointer=3,
    frame_pointer=22,
    return_address=1,
    link_register=1,
    # r0 is always zero.
    callee_saved=registers((0, 2), (21, 31), (56, 63)),
    code_alignment=4,
)

LOONGARCH32 = replace(LOONGARCH64, name="loongarch32", synonyms=("la32",), bits=32)
