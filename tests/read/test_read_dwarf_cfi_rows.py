"""The rows that programs make: where they begin and end, remembered states, argument sizes, the standard's example."""

from __future__ import annotations

import pytest

from clew.read.dwarf_cfi import CfiSection
from clew.table import AtCfa, InRegister, RegisterPlus, Row, SameValue, Signing, Undefined
from clew.testing import MOTOROLA_88000, MOTOROLA_88000_ROWS, Cfa, CfiBuilder, Instruction

START: list[Instruction] = [Cfa.def_cfa(7, 8), Cfa.offset(16, 1)]


def rows(instructions: list[Instruction], *, size: int = 0x100, machine: str = "x86-64") -> list[Row]:
    """The rows of one function at 0x1000, in which both layers must agree."""
    cfi = CfiBuilder(address=0x2000)
    cfi.fde(cfi.cie(instructions=START), start=0x1000, size=size, instructions=instructions)
    section = CfiSection(cfi.build(), address=0x2000, machine=machine)
    table = section.table()
    assert table.problems == ()
    found = list(section.fde(0).rows())
    assert list(table.rows()) == found
    return found


def cfas(instructions: list[Instruction], **options: int) -> list[tuple[int, int, object]]:
    return [(row.start - 0x1000, row.end - 0x1000, row.rule.cfa) for row in rows(instructions, **options)]  # type: ignore[arg-type]


def plus(offset: int) -> RegisterPlus:
    return RegisterPlus(7, offset)


def test_motorola_88000() -> None:
    """DWARF 4, appendix D.6: every row and every register."""
    table = CfiSection(MOTOROLA_88000, name=".debug_frame", machine="dwarf-example").table()
    terms = {"s": SameValue(), "u": Undefined(), "r1": InRegister(1)}
    found = list(table.rows())
    ends = [row[0] for row in MOTOROLA_88000_ROWS[1:]] + [84]
    assert len(found) == len(MOTOROLA_88000_ROWS)
    for row, end, (offset, cfa, registers) in zip(found, ends, MOTOROLA_88000_ROWS, strict=True):
        assert (row.start, row.end) == (0x1000 + offset, 0x1000 + end)
        number, _, plus = cfa[1:].partition("+")
        assert row.rule.cfa == RegisterPlus(int(number), int(plus))
        wanted = tuple(terms.get(text) or AtCfa(int(text.removeprefix("c"))) for text in registers)
        assert row.rule.registers == tuple(enumerate(wanted))
        assert row.rule.return_address == 8


def test_no_instructions() -> None:
    assert cfas([]) == [(0, 0x100, plus(8))]


def test_nothing_before_the_first_row() -> None:
    """Rules that change where the function begins belong to its first row."""
    assert cfas([Cfa.def_cfa_offset(16), Cfa.advance(4)]) == [(0, 4, plus(16)), (4, 0x100, plus(16))]


def test_moves_of_nothing_make_no_row() -> None:
    assert cfas([Cfa.advance_loc(0), Cfa.advance_loc1(0), Cfa.advance(4), Cfa.advance_loc(0)]) == [
        (0, 4, plus(8)),
        (4, 0x100, plus(8)),
    ]


def test_rows_that_say_the_same_stay_apart_until_the_table_is_normalised() -> None:
    assert len(rows([Cfa.advance(4), Cfa.def_cfa_offset(16), Cfa.def_cfa_offset(8), Cfa.advance(4)])) == 3


@pytest.mark.parametrize("move", [Cfa.advance(0x100), Cfa.advance(0x101), Cfa.advance(1 << 30), Cfa.set_loc(0x1100)])
def test_the_end_of_a_function_is_a_hard_boundary(move: Instruction) -> None:
    """What a program says of addresses behind its range does not count, nor whether that could be read."""
    assert cfas([Cfa.advance(0x10), Cfa.def_cfa_offset(16), move, Cfa.def_cfa_offset(32), b"\x3f"]) == [
        (0, 0x10, plus(8)),
        (0x10, 0x100, plus(16)),
    ]


def test_a_move_to_the_last_byte() -> None:
    assert cfas([Cfa.advance(0xFF), Cfa.def_cfa_offset(16)]) == [(0, 0xFF, plus(8)), (0xFF, 0x100, plus(16))]


