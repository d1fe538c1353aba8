"""32-bit x86: System V ABI, Intel386 Architecture Processor Supplement.

"DWARF Register Number Mapping" numbers the registers; 8 is the return-address column and the pc. "Register Usage"
says what a function preserves. 4 is esp and 5 is ebp; only Darwin's ``.eh_frame`` has these two the other way round.
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Machine, numbered, registers

_INTEGER = numbered(
    (0, "eax ecx edx ebx esp ebp esi edi eip eflags"),
    (40, "es cs ss ds fs gs"),
    (48, "tr ldtr"),
)
_NAMES = {
    **_INTEGER,
    **numbered(
        (11, "st", range(8)),
        (21, "xmm", range(8)),
        (29, "mm", range(8)),
        (37, "fcw fsw mxcsr"),
        (93, "k", range(8)),
    ),
}

I386 = Machine(
    name="i386",
    synonyms=("x86", "i686", "ia32"),
    elf_machines=(3,),
    bits=32,
    byte_order="little",
    names=_NAMES,
    stack_pointer=4,
    frame_pointer=5,
    program_counter=8,
    return_address=8,
    callee_saved=registers(3, (5, 7)),
    readelf=_NAMES,
    readelf_names=101,
)

IAMCU = replace(I386, name="iamcu", synonyms=("intel-mcu",), elf_machines=(6,), names=_INTEGER, readelf=_INTEGER)
"""The Intel MCU psABI: no x87, MMX, SSE or mask registers."""
