from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.arch import ByteOrder
from clew.errors import EvaluationError, UsageError
from clew.memory import BytesMemory
from clew.table.evaluate import (
    MAXIMUM_DEPTH,
    MAXIMUM_STEPS,
    UnknownRegisterError,
    UnreadableMemoryError,
    evaluate,
)
from clew.table.expression import Expression

MEMORY = BytesMemory(bytes.fromhex("88 77 66 55 44 33 22 11 f0 f1 f2 f3 f4 f5 f6 f7"), 0x1000)
TOP = 1 << 64
LOWEST = 1 << 63  # the most negative number
MINUS_1 = TOP - 1


def run(
    text: str,
    *initial: int,
    registers: dict[int, int] | None = None,
    address_size: int = 8,
    byte_order: ByteOrder = "little",
) -> int:
    expression = Expression.parse(bytes.fromhex(text), address_size=address_size, byte_order=byte_order)
    return evaluate(expression, registers=registers or {}, memory=MEMORY, initial=initial)


@pytest.mark.parametrize(
    ("text", "initial", "result"),
    [
        # §2.5.1.1 literals
        ("30", (), 0),
        ("4f", (), 31),
        ("03 00 10 40 00 00 00 00 00", (), 0x401000),
        ("08 ff", (), 255),
        ("09 ff", (), MINUS_1),
        ("0a ff ff", (), 0xFFFF),
        ("0b fe ff", (), TOP - 2),
        ("0c ff ff ff ff", (), 0xFFFF_FFFF),
        ("0d 00 00 00 80", (), TOP - 0x8000_0000),
        ("0e 01 02 03 04 05 06 07 08", (), 0x0807060504030201),
        ("0f ff ff ff ff ff ff ff ff", (), MINUS_1),
        ("10 e5 8e 26", (), 624485),  # the example of §7.6
        ("11 80 7f", (), TOP - 128),
        # §2.5.1.3 stack
        ("12 22", (21,), 42),
        ("13", (1, 2), 1),
        ("14", (1, 2), 1),
        ("15 00", (1, 2, 3), 3),
        ("15 02", (1, 2, 3), 1),
        ("16", (1, 2), 1),
        ("17", (1, 2, 3), 2),  # 3 becomes the third, 2 the first, 1 the second
        ("17 13", (1, 2, 3), 1),
        ("17 13 13", (1, 2, 3), 3),
        ("06", (0x1000,), 0x1122334455667788),
        ("94 01", (0x1008,), 0xF0),
        ("94 02", (0x1008,), 0xF1F0),
        ("94 03", (0x1008,), 0xF2F1F0),
        ("94 04", (0x1008,), 0xF3F2F1F0),
        ("94 08", (0x1008,), 0xF7F6F5F4F3F2F1F0),
        # §2.5.1.4 arithmetic and logic
        ("19", (5,), 5),
        ("19", (TOP - 5,), 5),
        ("19", (LOWEST,), LOWEST),
        ("1a", (0b1100, 0b1010), 0b1000),
        ("1b", (7, 2), 3),
        ("1b", (TOP - 7, 2), TOP - 3),
        ("1b", (7, TOP - 2), TOP - 3),
        ("1b", (TOP - 7, TOP - 2), 3),
        ("1b", (LOWEST, MINUS_1), LOWEST),
        ("1c", (5, 7), TOP - 2),
        ("1d", (7, 4), 3),
        ("1d", (MINUS_1, 10), 5),  # 18446744073709551615, not -1
        ("1e", (6, 7), 42),
        ("1e", (1 << 63, 2), 0),
        ("1f", (1,), MINUS_1),
        ("1f", (LOWEST,), LOWEST),
        ("20", (0,), MINUS_1),
        ("21", (0b1100, 0b1010), 0b1110),
        ("22", (MINUS_1, 2), 1),
        ("23 ff 01", (1,), 256),
        ("24", (1, 63), LOWEST),
        ("24", (1, 64), 0),
        ("24", (3, LOWEST), 0),
        ("25", (LOWEST, 63), 1),
        ("25", (MINUS_1, 64), 0),
        ("26", (LOWEST, 62), TOP - 2),
        ("26", (LOWEST, 64), MINUS_1),
        ("26", (LOWEST, MINUS_1), MINUS_1),
        ("26", (LOWEST - 1, 64), 0),
        ("27", (0b1100, 0b1010), 0b0110),
        # §2.5.1.5 control flow; comparisons are signed
        ("2a", (1, 1), 1),
        ("2a", (MINUS_1, 0), 0),
        ("2b", (1, 1), 0),
        ("2b", (0, MINUS_1), 1),
        ("2c", (1, 1), 1),
        ("2c", (0, MINUS_1), 0),
        ("2d", (1, 1), 0),
        ("2d", (MINUS_1, 0), 1),
        ("29", (3, 3), 1),
        ("29", (3, 4), 0),
        ("2e", (3, 3), 0),
        ("2e", (3, 4), 1),
        ("31 2f 01 00 32", (), 1),  # skips lit2
        ("31 31 28 01 00 32", (), 1),
        ("31 30 28 01 00 32", (), 2),
        ("31 2f 00 00", (), 1),  # to the end
        # A loop: n in {3, 2, 1}, summed: dup rot plus swap lit1 minus dup bra -11, drop
        ("30 33 12 17 22 16 31 1c 12 28 f6 ff 13", (), 6),
        # §2.5.1.6
        ("96 35 96", (), 5),
    ],
)
def test_operators(text: str, initial: tuple[int, ...], result: int) -> None:
    assert run(text, *initial) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("77 08", 0x2008),
        ("77 78", 0x1FF8),
        ("92 10 7f", 0x40_1006),
        ("70 05", 4),  # register 0 is -1: wraps around
    ],
)
def test_registers(text: str, result: int) -> None:
    registers = {0: MINUS_1, 7: 0x2000, 16: 0x40_1007}
    assert run(text, registers=registers) == result
    expression = Expression.parse(bytes.fromhex(text), address_size=8, byte_order="little")
    assert evaluate(expression, registers=registers.get, memory=MEMORY) == result


