"""Expressions as GNU readelf writes them, by hand; tests/peers holds them against the program."""

from __future__ import annotations

import pytest

from clew.arch import machine_named
from clew.testing import Op
from clew.write.readelf_expression import ExpressionText

X86_64 = machine_named("x86-64")


def text_of(expression: bytes, *, big: bool = False, address_size: int = 8) -> str:
    """The text of an expression 4 bytes into a section at 0x1000, with more behind it that is none of its business."""
    section = b"\x96\x96\x96\x96" + expression + b"\x96\x96"

    def name(number: int) -> str:
        return X86_64.readelf_name(number) or f"r{number - (1 << 32) if number >> 31 else number}"

    writer = ExpressionText(section, 0x1000, big, name)
    texts = [b"".join(writer.pieces(4, len(expression), address_size)).decode() for _ in range(2)]
    assert texts[0] == texts[1]
    return texts[0]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Op.addr(0x123456789) + Op.deref, "DW_OP_addr: 123456789; DW_OP_deref"),
        (Op.lit(31) + Op.breg(16, 0) + Op.reg(3), "DW_OP_lit31; DW_OP_breg16 (rip): 0; DW_OP_reg3 (rbx)"),
        (Op.const(-2, 2, signed=True), "DW_OP_const2s: -2"),
        (Op.const(0xFFFE, 2), "DW_OP_const2u: 65534"),
        (b"\x0d\xff\xff", "DW_OP_const4s: -1"),  # cut short: two bytes are left, and have a sign
        (b"\x0f\xff\xff\xff\xff\xff", "DW_OP_const8s: 1099511627775"),  # five bytes have none
        (Op.consts(-129) + Op.plus_uconst(300), "DW_OP_consts: -129; DW_OP_plus_uconst: 300"),
        (b"\x90\xff\xff\xff\xff\x0f", "DW_OP_regx: 4294967295 (r-1)"),
        (Op.bregx(6, -16), "DW_OP_bregx: 6 (rbp) -16"),
        (b"\x98\xff\xff\x99\0\0\0\0", "DW_OP_call2: <0xffffffffffffffff>; DW_OP_call4: <0>"),
        (b"\x9d\x05\x03", "DW_OP_bit_piece: size: 5 offset: 3 "),
        (b"\x9e\x03\x01\xab\0\x96", "DW_OP_implicit_value 3 byte block: 1 ab 0 ; DW_OP_nop"),
        (b"\xa3\x02\x30\x31\x9f", "DW_OP_entry_value: (DW_OP_lit0; DW_OP_lit1); DW_OP_stack_value"),
        (b"\xf3\x03\xf3\x00\x31", "DW_OP_GNU_entry_value: (DW_OP_GNU_entry_value: (); DW_OP_lit1)"),
        (b"\xa3\x01\x00\x96", "DW_OP_entry_value: ((Unknown location op 0)); DW_OP_nop"),
        (b"\xf4\x20\x02\x01\x02", "DW_OP_GNU_const_type: <0x20>  2 byte block: 1 2 "),
        (b"\xa5\x06\x20\xa6\x04\x00", "DW_OP_regval_type: 6 (rbp) <0x20>; DW_OP_deref_type: 4 <0>"),
        (b"\xf7\x00\xa9\x11", "DW_OP_GNU_convert <0>; DW_OP_reinterpret <0x11>"),
        # Relative to the place of the pointer: 2 bytes behind 0x1004.
        (b"\xf1\x1b\x10\0\0\0", "DW_OP_GNU_encoded_addr: fmt:1b addr:0000000000001016"),
        (b"\xe0\xf0\xe6\xf8", "DW_OP_GNU_push_tls_address or DW_OP_HP_unknown; DW_OP_GNU_uninit; "
         "DW_OP_HP_tls; DW_OP_PGI_omp_thread_num"),
        (b"\x30\x9a\x31", "DW_OP_lit0; (DW_OP_call_ref in frame info)"),
        (b"\xf2\x31", "(DW_OP_GNU_implicit_pointer in frame info)"),
        (b"\xea\x31", "(User defined location op 0xea)"),
        (b"\xa2\x31", "(Unknown location op 0xa2)"),
        (b"", ""),
    ],
)  # fmt: skip
def test_expressions(expression: bytes, text: str) -> None:
    assert text_of(expression) == text


def test_byte_order_and_address_size() -> None:
    assert text_of(b"\x03\x12\x34\x56\x78\x0a\x01\x02", big=True, address_size=4) == (
        "DW_OP_addr: 12345678; DW_OP_const2u: 258"
    )
    assert text_of(b"\xf1\x00\x12\x34", big=True, address_size=2) == "DW_OP_GNU_encoded_addr: fmt:00 addr:1234"


def test_numbers_that_have_no_end_end_with_the_expression() -> None:
    assert text_of(b"\x10\x85") == "DW_OP_constu: 5"
    assert text_of(b"\x11" + b"\xff" * 20) == "DW_OP_consts: -1"


def test_deep_nesting_and_long_blocks_come_in_small_pieces() -> None:
    depth = 100_000
    nested = b"\xa3\xff\xff\x7f" * depth
    long = b"\x9e\xff\xff\x7f" + bytes(200_000)
    for expression in (nested, long):
        pieces = list(ExpressionText(expression, 0, False, str).pieces(0, len(expression), 8))
        assert max(map(len, pieces)) < 1 << 14
    assert b"".join(ExpressionText(nested, 0, False, str).pieces(0, len(nested), 8)).count(b"(") == depth
