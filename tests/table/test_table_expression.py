from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.arch import ByteOrder, machine_named
from clew.errors import Error, FormatError, UsageError
from clew.memory import BytesMemory
from clew.table.evaluate import evaluate
from clew.table.expression import MAXIMUM_LENGTH, Expression, Step
from clew.table.operators import MEANINGLESS, OPERATORS

X86_64 = machine_named("x86-64")
AARCH64 = machine_named("aarch64")

# The rule that GNU ld gives the CFA in the .plt section of x86-64.
PLT = "77 08 80 00 3f 1a 3b 2a 33 24 22"


def parse(text: str, address_size: int = 8) -> Expression:
    return Expression.parse(bytes.fromhex(text), address_size=address_size, byte_order="little")


def test_the_plt_expression() -> None:
    expression = parse(PLT)
    assert expression.data == bytes.fromhex(PLT)
    assert [(operation.offset, operation.name, operation.operands) for operation in expression.operations] == [
        (0, "DW_OP_breg7", (8,)),
        (2, "DW_OP_breg16", (0,)),
        (4, "DW_OP_lit15", ()),
        (5, "DW_OP_and", ()),
        (6, "DW_OP_lit11", ()),
        (7, "DW_OP_ge", ()),
        (8, "DW_OP_lit3", ()),
        (9, "DW_OP_shl", ()),
        (10, "DW_OP_plus", ()),
    ]
    assert expression.dwarf(X86_64) == (
        "DW_OP_breg7 (rsp): 8; DW_OP_breg16 (rip): 0; DW_OP_lit15; DW_OP_and; DW_OP_lit11; DW_OP_ge; DW_OP_lit3; "
        "DW_OP_shl; DW_OP_plus"
    )
    assert expression.infix(X86_64, ()) == "rsp + 8 + (((rip & 15) >= 11) << 3)"
    assert expression.to_json()[:4] == [["register", 7, 8], ["register", 16, 0], ["push", "0xf"], ["and"]]
    assert repr(expression) == f"Expression('{PLT}')"


def test_expressions_that_are_in_the_wild() -> None:
    # glibc's __restore_rt: rsp and other registers in the ucontext on the stack.
    assert parse("77 a0 01 06").dwarf(X86_64) == "DW_OP_breg7 (rsp): 160; DW_OP_deref"
    assert parse("77 a0 01 06").infix(X86_64, ()) == "*(rsp + 160)"
    # A shadow call stack on AArch64: x18 was moved on by 8.
    assert parse("82 78").dwarf(AARCH64) == "DW_OP_breg18 (x18): -8"
    assert parse("82 78").infix(AARCH64) == "x18 - 8"
    # A frame of scalable vectors: sp + 16 + 8 * VG.
    assert parse("8f 00 11 10 22 11 08 92 2e 00 1e 22").infix(AARCH64, ()) == "sp + 16 + 8 * vg"


@pytest.mark.parametrize(
    ("text", "infix"),
    [
        ("23 10", "cfa + 16"),
        ("12 06 22", "cfa + *(cfa)"),
        ("94 04", "*4(cfa)"),
        ("40 1a", "cfa & 16"),
        ("09 f0 1a", "cfa & -16"),
        ("1f", "-cfa"),
        ("38 1c", "cfa - 8"),
        ("09 f8 22", "cfa - 8"),
        ("09 f8 1c", "cfa + 8"),
        ("38 1f 22", "cfa + (-8)"),
        ("09 f8 1f 22", "cfa + (-(-8))"),
        ("70 00 71 00 22 1c", "cfa - (rax + rdx)"),
        ("70 00 71 00 1e 22", "cfa + rax * rdx"),
        ("70 00 22 38 1e", "(cfa + rax) * 8"),
        ("33 24 34 25", "(cfa << 3) >> 4"),
        ("33 26 19 20", "~abs(shra(cfa, 3))"),
        ("30 31 32 17 1c 1c", "2 - (0 - 1)"),
        ("31 16 1c", "1 - cfa"),
        ("31 14 13", "1"),
        ("0a 00 10", "0x1000"),
        ("0a ff 0f", "4095"),
        ("0b 00 00", "0"),
        ("0d 00 00 ff ff", "-0x10000"),
        ("0d ff ff fe ff", "0xfffffffffffeffff"),
        ("30 70 7f 22", "0 + rax - 1"),
    ],
)
def test_infix(text: str, infix: str) -> None:
    assert parse(text).infix(X86_64) == infix


