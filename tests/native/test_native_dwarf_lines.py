"""Line number programs run opcode by opcode, against rows computed by hand from DWARF 5, 6.2."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from clew.native import compiled
from clew.native.dwarf_lines import NO_FILE, LineReader, LineRows
from clew.testing.cfi_instructions import ByteOrder, sleb, uleb
from clew.testing.dwarf_lines import LineProgramBuilder

Row = tuple[int, int, int]


def rows(result: LineRows) -> list[Row]:
    """Address, line and file of each row."""
    return list(zip(result.address.tolist(), result.line.tolist(), result.file.tolist(), strict=True))


def read(program: LineProgramBuilder | bytes, *, address_size: int = 8, merge: bool = False) -> LineRows:
    """What the reader makes of a program that stands alone."""
    big = isinstance(program, LineProgramBuilder) and program.byte_order == "big"
    data = program if isinstance(program, bytes) else program.build()
    return LineReader(data, big=big, discriminators=True, merge=merge).read(0, address_size)


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_every_opcode_of_the_standard(version: int, dwarf64: bool, byte_order: ByteOrder) -> None:
    program = LineProgramBuilder(version=version, dwarf64=dwarf64, byte_order=byte_order, files=["a.c"])
    program.set_address(0x1000)
    program.special(0, 3)  # 0x1000: line 1 + 3
    program.copy()  # 0x1000 again: the last counts, which is the same
    program.set_column(300)
    program.negate_stmt()
    program.standard(7)  # set_basic_block
    program.standard(10)  # set_prologue_end
    program.standard(11)  # set_epilogue_begin
    program.standard(12, 1)  # set_isa
    program.special(2, -5)  # 0x1002: line 4 - 5 wraps
    program.advance_line(100)
    program.const_add_pc()  # opcode 255: (255 - 13) // 14 = 17
    program.copy()  # 0x1013: line 99
    program.advance_line(-9)
    program.set_file(300)
    program.discriminator(7)
    program.fixed_advance_pc(0x1234)
    program.copy()  # 0x2247: line 90, file 300
    program.advance_pc(0x1000)
    program.copy()  # 0x3247
    program.advance_pc(1)
    program.end_sequence()
    program.set_address(0x8000)  # the registers begin anew
    program.copy()
    program.advance_pc(0x10)
    program.end_sequence()
    result = read(program)
    assert result.problems == []
    assert result.end == len(program.build())
    assert rows(result) == [
        (0x1000, 4, 1),
        (0x1002, 0xFFFFFFFF, 1),
        (0x1013, 99, 1),
        (0x2247, 90, 300),
        (0x3247, 90, 300),
        (0x3248, 0, NO_FILE),
        (0x8000, 1, 1),
        (0x8010, 0, NO_FILE),
    ]
    assert result.discriminator is not None
    assert result.discriminator.tolist() == [0, 0, 0, 7, 0, 0, 0, 0]


def test_dtypes_and_what_was_not_asked_for() -> None:
    program = LineProgramBuilder(files=["a.c"])
    program.sequence([(0x10, 1)], 0x20)
    result = LineReader(program.build()).read(0)
    assert [result.address.dtype, result.line.dtype, result.file.dtype] == ["u8", "u4", "u4"]
    assert result.discriminator is None


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_operands_of_every_length(padding: int) -> None:
    deltas = [1, 63, -64, 64, -65, 8191, -8192, 8192, -8193, 1 << 20, -(1 << 20), (1 << 31) - 1, -(1 << 31), 3]
    program = LineProgramBuilder()
    program.set_address(0x10)
    expected = []
    address, line = 0x10, 1
    for delta in deltas:
        size = len(sleb(delta)) + padding
        program.raw(b"\x03" + sleb(delta, size=size))
        program.raw(b"\x02" + uleb(abs(delta), size=size))
        program.raw(b"\x05" + uleb(abs(delta), size=size))
        program.copy()
        address, line = address + abs(delta), (line + delta) % (1 << 32)
        expected.append((address, line, 1))
    program.advance_pc(1)
    program.end_sequence()
    assert rows(read(program)) == [*expected, (address + 1, 0, NO_FILE)]


def test_instructions_of_several_bytes() -> None:
    program = LineProgramBuilder(version=4, min_instruction=4, line_base=-3, line_range=12)
    program.set_address(0x1000)
    program.special(3, 1)  # 0x100c
    program.advance_pc(2)
    program.copy()  # 0x1014
    program.const_add_pc()  # (255 - 13) // 12 = 20
    program.copy()  # 0x1064
    program.fixed_advance_pc(2)  # not scaled
    program.end_sequence()
    assert rows(read(program)) == [(0x100C, 2, 1), (0x1014, 2, 1), (0x1064, 2, 1), (0x1066, 0, NO_FILE)]


def test_bundles_of_a_vliw_machine() -> None:
    """Itanium: three operations in 16 bytes (DWARF 5, 6.2.5.1)."""
    program = LineProgramBuilder(version=4, min_instruction=16, most_operations=3)
    program.set_address(0x100)
    program.special(1, 1)  # operation 1 of 0x100
    program.special(1, 1)  # operation 2 of 0x100
    program.special(2, 1)  # operation 4: 1 of 0x110
    program.advance_pc(7)  # operation 8: 2 of 0x120 + ...: 0x110 + 16 * (8 // 3) = 0x130
    program.copy()
    program.const_add_pc()  # 17 + 2 = 19: 6 bundles on, operation 1
    program.copy()
    program.fixed_advance_pc(1)  # operation 0
    program.special(2, 0)
    program.advance_pc(3)
    program.end_sequence()
    assert rows(read(program)) == [
        (0x100, 3, 1),
        (0x110, 4, 1),
        (0x130, 4, 1),
        (0x190, 4, 1),
        (0x191, 4, 1),
        (0x1A1, 0, NO_FILE),
    ]


def test_opcodes_that_nobody_knows() -> None:
    program = LineProgramBuilder(version=3, opcode_base=16, operands=(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2, 0, 3))
    program.set_address(0x10)
    program.standard(13, 1, 2000)
    program.standard(14)
    program.standard(15, 1, 2, 3)
    program.extended(0x80, b"vendor")
    program.raw(b"\0\0")  # an extended opcode of no length
    program.special(0, 1)
    program.advance_pc(1)
    program.end_sequence()
    result = read(program)
    assert rows(result) == [(0x10, 2, 1), (0x11, 0, NO_FILE)]
    assert result.problems == []


def test_a_short_list_of_standard_opcodes() -> None:
    """Below 13, as in the first years of DWARF 2, 10 to 12 are special opcodes."""
    program = LineProgramBuilder(version=2, opcode_base=10, line_base=-1, line_range=4)
    program.set_address(0x10)
    program.raw(bytes((10, 12, 15)))  # lines -1 and +1, then one byte on and +0
    program.advance_pc(1)
    program.end_sequence()
    assert rows(read(program)) == [(0x10, 1, 1), (0x11, 1, 1), (0x12, 0, NO_FILE)]


@pytest.mark.parametrize("address_size", [4, 8])
def test_addresses_wrap_at_their_size(address_size: int) -> None:
    program = LineProgramBuilder(version=4, address_size=address_size)
    program.set_address((1 << 8 * address_size) - 8)
    program.copy()
    program.advance_pc(4)
    program.copy()
    program.advance_pc(0x10)
    program.end_sequence()
    result = read(program, address_size=address_size)
    # It ends at 12, before it began.
    assert rows(result) == []
    assert "backwards" in result.problems[0].message


def test_the_length_of_an_address_says_its_size() -> None:
    program = LineProgramBuilder(version=4)
    program.set_address(0x1234, size=4)
    program.copy()
    program.advance_pc(2)
    program.end_sequence()
    assert rows(read(program)) == [(0x1234, 1, 1), (0x1236, 0, NO_FILE)]


def test_files_that_the_program_defines() -> None:
    program = LineProgramBuilder(version=4, files=["a.c"])
    program.define_file("b.c", 1)
    data = program.build()
    assert LineReader(data).read(0).defined == (data.index(b"b.c"),)


def test_a_row_at_the_end_says_nothing() -> None:
    program = LineProgramBuilder()
    program.sequence([(0x10, 1), (0x20, 2)], 0x20)
    assert rows(read(program)) == [(0x10, 1, 1), (0x20, 0, NO_FILE)]


def test_a_sequence_of_no_code_is_none() -> None:
    program = LineProgramBuilder()
    program.sequence([(0x10, 1)], 0x10)
    program.sequence([], 0x40)
    program.end_sequence()
    result = read(program)
    assert rows(result) == []
    assert result.problems == []


def test_sequences_are_sorted_and_adjacent_ones_have_no_gap() -> None:
    program = LineProgramBuilder()
    program.sequence([(0x30, 3)], 0x40)
    program.sequence([(0x10, 1)], 0x20)
    program.sequence([(0x20, 2)], 0x30)
    assert rows(read(program)) == [(0x10, 1, 1), (0x20, 2, 1), (0x30, 3, 1), (0x40, 0, NO_FILE)]


def test_of_overlapping_sequences_the_one_that_starts_first_counts() -> None:
    program = LineProgramBuilder()
    program.sequence([(0x15, 21), (0x18, 22), (0x1C, 23), (0x24, 24)], 0x28)
    program.sequence([(0x10, 11), (0x14, 12)], 0x20)
    program.sequence([(0x12, 31)], 0x1E)
    # What the second leaves of the first: from 0x20 on, its row of 0x1c first.
    assert rows(read(program)) == [(0x10, 11, 1), (0x14, 12, 1), (0x20, 23, 1), (0x24, 24, 1), (0x28, 0, NO_FILE)]


def test_of_equal_starts_the_longer_sequence_counts_then_the_earlier() -> None:
    program = LineProgramBuilder()
    program.sequence([(0x10, 1)], 0x18)
    program.sequence([(0x10, 2)], 0x20)
    program.sequence([(0x10, 3)], 0x20)
    assert rows(read(program)) == [(0x10, 2, 1), (0x20, 0, NO_FILE)]


def test_code_that_the_linker_discarded() -> None:
    program = LineProgramBuilder()
    program.sequence([(0, 1), (0x2000, 2)], 0x3000)
    program.sequence([(0x1010, 3)], 0x1020)
    program.sequence([((1 << 64) - 1, 4)], (1 << 64) - 1)
    program.sequence([(0x5000, 5)], 0x5001)
    program.sequence([(0x4FFF, 6)], 0x5000)
    reader = LineReader(program.build(), code_start=[0x1000, 0x4000], code_end=[0x2000, 0x5000])
    assert rows(reader.read(0)) == [(0x1010, 3, 1), (0x1020, 0, NO_FILE), (0x4FFF, 6, 1), (0x5000, 0, NO_FILE)]


def test_rows_that_go_backwards_are_sorted() -> None:
    program = LineProgramBuilder()
    program.set_address(0x10)
    program.special(0, 0)
    for line, address in ((2, 0x30), (3, 0x20), (4, 0x40), (5, 0x20), (6, 0x60)):
        program.set_address(address)
        program.advance_line(1)
        program.copy()
        assert line
    program.set_address(0x50)
    program.end_sequence()
    program.sequence([(0x8, 9)], 0x10)
    result = read(program)
    assert rows(result) == [
        (0x8, 9, 1),
        (0x10, 1, 1),
        (0x20, 5, 1),
        (0x30, 2, 1),
        (0x40, 4, 1),
        (0x50, 0, NO_FILE),
    ]
    assert [str(problem) for problem in result.problems] == [
        ".debug_line: 0x0: addresses go backwards in 1 sequences of the line program"
    ]
    assert not result.problems[0].lost


def test_rows_that_say_the_same_are_one_when_asked() -> None:
    program = LineProgramBuilder()
    program.sequence([(0x10, 1), (0x11, 1), (0x12, 1, 1, 4), (0x13, 1, 1, 4), (0x14, 2)], 0x20)
    program.sequence([(0x20, 2)], 0x30)
    assert [row[0] for row in rows(read(program, merge=True))] == [0x10, 0x12, 0x14, 0x30]
    plain = LineReader(program.build(), merge=True).read(0)
    assert rows(plain) == [(0x10, 1, 1), (0x14, 2, 1), (0x30, 0, NO_FILE)]


def test_a_reader_is_used_again_and_columns_stay() -> None:
    small = LineProgramBuilder(files=["a.c"])
    small.sequence([(0x10, 1)], 0x20)
    large = LineProgramBuilder(version=3)
    many = [(0x1000 + 2 * i, i % 1000 + 1, i % 7) for i in range(20_000)]
    for begin in range(0, 20_000, 100):
        large.sequence(many[begin : begin + 100], many[begin][0] + 200)
    first = small.build()
    reader = LineReader(first + large.build() + first)
    one = reader.read(0)
    two = reader.read(one.end)
    three = reader.read(two.end)
    assert rows(one) == rows(three) == [(0x10, 1, 1), (0x20, 0, NO_FILE)]
    assert rows(two) == [*many, (0x1000 + 40_000, 0, NO_FILE)]
    assert three.end == len(first) * 2 + len(large.build())


def test_readers_of_several_threads() -> None:
    program = LineProgramBuilder(version=3, files=["a.c"])
    program.define_file("b.c")
    expected = [(0x1000 + i, i % 1000 + 1, 1) for i in range(30_000)]
    program.sequence(expected, 0x1000 + 30_000)
    data = program.build()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: LineReader(data).read(0), range(8)))
    for result in results:
        assert rows(result) == [*expected, (0x1000 + 30_000, 0, NO_FILE)]
        assert len(result.defined) == 1


def corpus() -> list[bytes]:
    """Random programs, many of which make no sense; the same in every process."""
    random = Random(7)
    blobs = []
    for _ in range(250):
        program = LineProgramBuilder(
            version=random.choice((2, 3, 4, 5)),
            dwarf64=random.random() < 0.2,
            min_instruction=random.choice((1, 1, 4, 0, 255)),
            most_operations=random.choice((1, 1, 3, 255)),
            line_range=random.choice((14, 14, 1, 0)),
            opcode_base=random.choice((13, 13, 10, 1, 20)),
        )
        program.set_address(random.randrange(0x2000))
        for _ in range(random.randrange(40)):
            match random.randrange(4):
                case 0:
                    program.raw(random.randbytes(random.randrange(1, 12)))
                case 1:
                    program.set_address(random.getrandbits(random.choice((8, 16, 64))))
                case 2:
                    program.raw(bytes((random.choice((1, 13, 20, 200)),)) * random.randrange(1, 9))
                case _:
                    program.end_sequence()
        data = bytearray(program.build())
        if random.random() < 0.5:
            data[random.randrange(len(data))] = random.randrange(256)
        blobs.append(bytes(data))
    return blobs


def digest() -> str:
    text = []
    for blob in corpus():
        for code in (None, [0x100]):
            reader = LineReader(blob, False, code, None if code is None else [0x1800], True, code is None)
            result = reader.read(0)
            assert result.discriminator is not None
            assert (result.address[1:] > result.address[:-1]).all()
            text.append(f"{rows(result)} {result.discriminator.tolist()} {result.problems} {result.end}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


@pytest.mark.skipif(not compiled(), reason="the core is not compiled here, so there is nothing to compare it with")
def test_compiled_and_uncompiled_agree() -> None:
    pure = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "CLEW_PURE": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert pure.returncode == 0, pure.stderr
    assert pure.stdout.strip() == digest()


if __name__ == "__main__":
    assert not compiled()
    print(digest())
