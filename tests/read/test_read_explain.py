"""Which instruction set what: explain() on programs whose every byte is placed by hand."""

from __future__ import annotations

import pytest

from clew.arch import machine_named
from clew.errors import FormatError, NotFoundError
from clew.read.dwarf_cfi import CfiSection, Explanation, explain
from clew.read.dwarf_cfi.origins import (
    ARGUMENTS,
    CFA_EXPRESSION,
    CFA_OFFSET,
    CFA_REGISTER,
    SIGNING,
    Part,
    nearest_fde,
)
from clew.table import AtCfa, CfaExpression, RegisterPlus, Signing, merge
from clew.testing import Cfa, CfiBuilder, Instruction, Op

RBX, RBP, RSP, RIP = 3, 6, 7, 16
# At 0x11 and 0x14 of a section that begins with a CIE of augmentation zR.
CIE_PROGRAM = [Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 1)]


def section_of(
    program: list[Instruction], *, cie: list[Instruction] | None = None, machine: str = "x86-64", **options: str
) -> CfiSection:
    """One FDE of 0x1000..0x1020. Its program begins at 0x29 of the section."""
    cfi = CfiBuilder(address=0x2000, byte_order=machine_named(machine).byte_order)
    common = cfi.cie(instructions=CIE_PROGRAM if cie is None else cie, **options)  # type: ignore[arg-type]
    cfi.fde(common, start=0x1000, size=0x20, instructions=program)
    return CfiSection(cfi.build(), address=0x2000, machine=machine)


def origins(found: Explanation) -> dict[Part, tuple[int, int | None]]:
    """Offset of the instruction that set each part, and from where on."""
    return {part: (origin.instruction.offset, origin.location) for part, origin in found.origins.items()}


# push %rbp; mov %rsp,%rbp; …; at 0x1011 pop %rbp has run, ret; at 0x1012 the frame is as before.
FUNCTION: list[Instruction] = [
    Cfa.advance(1),  # 0x29
    Cfa.def_cfa_offset(16),  # 0x2a
    Cfa.offset(RBP, 2),  # 0x2c
    Cfa.advance(3),  # 0x2e
    Cfa.def_cfa_register(RBP),  # 0x2f
    Cfa.advance(0xD),  # 0x31
    Cfa.remember_state,  # 0x32
    Cfa.def_cfa(RSP, 8),  # 0x33
    Cfa.restore(RBP),  # 0x36
    Cfa.advance(1),  # 0x37
    Cfa.restore_state,  # 0x38
]
IN_THE_CIE = {CFA_REGISTER: (0x11, None), CFA_OFFSET: (0x11, None), RIP: (0x14, None)}


@pytest.mark.parametrize(
    ("address", "row", "expected"),
    [
        (0x1000, (0x1000, 0x1001), IN_THE_CIE),
        (0x1001, (0x1001, 0x1004), {**IN_THE_CIE, CFA_OFFSET: (0x2A, 0x1001), RBP: (0x2C, 0x1001)}),
        (0x1003, (0x1001, 0x1004), {**IN_THE_CIE, CFA_OFFSET: (0x2A, 0x1001), RBP: (0x2C, 0x1001)}),
        (
            0x1010,
            (0x1004, 0x1011),
            {CFA_REGISTER: (0x2F, 0x1004), CFA_OFFSET: (0x2A, 0x1001), RBP: (0x2C, 0x1001), RIP: (0x14, None)},
        ),
        (0x1011, (0x1011, 0x1012), {CFA_REGISTER: (0x33, 0x1011), CFA_OFFSET: (0x33, 0x1011), RIP: (0x14, None)}),
        (
            0x101F,
            (0x1012, 0x1020),
            {CFA_REGISTER: (0x2F, 0x1004), CFA_OFFSET: (0x2A, 0x1001), RBP: (0x2C, 0x1001), RIP: (0x14, None)},
        ),
    ],
)
def test_each_part_has_its_instruction(
    address: int, row: tuple[int, int], expected: dict[Part, tuple[int, int | None]]
) -> None:
    found = explain([section_of(FUNCTION)], address)
    assert (found.row.start, found.row.end) == row
    assert origins(found) == expected
    assert (found.fde.offset, found.fde.cie.offset, found.hidden, found.problems) == (0x18, 0, (), ())


def test_restore_state_is_told_where_it_brought_something_back() -> None:
    found = explain([section_of(FUNCTION)], 0x1012).origins
    brought_back = {
        part: (origin.via.offset, origin.via_location) for part, origin in found.items() if origin.via is not None
    }
    assert brought_back == dict.fromkeys((CFA_REGISTER, CFA_OFFSET, RBP), (0x38, 0x1012))
    # rip was never another, so nothing brought it back.
    assert found[RIP].via is None