@pytest.mark.parametrize(
    "text",
    ["28 00 00", "2f 00 00", "22", "13 13", "16", "31 17", "15 02", "13", "12 22 " * 40],
    ids=["bra", "skip", "binary", "drop", "swap", "rot", "pick", "empty", "too long"],
)
def test_expressions_without_infix_show_their_operators(text: str) -> None:
    expression = parse(text)
    assert expression.infix(X86_64) == expression.dwarf(X86_64)


def test_text_of_operands() -> None:
    expression = parse("03 00 10 40 00 00 00 00 00 92 11 78 28 fd ff 15 02")
    assert expression.dwarf(X86_64) == "DW_OP_addr: 401000; DW_OP_bregx: 17 (xmm0) -8; DW_OP_bra: -3; DW_OP_pick: 2"


# Each line: encodings that do the same.
SAME = [
    ["35", "08 05", "09 05", "0a 05 00", "0b 05 00", "0c 05 00 00 00", "0e 05 00 00 00 00 00 00 00", "10 05", "11 05"],
    ["10 85 80 80 00", "11 85 80 00", "35 96", "96 96 35", "03 05 00 00 00 00 00 00 00", "0f 05 00 00 00 00 00 00 00"],
    ["09 ff", "0b ff ff", "0d ff ff ff ff", "0e ff ff ff ff ff ff ff ff", "11 7f", "10 ff ff ff ff ff ff ff ff ff 01"],
    ["77 08", "92 07 08", "92 87 00 88 00"],
    ["23 08", "38 22", "08 08 22"],
    ["12", "15 00"],
    ["14", "15 01"],
    ["06", "94 08"],
    ["31 28 01 00 96 32", "31 28 00 00 32", "08 01 28 02 00 96 96 08 02"],
]


@pytest.mark.parametrize("texts", SAME, ids=lambda texts: texts[0])
def test_different_encodings_of_the_same_are_equal(texts: list[str]) -> None:
    assert len({parse(text) for text in texts}) == 1
    assert {hash(parse(text)) for text in texts} == {hash(parse(texts[0]))}


def test_different_expressions_are_different() -> None:
    texts = [
        "77 08",
        "77 00",
        "76 08",
        "77 08 06",
        "77 08 94 04",
        "38",
        "39",
        "31 28 00 00 32",
        "31 28 01 00 32",
        "96",
        "12",
    ]
    assert len({parse(text) for text in texts}) == len(texts)
    assert parse("38", 8) != parse("38", 4)
    assert parse("0c ff ff ff ff") != parse("09 ff")
    assert parse("0c ff ff ff ff", 4) == parse("09 ff", 4)
    assert parse("38") != "38"


def test_pickle() -> None:
    expression = parse(PLT)
    assert pickle.loads(pickle.dumps(expression)) == expression


@pytest.mark.parametrize("opcode", MEANINGLESS, ids=lambda opcode: MEANINGLESS[opcode][0])
def test_operators_without_meaning_are_refused_by_name(opcode: int) -> None:
    with pytest.raises(FormatError) as caught:
        Expression.parse(bytes((0x31, opcode)), address_size=8, byte_order="little", section=".eh_frame", offset=0x100)
    error = caught.value
    assert MEANINGLESS[opcode][0] in error.message
    assert error.hint
    assert (error.section, error.offset) == (".eh_frame", 0x101)


