"""DWARF expressions as GNU readelf 2.40 writes them inside a listing of call frame instructions.

Operations are separated by "; ". What readelf does not know, and what makes no sense without a compilation unit, ends
the expression. Numbers that the data cut short are made of the bytes that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

# Operands: small letters are signed numbers and capitals unsigned ones, of 1 (b), 2 (h), 4 (w) and 8 (q) bytes; U and
# S are LEB128; A is an address in hexadecimal; R a LEB128 register with its name behind it; X, O (4 bytes), o and i
# (signed, 2 and 4 bytes) are offsets in hexadecimal; V is a block behind a LEB128 length, C one behind a length of
# one byte.
_OPERATIONS: dict[int, tuple[str, str]] = {
    0x03: ("addr: {}", "A"),
    0x06: ("deref", ""),
    0x08: ("const1u: {}", "B"),
    0x09: ("const1s: {}", "b"),
    0x0A: ("const2u: {}", "H"),
    0x0B: ("const2s: {}", "h"),
    0x0C: ("const4u: {}", "W"),
    0x0D: ("const4s: {}", "w"),
    0x0E: ("const8u: {}", "Q"),
    0x0F: ("const8s: {}", "q"),
    0x10: ("constu: {}", "U"),
    0x11: ("consts: {}", "S"),
    0x15: ("pick: {}", "B"),
    0x23: ("plus_uconst: {}", "U"),
    0x28: ("bra: {}", "h"),
    0x2F: ("skip: {}", "h"),
    0x90: ("regx: {}", "R"),
    0x91: ("fbreg: {}", "S"),
    0x92: ("bregx: {} {}", "RS"),
    0x93: ("piece: {}", "U"),
    0x94: ("deref_size: {}", "B"),
    0x95: ("xderef_size: {}", "B"),
    0x98: ("call2: <{}>", "o"),
    0x99: ("call4: <{}>", "i"),
    0x9D: ("bit_piece: size: {} offset: {} ", "UU"),
    0x9E: ("implicit_value", "V"),
    0xA1: ("addrx <{}>", "X"),
    0xE0: ("GNU_push_tls_address or DW_OP_HP_unknown", ""),
    0xFA: ("GNU_parameter_ref: <{}>", "O"),
    0xFB: ("GNU_addr_index <{}>", "X"),
    0xFC: ("GNU_const_index <{}>", "X"),
}
_PLAIN = {
    0x12: "dup drop over",
    0x16: "swap rot xderef abs and div minus mod mul neg not or plus",
    0x24: "shl shr shra xor",
    0x29: "eq ge gt le lt ne",
    0x96: "nop push_object_address",
    0x9B: "form_tls_address call_frame_cfa",
    0x9F: "stack_value",
    0xE1: "HP_is_value HP_fltconst4 HP_fltconst8 HP_mod_range HP_unmod_range HP_tls",
    0xF0: "GNU_uninit",
    0xF8: "PGI_omp_thread_num",
}
# Standard since DWARF 5, GNU's before that.
_TYPED = (
    (0xA4, 0xF4, "const_type: <{}> ", "XC"),
    (0xA5, 0xF5, "regval_type: {} <{}>", "RX"),
    (0xA6, 0xF6, "deref_type: {} <{}>", "BX"),
    (0xA8, 0xF7, "convert <{}>", "X"),
    (0xA9, 0xF9, "reinterpret <{}>", "X"),
)
for _first, _names in _PLAIN.items():
    _OPERATIONS.update((_first + _place, (_name, "")) for _place, _name in enumerate(_names.split()))
for _standard, _gnu, _text, _operands in _TYPED:
    _OPERATIONS[_standard] = (_text, _operands)
    _OPERATIONS[_gnu] = ("GNU_" + _text, _operands)

_SENSELESS = {
    0x9A: "call_ref",
    0xA0: "implicit_pointer",
    0xF2: "GNU_implicit_pointer",
    0xFD: "GNU_variable_value",
}
_ENTRY_VALUE = {0xA3: "entry_value", 0xF3: "GNU_entry_value"}
_ENCODED_ADDRESS = 0xF1

_SIZES = {"b": 1, "h": 2, "w": 4, "q": 8}
_WIDTHS = {2: 2, 3: 4, 4: 8}
_64_BITS = (1 << 64) - 1
_BLOCK_PIECE = 4096


def _hexadecimal(value: int) -> str:
    """As C's ``%#x``: zero has no prefix."""
    return f"{value & _64_BITS:#x}" if value else "0"