def test_expressions_that_are_in_the_wild() -> None:
    # In a PLT entry of 16 bytes, the push of the index ends at byte 11.
    plt = "77 08 80 00 3f 1a 3b 2a 33 24 22"
    assert run(plt, registers={7: 0x7000, 16: 0x40_102A}) == 0x7008
    assert run(plt, registers={7: 0x7000, 16: 0x40_102B}) == 0x7010
    # glibc's __restore_rt, with rsp 160 below readable memory.
    assert run("77 a0 01 06", 0x9999, registers={7: 0x1000 - 160}) == 0x1122334455667788
    # A shadow call stack on AArch64; the CFA below the result is ignored.
    assert run("82 78", 0x9999, registers={18: 0x5008}) == 0x5000


def test_four_bytes_wide() -> None:
    assert run("09 ff", address_size=4) == 0xFFFF_FFFF
    assert run("31 4f 24", address_size=4) == 0x8000_0000
    assert run("31 08 20 24", address_size=4) == 0
    assert run("22", 0xFFFF_FFFF, 2, address_size=4) == 1
    assert run("2d", 0x8000_0000, 0, address_size=4) == 1
    assert run("06", 0x1000, address_size=4) == 0x55667788
    assert run("70 00", registers={0: TOP + 0x1_2345_6789}, address_size=4) == 0x2345_6789
    assert run("0e 00 00 00 00 01 00 00 00", address_size=4) == 0


def test_big_endian_memory() -> None:
    assert run("06", 0x1000, byte_order="big") == 0x8877665544332211
    assert run("94 02", 0x1000, byte_order="big") == 0x8877
    little = Expression.parse(bytes.fromhex("06"), address_size=8, byte_order="little")
    value = evaluate(little, registers={}, memory=MEMORY, initial=(0x1000,), byte_order="big")
    assert value == 0x8877665544332211


