"""MIPS, 32 and 64 bits: System V ABI, MIPS Processor Supplement; the n64 ABI; GCC's numbering.

0 to 31 general, 32 to 63 floating point, 64 hi, 65 lo. o32: s0 to s7 and fp are preserved, f20 to f31 as well; n64:
s0 to s7, gp, fp, and f24 to f31. The two ABIs have different names for $8 to $15. Bit 0 of a code pointer says that
the code is MIPS16 or microMIPS, so it is no part of the address.
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Dialect, Machine, numbered, registers

_COMMON = numbered(
    (0, "zero at v0 v1 a0 a1 a2 a3"),
    (16, "s", range(8)),
    (24, "t8 t9 k0 k1 gp sp fp ra"),
    (32, "f", range(32)),
    (64, "hi lo"),
)

MIPS64 = Machine(
    name="mips64",
    synonyms=("mips64el",),
    elf_machines=(8, 10),
    bits=64,
    byte_order="big",
    names={**_COMMON, **numbered((8, "a4 a5 a6 a7 t0 t1 t2 t3"))},
    aliases={"s8": 30},
    stack_pointer=29,
    frame_pointer=30,
    return_address=31,
    link_register=31,
    # $0 is always zero.
    callee_saved=registers(0, (16, 23), 28, 30, 31, (56, 63)),
    code_alignment=2,
    address_mask=~1,
    cfa_dialect=Dialect.MIPS,
)

MIPS = replace(
    MIPS64,
    name="mips",
    synonyms=("mipsel", "mips32"),
    bits=32,
    names={**_COMMON, **numbered((8, "t", range(8)))},
    callee_saved=registers(0, (16, 23), 30, 31, (52, 63)),
)
