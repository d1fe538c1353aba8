"""The bytes of call frame instructions and of DWARF expressions, by name.

Operands are what stands in the file: a factored offset is given factored, so that each byte of the result can be seen
in the call. What takes no operand is a constant. Almost everything is plain ``bytes``; only what depends on byte order
or on its own place (``advance_loc2``, ``set_loc``, …) is a :class:`Late`, which the builder encodes when it places it.

Sources: DWARF 5, 6.4.2 and 7.24 (instructions), 2.5 and 7.7.1 (expressions); LSB 5, 10.5.1 (GNU instructions); Arm's
"DWARF for the Arm 64-bit Architecture", 4.4; the MIPS one from binutils' ``include/dwarf2.def``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

ByteOrder = Literal["little", "big"]


def uleb(value: int, *, size: int = 0) -> bytes:
    """An unsigned LEB128 number (DWARF 5, 7.6), padded with redundant bytes up to ``size``.

    >>> uleb(624485).hex()
    'e58e26'
    >>> uleb(5, size=3).hex()
    '858000'
    """
    if value < 0:
        raise ValueError(f"{value} is negative: an unsigned LEB128 number is not")
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    while len(result) < size:
        result[-1] |= 0x80
        result.append(0)
    return bytes(result)


def sleb(value: int, *, size: int = 0) -> bytes:
    """A signed LEB128 number (DWARF 5, 7.6), padded with redundant bytes up to ``size``.

    >>> sleb(-8).hex(), sleb(64).hex()
    ('78', 'c000')
    """
    result = bytearray()
    while not -64 <= value < 64:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value & 0x7F)
    while len(result) < size:
        result[-1] |= 0x80
        result.append(0x7F if value < 0 else 0)
    return bytes(result)


def fixed(value: int, size: int, byte_order: ByteOrder = "little") -> bytes:
    """A number of ``size`` bytes; a negative one in two's complement. ``ValueError`` when it does not fit.

    >>> fixed(-2, 2).hex(), fixed(0x1234, 2, "big").hex()
    ('feff', '1234')
    """
    if not -(1 << 8 * size) >> 1 <= value < 1 << 8 * size:
        raise ValueError(f"{value:#x} does not fit into {size} bytes")
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, byte_order)


@dataclass(frozen=True, slots=True)
class Late:
    """An instruction whose operand is encoded when its place is known.

    Attributes:
        opcode: its byte.
        value: the operand.
        size: bytes of the operand in the section's byte order; None for an address in the encoding of the FDE.
    """

    opcode: int
    value: int
    size: int | None


#: One call frame instruction; raw bytes are as good as a named one.
Instruction = bytes | Late


def _low(opcode: int, operand: int, what: str) -> bytes:
    """An instruction that keeps its operand in its low six bits."""
    if not 0 <= operand < 64:
        raise ValueError(f"{what} {operand} does not fit into six bits")
    return bytes((opcode | operand,))


def _block(expression: bytes) -> bytes:
    return uleb(len(expression)) + expression


class Cfa:
    """Call frame instructions (DWARF 5, 6.4.2), each as its bytes.

    >>> [Cfa.def_cfa(7, 8).hex(), Cfa.offset(16, 1).hex(), Cfa.remember_state.hex()]
    ['0c0708', '9001', '0a']
    """

    nop: Final = b"\x00"
    remember_state: Final = b"\x0a"
    restore_state: Final = b"\x0b"
    #: SPARC: all window registers are saved. AArch64 gives the same byte to :attr:`aarch64_negate_ra_state`.
    gnu_window_save: Final = b"\x2d"
    #: The return address becomes signed, or ceases to be.
    aarch64_negate_ra_state: Final = b"\x2d"
    #: The same, with the pc of this place as a second modifier (FEAT_PAuth_LR; deprecated by its successor 0x2b).
    aarch64_negate_ra_state_with_pc: Final = b"\x2c"

    @staticmethod
    def advance(delta: int) -> Instruction:
        """Moves on by a factored delta, in the shortest form that holds it (none: DWARF has no wider than 4 bytes)."""
        if delta < 64:
            return Cfa.advance_loc(delta)
        if delta < 1 << 8:
            return Cfa.advance_loc1(delta)
        return Cfa.advance_loc2(delta) if delta < 1 << 16 else Cfa.advance_loc4(delta)

    @staticmethod
    def advance_loc(delta: int) -> bytes:
        """Factored delta in the low six bits."""
        return _low(0x40, delta, "the delta")

    @staticmethod
    def advance_loc1(delta: int) -> bytes:
        """Factored delta of one byte."""
        return b"\x02" + fixed(delta, 1)

    @staticmethod
    def advance_loc2(delta: int) -> Late:
        """Factored delta of two bytes."""
        return Late(0x03, delta, 2)

    @staticmethod
    def advance_loc4(delta: int) -> Late:
        """Factored delta of four bytes."""
        return Late(0x04, delta, 4)

    @staticmethod
    def mips_advance_loc8(delta: int) -> Late:
        """Factored delta of eight bytes; MIPS only."""
        return Late(0x1D, delta, 8)

    advance_loc8 = mips_advance_loc8

    @staticmethod
    def set_loc(address: int) -> Late:
        """Moves to an address, encoded like the start of the FDE it stands in."""
        return Late(0x01, address, None)

    @staticmethod
    def def_cfa(register: int, offset: int) -> bytes:
        """CFA = register + offset, not factored."""
        return b"\x0c" + uleb(register) + uleb(offset)

    @staticmethod
    def def_cfa_sf(register: int, factored: int) -> bytes:
        """CFA = register + factored * data alignment."""
        return b"\x12" + uleb(register) + sleb(factored)

    @staticmethod
    def def_cfa_register(register: int) -> bytes:
        """CFA = register + the offset that was in force."""
        return b"\x0d" + uleb(register)

    @staticmethod
    def def_cfa_offset(offset: int) -> bytes:
        """CFA = the register that was in force + offset, not factored."""
        return b"\x0e" + uleb(offset)

    @staticmethod
    def def_cfa_offset_sf(factored: int) -> bytes:
        """CFA = the register that was in force + factored * data alignment."""
        return b"\x13" + sleb(factored)

    @staticmethod
    def def_cfa_expression(expression: bytes) -> bytes:
        """CFA = the value of an expression, which starts with an empty stack."""
        return b"\x0f" + _block(expression)

    @staticmethod
    def undefined(register: int) -> bytes:
        """The register is lost."""
        return b"\x07" + uleb(register)

    @staticmethod
    def same_value(register: int) -> bytes:
        """The register was not changed."""
        return b"\x08" + uleb(register)

    @staticmethod
    def offset(register: int, factored: int) -> bytes:
        """Saved at CFA + factored * data alignment; the register stands in the low six bits."""
        return _low(0x80, register, "the register") + uleb(factored)

    @staticmethod
    def offset_extended(register: int, factored: int) -> bytes:
        """:meth:`offset` for any register number."""
        return b"\x05" + uleb(register) + uleb(factored)

    @staticmethod
    def offset_extended_sf(register: int, factored: int) -> bytes:
        """:meth:`offset` for any register number and a signed factored offset."""
        return b"\x11" + uleb(register) + sleb(factored)

    @staticmethod
    def gnu_negative_offset_extended(register: int, factored: int) -> bytes:
        """Saved at CFA - factored * data alignment; obsolete (LSB 5, 10.5.1)."""
        return b"\x2f" + uleb(register) + uleb(factored)

    @staticmethod
    def val_offset(register: int, factored: int) -> bytes:
        """The register is CFA + factored * data alignment."""
        return b"\x14" + uleb(register) + uleb(factored)

    @staticmethod
    def val_offset_sf(register: int, factored: int) -> bytes:
        """The register is CFA + factored * data alignment, signed."""
        return b"\x15" + uleb(register) + sleb(factored)

    @staticmethod
    def register(register: int, other: int) -> bytes:
        """The register is kept in another."""
        return b"\x09" + uleb(register) + uleb(other)

    @staticmethod
    def expression(register: int, expression: bytes) -> bytes:
        """Saved at the address that an expression computes; it starts with the CFA on its stack."""
        return b"\x10" + uleb(register) + _block(expression)

    @staticmethod
    def val_expression(register: int, expression: bytes) -> bytes:
        """The register is the value of an expression; it starts with the CFA on its stack."""
        return b"\x16" + uleb(register) + _block(expression)

    @staticmethod
    def restore(register: int) -> bytes:
        """Back to the rule of the CIE; the register stands in the low six bits."""
        return _low(0xC0, register, "the register")

    @staticmethod
    def restore_extended(register: int) -> bytes:
        """:meth:`restore` for any register number."""
        return b"\x06" + uleb(register)

    @staticmethod
    def gnu_args_size(size: int) -> bytes:
        """Bytes of arguments that were pushed and are not popped when an exception passes."""
        return b"\x2e" + uleb(size)

    @staticmethod
    def aarch64_set_ra_state(state: int, factored: int) -> bytes:
        """The signing state of the return address: 0 not signed, 1 with SP, 2 with SP and pc; and, for 2, where the
        signing instruction stands: a signed factored offset from here (ULEB128, SLEB128)."""
        return b"\x2b" + uleb(state) + sleb(factored)


class Op:
    """Operations of DWARF expressions (DWARF 5, 2.5), each as its bytes; add them up to an expression.

    The rule of a PLT entry on x86-64, ``rsp + 8 + (((rip & 15) >= 11) << 3)``:

    >>> plt = Op.breg(7, 8) + Op.breg(16, 0) + Op.lit(15) + Op.and_ + Op.lit(11) + Op.ge + Op.lit(3) + Op.shl + Op.plus
    >>> plt.hex()
    '770880003f1a3b2a332422'
    """

    deref, dup, drop, over = b"\x06", b"\x12", b"\x13", b"\x14"
    swap, rot, xderef, abs, and_, div, minus, mod, mul = (bytes((code,)) for code in range(0x16, 0x1F))
    neg, not_, or_, plus = (bytes((code,)) for code in range(0x1F, 0x23))
    shl, shr, shra, xor = (bytes((code,)) for code in range(0x24, 0x28))
    eq, ge, gt, le, lt, ne = (bytes((code,)) for code in range(0x29, 0x2F))
    nop, push_object_address, call_frame_cfa, stack_value = b"\x96", b"\x97", b"\x9c", b"\x9f"

    @staticmethod
    def addr(address: int, size: int = 8, byte_order: ByteOrder = "little") -> bytes:
        """An address of the target's size."""
        return b"\x03" + fixed(address, size, byte_order)

    @staticmethod
    def const(value: int, size: int, *, signed: bool = False, byte_order: ByteOrder = "little") -> bytes:
        """``DW_OP_const1u`` to ``const8s``, by size (1, 2, 4, 8) and sign."""
        return bytes((0x08 + 2 * (1, 2, 4, 8).index(size) + signed,)) + fixed(value, size, byte_order)

    @staticmethod
    def constu(value: int) -> bytes:
        """An unsigned LEB128 constant."""
        return b"\x10" + uleb(value)

    @staticmethod
    def consts(value: int) -> bytes:
        """A signed LEB128 constant."""
        return b"\x11" + sleb(value)

    @staticmethod
    def lit(value: int) -> bytes:
        """A constant from 0 to 31."""
        return bytes((0x30 + range(32).index(value),))

    @staticmethod
    def pick(index: int) -> bytes:
        """A copy of the entry at an index, 0 being the top."""
        return b"\x15" + fixed(index, 1)

    @staticmethod
    def plus_uconst(value: int) -> bytes:
        """Adds an unsigned constant."""
        return b"\x23" + uleb(value)

    @staticmethod
    def bra(delta: int, byte_order: ByteOrder = "little") -> bytes:
        """Jumps by a signed 16-bit delta, counted from behind it, if the top is not zero."""
        return b"\x28" + fixed(delta, 2, byte_order)

    @staticmethod
    def skip(delta: int, byte_order: ByteOrder = "little") -> bytes:
        """Jumps by a signed 16-bit delta, counted from behind it."""
        return b"\x2f" + fixed(delta, 2, byte_order)

    @staticmethod
    def reg(register: int) -> bytes:
        """Names register 0 to 31; a location, without meaning in call frame information."""
        return bytes((0x50 + range(32).index(register),))

    @staticmethod
    def regx(register: int) -> bytes:
        """Names any register."""
        return b"\x90" + uleb(register)

    @staticmethod
    def breg(register: int, offset: int) -> bytes:
        """The value of register 0 to 31 plus an offset."""
        return bytes((0x70 + range(32).index(register),)) + sleb(offset)

    @staticmethod
    def bregx(register: int, offset: int) -> bytes:
        """The value of any register plus an offset."""
        return b"\x92" + uleb(register) + sleb(offset)

    @staticmethod
    def deref_size(size: int) -> bytes:
        """Loads ``size`` bytes, zero-extended."""
        return b"\x94" + fixed(size, 1)
