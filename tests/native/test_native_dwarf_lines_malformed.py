"""Line number programs that are cut or make no sense: what was read before stays, and a problem says where it ended."""

from __future__ import annotations

import pytest

from clew.native.dwarf_lines import NO_FILE, LineReader, LineRows
from clew.testing.dwarf_lines import LineProgramBuilder


def rows(result: LineRows) -> list[tuple[int, int, int]]:
    """Address, line and file of each row."""
    return list(zip(result.address.tolist(), result.line.tolist(), result.file.tolist(), strict=True))


def read(program: LineProgramBuilder, *, address_size: int = 8) -> LineRows:
    """What the reader makes of a program that stands alone."""
    return LineReader(program.build()).read(0, address_size)


def test_a_cut_program_keeps_its_rows() -> None:
    program = LineProgramBuilder(files=["a.c"])
    program.sequence([(0x10, 1), (0x14, 2)], 0x20)
    begin = len(program.build())
    program.set_address(0x30)
    for _ in range(4):
        program.special(4, 1)
    program.end_sequence()
    data = program.build()
    whole = [(0x10, 1, 1), (0x14, 2, 1), (0x20, 0, NO_FILE)]
    for cut in range(begin, len(data) - 3):
        result = LineReader(data[:cut]).read(0)
        # Where the row that was made last ends is not known, so it counts for nothing.
        made = max(cut - begin - 11, 0)
        rest = [(0x34 + 4 * i, 2 + i, 1) for i in range(min(made, 4) - 1)]
        if rest:
            rest.append((rest[-1][0] + 4, 0, NO_FILE))
        assert rows(result) == whole + rest, cut
        assert result.problems
        assert result.problems[0].section == ".debug_line"
    for cut in range(begin):
        assert set(rows(LineReader(data[:cut]).read(0))) <= {*whole, (0x14, 0, NO_FILE)}


@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("outside of the section", b""),
        ("ends inside a number", bytes.fromhex("0000")),
        ("reserved", bytes.fromhex("f0ffffff")),
        ("version 1 ", bytes.fromhex("02000000 0100")),
        ("version 6 ", bytes.fromhex("02000000 0600")),
        ("runs past its end", bytes.fromhex("06000000 0200 ffffffff")),
        ("a zero where none may be", LineProgramBuilder(opcode_base=0).build()),
        ("a zero where none may be", LineProgramBuilder(most_operations=0).build()),
        ("longer than it says", LineProgramBuilder(version=4).build(header_length=5)),
    ],
)
def test_headers_that_make_no_sense(message: str, data: bytes) -> None:
    result = LineReader(data).read(0)
    assert message in str(result.problems[-1])
    assert rows(result) == []
    assert 0 <= result.end <= len(data)


def test_opcodes_that_make_no_sense() -> None:
    starts: list[int] = []

    def problem(program: LineProgramBuilder) -> str:
        result = read(program)
        assert rows(result) == [(0x10, 1, 1), (0x20, 0, NO_FILE)]
        assert result.problems[0].offset == starts.pop()
        return result.problems[0].message

    def begun(line_range: int = 14) -> LineProgramBuilder:
        program = LineProgramBuilder(line_range=line_range)
        program.sequence([(0x10, 1)], 0x20)
        starts.append(len(program.build()))
        return program

    program = begun(line_range=0)
    program.raw(b"\xff")
    assert "line range" in problem(program)
    program = begun(line_range=0)
    program.const_add_pc()
    assert "line range" in problem(program)
    program = begun()
    program.extended(2, bytes(9))
    assert "address" in problem(program)
    program = begun()
    program.extended(1, length=100)
    assert "past the end" in problem(program)
    program = begun()
    program.raw(b"\x02" + b"\xff" * 10 + b"\x01")
    assert "64 bits" in problem(program)
    program = begun()
    program.extended(4, b"\x80", length=2)
    assert "ends inside" in problem(program)


def test_offsets_that_are_none() -> None:
    reader = LineReader(bytes(10))
    for offset in (-1, 10, 1 << 70):
        result = reader.read(offset)
        assert rows(result) == []
        assert result.problems


def test_columns_of_code_that_do_not_match() -> None:
    with pytest.raises(ValueError, match="one length"):
        LineReader(b"", code_start=[1], code_end=[])


def test_many_small_sequences_backwards_take_no_time() -> None:
    program = LineProgramBuilder(version=2, address_size=4)
    for i in range(20_000, 0, -1):
        program.set_address(i * 4 + 2)
        program.copy()
        program.set_address(i * 4)
        program.copy()
        program.set_address(i * 4 + 4)
        program.end_sequence()
    result = read(program, address_size=4)
    assert len(result.address) == 40_001
    assert result.address[0] == 4
