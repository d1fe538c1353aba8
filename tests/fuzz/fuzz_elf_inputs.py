"""Small ELF files that fuzzing begins with, and ways to damage them that know where their tables are."""

from __future__ import annotations

from random import Random
from struct import pack
from typing import Literal

from clew.testing import Cfa, CfiBuilder, ElfBuilder, eh_frame_hdr

_NUMBERS = (0, 1, 2, 3, 7, 8, 0x7F, 0xFF, 0xFFFF, 0xFF00, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 63), (1 << 64) - 1)
_MACHINES = (62, 3, 183, 40, 243, 8, 43, 22, 21, 9999)


def small_file(random: Random) -> bytes:
    """A well-formed file with code, frames, symbols, a note and relocations; of any kind, class and byte order."""
    bits = random.choice((32, 64))
    order: Literal["little", "big"] = random.choice(("little", "little", "big"))
    relocatable = random.random() < 0.4
    elf = ElfBuilder(
        machine=random.choice(_MACHINES),
        bits=bits,
        byte_order=order,
        type=1 if relocatable else random.choice((2, 3)),
        section_headers=random.random() < 0.9,
        large_numbers=random.random() < 0.1,
    )
    at = 0x10000 + (64 + 56 * 3 if bits == 64 else 52 + 32 * 3)
    code = bytes(random.randrange(16, 48))
    elf.section(".text", code, address=at, executable=True)
    frames_at = at + len(code)
    cfi = CfiBuilder(byte_order=order, address_size=bits // 8, address=frames_at)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    for number in range(random.randrange(1, 4)):
        cfi.fde(cie, start=at + 8 * number, size=8, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(16)])
    frames = cfi.build()
    elf.section(".eh_frame", frames, address=frames_at)
    header = eh_frame_hdr(
        cfi.search_table(),
        address=frames_at + len(frames),
        eh_frame=frames_at,
        byte_order=order,
        address_size=bits // 8,
    )
    elf.section(".eh_frame_hdr", header, address=frames_at + len(frames))
    if random.random() < 0.3:
        elf.segment(0x6474E550, (".eh_frame_hdr",))
    if random.random() < 0.4:
        debug = CfiBuilder("debug_frame", byte_order=order, address_size=bits // 8)
        debug.fde(debug.cie(instructions=[Cfa.def_cfa(7, 8)]), start=at, size=16)
        elf.section(".debug_frame", debug.build(), compress=random.choice((None, "zlib", "zdebug")))
    for number in range(random.randrange(4)):
        elf.symbol(f"f{number}", 4 * number, size=4, section=".text", type=2, dynamic=random.random() < 0.3)
    elf.symbol("here", 0, section=".text", binding=0)
    elf.build_id(b"\xfe\xed\xbe\xef")
    if relocatable:
        name = random.choice((".rela.eh_frame", ".rel.eh_frame"))
        for number in range(random.randrange(1, 4)):
            elf.relocation(name, 32 + 8 * number, random.randrange(1, 12), "here", 0)
    return elf.build()


def mutated(random: Random, blob: bytes, other: bytes) -> bytes:
    """A damaged copy: mostly in the header and in the tables at the end, with whole fields replaced."""
    data = bytearray(blob)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        size = len(data)
        zone = random.randrange(4)
        # The header and the program headers; the section headers; anything.
        at = random.randrange(min(size, 232) + 1) if zone == 0 else random.randrange(size + 1)
        if zone == 1:
            at = max(size - random.randrange(1, 900), 0)
        match random.randrange(8):
            case 0 if at < size:
                data[at] ^= 1 << random.randrange(8)
            case 1 if at < size:
                data[at] = random.randrange(256)
            case 2 | 3:
                form, align = random.choice((("H", 2), ("I", 4), ("Q", 8)))
                width = int(align)
                at -= at % width
                number = random.choice((*_NUMBERS, size, size - 1, random.randrange(size + 1))) & ((1 << 8 * width) - 1)
                data[at : at + width] = pack(random.choice("<>") + str(form), number)
            case 4:
                del data[at : at + random.randrange(1, 9)]
            case 5 if random.random() < 0.3:
                del data[at:]
            case 6:
                begin = random.randrange(len(other) + 1)
                width = random.choice((4, 8, 24, 40, 56, 64))
                data[at : at + width] = other[begin : begin + width]
            case 7:
                begin = random.randrange(size + 1)
                data[at : at + 40] = data[begin : begin + 40]
            case _:
                pass
    return bytes(data)


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed files to begin with."""
    return [small_file(random) for _ in range(count)]