def test_restore_state_that_changes_nothing_is_no_origin() -> None:
    found = explain([section_of([Cfa.remember_state, Cfa.restore_state])], 0x1000)
    assert all(origin.via is None for origin in found.origins.values())


@pytest.mark.parametrize("restore", [Cfa.restore, Cfa.restore_extended])
def test_restore_goes_back_to_the_cie(restore: object) -> None:
    assert callable(restore)
    # rip in rbx for a while, rbx undefined for a while: the CIE names rip only.
    program = [Cfa.register(RIP, RBX), Cfa.undefined(RBX), Cfa.advance(4), restore(RIP), restore(RBX)]
    section = section_of(program)
    assert origins(explain([section], 0x1000)) == {**IN_THE_CIE, RIP: (0x29, 0x1000), RBX: (0x2C, 0x1000)}
    after = explain([section], 0x1004)
    assert origins(after) == IN_THE_CIE
    assert after.origins[RIP].via is not None
    assert (after.origins[RIP].via.offset, after.origins[RIP].via_location) == (0x2F, 0x1004)
    assert after.row.rule[RBX] is None


def test_the_argument_size_is_not_remembered() -> None:
    program = [
        Cfa.gnu_args_size(16),  # 0x29
        Cfa.remember_state,  # 0x2b
        Cfa.def_cfa_offset(32),  # 0x2c
        Cfa.gnu_args_size(24),  # 0x2e
        Cfa.advance(1),
        Cfa.restore_state,
    ]
    found = explain([section_of(program)], 0x1001)
    assert found.row.args_size == 24
    assert origins(found)[ARGUMENTS] == (0x2E, 0x1000)


def test_an_expression_stands_for_the_whole_cfa() -> None:
    program = [
        Cfa.def_cfa_offset(56),  # 0x29
        Cfa.def_cfa_expression(Op.breg(RBP, 8)),  # 0x2b, five bytes
        Cfa.advance(4),
        Cfa.def_cfa_register(RBP),  # 0x30: the offset is still 56
    ]
    section = section_of(program)
    first, second = explain([section], 0x1000), explain([section], 0x1004)
    assert isinstance(first.row.rule.cfa, CfaExpression)
    assert origins(first) == {CFA_EXPRESSION: (0x2B, 0x1000), RIP: (0x14, None)}
    assert second.row.rule.cfa == RegisterPlus(RBP, 56)
    assert origins(second) == {CFA_REGISTER: (0x30, 0x1004), CFA_OFFSET: (0x29, 0x1000), RIP: (0x14, None)}


@pytest.mark.parametrize(
    "instruction",
    [
        Cfa.offset_extended(RBX, 2),
        Cfa.offset_extended_sf(RBX, 2),
        Cfa.gnu_negative_offset_extended(RBX, 2),
        Cfa.undefined(RBX),
        Cfa.same_value(RBX),
        Cfa.register(RBX, RBP),
        Cfa.val_offset(RBX, 2),
        Cfa.val_offset_sf(RBX, 2),
        Cfa.expression(RBX, Op.breg(RBP, 8)),
        Cfa.val_expression(RBX, Op.breg(RBP, 8)),
    ],
)
def test_every_register_instruction_is_an_origin(instruction: bytes) -> None:
    found = explain([section_of([instruction])], 0x1000)
    assert found.row.rule[RBX] is not None
    assert origins(found)[RBX] == (0x29, 0x1000)


def test_signed_return_addresses() -> None:
    # paciasp; … autiasp (aadwarf64, 4.4): the last of the two set the state.
    program = [Cfa.advance(4), b"\x2d", Cfa.advance(8), b"\x2d"]
    section = section_of(program, cie=[Cfa.def_cfa(31, 0)], machine="aarch64")
    inside, after = explain([section], 0x1004), explain([section], 0x100C)
    assert (inside.row.rule.signing, after.row.rule.signing) == (Signing.SIGNED, Signing.NONE)
    assert inside.origins[SIGNING].location == 0x1004
    assert after.origins[SIGNING].location == 0x100C


def test_a_register_window_sets_the_outs_the_locals_and_the_ins() -> None:
    section = section_of([Cfa.advance(4), b"\x2d"], cie=[Cfa.def_cfa(14, 0)], machine="sparc")
    found = explain([section], 0x1004)
    assert {part for part in found.origins if isinstance(part, int)} == {
        number for number, _ in found.row.rule.registers
    }
    assert found.origins[8].instruction.name == "DW_CFA_GNU_window_save"


