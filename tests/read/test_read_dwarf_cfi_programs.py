"""What is wrong with call frame programs: one test for each message, and for what is left of the section."""

from __future__ import annotations

import pytest

from clew.errors import FormatError
from clew.read.dwarf_cfi import CfiSection
from clew.table import RegisterPlus
from clew.testing import Cfa, CfiBuilder, Instruction, Op

START: list[Instruction] = [Cfa.def_cfa(7, 8), Cfa.offset(16, 1)]
LIMIT = 1 << 42


def read(data: bytes, **options: object) -> CfiSection:
    return CfiSection(data, **{"address": 0x2000, **options})  # type: ignore[arg-type]


BAD: list[tuple[list[Instruction], str]] = [
    ([Cfa.restore_state], "DW_CFA_restore_state without a remembered state"),
    ([Cfa.remember_state, Cfa.restore_state, Cfa.restore_state], "DW_CFA_restore_state without a remembered state"),
    ([Cfa.remember_state * 1025], "DW_CFA_remember_state nests too deep"),
    ([b"\x17"], "the call frame instruction 0x17 is not defined for this machine"),
    ([b"\x1d" + bytes(8)], "the call frame instruction 0x1d is not defined for this machine"),
    ([Cfa.advance(8), Cfa.set_loc(0x1004)], "the location goes back"),
    ([Cfa.set_loc(0xFFF)], "the location goes back"),
    ([Cfa.def_cfa_offset(1 << 63)], "an offset is out of all proportion"),
    ([Cfa.def_cfa(7, 1 << 63)], "an offset is out of all proportion"),
    ([Cfa.offset(6, LIMIT)], "an offset is out of all proportion"),
    ([Cfa.offset_extended(6, LIMIT)], "an offset is out of all proportion"),
    ([Cfa.val_offset(6, LIMIT)], "an offset is out of all proportion"),
    ([Cfa.gnu_negative_offset_extended(6, LIMIT)], "an offset is out of all proportion"),
    ([Cfa.offset_extended_sf(6, LIMIT)], "an offset is out of all proportion"),
    ([Cfa.offset_extended_sf(6, -LIMIT - 1)], "an offset is out of all proportion"),
    ([Cfa.val_offset_sf(6, LIMIT)], "an offset is out of all proportion"),
    ([Cfa.def_cfa_sf(6, LIMIT)], "an offset is out of all proportion"),
    ([Cfa.def_cfa_offset_sf(LIMIT)], "an offset is out of all proportion"),
    ([Cfa.same_value(0x10000)], "a register number is out of all proportion"),
    ([Cfa.undefined((1 << 64) - 1)], "a register number is out of all proportion"),
    ([Cfa.register(6, 0x10000)], "a register number is out of all proportion"),
    ([Cfa.register(0x10000, 6)], "a register number is out of all proportion"),
    ([Cfa.def_cfa(0x10000, 8)], "a register number is out of all proportion"),
    ([Cfa.def_cfa_register(0x10000)], "a register number is out of all proportion"),
    ([Cfa.restore_extended(0x10000)], "a register number is out of all proportion"),
    ([Cfa.expression(0x10000, b"")], "a register number is out of all proportion"),
    ([Cfa.gnu_args_size(1 << 32)], "an argument size is out of all proportion"),
    (
        [Cfa.def_cfa_offset(1 << 31), Cfa.def_cfa_expression(Op.lit(1)), Cfa.def_cfa_register(6)],
        "an offset is out of all proportion",
    ),
    ([b"\x0e" + b"\xff" * 10 + b"\x01"], "a LEB128 number exceeds 64 bits"),
    ([b"\x0e\x80"], "the data ends inside a LEB128 number"),
    ([b"\x0c\x07"], "the data ends inside a LEB128 number"),
    ([b"\x86"], "the data ends inside a LEB128 number"),
    ([b"\x02"], "the data ends inside a number"),
    ([b"\x03\x01"], "the data ends inside a number"),
    ([b"\x04\x01\x00\x00"], "the data ends inside a number"),
    ([b"\x01\x01\x00\x00"], "the data ends inside a number"),
    ([b"\x0f\x05\x77\x08"], "the data ends before a length that it states"),
    ([b"\x10\x06\x7f\x77"], "the data ends before a length that it states"),
    ([b"\x16\x06" + b"\xff" * 9 + b"\x01"], "the data ends before a length that it states"),
]


