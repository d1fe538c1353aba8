"""RISC-V, 64 and 32 bits: the RISC-V ELF psABI.

"DWARF register numbers": 0 to 31 integer, 32 to 63 floating point, 64 the alternate return column, 96 to 127 vector,
4096 and above the control and status registers. "Integer Register Convention" and "Floating-point Register
Convention": sp and s0 to s11 are preserved, gp and tp are not allocatable, fs0 to fs11 are preserved (to the width of
the ABI's floating-point registers).
"""

from __future__ import annotations

from dataclasses import replace

from clew.arch.machine import Machine, numbered, registers
from clew.arch.riscv_csr import CSR_NAMES

_NAMES = {
    **numbered(
        (0, "zero ra sp gp tp t0 t1 t2 s0 s1"),
        (10, "a", range(8)),
        (18, "s", range(2, 12)),
        (28, "t", range(3, 7)),
        (32, "ft", range(8)),
        (40, "fs0 fs1"),
        (42, "fa", range(8)),
        (50, "fs", range(2, 12)),
        (60, "ft", range(8, 12)),
        (96, "v", range(32)),
    ),
    **{4096 + number: CSR_NAMES.get(number, f"csr{number}") for number in range(4096)},
}

RISCV64 = Machine(
    name="riscv64",
    synonyms=("rv64",),
    elf_machines=(243,),
    bits=64,
    byte_order="little",
    names=_NAMES,
    aliases={"fp": 8, **{f"x{number}": number for number in range(32)}},
    stack_pointer=2,
    frame_pointer=8,
    return_address=1,
    link_register=1,
    # x0 is always zero.
    callee_saved=registers(0, 1, 3, 4, 8, 9, (18, 27), 40, 41, (50, 59)),
    code_alignment=2,
    readelf=_NAMES,
    readelf_names=8192,
)

RISCV32 = replace(RISCV64, name="riscv32", synonyms=("rv32", "riscv"), bits=32)
