"""Call frame information with known answers, out of the standards."""

from __future__ import annotations

from typing import Final

from clew.testing.cfi import CfiBuilder
from clew.testing.cfi_instructions import Cfa

#: The ``.debug_frame`` section of DWARF 4, appendix D.6, figures 64 and 65, with ``foo`` at 0x1000, big-endian.
MOTOROLA_88000: Final = bytes.fromhex(
    "00000024 ffffffff 04 00 04 00 04 7c 08 0c0700 0800 0701 0702 0703 0804 0805 0806 0807 090801 000000"
    "00000028 00000000 00001000 00000054 41 0e0c 41 8801 41 8602 41 0d06 41 8403 4c c4 41 c6 0d07 41 c8 41 0e00 0000"
)

#: Its rows, from the standard's table: offset in ``foo``; CFA; the rules of R0 to R8, R8 being the return address.
#: ``s`` same value, ``u`` undefined, ``c-8`` saved at CFA - 8, ``r1`` in register 1. The table calls R7 architectural;
#: the bytes say same value. Of +20 to +64 only the first is a row, for nothing changes between them.
MOTOROLA_88000_ROWS: Final = (
    (0, "R7+0", ("s", "u", "u", "u", "s", "s", "s", "s", "r1")),
    (4, "R7+12", ("s", "u", "u", "u", "s", "s", "s", "s", "r1")),
    (8, "R7+12", ("s", "u", "u", "u", "s", "s", "s", "s", "c-4")),
    (12, "R7+12", ("s", "u", "u", "u", "s", "s", "c-8", "s", "c-4")),
    (16, "R6+12", ("s", "u", "u", "u", "s", "s", "c-8", "s", "c-4")),
    (20, "R6+12", ("s", "u", "u", "u", "c-12", "s", "c-8", "s", "c-4")),
    (68, "R6+12", ("s", "u", "u", "u", "s", "s", "c-8", "s", "c-4")),
    (72, "R7+12", ("s", "u", "u", "u", "s", "s", "s", "s", "c-4")),
    (76, "R7+12", ("s", "u", "u", "u", "s", "s", "s", "s", "r1")),
    (80, "R7+0", ("s", "u", "u", "u", "s", "s", "s", "s", "r1")),
)


def motorola_88000() -> CfiBuilder:
    """The same section as calls of the builder: an imaginary machine "of the Motorola 88000's kind" (DWARF 4, D.6).

    R1 has the return address on entry, R6 is the frame pointer, R7 the stack pointer, R8 the return address column.

    >>> motorola_88000().build() == MOTOROLA_88000
    True
    """
    cfi = CfiBuilder("debug_frame", byte_order="big", address_size=4)
    cie = cfi.cie(
        version=4,
        code_alignment=4,
        data_alignment=-4,
        return_address=8,
        instructions=[
            Cfa.def_cfa(7, 0),
            Cfa.same_value(0),
            Cfa.undefined(1),
            Cfa.undefined(2),
            Cfa.undefined(3),
            Cfa.same_value(4),
            Cfa.same_value(5),
            Cfa.same_value(6),
            Cfa.same_value(7),
            Cfa.register(8, 1),
        ],
    )
    cfi.fde(
        cie,
        start=0x1000,
        size=84,
        instructions=[
            Cfa.advance(1),
            Cfa.def_cfa_offset(12),
            Cfa.advance(1),
            Cfa.offset(8, 1),
            Cfa.advance(1),
            Cfa.offset(6, 2),
            Cfa.advance(1),
            Cfa.def_cfa_register(6),
            Cfa.advance(1),
            Cfa.offset(4, 3),
            Cfa.advance(12),
            Cfa.restore(4),
            Cfa.advance(1),
            Cfa.restore(6),
            Cfa.def_cfa_register(7),
            Cfa.advance(1),
            Cfa.restore(8),
            Cfa.advance(1),
            Cfa.def_cfa_offset(0),
        ],
    )
    return cfi
