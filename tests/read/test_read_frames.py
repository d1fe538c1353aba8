"""The sections of call frame information of a file, and the one table of them."""

from __future__ import annotations

from typing import Literal

import pytest

from clew.errors import NotFoundError
from clew.image import Image
from clew.image.elf import (
    ET_CORE,
    ET_REL,
    PT_GNU_EH_FRAME,
    PT_LOAD,
    SHT_NOBITS,
    STT_FUNC,
)
from clew.read.frames import frame_sections, read_table
from clew.table import RegisterPlus
from clew.testing import Cfa, CfiBuilder, ElfBuilder, eh_frame_hdr

RSP = 7


def cfi(kind: Literal["eh_frame", "debug_frame"], offset: int, *, start: int = 0x1000, address: int = 0) -> CfiBuilder:
    """One FDE for 0x10 bytes, whose CFA is rsp plus the offset."""
    made = CfiBuilder(kind, address=address)
    made.fde(made.cie(instructions=[Cfa.def_cfa(RSP, offset)]), start=start, size=0x10)
    return made


EH = cfi("eh_frame", 8, address=0x2000)
DEBUG = cfi("debug_frame", 64, start=0x1008)


def builder(**options: int) -> ElfBuilder:
    elf = ElfBuilder(**options)  # type: ignore[arg-type]
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    return elf


def both() -> ElfBuilder:
    elf = builder()
    # In this order, so that it is not the file's that counts.
    elf.section(".debug_frame", DEBUG.build())
    elf.section(".eh_frame", EH.build(), address=0x2000)
    return elf


def test_eh_frame_comes_first_and_its_rules_count() -> None:
    image = Image.from_bytes(both().build())
    assert [(section.name, section.address) for section in frame_sections(image)] == [
        (".eh_frame", 0x2000),
        (".debug_frame", 0),
    ]
    rows = [(row.start, row.end, row.rule.cfa) for row in read_table(image).rows()]
    assert rows == [(0x1000, 0x1010, RegisterPlus(RSP, 8)), (0x1010, 0x1018, RegisterPlus(RSP, 64))]


@pytest.mark.parametrize(("only", "cfa"), [(".eh_frame", 8), (".debug_frame", 64)])
def test_one_section_alone(only: str, cfa: int) -> None:
    image = Image.from_bytes(both().build())
    assert [section.name for section in frame_sections(image, only)] == [only]
    assert {row.rule.cfa for row in read_table(image, only).rows()} == {RegisterPlus(RSP, cfa)}


def test_a_section_of_another_name_can_be_named() -> None:
    elf = both()
    elf.section(".eh_frame.old", cfi("eh_frame", 24).build())
    table = read_table(Image.from_bytes(elf.build()), ".eh_frame.old")
    assert [row.rule.cfa for row in table.rows()] == [RegisterPlus(RSP, 24)]


@pytest.mark.parametrize("only", [None, ".debug_frame", ".zdebug_frame"])
def test_the_old_compressed_name(only: str | None) -> None:
    elf = builder()
    elf.section(".zdebug_frame", DEBUG.build(), compress="zdebug")
    (section,) = frame_sections(Image.from_bytes(elf.build()), only)
    assert section.name == ".debug_frame"
    assert bytes(section.data) == DEBUG.build()


def test_without_section_headers_the_segment_tells() -> None:
    elf = builder(section_headers=False)
    frames = cfi("eh_frame", 8, address=0x2000)
    frames.terminator()
    size = len(frames.build())
    header = eh_frame_hdr(frames.search_table(), address=0x3000, eh_frame=0x2000)
    # What lies behind the terminator is no frame.
    elf.section(".eh_frame", frames.build() + b"\x10\0\0\0rubbish", address=0x2000)
    elf.section(".eh_frame_hdr", header, address=0x3000)
    for name in (".text", ".eh_frame", ".eh_frame_hdr"):
        elf.segment(PT_LOAD, [name])
    elf.segment(PT_GNU_EH_FRAME, [".eh_frame_hdr"])
    image = Image.from_bytes(elf.build())
    (section,) = frame_sections(image)
    assert (section.name, section.address, len(section.data)) == (".eh_frame", 0x2000, size)
    assert read_table(image).lookup(0x1000) is not None


def test_functions_of_an_object_file_do_not_lie_upon_each_other() -> None:
    # Each function in a section of its own, as -ffunction-sections makes them; R_X86_64_PC32 is 2.
    elf = ElfBuilder(type=ET_REL)
    frames = CfiBuilder()
    cie = frames.cie(instructions=[Cfa.def_cfa(RSP, 8)])
    for index, name in enumerate(("one", "two")):
        elf.section(f".text.{name}", bytes(0x10), executable=True, alignment=16)
        elf.symbol(name, section=f".text.{name}", size=0x10, type=STT_FUNC)
        fde = frames.fde(cie, start=0, size=0x10, instructions=[Cfa.def_cfa_offset(16 + 16 * index)])
        elf.relocation(".rela.eh_frame", fde.offset + 8, 2, name)
    elf.section(".eh_frame", frames.build(), address=0)
    image = Image.from_bytes(elf.build())
    assert [(row.start, row.rule.cfa) for row in read_table(image).rows()] == [
        (0x0, RegisterPlus(RSP, 16)),
        (0x10, RegisterPlus(RSP, 32)),
    ]


def absent(elf: ElfBuilder, only: str | None = None, size: int | None = None) -> NotFoundError:
    with pytest.raises(NotFoundError) as caught:
        frame_sections(Image.from_bytes(elf.build()[:size], "some.so"), only)
    assert caught.value.file == "some.so"
    return caught.value


def test_a_file_without_any() -> None:
    error = absent(builder())
    assert error.message == "there is no .eh_frame and no .debug_frame"
    assert error.hint is not None
    assert "-fasynchronous-unwind-tables" in error.hint


def test_a_file_without_the_one_that_is_wanted() -> None:
    error = absent(both(), ".eh_frames")
    assert ".eh_frames" in error.message
    assert error.hint == "it has .debug_frame, .eh_frame"
    assert absent(builder(), ".eh_frame").hint is None


@pytest.mark.parametrize("only", [None, ".eh_frame"])
def test_a_file_of_what_was_stripped_from_another(only: str | None) -> None:
    elf = builder()
    elf.section(".eh_frame", address=0x2000, type=SHT_NOBITS, size=0x100)
    # Its program headers still point to where things were in the other file.
    elf.section(".rubbish", bytes(range(64)), address=0x3000)
    elf.segment(PT_LOAD, [".rubbish"])
    elf.segment(PT_GNU_EH_FRAME, [".rubbish"])
    error = absent(elf, only)
    assert "by name only" in error.message
    assert error.hint is not None
    assert "loaded" in error.hint


def test_a_core_file() -> None:
    error = absent(ElfBuilder(type=ET_CORE))
    assert "core file" in error.message
    assert error.hint is not None
    assert "program" in error.hint


def test_a_file_cut_before_its_section_headers() -> None:
    error = absent(both(), size=0x200)
    assert "section headers" in error.message


def test_the_problems_of_the_file_are_those_of_the_table() -> None:
    elf = both()
    elf.section(".zdebug_frame", b"ZLIB" + (1 << 40).to_bytes(8, "big") + b"no")
    image = Image.from_bytes(elf.build())
    table = read_table(image)
    assert table.row_count == 2
    assert [problem.section for problem in table.problems] == [".zdebug_frame"]
    assert table.problems[0].lost
