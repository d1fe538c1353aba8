"""Tables for people: the cells of every line, and how they stand."""

from __future__ import annotations

from clew.read.dwarf_cfi import CfiSection
from clew.testing import Cfa, CfiBuilder, Instruction
from clew.write.text import Block, blocks

RBX, RBP, RSP, RIP = 3, 6, 7, 16


def block_of(
    program: list[Instruction], augmentation: str = "zR", machine: str = "x86-64", name: tuple[str, int] | None = None
) -> Block:
    cfi = CfiBuilder()
    cie = cfi.cie(augmentation=augmentation, instructions=[Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 1)])
    cfi.fde(cie, start=0xFF8, size=0x100, instructions=program)
    (block,) = blocks(CfiSection(cfi.build(), machine=machine).table(), lambda address: name)
    return block


PROLOGUE: list[Instruction] = [
    Cfa.advance(1),
    Cfa.def_cfa_offset(16),
    Cfa.offset(RBP, 2),
    Cfa.advance(0x1F),
    Cfa.undefined(RBX),
    Cfa.def_cfa_register(RBP),
]


def test_a_line_a_row_and_a_column_a_register() -> None:
    block = block_of(PROLOGUE)
    assert [(line.address, *line.cells) for line in block.lines] == [
        ("address", "cfa   ", "rbx      ", "rbp      ", "rip"),
        ("0xff8  ", "rsp+8 ", "·        ", "·        ", "*(cfa-8)"),
        ("0xff9  ", "rsp+16", "·        ", "*(cfa-16)", "*(cfa-8)"),
        ("0x1018 ", "rbp+16", "undefined", "*(cfa-16)", "*(cfa-8)"),
    ]
    assert [line.remarks for line in block.lines] == [""] * 4
    assert (block.function.range.start, block.function.range.end) == (0xFF8, 0x10F8)


def test_names() -> None:
    assert block_of([]).name == ""
    assert block_of([], name=("main", 0)).name == "main"
    assert block_of([], name=("main", 0x10)).name == "main+0x10"


def test_remarks() -> None:
    lines = block_of([Cfa.advance(1), Cfa.gnu_args_size(8)], "zRS").lines
    assert [line.remarks for line in lines] == ["", "signal frame", "signal frame, 8 bytes of arguments"]


def test_rows_that_say_nothing() -> None:
    # An unknown augmentation: only the range can be read.
    lines = block_of([], "what").lines
    assert [(line.cells, line.remarks) for line in lines] == [(("cfa",), ""), (("·",), "no information")]


def test_registers_without_a_name_have_their_numbers_place() -> None:
    lines = block_of([Cfa.undefined(100), Cfa.undefined(2), Cfa.undefined(99)]).lines
    assert [cell.strip() for cell in lines[0].cells] == ["cfa", "rcx", "rip", "r99", "r100"]
