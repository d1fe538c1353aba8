"""How to undo the frames of the code that is written: its own ``.eh_frame`` and ``.eh_frame_hdr`` (LSB 5.0, chapter 10.6).

A compiled unwinder may be interrupted, by a profiler's signal or a fault, and whoever calls from its parameter walks through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from struct import pack

from clew.write.assembler.code import uleb

HELPERS = "helpers"
"""The label from which on there are functions that the bodies call."""

REMEMBER, RESTORE = b"\x0a", b"\x0b"

#: The DWARF numbers of the machine's registers.
_DWARF = (0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15)

_CIE = pack("<IBBBBBBBB", 0, 1, ord("z"), ord("R"), 0, 1, 0x78, 16, 1) + bytes([0x1B, 0x0C, 7, 8, 0x90, 1])


def def_cfa(register: int, offset: int) -> bytes:
    """The CFA is a register of the machine plus an offset."""
    return b"\x0c" + uleb(_DWARF[register]) + uleb(offset)


def saved(register: int, below: int) -> bytes:
    """A register is on the stack, so many bytes below the CFA."""
    return bytes([0x80 | _DWARF[register]]) + uleb(below // 8)


def same_value(register: int) -> bytes:
    """A register has its caller's value."""
    return b"\x08" + uleb(_DWARF[register])


def eh_frame(frames: Sequence[tuple[int, bytes]], ends: Sequence[int], text: int) -> bytes:
    """The section.

    Args:
        frames: positions in the code, sorted, with the instructions that hold from there on.
        ends: where functions begin and end, in the code.
        text: how far the code is behind the section.
    """
    out = bytearray(_entry(_CIE))
    for start, end in pairwise(ends):
        place = len(out) + 4
        program = bytearray()
        at = start
        for position, instruction in frames:
            if start <= position < end:
                program += _advance(position - at) + instruction
                at = position
        out += _entry(pack("<IiIB", place, text + start - place - 4, end - start, 0) + program)
    return bytes(out) + bytes(4)


def _entry(body: bytes) -> bytes:
    body += bytes(-(len(body) + 4) % 8)
    return pack("<I", len(body)) + body


def _advance(distance: int) -> bytes:
    if not distance:
        return b""
    if distance < 64:
        return bytes([0x40 | distance])
    for code, size in ((2, 1), (3, 2)):
        if distance < 1 << 8 * size:
            return bytes([code]) + distance.to_bytes(size, "little")
    return b"\x04" + distance.to_bytes(4, "little")


def eh_frame_hdr(section: bytes, ends: Sequence[int], frames: int, text: int) -> bytes:
    """The search table of a section that :func:`eh_frame` made.

    Args:
        frames, text: how far the section and the code are behind the search table.
    """
    count = len(ends) - 1
    out = pack("<BBBBiI", 1, 0x1B, 0x03, 0x3B, frames - 4, count)
    place = int.from_bytes(section[:4], "little") + 4
    for start in ends[:-1]:
        out += pack("<ii", text + start, frames + place)
        place += int.from_bytes(section[place : place + 4], "little") + 4
    return out
