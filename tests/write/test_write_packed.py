"""Packed tables: what they say, how they lie, and that they are smaller than what they are of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew.native
from clew.arch import machine_named
from clew.errors import FormatError, UsageError
from clew.image import Image
from clew.read.frames import read_table
from clew.read.packed import PackedTable, layout
from clew.table import AtCfa, CfaPlus, RegisterPlus, Rule, SameValue, Table, Undefined, table_of
from clew.testing.elf import ElfBuilder
from clew.write.packed import packed

X86 = machine_named("x86-64")
RETURN = (16, AtCfa(-8))
ENTRY = Rule(RegisterPlus(7, 8), (RETURN,), 16)


def rule(offset: int) -> Rule:
    return Rule(RegisterPlus(7, offset), ((6, AtCfa(-16)), RETURN), 16)


def says_the_same(table: Table, data: bytes) -> None:
    """At every address at which a row begins, just before it, and in between."""
    opened = PackedTable(data)
    back = opened.table()
    start = table.start.tolist()
    for address in sorted({each + more for each in start for more in (-1, 0, 1)} - {-1}):
        row = table.lookup(address)
        number = opened.find(address)
        if row is not None:
            assert opened.rules[number] == row.rule
            found = back.lookup(address)
            assert found is not None
            assert found.rule == row.rule


def test_a_page_has_its_first_row_at_its_start() -> None:
    # One function from page 0 to page 2: each page begins with the row in force.
    table = table_of(X86, [(0x1000, 0x21000, rule(16)), (0x21000, 0x21010, ENTRY)])
    opened = PackedTable(packed(table))
    assert len(opened.parts["segments"]) == 1
    assert len(opened.parts["pages"]) == 3
    assert opened.parts["rows"].tolist()[0] >> 16 == 0
    assert [opened.find(at) for at in (0xFFF, 0x1000, 0x11000, 0x20FFF, 0x21000, 0x2100F, 0x21010)] == [
        0,
        1,
        1,
        1,
        2,
        2,
        0,
    ]


def test_rules_are_distinct_and_the_most_frequent_come_first() -> None:
    rows = [(0x1000 + 32 * i, 0x1000 + 32 * i + 8, rule(16 + 8 * (i % 3 > 0))) for i in range(12)]
    opened = PackedTable(packed(table_of(X86, rows)))
    assert [each.cfa for each in opened.rules[1:]] == [RegisterPlus(7, 24), RegisterPlus(7, 16)]


def test_rules_that_differ_in_what_is_left_out_are_one() -> None:
    # 17 is xmm0: no integer register.
    other = Rule(ENTRY.cfa, (RETURN, (17, AtCfa(-64))), 16)
    opened = PackedTable(packed(table_of(X86, [(0, 8, ENTRY), (8, 16, other)])))
    assert len(opened.rules) == 2
    assert opened.row_count == 1


def test_a_gap_of_pages_begins_another_segment() -> None:
    table = table_of(X86, [(0x1000, 0x1010, ENTRY), (0x5000_0000, 0x5000_0010, ENTRY)])
    opened = PackedTable(packed(table))
    assert [int(each["start"]) for each in opened.parts["segments"]] == [0x1000, 0x5000_0000]
    assert [opened.find(at) for at in (0x1000, 0x1010, 0x4FFF_FFFF, 0x5000_000F)] == [1, 0, 0, 1]


def test_more_gaps_than_segments_are_closed() -> None:
    rows = [(i << 20, (i << 20) + 16, ENTRY) for i in range(1, 100)]
    opened = PackedTable(packed(table_of(X86, rows)))
    assert len(opened.parts["segments"]) == layout.MOST_SEGMENTS
    assert all(opened.find(low) == 1 and opened.find(high) == 0 for low, high, _ in rows)


def test_the_file_says_what_can_be_executed() -> None:
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.segment(type=1, flags=5, sections=(".text",))
    elf.build_id(bytes(range(20)))
    image = Image.from_bytes(elf.build())
    # A row over 2**40 bytes would need an index of gigabytes; the code has 256.
    opened = PackedTable(packed(table_of(X86, [(0x800, 1 << 40, ENTRY)]), image))
    assert [(int(each["start"]), int(each["size"])) for each in opened.parts["segments"]] == [(0x1000, 0x100)]
    assert opened.build_id == bytes(range(20))


def test_a_table_spread_beyond_reason_is_refused() -> None:
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.segment(1, (".text",), flags=5)
    data = bytearray(elf.build())
    # p_memsz of the first program header: 2**41 bytes, of which the file has 256.
    at = int.from_bytes(data[32:40], "little") + 40
    data[at : at + 8] = (1 << 41).to_bytes(8, "little")
    image = Image.from_bytes(bytes(data))
    with pytest.raises(FormatError, match="spread over"):
        packed(table_of(X86, [(0x800, 1 << 40, ENTRY)]), image)


def test_escapes_for_more_rules_than_a_row_can_number() -> None:
    rows = [(4 * i, 4 * i + 4, Rule(RegisterPlus(7, 8 * (i + 1)), (RETURN,), 16)) for i in range(66_000)]
    table = table_of(X86, rows)
    opened = PackedTable(packed(table))
    assert len(set(opened.parts["escapes"]["rule"].tolist())) == 66_000 + 1 - 0xFFFF
    for index in (0, 1, 65_533, 65_534, 65_535, 65_999):
        assert opened.rules[opened.find(4 * index)] == rows[index][2]


def test_what_does_not_fit_escapes_to_cells() -> None:
    # Offsets that are no multiple of a word, above the CFA, far apart, or beyond 32 bits.
    odd = [
        AtCfa(-9),
        AtCfa(16),
        AtCfa(-8 * 70_000),
        AtCfa(-(1 << 40)),
        CfaPlus(1 << 40),
        CfaPlus(-8),
        SameValue(),
        Undefined(),
    ]
    for term in odd:
        each = Rule(RegisterPlus(7, 8), ((3, AtCfa(-24)), (6, term), RETURN), 16)
        found = PackedTable(packed(table_of(X86, [(0, 16, each)]))).rules[1]
        if isinstance(term, SameValue):
            assert found[6] is None  # the default of a register that functions preserve
        elif abs(getattr(term, "offset", 0)) < 1 << 31:
            assert found[6] == term
        else:
            assert found[6] is not None
            assert f"{abs(term.offset):#x}"[2:] in str(found).lower() or "expression" in str(found).lower()  # type: ignore[union-attr]


def test_a_machine_without_packed_tables() -> None:
    with pytest.raises(UsageError, match="x86-64 and aarch64"):
        packed(table_of("riscv64", []))


def test_no_rows() -> None:
    opened = PackedTable(packed(table_of(X86, [])))
    assert opened.find(0) == 0
    assert len(opened.table()) == 0


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 300), st.integers(1, 12)), max_size=60),
    st.sampled_from([0, 0x1000, 0xFFF0, (1 << 63) + 7]),
)
def test_round_trip(pieces: list[tuple[int, int, int]], base: int) -> None:
    rows, at = [], base
    for size, gap, number in pieces:
        at += gap
        rows.append((at, at + size, rule(8 * number)))
        at += size
    table = table_of(X86, rows)
    data = packed(table)
    says_the_same(table, data)
    # What is packed and read back is packed to the same bytes.
    assert packed(PackedTable(data).table()) == data


def test_libc_is_smaller_than_its_section() -> None:
    path = Path("/lib/x86_64-linux-gnu/libc.so.6")
    if not path.exists():
        pytest.skip("there is no libc for x86-64 in its usual place")
    image = Image.open(path)
    table = read_table(image)
    data = packed(table, image)
    opened = PackedTable(data)
    eh_frame, header = image.section(".eh_frame"), image.section(".eh_frame_hdr")
    assert eh_frame is not None
    assert header is not None
    assert len(data) < 0.9 * (eh_frame.size + header.size)
    # Every row of the decoded table, by its rule.
    start = table.start[table.rule != 0]
    numbers = [opened.find(address) for address in start[::97].tolist()]
    for address, number in zip(start[::97].tolist(), numbers, strict=True):
        row = table.lookup(address)
        assert row is not None
        assert dict(opened.rules[number].equations(X86))["cfa"] == dict(row.rule.equations(X86))["cfa"]


def test_the_header_file_says_the_same_as_the_layout() -> None:
    text = (Path(clew.native.__file__).parent / "packed.h").read_text()

    def constant(name: str) -> int:
        found = re.search(rf"\b{name}\s*=?\s*\(?(0x[0-9a-f]+|\d+)", text)
        assert found is not None, name
        return int(found[1], 0)

    assert constant("CLEW_PACKED_VERSION") == layout.VERSION
    assert constant("CLEW_PACKED_MAGIC").to_bytes(8, "little") == layout.MAGIC
    assert constant("CLEW_PAGE_BITS") == layout.PAGE_BITS
    assert constant("CLEW_BUCKET_BITS") == layout.BUCKET_BITS
    assert constant("CLEW_ROW_PADDING") == layout.ROW_PADDING
    assert constant("CLEW_SEGMENTS_MOST") == layout.MOST_SEGMENTS
    assert constant("CLEW_RULE_ESCAPED") == layout.ESCAPED
    assert constant("CLEW_CELL_OF_CFA") == layout.CELL_OF_CFA
    kinds = re.search(r"enum clew_step_kind \{(.*?)CLEW_STEP_KINDS", text, re.DOTALL)
    assert kinds is not None
    names = [name.lower() for name in re.findall(r"CLEW_STEP_([A-Z]+)", kinds[1])]
    same = {"load": "deref", "branch": "bra"}
    assert ["", *(same.get(name, name) for name in names)] == list(layout.STEP_NAMES)
    assert (layout.HEADER.itemsize, layout.SEGMENT.itemsize, layout.RULE.itemsize, layout.CELL.itemsize) == (
        128,
        32,
        32,
        8,
    )
    assert np.dtype(layout.STEP).itemsize == 8