def test_an_unknown_register_is_named() -> None:
    with pytest.raises(UnknownRegisterError, match="register 18 ") as caught:
        run("31 82 78")
    assert caught.value.register == 18
    expression = Expression.parse(bytes.fromhex("8278"), address_size=8, byte_order="little")
    with pytest.raises(UnknownRegisterError):
        evaluate(expression, registers=lambda _: None, memory=MEMORY)


def test_unreadable_memory_is_named() -> None:
    with pytest.raises(UnreadableMemoryError, match="8 bytes at 0x100c") as caught:
        run("06", 0x100C)
    assert (caught.value.address, caught.value.size) == (0x100C, 8)
    with pytest.raises(UnreadableMemoryError, match="4 bytes at 0xffffffffffffffff"):
        run("09 ff 94 04")


@pytest.mark.parametrize(
    ("text", "initial", "message"),
    [
        ("", (), "leaves nothing"),
        ("31 13", (), "leaves nothing"),
        ("13", (), "DW_OP_drop finds too little"),
        ("12", (), "DW_OP_pick finds too little"),
        ("14", (1,), "DW_OP_pick finds too little"),
        ("15 05", (1, 2, 3), "DW_OP_pick finds too little"),
        ("16", (1,), "DW_OP_swap finds too little"),
        ("17", (1, 2), "DW_OP_rot finds too little"),
        ("22", (1,), "DW_OP_plus finds too little"),
        ("1f", (), "DW_OP_neg finds too little"),
        ("06", (), "DW_OP_deref finds too little"),
        ("28 00 00", (), "DW_OP_bra finds too little"),
        ("1b", (1, 0), "DW_OP_div divides by zero"),
        ("1d", (1, 0), "DW_OP_mod divides by zero"),
        ("2f fd ff", (), "10000 steps"),
        ("31 2f fc ff", (), "256 numbers"),
    ],
)
def test_errors(text: str, initial: tuple[int, ...], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        run(text, *initial)


def test_the_bounds_are_exact() -> None:
    assert run("31" * MAXIMUM_DEPTH) == 1
    with pytest.raises(EvaluationError, match="256 numbers"):
        run("31" * (MAXIMUM_DEPTH + 1))
    assert run("1f" * MAXIMUM_STEPS, 5) == 5
    with pytest.raises(EvaluationError, match="10000 steps"):
        run("1f" * (MAXIMUM_STEPS + 1), 5)


def test_the_address_size_has_to_be_the_expressions_own() -> None:
    expression = Expression.parse(b"\x31", address_size=8, byte_order="little")
    assert evaluate(expression, registers={}, memory=MEMORY, address_size=8) == 1
    with pytest.raises(UsageError, match="8 bytes, not 4"):
        evaluate(expression, registers={}, memory=MEMORY, address_size=4)


WORD = st.one_of(st.integers(0, 3), st.integers(0, MINUS_1), st.just(LOWEST))


@given(WORD, WORD)
def test_identities(a: int, b: int) -> None:
    assert run("1c", a, b) == run("1f 22", a, b)  # a - b = a + -b
    assert run("20", a) == run("09 ff 27", a)  # ~a = a ^ -1
    assert run("2d", a, b) == run("16 2b", a, b)  # a < b = b > a
    assert run("2c", a, b) == run("2b 30 29", a, b)  # a <= b = not a > b
    if b:
        # §2.5.1.4: quotient and remainder belong together where both numbers are not negative.
        assert run("1d", a, b) == a % b
        if a < LOWEST and b < LOWEST:
            assert run("14 14 1b 14 1e 16 13 1c", a, b) is not None
            assert run("1b", a, b) == a // b


@given(WORD, st.integers(0, 70))
def test_shifting_is_shifting_one_by_one(a: int, count: int) -> None:
    for operator in ("24", "25", "26"):
        assert run(f"08 {count:02x} {operator}", a) == run(f"31 {operator}" * count, a)
