"""SPARC, 64 and 32 bits: System V ABI, SPARC Processor Supplement; SPARC Compliance Definition 2.4 for V9.

0 to 31 general (global, out, local, in), 32 and above floating point; on V9 there are 64 numbers, as those from f32 on
exist in pairs and an even name means both. The locals and ins belong to the frame's register window, g5 to g7 to the
system, and %g0 is always zero.

The stack pointer is %o6. On V9 it is biased: the CFA is 2047 above it. And a ``save`` makes the callee's %o6 another
register than the caller's. So the stack pointer is not the CFA: a leaf leaves it alone, and a function with a window
has the rules that DW_CFA_GNU_window_save makes. The return-address register holds the address of the call; the call
and its delay slot are eight bytes.
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Default, Dialect, Machine, numbered, registers

_INTEGER = numbered(
    (0, "g", range(8)), (8, "o0 o1 o2 o3 o4 o5 sp o7"), (16, "l", range(8)), (24, "i0 i1 i2 i3 i4 i5 fp i7")
)

SPARC64 = Machine(
    name="sparc64",
    synonyms=("sparcv9",),
    elf_machines=(43,),
    bits=64,
    byte_order="big",
    names={**_INTEGER, **numbered((32, "f", range(64)))},
    aliases={"o6": 14, "i6": 30},
    stack_pointer=14,
    frame_pointer=30,
    return_address=15,
    link_register=15,
    callee_saved=registers(0, (5, 7), (15, 31)),
    sp_default=Default.SAME_VALUE,
    code_alignment=4,
    return_address_offset=8,
    cfa_dialect=Dialect.SPARC,
)

SPARC = replace(
    SPARC64,
    name="sparc",
    synonyms=("sparc32",),
    # EM_SPARC and EM_SPARC32PLUS.
    elf_machines=(2, 18),
    bits=32,
    names={**_INTEGER, **numbered((32, "f", range(32)))},
)