def test_remember_and_restore() -> None:
    """All that the rule says comes back: CFA and registers (DWARF 5, 6.4.2.4); the location does not."""
    code = [
        Cfa.offset(6, 2),
        Cfa.remember_state,
        Cfa.advance(4),
        Cfa.def_cfa(6, 32),
        Cfa.offset(3, 3),
        Cfa.undefined(6),
        Cfa.advance(4),
        Cfa.restore_state,
        Cfa.advance(4),
    ]
    found = rows(code)
    assert [(row.start - 0x1000, row.rule.cfa) for row in found] == [
        (0, plus(8)),
        (4, RegisterPlus(6, 32)),
        (8, plus(8)),
        (12, plus(8)),
    ]
    assert found[2].rule == found[0].rule
    assert found[1].rule.registers == ((3, AtCfa(-24)), (6, Undefined()), (16, AtCfa(-8)))


def test_states_nest() -> None:
    code: list[Instruction] = []
    for depth in range(1024):
        code += [Cfa.def_cfa_offset(8 * depth), Cfa.remember_state]
    for _ in range(1024):
        code += [Cfa.advance(1), Cfa.restore_state]
    found = rows(code, size=2000)
    assert [row.rule.cfa for row in found] == [plus(8 * 1023), *(plus(8 * depth) for depth in range(1023, -1, -1))]


def test_states_are_not_remembered_from_one_function_to_the_next() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[*START, Cfa.remember_state])
    cfi.fde(cie, start=0x1000, size=0x10, instructions=[Cfa.remember_state])
    cfi.fde(cie, start=0x1010, size=0x10, instructions=[Cfa.restore_state])
    table = CfiSection(cfi.build(), address=0x2000).table()
    assert [problem.message for problem in table.problems] == ["DW_CFA_restore_state without a remembered state"]


def test_restore_goes_back_to_the_cie_or_to_nothing() -> None:
    code = [
        Cfa.same_value(16),
        Cfa.offset(6, 2),
        Cfa.advance(4),
        Cfa.restore(16),
        Cfa.restore(6),
        Cfa.restore_extended(40),
    ]
    found = rows(code)
    assert found[0].rule.registers == ((6, AtCfa(-16)), (16, SameValue()))
    assert found[1].rule.registers == ((16, AtCfa(-8)),)


def test_restore_with_two_cies() -> None:
    """Each function's own CIE counts, also where the same rule is left by the same instruction."""
    cfi = CfiBuilder(address=0x2000)
    for start, factored in ((0x1000, 1), (0x1010, 2), (0x1020, 1)):
        cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, factored)])
        cfi.fde(cie, start=start, size=0x10, instructions=[Cfa.undefined(16), Cfa.advance(4), Cfa.restore(16)])
    table = CfiSection(cfi.build(), address=0x2000).table()
    assert [row.rule[16] for row in table.rows()] == [
        Undefined(),
        AtCfa(-8),
        Undefined(),
        AtCfa(-16),
        Undefined(),
        AtCfa(-8),
    ]


def test_signing_is_part_of_what_is_remembered() -> None:
    """aadwarf64, 4.4: the state of the return address belongs to the row."""
    code = [
        Cfa.aarch64_negate_ra_state,
        Cfa.remember_state,
        Cfa.advance(4),
        Cfa.aarch64_negate_ra_state,
        Cfa.advance(4),
        Cfa.restore_state,
    ]
    assert [row.rule.signing for row in rows(code, machine="aarch64")] == [
        Signing.SIGNED,
        Signing.NONE,
        Signing.SIGNED,
    ]


def test_signing_begins_anew_in_each_function() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(augmentation="zRB", instructions=[Cfa.def_cfa(31, 0)])
    cfi.fde(cie, start=0x1000, size=0x10, instructions=[Cfa.advance(4), Cfa.aarch64_negate_ra_state])
    cfi.fde(cie, start=0x1010, size=0x10)
    table = CfiSection(cfi.build(), address=0x2000, machine="aarch64").table()
    assert [(row.rule.signing, row.rule.key_b) for row in table.rows()] == [
        (Signing.NONE, True),
        (Signing.SIGNED, True),
        (Signing.NONE, True),
    ]
    assert list(table.rules[2].remarks()) == ["return address signed, key B"]


