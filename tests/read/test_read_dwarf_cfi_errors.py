"""What is wrong with entries: one test for each message, and for what is left of the section."""

from __future__ import annotations

import pytest

from clew.read.dwarf_cfi import CfiSection
from clew.testing import Cfa, CfiBuilder, Instruction, uleb

START: list[Instruction] = [Cfa.def_cfa(7, 8), Cfa.offset(16, 1)]
GOOD = bytes.fromhex(
    "14000000 00000000 017a5200 01781001 1b0c0708 90010000 14000000 1c000000 e0efffff 20000000 00410e10 00000000"
)


def read(data: bytes, **options: object) -> CfiSection:
    return CfiSection(data, **{"address": 0x2000, **options})  # type: ignore[arg-type]


def messages(section: CfiSection) -> list[tuple[int | None, str]]:
    assert all(problem.section == section.name and problem.lost for problem in section.problems)
    return [(problem.offset, problem.message) for problem in section.problems]


def between_good_ones(data: bytes) -> tuple[CfiSection, list[tuple[int | None, str]]]:
    """The problems of an entry that stands behind a good function and before another, which both must survive."""
    section = read(GOOD + data + GOOD)
    starts = [fde.start for fde in section.fdes()]
    assert starts[0] == 0x1000
    assert starts[-1] == 0x1000 + len(GOOD + data)
    assert len(section.table().ranges) == len(starts)
    return section, messages(section)


@pytest.mark.parametrize("left", [1, 2, 3])
def test_cut_inside_a_length(left: int) -> None:
    section = read(GOOD + b"\1\2\3"[:left])
    assert messages(section) == [(len(GOOD), "the section ends inside an entry's length")]
    assert len(section) == 1


@pytest.mark.parametrize("left", [0, 1, 7])
def test_cut_inside_a_64_bit_length(left: int) -> None:
    section = read(GOOD + b"\xff\xff\xff\xff" + bytes(left))
    assert messages(section) == [(len(GOOD), "the section ends inside an entry's 64-bit length")]
    assert len(section) == 1


@pytest.mark.parametrize("length", ["15000000", "00000080", "ffffff7f", "feffffff", "ffffffff" + "ff" * 8])
def test_length_past_the_end(length: str) -> None:
    section = read(GOOD + bytes.fromhex(length) + bytes(20 if len(length) == 8 else 12))
    assert messages(section) == [(len(GOOD), "the entry's length runs past the end of the section")]
    assert len(section) == 1


@pytest.mark.parametrize("data", ["01000000aa", "03000000aaaaaa", "ffffffff 0700000000000000 aaaaaaaaaaaaaa"])
def test_too_short_for_its_cie_pointer(data: str) -> None:
    _, found = between_good_ones(bytes.fromhex(data))
    assert found == [(len(GOOD), "the entry is too short for its CIE pointer")]


@pytest.mark.parametrize(
    "pointer",
    [
        "08000000",  # 8 back from the field: inside the entry before
        "20000000",  # that FDE itself
        "00f0ffff",  # far behind the section
        "ff7f0000",  # before it
        "fcffffff",  # the bytes after the field
    ],
)
def test_a_cie_pointer_that_leads_to_no_cie(pointer: str) -> None:
    _, found = between_good_ones(bytes.fromhex("10000000" + pointer) + bytes(12))
    assert found == [(len(GOOD), "the CIE pointer does not lead to a CIE")]


def test_a_cie_pointer_to_a_cut_cie() -> None:
    """The CIE that it leads to would run past the section's end."""
    entry = bytes.fromhex("0c000000 f4ffffff 0000000000000000 ffff0000 00000000")
    assert messages(read(entry))[0] == (0, "the CIE pointer does not lead to a CIE")


def test_debug_frame_cie_pointers_are_offsets() -> None:
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(instructions=START)
    cfi.fde(cie, start=0x1000, size=0x10, cie_pointer=1 << 20)
    cfi.fde(cie, start=0x1010, size=0x10, cie_pointer=4)
    cfi.fde(cie, start=0x1020, size=0x10)
    section = read(cfi.build(), name=".debug_frame")
    assert {message for _, message in messages(section)} == {"the CIE pointer does not lead to a CIE"}
    assert [fde.start for fde in section.fdes()] == [0x1020]


