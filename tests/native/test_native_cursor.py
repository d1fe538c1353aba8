"""Numbers out of bytes: fixed widths and LEB128, at their limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.native.cursor import Cursor, Malformed, Truncated
from clew.testing import sleb, uleb

U64 = (1 << 64) - 1


def test_fixed_widths_in_both_byte_orders() -> None:
    data = bytes.fromhex("0102030405060708")
    for size in range(9):
        assert Cursor(data).read_fixed(size) == int.from_bytes(data[:size], "little")
        assert Cursor(data, big=True).read_fixed(size) == int.from_bytes(data[:size], "big")


def test_reading_moves_and_stops_at_the_end() -> None:
    cursor = Cursor(bytes(10), 2, 7)
    assert (cursor.read_fixed(4), cursor.pos) == (0, 6)
    with pytest.raises(Truncated):
        cursor.read_fixed(2)
    assert cursor.pos == 6
    assert cursor.read_fixed(1) == 0
    with pytest.raises(Truncated):
        cursor.read_uleb()


def test_window_beyond_the_data_is_cut() -> None:
    cursor = Cursor(b"\x80\x80", 0, 100)
    assert cursor.end == 2
    with pytest.raises(Truncated):
        cursor.read_uleb()


def test_position_beyond_the_end() -> None:
    cursor = Cursor(bytes(8), 6, 4)
    for read in (lambda: cursor.read_fixed(1), cursor.read_uleb, cursor.read_sleb):
        with pytest.raises(Truncated):
            read()


# DWARF 5, figures C.1 and C.2, and the limits of 64 bits.
@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("02", 2),
        ("7f", 127),
        ("8001", 128),
        ("b964", 12857),
        ("808000", 0),
        ("ff" * 9 + "01", U64),
        ("ff" * 8 + "7f", (1 << 63) - 1),
        ("80" * 9 + "01", 1 << 63),
        ("80" * 40 + "00", 0),
        ("85" + "80" * 100 + "00", 5),
    ],
)
def test_uleb(data: str, value: int) -> None:
    cursor = Cursor(bytes.fromhex(data) + b"\xaa")
    assert (cursor.read_uleb(), cursor.pos) == (value, len(data) // 2)


@pytest.mark.parametrize(
    "data", ["80" * 9 + "02", "80" * 9 + "40", "80" * 10 + "40", "ff" * 9 + "03", "ff" * 10 + "01", "80" * 30 + "01"]
)
def test_uleb_beyond_64_bits(data: str) -> None:
    with pytest.raises(Malformed, match="exceeds 64 bits"):
        Cursor(bytes.fromhex(data)).read_uleb()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("02", 2),
        ("7e", -2),
        ("ff00", 127),
        ("817f", -127),
        ("8001", 128),
        ("807f", -128),
        ("3f", 63),
        ("40", -64),
        ("ff" * 8 + "3f", (1 << 62) - 1),
        ("80" * 8 + "40", -(1 << 62)),
        ("ff" * 9 + "00", (1 << 63) - 1),
        ("80" * 9 + "7f", -(1 << 63)),
        ("ff" * 9 + "7f", -1),
        ("ff" * 60 + "7f", -1),
        ("80" * 60 + "00", 0),
        ("fe" + "ff" * 60 + "7f", -2),
    ],
)
def test_sleb(data: str, value: int) -> None:
    cursor = Cursor(bytes.fromhex(data) + b"\xaa")
    assert (cursor.read_sleb(), cursor.pos) == (value, len(data) // 2)


@pytest.mark.parametrize(
    "data", ["80" * 9 + "01", "ff" * 9 + "01", "ff" * 9 + "7e", "ff" * 10 + "00", "80" * 10 + "7f"]
)
def test_sleb_beyond_64_bits(data: str) -> None:
    with pytest.raises(Malformed, match="exceeds 64 bits"):
        Cursor(bytes.fromhex(data)).read_sleb()


@pytest.mark.parametrize("data", ["", "80", "ff", "80" * 9, "80" * 20])
def test_leb_cut(data: str) -> None:
    for read in (Cursor.read_uleb, Cursor.read_sleb):
        with pytest.raises(Truncated):
            read(Cursor(bytes.fromhex(data)))


@given(st.integers(0, U64), st.integers(0, 20))
def test_uleb_round_trip(value: int, size: int) -> None:
    assert Cursor(uleb(value, size=size)).read_uleb() == value


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 20))
def test_sleb_round_trip(value: int, size: int) -> None:
    assert Cursor(sleb(value, size=size)).read_sleb() == value


@given(st.binary(max_size=30), st.booleans())
def test_leb_against_whole_numbers(data: bytes, signed: bool) -> None:
    """The definition, in Python's numbers of any size: seven bits a byte, the sign in bit 6 of the last."""
    end = next((n + 1 for n, byte in enumerate(data) if byte < 0x80), None)
    cursor = Cursor(data)
    read = cursor.read_sleb if signed else cursor.read_uleb
    if end is None:
        with pytest.raises(Malformed):
            read()
        return
    value = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(data[:end]))
    if signed and data[end - 1] & 0x40:
        value -= 1 << 7 * end
    if not (-(1 << 63) <= value < 1 << 63 if signed else value <= U64):
        with pytest.raises(Malformed, match="exceeds 64 bits"):
            read()
        return
    assert (read(), cursor.pos) == (value, end)
