"""Motorola 88000, and the machine of the DWARF standard's example that is modelled on it.

M88K: System V ABI, Motorola 88000 Processor Supplement. r1 is the return address, r14 to r25 and the frame pointer
r30 are preserved, r26 to r29 reserved, r31 is the stack pointer; r0 is always zero.

DWARF 5 appendix D.6 "Call Frame Information Example" has only r0 to r7 and the column r8 for the return address: r0
is always zero, r1 holds the return address on a call, r4 to r7 are preserved, r6 is the frame pointer and r7 the
stack pointer. No file says that it is for this machine; it is reached by name.
"""

from __future__ import annotations

from clew.arch.machine import Machine, numbered, registers

M88K = Machine(
    name="m88k",
    elf_machines=(5,),
    bits=32,
    byte_order="big",
    names=numbered((0, "r", range(32)), (32, "x", range(32))),
    aliases={"fp": 30, "sp": 31},
    stack_pointer=31,
    frame_pointer=30,
    return_address=1,
    link_register=1,
    callee_saved=registers(0, 1, (14, 30)),
    code_alignment=4,
)

DWARF_EXAMPLE = Machine(
    name="dwarf-example",
    elf_machines=(),
    bits=32,
    byte_order="big",
    names=numbered((0, "r", range(9))),
    stack_pointer=7,
    frame_pointer=6,
    return_address=8,
    callee_saved=registers(0, (4, 6)),
    code_alignment=4,
)
