"""How many bytes a register has: what a load that fills it must read."""

from __future__ import annotations

from collections.abc import Mapping

from clew.arch import Machine

# (first, last, bytes) for registers that are not as wide as an address; None for those whose width is not fixed.
_Widths = tuple[tuple[int, int, int | None], ...]

_AMD64: _Widths = ((17, 32, 16), (33, 40, 10), (41, 48, 8), (67, 82, 16), (118, 125, 8))
_ALL: Mapping[str, _Widths] = {
    "x86-64": _AMD64,
    "x32": ((0, 16, 8), *_AMD64),
    "i386": ((11, 18, 10), (21, 28, 16), (29, 36, 8), (93, 100, 8)),
    # Scalable predicates and vectors; below them, of v0 to v31 the low half counts (aadwarf64, note 5).
    "aarch64": ((47, 63, None), (96, 127, None)),
    "aarch64-ilp32": ((0, 30, 8), (47, 63, None), (64, 95, 8), (96, 127, None)),
    "arm": ((96, 103, 12), (104, 127, 8), (256, 287, 8)),
    "riscv64": ((96, 127, None),),
    # The registers of the D extension, which every ABI that Linux has uses.
    "riscv32": ((32, 63, 8), (96, 127, None)),
    "powerpc64": ((77, 108, 16), (1124, 1155, 16)),
    "powerpc": ((32, 63, 8), (77, 108, 16), (1124, 1155, 16)),
    "s390x": ((68, 83, 16),),
    "s390": ((16, 31, 8), (68, 83, 16)),
}


def register_width(machine: Machine, register: int) -> int | None:
    """Bytes in a register; as many as an address has unless it is one of the others. None where it varies.

    >>> from clew.arch import machine_named
    >>> [register_width(machine_named("x86-64"), number) for number in (6, 17)]
    [8, 16]
    """
    for first, last, width in _ALL.get(machine.name, ()):
        if first <= register <= last:
            return width
    return machine.address_size