def bad_cie(**fields: object) -> CfiSection:
    """A section whose first CIE is bad, with a function of it and of a good one."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(**{"instructions": START, **fields})  # type: ignore[arg-type]
    cfi.fde(cie, start=0x1000, size=0x10)
    cfi.fde(cfi.cie(instructions=START), start=0x1010, size=0x10)
    section = read(cfi.build())
    assert [fde.start for fde in section.fdes()][-1] == 0x1010
    return section


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 0}, "its version is 0, not 1, 3 or 4"),
        ({"version": 2}, "its version is 2, not 1, 3 or 4"),
        ({"version": 5}, "its version is 5, not 1, 3 or 4"),
        ({"version": 4, "address_size": 3}, "its address size is 3"),
        ({"version": 4, "address_size": 16}, "its address size is 16"),
        ({"version": 4, "segment_size": 9}, "its segment selector size is 9"),
        ({"code_alignment": 1025}, "its code alignment factor is out of all proportion"),
        ({"code_alignment": 1 << 63}, "its code alignment factor is out of all proportion"),
        ({"data_alignment": 1 << 20}, "its data alignment factor is out of all proportion"),
        ({"data_alignment": -(1 << 20)}, "its data alignment factor is out of all proportion"),
        ({"version": 3, "return_address": 0x10000}, "its return address column is out of all proportion"),
        ({"version": 3, "return_address": 1 << 64}, "a LEB128 number exceeds 64 bits"),
        (
            {"augmentation": "zP", "personality": (0x20, 4)},
            "a pointer is relative to the text section, which is not known",
        ),
        (
            {"augmentation": "zP", "personality": (0x30, 4)},
            "a pointer is relative to the data section, which is not known",
        ),
    ],
)
def test_a_cie_that_cannot_be_used(fields: dict[str, object], message: str) -> None:
    section = bad_cie(**fields)
    assert section.cies[0].error == message
    assert messages(section)[0] == (0, f"this CIE cannot be used: {message}")
    assert [message for _, message in messages(section)[1:]] == ["its CIE cannot be used"]
    if "personality" not in fields:
        assert list(section.cies[0].instructions()) == []


@pytest.mark.parametrize("encoding", [0x05, 0x60, 0x7B])
def test_a_personality_in_an_encoding_that_is_not_defined(encoding: int) -> None:
    section = read(bytes.fromhex(f"11000000 00000000 01 7a5000 01 78 10 05 {encoding:02x} 00000000"))
    assert section.cies[0].error == f"the pointer encoding {encoding:#x} is not defined"


@pytest.mark.parametrize("cut", range(8, 0x12))
def test_a_cie_that_is_cut(cut: int) -> None:
    """A CIE whose stated length ends after each of its fields."""
    body = GOOD[4 : 4 + cut]
    section = read(len(body).to_bytes(4, "little") + body)
    assert len(section.cies) == 1
    error = section.cies[0].error
    if cut < 13:
        assert error is not None
        assert "the data end" in error or "augmentation data run past its end" in error
    else:
        assert error is None


def test_augmentation_data_of_a_cie_past_its_end() -> None:
    data = bytearray(GOOD)
    data[0x0F] = 0x40
    section = read(bytes(data))
    assert messages(section) == [
        (0, "this CIE cannot be used: its augmentation data run past its end"),
        (0x18, "its CIE cannot be used"),
    ]


def test_augmentation_data_shorter_than_their_letters() -> None:
    data = bytearray(GOOD)
    data[0x0F] = 0
    assert messages(read(bytes(data)))[0] == (0, "this CIE cannot be used: the data ends inside a number")


def test_an_augmentation_without_end() -> None:
    entry = bytes(4) + b"\1" + b"z" * 40
    section = read(len(entry).to_bytes(4, "little") + entry)
    assert section.cies[0].error == "the data ends inside a number"


def test_cies_that_overlap() -> None:
    """FDEs may point at a CIE anywhere; without a bound, each brings another copy of the section to read."""
    head = bytes.fromhex("01 7a00 01 01 01")
    count = 400
    size = 24 * count
    cies = b"".join(
        ((size - 24 * n - 4).to_bytes(4, "little") + bytes(4) + head + uleb(max(size - 24 * n - 30, 0), size=5)).ljust(
            24, b"\0"
        )
        for n in range(count)
    )
    fdes = b""
    for n in range(count):
        body = (
            (len(cies) + len(fdes) + 4 - 24 * n).to_bytes(4, "little") + (0x1000 + n).to_bytes(8, "little") + bytes(9)
        )
        fdes += len(body).to_bytes(4, "little") + body
    section = read(cies + fdes, address=0)
    assert "this CIE cannot be used: CIEs overlap" in {message for _, message in messages(section)}
    assert sum(len(cie.augmentation_data) for cie in section.cies) <= len(cies + fdes)


@pytest.mark.parametrize("encoding", [0xFF, 0x80, 0x9B])
def test_an_encoding_that_cannot_say_where_a_function_starts(encoding: int) -> None:
    data = GOOD.replace(b"\1\x1b\x0c", bytes((1, encoding)) + b"\x0c")
    wanted = f"the pointer encoding {encoding:#x} cannot say where a function starts"
    assert messages(read(data)) == [(0x18, wanted)]


@pytest.mark.parametrize("encoding", [0x05, 0x0F, 0x1D, 0x60, 0x7B, 0x51])
def test_an_encoding_that_is_not_defined(encoding: int) -> None:
    data = GOOD.replace(b"\1\x1b\x0c", bytes((1, encoding)) + b"\x0c")
    assert messages(read(data)) == [(0x18, f"the pointer encoding {encoding:#x} is not defined")]


@pytest.mark.parametrize(("encoding", "base"), [(0x2B, "text"), (0x3B, "data")])
def test_a_base_that_is_not_known(encoding: int, base: str) -> None:
    data = GOOD.replace(b"\1\x1b\x0c", bytes((1, encoding)) + b"\x0c")
    assert messages(read(data)) == [(0x18, f"a pointer is relative to the {base} section, which is not known")]
    assert messages(read(data, text_base=0, data_base=0)) == []


@pytest.mark.parametrize(("start", "size"), [((1 << 64) - 16, 16), ((1 << 64) - 16, 1 << 63), (1, (1 << 64) - 1)])
def test_a_range_past_the_end_of_the_address_space(start: int, size: int) -> None:
    cfi = CfiBuilder("debug_frame")
    cfi.fde(cfi.cie(instructions=START), start=start, size=size)
    section = read(cfi.build(), name=".debug_frame")
    assert [message for _, message in messages(section)] == ["its range runs past the end of the address space"]


def test_a_range_up_to_the_end_of_the_address_space() -> None:
    cfi = CfiBuilder("debug_frame")
    cfi.fde(cfi.cie(instructions=START), start=(1 << 64) - 17, size=16)
    table = read(cfi.build(), name=".debug_frame").table()
    assert [(row.start, row.end) for row in table.rows()] == [((1 << 64) - 17, (1 << 64) - 1)]
    assert table.lookup((1 << 64) - 2) is not None
    assert table.lookup((1 << 64) - 1) is None


@pytest.mark.parametrize("cut", range(8, 17))
def test_an_fde_that_is_cut(cut: int) -> None:
    data = GOOD[:0x18] + (cut - 4).to_bytes(4, "little") + GOOD[0x1C : 0x18 + cut]
    ((offset, message),) = messages(read(data))
    assert (offset, message.split(" a ")[0]) == (0x18, "the data ends inside")


def test_augmentation_data_of_an_fde_past_its_end() -> None:
    data = bytearray(GOOD)
    data[0x28] = 0x40
    assert messages(read(bytes(data))) == [(0x18, "its augmentation data run past its end")]


def test_an_lsda_pointer_that_is_cut() -> None:
    cfi = CfiBuilder(address=0x2000)
    cfi.fde(cfi.cie(augmentation="zRL", lsda_encoding=0x1B, instructions=START), start=0x1000, size=0x10, lsda=0x1900)
    data = bytearray(cfi.build())
    data[data.rindex(b"\x04")] = 3
    assert [message for _, message in messages(read(bytes(data)))] == ["the data ends inside a number"]


def test_very_many_problems_are_counted_and_the_first_thousand_kept() -> None:
    section = read(bytes.fromhex("0400000009000000") * 3000 + GOOD)
    assert len(section.problems) == 1000
    table = section.table()
    assert (table.lost, len(table.problems), len(table.ranges)) == (3000, 1000, 1)


def test_very_many_bad_programs_are_counted_too() -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=START)
    for number in range(1500):
        cfi.fde(cie, start=0x100000 + 16 * number, size=16, instructions=[Cfa.restore_state])
    table = read(cfi.build()).table()
    assert (table.lost, len(table.problems), len(table)) == (1500, 1000, 0)