class ExpressionText:
    """Writes the expressions of one section.

    Args:
        data: the section's bytes.
        address: where it is loaded; encoded addresses may be relative to that.
        big: big-endian.
        name: the name of a register, by its number's low 32 bits; ``rN`` where it has none.
    """

    def __init__(self, data: bytes | memoryview, address: int, big: bool, name: Callable[[int], str]) -> None:
        self._data = data
        self._address = address
        self._order: Literal["big", "little"] = "big" if big else "little"
        self._name = name
        self._pos = 0
        self._end = 0
        self._block = 0
        self._address_size = 8
        self._cache: dict[tuple[bytes, int], bytes] = {}

    def pieces(self, at: int, length: int, address_size: int) -> Iterator[bytes]:
        """The text of the expression at an offset of the section, in pieces of bounded length."""
        # A compiler says the same few things over and over. An encoded address depends on where it stands.
        expression = bytes(self._data[at : at + min(length, 257)])
        if length > 256 or _ENCODED_ADDRESS in expression:
            yield from self._pieces(at, length, address_size)
            return
        key = (expression, address_size)
        text = self._cache.get(key)
        if text is None:
            text = b"".join(self._pieces(at, length, address_size))
            if len(self._cache) < 1024:
                self._cache[key] = text
        yield text

    def _pieces(self, at: int, length: int, address_size: int) -> Iterator[bytes]:
        self._pos = at
        self._address_size = address_size
        # Entry values nest; each waits for the end of the one inside it.
        ends = [at + length]
        while True:
            if self._pos >= ends[-1]:
                self._pos = ends.pop()
                if not ends:
                    return
                yield b")"
                if self._pos < ends[-1]:
                    yield b"; "
                continue
            self._end = ends[-1]
            code = self._data[self._pos]
            self._pos += 1
            if code in _ENTRY_VALUE:
                size = min(self._leb(False), self._end - self._pos)
                ends.append(self._pos + size)
                yield f"DW_OP_{_ENTRY_VALUE[code]}: (".encode()
                continue
            yield self._operation(code)
            while self._block:
                yield self._block_piece()
            if self._pos < self._end:
                yield b"; "

    def _operation(self, code: int) -> bytes:
        """One operation with its operands, without a block's contents. One that readelf stops at moves to the end."""
        if 0x30 <= code < 0x50:
            return b"DW_OP_lit%d" % (code - 0x30)
        if 0x50 <= code < 0x90:
            number = (code - 0x50) & 0x1F
            text = f"reg{number} ({self._name(number)})"
            return (f"DW_OP_{text}" if code < 0x70 else f"DW_OP_b{text}: {self._leb(True)}").encode()
        if code in _OPERATIONS:
            text, operands = _OPERATIONS[code]
            values = [self._operand(operand) for operand in operands]
            return ("DW_OP_" + text.format(*values) + "".join(values[text.count("{}") :])).encode()
        if code == _ENCODED_ADDRESS:
            return self._encoded_address()
        self._pos = self._end
        if code in _SENSELESS:
            return f"(DW_OP_{_SENSELESS[code]} in frame info)".encode()
        return f"({'User defined' if code >= 0xE0 else 'Unknown'} location op {_hexadecimal(code)})".encode()

    def _operand(self, kind: str) -> str:
        """One operand's text. A block's is its length; its contents follow piece by piece."""
        if kind == "A":
            return f"{self._fixed(self._address_size):x}"
        if kind in "US":
            return str(self._leb(kind == "S"))
        if kind == "R":
            number = self._leb(False)
            return f"{number} ({self._name(number & 0xFFFFFFFF)})"
        if kind == "X":
            return _hexadecimal(self._leb(False))
        if kind in "VC":
            size = self._leb(False) if kind == "V" else self._fixed(1)
            self._block = min(size, self._end - self._pos)
            return f" {size} byte block: "
        if kind in "oi":
            return _hexadecimal(self._fixed(2 if kind == "o" else 4, signed=True))
        if kind == "O":
            return _hexadecimal(self._fixed(4))
        return str(self._fixed(_SIZES[kind.lower()], signed=kind.islower()))

    def _block_piece(self) -> bytes:
        """Some more of a block's bytes."""
        size = min(self._block, _BLOCK_PIECE)
        piece = "".join(f"{byte:x} " for byte in self._data[self._pos : self._pos + size])
        self._pos += size
        self._block -= size
        return piece.encode()

    def _encoded_address(self) -> bytes:
        """GNU's encoded address: an encoding as in ``.eh_frame``, and the pointer; 0 where that is cut."""
        encoding = self._fixed(1)
        size = _WIDTHS.get(encoding & 7, self._address_size)
        at = self._pos
        value = 0
        if self._end - at < size:
            self._pos = self._end
        else:
            value = self._fixed(size, signed=bool(encoding & 8))
            if encoding & 0x70 == 0x10:
                value += self._address + at
        digits = 2 * self._address_size
        return f"DW_OP_GNU_encoded_addr: fmt:{encoding:02x} addr:{value & ((1 << 4 * digits) - 1):0{digits}x}".encode()

    def _fixed(self, size: int, *, signed: bool = False) -> int:
        """A number of ``size`` bytes, or of those that are left. Only 1 to 4 and 8 bytes have a sign, as in readelf."""
        data = bytes(self._data[self._pos : min(self._pos + size, self._end)])
        self._pos += len(data)
        return int.from_bytes(data, self._order, signed=signed and len(data) not in (5, 6, 7))

    def _leb(self, signed: bool) -> int:
        """A LEB128 number's low 64 bits; it ends with the expression if it does not end before."""
        value = shift = 0
        while self._pos < self._end:
            byte = self._data[self._pos]
            self._pos += 1
            if shift < 64:
                value |= (byte & 0x7F) << shift
                shift += 7
            if byte < 0x80:
                if signed and shift < 64 and byte & 0x40:
                    value -= 1 << shift
                break
        value &= _64_BITS
        return value - (1 << 64) if signed and value >> 63 else value
