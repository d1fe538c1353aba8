"""32-bit Arm: DWARF for the Arm Architecture (aadwarf32), and its Procedure Call Standard (AAPCS32).

aadwarf32 "DWARF register names" numbers the registers; the floating-point registers have two numberings, the old one
of halves (s0 to s31) and the new one (d0 to d31). AAPCS32 §6.1.1: r4 to r11 and sp are preserved (r9 as the platform
says), §6.1.2: d8 to d15. Bit 0 of a code pointer says that the code is Thumb, so it is no part of the address.
"""

from __future__ import annotations

from clew.arch.machine import Machine, numbered, registers

ARM = Machine(
    name="arm",
    synonyms=("armv7", "arm32", "armhf"),
    elf_machines=(40,),
    bits=32,
    byte_order="little",
    names=numbered(
        (0, "r", range(13)),
        (13, "sp lr pc"),
        (64, "s", range(32)),
        (96, "f", range(8)),
        (104, "wcgr", range(8)),
        (112, "wr", range(16)),
        (128, "spsr spsr_fiq spsr_irq spsr_abt spsr_und spsr_svc"),
        (143, "ra_auth_code"),
        (144, "r8_usr r9_usr r10_usr r11_usr r12_usr r13_usr r14_usr"),
        (151, "r8_fiq r9_fiq r10_fiq r11_fiq r12_fiq r13_fiq r14_fiq"),
        (158, "r13_irq r14_irq r13_abt r14_abt r13_und r14_und r13_svc r14_svc"),
        (192, "wc", range(8)),
        (200, "tpidruro"),
        (256, "d", range(32)),
    ),
    aliases={"fp": 11, "ip": 12, "r13": 13, "r14": 14, "r15": 15},
    stack_pointer=13,
    frame_pointer=11,
    program_counter=15,
    return_address=14,
    link_register=14,
    callee_saved=registers((4, 11), 14, (80, 95), (264, 271)),
    code_alignment=2,
    address_mask=~1,
)