def overlapping(inner: list[Instruction]) -> CfiSection:
    """An FDE of 0x1000..0x1020 at 0x18, and one of 0x1008..0x1010 inside it at 0x30."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=CIE_PROGRAM)
    cfi.fde(cie, start=0x1000, size=0x20, instructions=[Cfa.def_cfa_offset(16)])
    cfi.fde(cie, start=0x1008, size=8, instructions=inner)
    return CfiSection(cfi.build(), address=0x2000)


def test_of_overlapping_entries_the_one_that_starts_last_counts() -> None:
    section = overlapping([Cfa.def_cfa_offset(32)])
    inside, behind = explain([section], 0x1008), explain([section], 0x1010)
    assert inside.row.rule.cfa == RegisterPlus(RSP, 32)
    assert [fde.offset for fde in inside.hidden] == [0x18]
    assert behind.row.rule.cfa == RegisterPlus(RSP, 16)
    assert behind.hidden == ()


@pytest.mark.parametrize(
    "nonsense",
    [
        [Cfa.restore_state],
        # The row itself would be fine; but the Table leaves out what does not run to its end.
        [Cfa.advance(7), Cfa.restore_state],
    ],
)
def test_an_entry_that_makes_no_sense_does_not_count(nonsense: list[Instruction]) -> None:
    section = overlapping(nonsense)
    found = explain([section], 0x1008)
    assert found.row.rule.cfa == RegisterPlus(RSP, 16)
    assert [(problem.section, problem.lost) for problem in found.problems] == [(".eh_frame", True)]
    row = section.table().lookup(0x1008)
    assert row is not None
    assert row.rule == found.row.rule
    alone = section_of(nonsense)
    with pytest.raises(FormatError, match="without a remembered state"):
        explain([alone], 0x1000)
    assert alone.table().lookup(0x1000) is None


def test_an_unknown_augmentation_says_nothing() -> None:
    section = section_of(FUNCTION, augmentation="what")
    with pytest.raises(FormatError, match="'what' is not known"):
        explain([section], 0x1000)


def debug_frame(start: int, offset: int) -> CfiSection:
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(instructions=CIE_PROGRAM)
    cfi.fde(cie, start=start, size=0x20, instructions=[Cfa.def_cfa_offset(offset)])
    return CfiSection(cfi.build(), name=".debug_frame")


def test_the_first_section_that_has_a_rule_counts() -> None:
    sections = [section_of(FUNCTION), debug_frame(0x1010, 64)]
    both, second = explain(sections, 0x1012), explain(sections, 0x1020)
    assert both.section is sections[0]
    assert [fde.cie.section.name for fde in both.hidden] == [".debug_frame"]
    assert second.section is sections[1]
    assert second.row.rule[RIP] == AtCfa(-8)
    table = merge([section.table() for section in sections])
    for address, found in ((0x1012, both), (0x1020, second)):
        row = table.lookup(address)
        assert row is not None
        assert row.rule == found.row.rule


def test_the_second_section_helps_out() -> None:
    found = explain([section_of(FUNCTION, augmentation="what"), debug_frame(0x1000, 64)], 0x1000)
    assert found.row.rule.cfa == RegisterPlus(RSP, 64)
    assert "'what'" in found.problems[0].message


@pytest.mark.parametrize("address", [0, 0xFFF, 0x1020, 0xFFFFFFFFFFFFFFFF, 1 << 64, -1])
def test_an_address_that_nothing_covers(address: int) -> None:
    with pytest.raises(NotFoundError) as caught:
        explain([section_of(FUNCTION)], address)
    assert caught.value.hint == "the nearest function that has a table is at 0x1000..0x1020"


def test_the_nearest_entry_of_all_sections() -> None:
    sections = [section_of(FUNCTION), debug_frame(0x1100, 64)]

    def nearest(address: int) -> int:
        fde = nearest_fde(sections, address)
        assert fde is not None
        return fde.start

    # From the last byte of the one, 0x101f, to the first of the other, 0x1100, the middle is 0x108f.
    assert [nearest(address) for address in (0, 0x1020, 0x108F, 0x1090, 0x2000)] == [
        0x1000,
        0x1000,
        0x1000,
        0x1100,
        0x1100,
    ]
    assert nearest_fde([CfiSection(b"")], 0) is None


def test_remembered_states_share_what_they_remember() -> None:
    # A copy of all origins for each would be 100,000 times 300.
    many = [Cfa.undefined(register) for register in range(100, 400)]
    found = explain([section_of([*many, *[Cfa.remember_state, Cfa.restore_state] * 50_000])], 0x1000)
    assert len(found.origins) == 303