@pytest.mark.parametrize(("program", "message"), BAD)
def test_a_program_that_cannot_be_run(program: list[Instruction], message: str) -> None:
    """It costs its function, and no other; the rows come in full up to there."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=START)
    cfi.fde(cie, start=0x800, size=0x10, instructions=[Cfa.advance(4), Cfa.def_cfa_offset(16)])
    bad = cfi.fde(
        cie, start=0x1000, size=0x100, instructions=[Cfa.advance(4), Cfa.def_cfa_offset(32), *program], padding=0
    )
    cfi.fde(cie, start=0x2000, size=0x10, instructions=[Cfa.advance(4), Cfa.def_cfa_offset(16)])
    section = read(cfi.build())
    table = section.table()
    assert [(problem.offset, problem.message) for problem in table.problems] == [(bad.offset, message)]
    assert [(row.start, row.end) for row in table.rows()] == [
        (0x800, 0x804),
        (0x804, 0x810),
        (0x2000, 0x2004),
        (0x2004, 0x2010),
    ]
    assert (table.lost, len(table.ranges)) == (1, 2)
    got = []
    with pytest.raises(FormatError) as caught:
        got.extend(section.fde(1).rows())
    assert [(row.start, row.end) for row in got][:1] == [(0x1000, 0x1004)]
    assert caught.value.section == ".eh_frame"
    assert caught.value.offset is not None
    assert bad.offset < caught.value.offset < len(section.data)


def test_an_offset_for_a_cfa_without_register() -> None:
    cfi = CfiBuilder(address=0x2000)
    cfi.fde(cfi.cie(), start=0x1000, size=0x10, instructions=[Cfa.def_cfa_offset(8)])
    table = read(cfi.build()).table()
    assert [problem.message for problem in table.problems] == ["an offset is given for a CFA that has no register"]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([Cfa.restore(16)], "DW_CFA_restore in a CIE has nothing to restore to"),
        ([Cfa.restore_extended(100)], "DW_CFA_restore in a CIE has nothing to restore to"),
        ([Cfa.restore_state], "DW_CFA_restore_state without a remembered state"),
        ([b"\x0c\x07"], "the data ends inside a LEB128 number"),
    ],
)
def test_a_cie_whose_program_cannot_be_run(program: list[Instruction], message: str) -> None:
    """All its functions are lost, each with a problem; those of others are not."""
    cfi = CfiBuilder(address=0x2000)
    bad, good = cfi.cie(instructions=program, padding=0), cfi.cie(instructions=START)
    for start, cie in ((0x1000, bad), (0x1010, good), (0x1020, bad), (0x1030, good)):
        cfi.fde(cie, start=start, size=0x10)
    section = read(cfi.build())
    table = section.table()
    assert [problem.message for problem in table.problems] == [f"its CIE's program cannot be run: {message}"] * 2
    assert [row.start for row in table.rows()] == [0x1010, 0x1030]
    with pytest.raises(FormatError, match="CIE's program cannot be run"):
        list(section.fde(0).rows())


@pytest.mark.parametrize(
    ("machine", "start", "move"),
    [
        ("dwarf-example", 0xFFFFFF40, Cfa.advance(63)),
        ("dwarf-example", 0xFFFFFF00, Cfa.advance(255)),
        ("dwarf-example", 0x1000, Cfa.advance_loc4(0xFFFFFFFF)),
        ("dwarf-example", 0x1000, Cfa.advance_loc4(0x40000001)),
        ("mips64", 0x1000, Cfa.mips_advance_loc8((1 << 64) - 1)),
        ("mips64", 0x1000, Cfa.mips_advance_loc8((1 << 62) + 1)),
        ("mips64", (1 << 64) - 256, Cfa.advance(255)),
    ],
)
def test_moves_that_wrap_around(machine: str, start: int, move: Instruction) -> None:
    """Also such as would come out a little further on, once around the address space."""
    size = 8 if machine == "mips64" else 4
    cfi = CfiBuilder("debug_frame", byte_order="big", address_size=size)
    cie = cfi.cie(code_alignment=4, instructions=START)
    cfi.fde(cie, start=start, size=0x80, instructions=[Cfa.def_cfa_offset(16), move, Cfa.def_cfa_offset(24)])
    (problem,) = read(cfi.build(), name=".debug_frame", machine=machine).table().problems
    assert problem.message in ("the location wraps around", "the location goes back")


def test_the_offset_outlives_a_cfa_that_is_an_expression() -> None:
    # libgcrypt 1.10, blake2b: rsp+56, then an expression, then DW_CFA_def_cfa_register rsp, which means rsp+56 again;
    # readelf, libgcc and gdb read it so.
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8)])
    program = [
        Cfa.def_cfa_offset(56),
        Cfa.advance(1),
        Cfa.def_cfa_expression(Op.breg(7, 536)),
        Cfa.advance(1),
        Cfa.def_cfa_offset(64),
        Cfa.advance(1),
        Cfa.def_cfa_register(6),
    ]
    cfi.fde(cie, start=0x1000, size=0x10, instructions=program)
    section = CfiSection(cfi.build(), address=0x2000)
    cfas = [row.rule.cfa.equation(section.machine) for row in section.table().rows() if row.rule.cfa is not None]
    assert cfas == ["rsp+56", "rsp + 536", "rsp + 536", "rbp+64"]


def test_the_offset_comes_back_from_below_zero() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa_sf(7, 3)])
    cfi.fde(
        cie,
        start=0x1000,
        size=0x10,
        instructions=[Cfa.def_cfa_expression(Op.lit(1)), Cfa.advance(1), Cfa.def_cfa_register(6)],
    )
    row = CfiSection(cfi.build(), address=0x2000).table().lookup(0x1001)
    assert row is not None
    assert row.rule.cfa == RegisterPlus(6, -24)