def test_known_operators() -> None:
    # DWARF 5 §7.7.1, table 7.9, has codes 0x03, 0x06, 0x08 to 0xa9 without the gaps 0x07 and 0x04/0x05.
    known = set(OPERATORS) | set(MEANINGLESS)
    assert not set(OPERATORS) & set(MEANINGLESS)
    assert {0x03, 0x06, *range(0x08, 0xAA)} <= known
    assert OPERATORS[0x08].name == "DW_OP_const1u"
    assert OPERATORS[0x11].name == "DW_OP_consts"
    assert OPERATORS[0x4F].name == "DW_OP_lit31"
    assert OPERATORS[0x8F].name == "DW_OP_breg31"


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("04", "unknown operator 0x04", 0),
        ("31 ff", "unknown operator 0xff", 1),
        ("31 77", "DW_OP_breg7 cannot be read", 1),
        ("77 80", "DW_OP_breg7 cannot be read", 0),
        ("03 00 00 00", "DW_OP_addr cannot be read", 0),
        ("0e 00 00 00 00 00 00 00", "DW_OP_const8u cannot be read", 0),
        ("92 07", "DW_OP_bregx cannot be read", 0),
        ("10 ff ff ff ff ff ff ff ff ff 02", "DW_OP_constu cannot be read: .*64 bits", 0),
        ("11 ff ff ff ff ff ff ff ff ff 01", "DW_OP_consts cannot be read: .*64 bits", 0),
        ("94 00", "cannot load 0 bytes", 0),
        ("94 09", "cannot load 9 bytes", 0),
        ("31 28 01 00", "DW_OP_bra does not go", 1),
        ("31 2f ff ff", "DW_OP_skip does not go", 1),
        ("2f fc ff", "DW_OP_skip does not go", 0),
        ("2f 01 00 0a 31 31", "DW_OP_skip does not go", 0),
    ],
)
def test_malformed_expressions(text: str, message: str, offset: int) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse(text)
    assert caught.value.offset == offset


def test_bounds() -> None:
    assert len(parse("96" * MAXIMUM_LENGTH).operations) == MAXIMUM_LENGTH
    with pytest.raises(FormatError, match="longer"):
        parse("96" * (MAXIMUM_LENGTH + 1))
    with pytest.raises(FormatError, match="addresses of 3 bytes"):
        parse("", 3)


def test_operands_follow_the_byte_order_and_the_address_size() -> None:
    big = Expression.parse(bytes.fromhex("03 00401000 0b ff00"), address_size=4, byte_order="big")
    assert big.canonical == (("push", 0x401000), ("push", 0xFFFFFF00))
    assert parse("03 00104000 0b 00ff", 4) == big


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([("register", 7, 8), ("push", 16), ("plus",)], "77 08 23 10"),
        ([("register", 33, -8), ("deref", 8), ("deref", 4)], "92 21 78 06 94 04"),
        ([("push", 31), ("push", 32), ("push", (1 << 64) - 1), ("push", 255)], "4f 08 20 09 ff 08 ff"),
        ([("push", 0x1234), ("push", (1 << 64) - 0x1234)], "0a 34 12 0b cc ed"),
        ([("push", 1 << 63)], "0e 00 00 00 00 00 00 00 80"),
        ([("pick", 0), ("pick", 1), ("pick", 2)], "12 14 15 02"),
        ([("push", 1), ("bra", 3), ("push", 8), ("plus",), ("skip", 0)], "31 28 01 00 38 22 2f f7 ff"),
    ],
)
def test_writing(steps: list[Step], text: str) -> None:
    expression = Expression.from_canonical(steps, address_size=8, byte_order="little")
    assert expression.data == bytes.fromhex(text)
    assert expression.canonical == tuple(steps)


@pytest.mark.parametrize(
    "step",
    [
        ("push", 1 << 64),
        ("push", -1),
        ("deref", 0),
        ("pick", 256),
        ("register", 7, 1 << 63),
        ("bra", 2),
        ("frobnicate",),
    ],
)
def test_steps_that_cannot_be_written(step: Step) -> None:
    with pytest.raises(UsageError):
        Expression.from_canonical([step], address_size=8, byte_order="little")


