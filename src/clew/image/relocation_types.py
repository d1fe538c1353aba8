"""What each relocation type does to the bytes, machine by machine, as far as frames and debugging information use it.

The first table holds exactly the types that readelf (binutils 2.40) applies when it dumps such sections; the second
adds types that compilers use today and that are as simple. The numbers are those of the machines' ELF supplements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, NamedTuple

from clew.image.elf import (
    EM_68K,
    EM_386,
    EM_AARCH64,
    EM_ALPHA,
    EM_ARM,
    EM_LOONGARCH,
    EM_MIPS,
    EM_MSP430,
    EM_MSP430_OLD,
    EM_PARISC,
    EM_PPC,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
    EM_SH,
    EM_SPARC,
    EM_SPARC32PLUS,
    EM_SPARCV9,
    EM_X86_64,
)

ULEB128: Final = 0
"""In place of a width: the field is a ULEB128 number and keeps its length."""


class Kind(NamedTuple):
    """How a relocated field is computed, from S the symbol's value, A the addend, P the place, V the field before.

    Attributes:
        operation: ``absolute`` S + A, ``relative`` S + A − P, ``add`` V + S + A, ``subtract`` V − S − A.
        bits: the field's width, from its first byte on. A width that is no multiple of 8 leaves the remaining high bits
            of its bytes alone.
    """

    operation: Literal["absolute", "relative", "add", "subtract"]
    bits: int

    @property
    def size(self) -> int:
        """Bytes that the field takes."""
        return (self.bits + 7) // 8


class _Row(NamedTuple):
    machines: tuple[int, ...]
    absolute: dict[int, int] = {}  # noqa: RUF012 - never changed
    relative: dict[int, int] = {}  # noqa: RUF012
    add: dict[int, int] = {}  # noqa: RUF012
    subtract: dict[int, int] = {}  # noqa: RUF012
    ignored: tuple[int, ...] = ()


_READELF: Final = (
    # Machines whose ABI somebody may still meet under Linux.
    _Row((EM_386, 6), {1: 32}, {2: 32}),
    _Row((EM_68K,), {1: 32}, {4: 32}),
    _Row((EM_AARCH64,), {1: 32, 258: 32, 257: 64}, {261: 32, 260: 64}, ignored=(256,)),
    _Row((EM_ALPHA,), {1: 32, 2: 64}, {10: 32, 11: 64}),
    _Row((EM_ARM,), {2: 32}, {3: 32}),
    _Row((EM_LOONGARCH,), {1: 32, 2: 64}, {99: 32}),
    _Row((EM_MIPS,), {2: 32, 18: 64}),
    _Row((EM_PARISC,), {1: 32, 2: 32, 41: 32, 80: 64}, {9: 32, 72: 64}),
    _Row((EM_PPC,), {1: 32}, {26: 32}),
    _Row((EM_PPC64,), {1: 32, 38: 64}, {26: 32, 44: 64}),
    _Row(
        (EM_RISCV,),
        {1: 32, 2: 64, 53: 6, 54: 8, 55: 16},
        {57: 32},
        {33: 8, 34: 16, 35: 32, 36: 64},
        {37: 8, 38: 16, 39: 32, 40: 64, 52: 6},
    ),
    _Row((EM_S390, 0xA390), {4: 32, 22: 64}, {5: 32, 23: 64}),
    _Row((EM_SH,), {1: 32}, {2: 32}),
    _Row((EM_SPARC, EM_SPARC32PLUS, EM_SPARCV9), {3: 32, 23: 32, 32: 64, 54: 64}, {6: 32, 46: 64}),
    _Row((EM_X86_64, 180, 181), {1: 64, 10: 32}, {2: 32, 24: 64}),
    # Embedded and historical machines, by name: ARC … Z80.
    _Row((45,), {1: 32, 2: 16}),
    _Row((93, 195), {4: 32, 2: 16}, {49: 32}),
    _Row((83, 0x1057), {1: 32, 4: 16}, {36: 32}, ignored=(30, 31, 32)),
    _Row((106,), {0x12: 32}),  # Blackfin
    _Row((247,), {11: 32}),  # BPF
    _Row((177,), {3: 32}),  # CR16
    _Row((76,), {3: 32}),  # CRIS
    _Row((114,), {15: 32}),  # CRX
    _Row((252,), {1: 32}),  # C-SKY
    _Row((85, 0x7650), {6: 32, 3: 16}),  # D10V
    _Row((86, 0x7676), {12: 32}),  # D30V
    _Row((0x5AA5,), {3: 32}),  # DLX
    _Row((0x1223,), {3: 32, 5: 16}, {6: 32}),  # Epiphany
    _Row((84, 0x3330), {3: 32}),  # FR30
    _Row((0x5441,), {1: 32}),  # FRV
    _Row((222,), {1: 32, 2: 16, 5: 24}),  # FT32
    _Row((46, 47, 48), {1: 32, 17: 16}),  # H8/300
    _Row((7,), {1: 32}),  # i860
    _Row((19,), {2: 32}),  # i960
    _Row((50,), {0x24: 32, 0x25: 32, 0x64: 32, 0x65: 32, 0x26: 64, 0x27: 64}, {0x4E: 64, 0x4F: 64}),  # IA-64
    _Row((101, 0x8217), {2: 32, 1: 16}),  # IP2K
    _Row((0xFEBA,), {2: 32}),  # IQ2000
    _Row((138,), {3: 32}),  # LatticeMico32
    _Row((120, 0xFEB0), {3: 32, 1: 16}),  # M32C
    _Row((88,), {34: 32}),  # M32R
    _Row((70, 53), {6: 32}),  # 68HC11, 68HC12
    _Row((39,), {1: 32}),  # MCore
    _Row((0xF00D,), {4: 32}),  # MeP
    _Row((174,), {2: 32}, ignored=(3,)),  # Meta
    _Row((189,), {1: 32}, {2: 32}),  # MicroBlaze
    _Row((80,), {4: 32}),  # MMIX
    _Row((90, 0xDEAD), {1: 32, 2: 16, 4: 24}),  # MN10200
    _Row((89, 0xBEEF), {1: 32, 2: 16}, ignored=(34,)),  # MN10300
    _Row((223,), {1: 32}),  # Moxie
    _Row((EM_MSP430, EM_MSP430_OLD), {1: 32, 5: 16}),
    _Row((0x2530,), {2: 32}),  # MT
    _Row((167,), {20: 32, 19: 16}, ignored=(205, 206, 207, 208)),  # NDS32
    _Row((113,), {12: 32, 13: 16}),  # Nios II
    _Row((0xFEBB,), {1: 32, 9: 16}),  # Nios
    _Row((92,), {1: 32, 2: 16}, {9: 32}),  # OpenRISC
    _Row((91, 99), {1: 32}),  # picoJava
    _Row((144,), {11: 32, 8: 16}, ignored=(65, 66, 67)),  # PRU
    _Row((197,), {1: 32}),  # RL78
    _Row((173,), {1: 32}),  # RX
    _Row((0x4DEF,), {6: 32, 7: 32}),  # S12Z
    _Row((9,), {1: 32}),  # System/370
    _Row((135,), {8: 32}),  # Score
    _Row((23,), {6: 32}, {13: 32}),  # SPU
    _Row((140,), {1: 32, 2: 16}),  # TMS320C6000
    _Row((191,), {2: 32, 1: 64}, {6: 32, 5: 64}),  # TILE-Gx
    _Row((188,), {1: 32}, {4: 32}),  # TILEPro
    _Row((36,), {0x33: 32}),  # V800
    _Row((87, 0x9080), {6: 32}),  # V850
    _Row((75,), {1: 32}, {4: 32}),  # VAX
    _Row((221,), {3: 32, 2: 16}, {6: 32}),  # Visium
    _Row((0x4157,), {1: 32}),  # WebAssembly
    _Row((115,), {4: 32, 3: 16}),  # XGATE
    _Row((0xAD45,), {1: 32}),  # Xstormy16
    _Row((94, 0xABC7), {1: 32}, {14: 32}, ignored=(17, 18, 19, 57, 58, 59, 60, 61, 62)),  # Xtensa
    _Row((220,), {6: 32, 5: 24, 4: 16, 1: 8}),  # Z80
)

_FURTHER: Final = (
    _Row((EM_386,), {20: 16, 22: 8}, {21: 16, 23: 8}),
    _Row((EM_AARCH64,), {259: 16}, {262: 16}),
    # PREL31 makes .ARM.exidx; TARGET1 is ABS32 under Linux (ELF for the Arm Architecture, "Relocation types").
    _Row((EM_ARM,), {5: 16, 8: 8, 38: 32}, {42: 31}),
    _Row(
        (EM_LOONGARCH,),
        {},
        {109: 64},
        {47: 8, 48: 16, 49: 24, 50: 32, 51: 64, 105: 6, 107: ULEB128},
        {52: 8, 53: 16, 54: 24, 55: 32, 56: 64, 106: 6, 108: ULEB128},
        ignored=(100,),
    ),
    _Row((EM_MIPS,), {}, {248: 32}),
    _Row((EM_PPC,), {3: 16, 24: 32}),
    _Row((EM_PPC64,), {3: 16, 24: 32, 43: 64}),
    _Row((EM_RISCV,), {56: 32, 60: ULEB128}, {59: 32}, {}, {61: ULEB128}, ignored=(51,)),
    _Row((EM_S390,), {1: 8, 3: 16}, {16: 16}),
    _Row((EM_SPARC, EM_SPARC32PLUS, EM_SPARCV9), {1: 8, 2: 16, 55: 16}, {4: 8, 5: 16}),
    _Row((EM_X86_64,), {11: 32, 12: 16, 14: 8}, {4: 32, 13: 16, 15: 8}),
)


@lru_cache
def kinds(machine: int, *, further: bool, msp430x: bool = False) -> dict[int, Kind | None]:
    """What is known of a machine's relocation types; None for those that leave the bytes alone.

    Args:
        further: also the types that readelf does not apply.
        msp430x: for MSP430, whether the file uses the numbers of the MSP430X.
    """
    known: dict[int, Kind | None] = {0: None}
    for row in (*_READELF, *(_FURTHER if further else ())):
        if machine in row.machines:
            known.update({number: Kind("absolute", bits) for number, bits in row.absolute.items()})
            known.update({number: Kind("relative", bits) for number, bits in row.relative.items()})
            known.update({number: Kind("add", bits) for number, bits in row.add.items()})
            known.update({number: Kind("subtract", bits) for number, bits in row.subtract.items()})
            known.update(dict.fromkeys(row.ignored))
    if machine == EM_MSP430 and msp430x:
        del known[5]
        known[2] = Kind("absolute", 16)
    return known


def adds_field(machine: int, number: int) -> bool:
    """Whether a type adds what the field holds to the addend of the relocation, as REL relocations do without one."""
    return number == {94: 1, 91: 1, 99: 1, 86: 12, 0x7676: 12}.get(machine)  # Xtensa, picoJava, D30V
