"""Pointers in every ``DW_EH_PE`` encoding (LSB 5, 10.5.1): a format in the low four bits, a base in the next three."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.native.cursor import Malformed, Truncated
from clew.native.pointers import Pointers
from clew.testing import PointerEncoder

HERE, TEXT, DATA = 0x20000, 0x1000, 0x3000


def pointers(data: bytes, *, big: bool = False, size: int = 8, address: int = HERE) -> Pointers:
    return Pointers(data, address, big, size, TEXT, DATA)


# The bytes, the encoding, and the value for addresses of eight bytes; the pointer stands at 0x20000.
@pytest.mark.parametrize(
    ("data", "encoding", "value"),
    [
        ("0011223344556677", 0x00, 0x7766554433221100),  # absptr
        ("b964", 0x01, 12857),  # uleb128
        ("00f1", 0x02, 0xF100),  # udata2
        ("000000f1", 0x03, 0xF1000000),  # udata4
        ("00000000000000f1", 0x04, 0xF100000000000000),  # udata8
        ("f0ffffffffffffff", 0x08, (1 << 64) - 16),  # signed
        ("70", 0x09, (1 << 64) - 16),  # sleb128
        ("f0ff", 0x0A, (1 << 64) - 16),  # sdata2
        ("f0ffffff", 0x0B, (1 << 64) - 16),  # sdata4
        ("f0ffffffffffffff", 0x0C, (1 << 64) - 16),  # sdata8
        ("f0ffffff", 0x1B, HERE - 16),  # pcrel
        ("1000", 0x1A, HERE + 16),
        ("10", 0x11, HERE + 16),
        ("70", 0x19, HERE - 16),
        ("1000000000000000", 0x10, HERE + 16),
        ("f0ffffff", 0x2B, TEXT - 16),  # textrel
        ("10000000", 0x33, DATA + 16),  # datarel
        ("10000000", 0x43, 16),  # funcrel: of no function
        ("1000000000000000", 0x50, 16),  # aligned
        ("f0ffffff", 0x9B, HERE - 16),  # indirect: the address of the slot
    ],
)
def test_encodings(data: str, encoding: int, value: int) -> None:
    cursor = pointers(bytes.fromhex(data) + b"\xee")
    assert (cursor.read_encoded(encoding), cursor.pos) == (value, len(data) // 2)


@pytest.mark.parametrize("base", [0x00, 0x10, 0x20, 0x30, 0x40])
@pytest.mark.parametrize("form", [0x00, 0x01, 0x02, 0x03, 0x04, 0x08, 0x09, 0x0A, 0x0B, 0x0C])
def test_null_stays_null(base: int, form: int) -> None:
    assert pointers(bytes(8)).read_encoded(base | form) == 0


@pytest.mark.parametrize("form", [0x05, 0x06, 0x07, 0x0D, 0x0E, 0x0F])
def test_undefined_formats(form: int) -> None:
    for base in (0x00, 0x10, 0x40):
        with pytest.raises(Malformed, match="is not defined"):
            pointers(bytes(16)).read_encoded(base | form)


@pytest.mark.parametrize("encoding", [0x51, 0x5B, 0x60, 0x63, 0x6B, 0x70, 0x7B, 0x7F])
@pytest.mark.parametrize("data", [bytes(16), b"\1" * 16])
def test_undefined_bases(encoding: int, data: bytes) -> None:
    """Also where the value is null: who reads an encoding that does not exist knows nothing."""
    with pytest.raises(Malformed, match="is not defined"):
        pointers(data).read_encoded(encoding)


@pytest.mark.parametrize(("address", "skipped"), [(0x1000, 0), (0x1001, 7), (0x1004, 4), (0x1007, 1)])
def test_aligned_pads_to_the_address_size_in_memory(address: int, skipped: int) -> None:
    cursor = pointers(b"\xff" * skipped + bytes.fromhex("3412000000000000"), address=address)
    assert (cursor.read_encoded(0x50), cursor.pos) == (0x1234, skipped + 8)
    short = pointers(b"\xff" * 3 + bytes.fromhex("34120000"), address=0x1001, size=4)
    assert short.read_encoded(0x50) == 0x1234


def test_aligned_beyond_the_end() -> None:
    with pytest.raises(Truncated):
        pointers(b"\xff" * 3, address=0x1001).read_encoded(0x50)


def test_unknown_bases_are_an_error_only_for_what_needs_them() -> None:
    cursor = Pointers(bytes.fromhex("10000000 10000000 00000000 00000000"), HERE, False, 8)
    with pytest.raises(Malformed, match="text section, which is not known"):
        cursor.read_encoded(0x2B)
    with pytest.raises(Malformed, match="data section, which is not known"):
        cursor.read_encoded(0x3B)
    assert cursor.read_encoded(0x2B) == cursor.read_encoded(0x3B) == 0


def test_base_zero_is_known() -> None:
    assert Pointers(b"\x10\0\0\0", HERE, False, 8, 0, 0).read_encoded(0x23) == 0x10


@pytest.mark.parametrize("size", [2, 4, 8])
def test_values_wrap_at_the_address_size(size: int) -> None:
    mask = (1 << 8 * size) - 1
    cursor = pointers(b"\xf0\xff\xff\xff", size=size, address=8)
    assert cursor.read_encoded(0x1B) == (8 - 16) & mask
    assert pointers(b"\xff" * 8, size=size).read_encoded(0x00) == mask
    assert pointers(b"\xff" * 8, size=8).read_encoded(0x04, size) == mask


def test_an_explicit_size_takes_the_place_of_the_files() -> None:
    cursor = pointers(bytes.fromhex("1122334455667788"), big=True)
    assert (cursor.read_encoded(0x00, 2), cursor.pos) == (0x1122, 2)


@given(
    st.sampled_from((0x00, 0x04, 0x08, 0x0C)),
    st.sampled_from((0x00, 0x10, 0x20, 0x30)),
    st.sampled_from((4, 8)),
    st.booleans(),
    st.integers(1, (1 << 32) - 1),
)
def test_round_trip(form: int, base: int, size: int, big: bool, target: int) -> None:
    encoder = PointerEncoder("big" if big else "little", size, TEXT, DATA)
    try:
        data = encoder.encode(target, base | form, HERE)
    except ValueError:
        return  # relative to itself: reads as null
    assert pointers(data, big=big, size=size).read_encoded(base | form) == target


@given(st.binary(max_size=12), st.integers(0, 0x7F), st.sampled_from((2, 4, 8)), st.booleans())
def test_any_bytes(data: bytes, encoding: int, size: int, big: bool) -> None:
    """An address of that size, or Malformed; nothing is read past the end."""
    cursor = pointers(data, big=big, size=size)
    try:
        assert 0 <= cursor.read_encoded(encoding) < 1 << 8 * size
    except Malformed:
        return
    assert cursor.pos <= len(data)