def test_argument_sizes() -> None:
    """They are facts of the row: those in force where it ends."""
    code = [Cfa.advance(4), Cfa.gnu_args_size(16), Cfa.advance(4), Cfa.gnu_args_size(0), Cfa.advance(4)]
    assert [(row.start - 0x1000, row.args_size) for row in rows(code)] == [(0, 0), (4, 16), (8, 0), (12, 0)]


def test_argument_sizes_have_a_column_only_where_there_are_any() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=START)
    cfi.fde(cie, start=0x1000, size=0x10, instructions=[Cfa.gnu_args_size(0)])
    assert CfiSection(cfi.build(), address=0x2000).table().args_size is None
    cfi.fde(cie, start=0x1020, size=0x10, instructions=[Cfa.gnu_args_size(24)])
    cfi.fde(cie, start=0x1040, size=0x10)
    args = CfiSection(cfi.build(), address=0x2000).table().args_size
    assert args is not None
    assert args.tolist() == [0, 0, 24, 0, 0, 0], "neither gaps nor other functions have the last one's"


def test_argument_size_before_the_first_move() -> None:
    assert [row.args_size for row in rows([Cfa.gnu_args_size(8), Cfa.advance(4)])] == [8, 8]


def test_riscv_cies_may_name_only_the_register() -> None:
    """gcc for RISC-V gives DW_CFA_def_cfa_register and no offset, which is 0 until one is given."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(return_address=1, data_alignment=-4, instructions=[Cfa.def_cfa_register(2)])
    cfi.fde(cie, start=0x1000, size=0x10, instructions=[Cfa.advance(2), Cfa.def_cfa_offset(16), Cfa.offset(1, 2)])
    table = CfiSection(cfi.build(), address=0x2000, machine="riscv64").table()
    assert [row.rule.text(table.machine) for row in table.rows()] == ["cfa = sp", "cfa = sp+16  ra = *(cfa-8)"]


def test_a_register_for_a_cfa_that_was_an_expression_needs_def_cfa() -> None:
    assert cfas([Cfa.def_cfa_expression(b"\x77\x08"), Cfa.advance(4), Cfa.def_cfa(7, 16)])[1] == (4, 0x100, plus(16))


def test_a_function_without_cfa() -> None:
    cfi = CfiBuilder(address=0x2000)
    cfi.fde(cfi.cie(), start=0x1000, size=0x10, instructions=[Cfa.same_value(3)])
    (row,) = CfiSection(cfi.build(), address=0x2000).table().rows()
    assert (row.rule.cfa, row.rule.information) == (None, True)


def test_trace_has_each_instruction_with_the_row_that_it_completes() -> None:
    cfi = CfiBuilder(address=0x2000)
    code = [Cfa.advance(4), Cfa.def_cfa_offset(16), Cfa.advance(4), Cfa.def_cfa_offset(8)]
    cfi.fde(cfi.cie(instructions=START), start=0x1000, size=0x10, instructions=code, padding=0)
    section = CfiSection(cfi.build(), address=0x2000)
    steps = [
        (instruction and instruction.name, row and (row.start, row.end, row.rule.cfa))
        for instruction, row in section.trace(section.fde(0))
    ]
    assert steps == [
        ("DW_CFA_advance_loc", (0x1000, 0x1004, plus(8))),
        ("DW_CFA_def_cfa_offset", None),
        ("DW_CFA_advance_loc", (0x1004, 0x1008, plus(16))),
        ("DW_CFA_def_cfa_offset", None),
        (None, (0x1008, 0x1010, plus(8))),
    ]


def test_functions_may_be_read_side_by_side() -> None:
    """The rows are lazy, and each function's state is its own."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=START)
    for start in (0x1000, 0x1100):
        code: list[Instruction] = []
        for number in range(5):
            code += [Cfa.remember_state, Cfa.gnu_args_size(number), Cfa.advance(4), Cfa.def_cfa_offset(start + number)]
        cfi.fde(cie, start=start, size=0x100, instructions=[*code, *[Cfa.advance(4), Cfa.restore_state] * 5])
    section = CfiSection(cfi.build(), address=0x2000)
    alone = [list(fde.rows()) for fde in section.fdes()]
    both = list(zip(section.fde(0).rows(), section.fde(1).rows(), strict=True))
    assert [list(found) for found in zip(*both, strict=True)] == alone
    half = section.fde(0).rows()
    next(half)
    assert list(section.fde(1).rows()) == alone[1]
    assert list(half) == alone[0][1:]
