"""Sections of call frame information that fuzzing begins with, and ways to damage them that know their shape."""

from __future__ import annotations

from random import Random
from typing import Literal

from clew.testing import MOTOROLA_88000, Cfa, CfiBuilder, Instruction, Op, eh_frame_hdr

#: Bytes that are more interesting than others: opcodes, LEB128 edges, pointer encodings, augmentation letters.
_BYTES = bytes.fromhex("0001020405070a0b0c0d0e0f10161b1d2b2c2d2e2f3b3f40417f8081909bc0ff") + b"zRLPSBGeh"
_LENGTHS = (0, 1, 3, 4, 5, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFEF, 0xFFFFFFFF)
_LEB = (b"\xff" * 9 + b"\x01", b"\x80" * 9 + b"\x7f", b"\xff" * 10 + b"\x01", b"\x80\x80\x00", b"\xff\xff\x7f")


def instruction(random: Random) -> Instruction:
    """One valid call frame instruction, mostly of the kinds that compilers write."""
    register, offset = random.choice((0, 3, 6, 7, 16, 30, 31, 40, 200)), random.randrange(0, 40)
    expression = random.choice((Op.breg(7, 8), Op.breg(6, -16) + Op.deref, Op.plus_uconst(8), Op.lit(3) + Op.plus, b""))
    choices: list[Instruction] = [
        Cfa.advance(random.choice((0, 1, 2, 5, 63, 64, 300, 70000))),
        Cfa.advance(random.randrange(1, 16)),
        Cfa.advance(random.randrange(1, 16)),
        Cfa.def_cfa(register, offset),
        Cfa.def_cfa_offset(8 * offset),
        Cfa.def_cfa_register(register),
        Cfa.offset(register & 31, offset),
        Cfa.restore(register & 31),
        Cfa.undefined(register),
        Cfa.same_value(register),
        Cfa.register(register, offset),
        Cfa.remember_state,
        Cfa.restore_state,
        Cfa.def_cfa_expression(expression),
        Cfa.expression(register, expression),
        Cfa.val_expression(register, expression),
        Cfa.val_offset(register, offset),
        Cfa.val_offset_sf(register, -offset),
        Cfa.offset_extended(register, offset),
        Cfa.offset_extended_sf(register, -offset),
        Cfa.def_cfa_sf(register, -offset),
        Cfa.def_cfa_offset_sf(-offset),
        Cfa.restore_extended(register),
        Cfa.gnu_args_size(offset),
        Cfa.gnu_negative_offset_extended(register, offset),
        Cfa.gnu_window_save,
        Cfa.aarch64_negate_ra_state_with_pc,
        Cfa.aarch64_set_ra_state(random.randrange(3), 0),
        Cfa.mips_advance_loc8(offset),
        Cfa.nop,
    ]
    return random.choice(choices)


def section(random: Random) -> bytes:
    """A well-formed section of a few entries, behind the two bytes that say how it is to be read."""
    kind: Literal["eh_frame", "debug_frame"] = random.choice(("eh_frame", "debug_frame"))
    machine = random.randrange(8)
    big = machine in (4, 5, 6, 7)
    size = 4 if machine in (2, 5, 7) else 8
    cfi = CfiBuilder(
        kind,
        byte_order="big" if big else "little",
        address_size=size,
        address=0x2000,
        dwarf64=random.random() < 0.1,
        text_base=0x1000,
        data_base=0x3000,
    )
    for _ in range(random.randrange(1, 3)):
        augmentation = random.choice(("", "zR", "zR", "zPLR", "zRS", "zRB", "zRX", "eh", "q"))
        cie = cfi.cie(
            version=random.choice((1, 3, 4)),
            augmentation=augmentation,
            code_alignment=random.choice((1, 1, 4)),
            data_alignment=random.choice((-8, -4, 1)),
            return_address=random.choice((16, 30, 1)),
            fde_encoding=random.choice((0x1B, 0x1B, 0x00, 0x03, 0x0C, 0x1C, 0x2B, 0x3B, 0x50, 0x01))
            if size == 8
            else 0x1B,
            lsda_encoding=0x1B if "L" in augmentation else None,
            personality=(0x9B, 0x1800) if "P" in augmentation else None,
            instructions=[
                Cfa.def_cfa(7, 8),
                Cfa.offset(16, 1),
                *(instruction(random) for _ in range(random.randrange(2))),
            ],
        )
        for _ in range(random.randrange(1, 4)):
            cfi.fde(
                cie,
                start=0x1000 + 16 * random.randrange(1, 16),
                size=random.choice((0, 1, 16, 40, 200)),
                lsda=0x1900 if random.random() < 0.5 else None,
                instructions=[instruction(random) for _ in range(random.randrange(12))],
            )
    if random.random() < 0.3:
        cfi.terminator()
    return bytes((machine | (8 if kind == "debug_frame" else 0), 4 | random.choice((0, 8)))) + cfi.build()


def header(random: Random) -> bytes:
    """A well-formed ``.eh_frame_hdr``."""
    pairs = [(0x1000 + 16 * n, 0x2118 + 32 * n) for n in range(random.randrange(5))]
    return b"\0\0" + eh_frame_hdr(pairs, address=0x2000, eh_frame=0x2100)


def mutated(random: Random, blob: bytes, other: bytes) -> bytes:
    """A damaged copy: flips, cuts, splices with another input, repeated parts, wrong lengths and numbers."""
    data = bytearray(blob)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        at = random.randrange(len(data) + 1)
        match random.randrange(9):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1 | 2 if at < len(data):
                data[at] = random.choice(_BYTES)
            case 3:
                del data[at:]
            case 4:
                del data[at : at + random.randrange(1, 9)]
            case 5:
                begin = random.randrange(len(other) + 1)
                data[at:at] = other[begin : begin + random.randrange(1, 60)]
            case 6:
                begin = random.randrange(len(data) + 1)
                data[at:at] = data[begin : begin + random.randrange(1, 60)]
            case 7:
                at = 2 + (at & ~3)
                data[at : at + 4] = random.choice(_LENGTHS).to_bytes(4, random.choice(("little", "big")))
            case 8:
                data[at : at + 1] = random.choice(_LEB)
            case _:
                pass
    return bytes(data)


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed inputs to begin with, the standard's example among them."""
    return [b"\x0f\0" + MOTOROLA_88000, header(random), *(section(random) for _ in range(count))]