NUMBER = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
LINE = st.one_of(
    NUMBER.map(lambda n: ("push", n)),
    st.tuples(st.just("register"), st.integers(0, 100), st.integers(-(1 << 63), (1 << 63) - 1)),
    st.tuples(st.just("deref"), st.integers(1, 8)),
    st.tuples(st.just("pick"), st.integers(0, 255)),
    st.sampled_from(["plus", "minus", "swap", "rot", "drop", "neg", "shra"]).map(lambda name: (name,)),
)


@st.composite
def step_lists(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = draw(st.lists(LINE, max_size=12))
    for index in draw(st.sets(st.integers(0, 12), max_size=3)):
        if index < len(steps):
            steps[index] = (draw(st.sampled_from(["bra", "skip"])), draw(st.integers(0, len(steps))))
    return steps


ORDERS: tuple[ByteOrder, ...] = ("little", "big")


@given(step_lists(), st.sampled_from(ORDERS))
def test_what_is_written_reads_back(steps: list[Step], byte_order: ByteOrder) -> None:
    expression = Expression.from_canonical(steps, address_size=8, byte_order=byte_order)
    assert expression.canonical == tuple(steps)
    again = Expression.parse(expression.data, address_size=8, byte_order=byte_order)
    assert again == expression
    assert hash(again) == hash(expression)


@given(st.binary(max_size=60), st.sampled_from([2, 4, 8]))
def test_any_bytes_are_an_expression_or_a_format_error(data: bytes, address_size: int) -> None:
    place: int | None = None
    try:
        expression = Expression.parse(data, address_size=address_size, byte_order="big")
    except FormatError as error:
        place = error.offset
    else:
        starts = [operation.offset for operation in expression.operations]
        assert starts == sorted(set(starts))
        assert [data[start] for start in starts] == [operation.opcode for operation in expression.operations]
        expression.dwarf(X86_64)
        expression.infix(X86_64)
        expression.to_json()
        place = 0
    assert place is not None
    assert 0 <= place <= len(data)


CODES = st.sampled_from([bytes((code,)) for code in OPERATORS]) | st.binary(min_size=1, max_size=1)


@given(st.lists(CODES, max_size=30).map(b"".join), st.sampled_from([2, 4, 8]))
def test_nothing_but_clew_errors(data: bytes, address_size: int) -> None:
    try:
        expression = Expression.parse(data, address_size=address_size, byte_order="little")
        assert (
            Expression.from_canonical(expression.canonical, address_size=address_size, byte_order="big") == expression
        )
        expression.infix(X86_64)
        value = evaluate(expression, registers={7: 64}, memory=BytesMemory(bytes(range(256))), initial=(96,))
    except Error:
        return
    assert 0 <= value < 1 << 8 * address_size


RING = st.sampled_from(["plus", "minus", "mul", "and", "or", "xor", "neg", "not", "pick", "swap"])


@given(st.lists(RING | st.integers(-70000, 70000) | st.sampled_from(["rax", "rsp"]), max_size=14))
def test_infix_means_what_the_expression_does(program: list[str | int]) -> None:
    # These operators give the same modulo 2^64 whether or not they wrap on the way, so that Python's own reading of the
    # text can be the judge.
    steps: list[Step] = []
    for word in program:
        if isinstance(word, int):
            steps.append(("push", word % (1 << 64)))
        elif word in ("rax", "rsp"):
            steps.append(("register", {"rax": 0, "rsp": 7}[word], -24))
        else:
            steps.append(("pick", 1) if word == "pick" else (word,))
    expression = Expression.from_canonical(steps, address_size=8, byte_order="little")
    values = {"rax": 0xFEDC_BA98_7654_3210, "rsp": 0x7FFF_FFFF_E000, "cfa": 0x7FFF_FFFF_E010}
    text = expression.infix(X86_64)
    if "DW_OP" in text or not text:
        return
    expected = evaluate(
        expression, registers={0: values["rax"], 7: values["rsp"]}, memory=BytesMemory(b""), initial=(values["cfa"],)
    )
    assert eval(text, dict(values)) % (1 << 64) == expected
