"""The directories and files of line programs, in every form and version, against paths computed by hand."""

from __future__ import annotations

import pytest

from clew.native.dwarf_line_tables import LineTables
from clew.native.dwarf_lines import LineReader
from clew.symbols.dwarf.lines import LineHeader, LineSections
from clew.testing.cfi_instructions import ByteOrder
from clew.testing.dwarf_forms import Form, FormEncoder, IndexTable, StringTable
from clew.testing.dwarf_lines import LNCT_DIRECTORY, LNCT_MD5, LNCT_PATH, LineProgramBuilder


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("dwarf64", [False, True])
def test_names_of_every_form(byte_order: ByteOrder, dwarf64: bool) -> None:
    for form in (
        Form.STRING,
        Form.LINE_STRP,
        Form.STRP,
        Form.STRP_SUP,
        Form.GNU_STRP_ALT,
        Form.STRX,
        Form.STRX1,
        Form.STRX2,
        Form.STRX3,
        Form.STRX4,
        Form.GNU_STR_INDEX,
    ):
        strings, line_strings, supplementary, index = StringTable(), StringTable(), StringTable(), IndexTable()
        for table in (strings, line_strings, supplementary):
            table.add("something before it")
        index.add(0)
        program = LineProgramBuilder(
            byte_order=byte_order,
            dwarf64=dwarf64,
            directories=[("/src",), ("inc",), ("/usr/include",)],
            files=[
                (bytes(16), "a.c", 0, b"vendor", 7),
                (bytes(16), "b.h", 1, b"", 7),
                (bytes(16), "c.h", 2, b"", 7),
                (bytes(16), "/d.h", 1, b"", 7),
                (bytes(16), "e.h", 9, b"", 7),
            ],
            directory_format=[(LNCT_PATH, form)],
            file_format=[
                (LNCT_MD5, Form.DATA16),
                (LNCT_PATH, form),
                (LNCT_DIRECTORY, Form.DATA1),
                (0x2001, Form.BLOCK),
                (3, Form.DATA8),
            ],
            forms=FormEncoder(
                byte_order=byte_order,
                dwarf64=dwarf64,
                strings=strings,
                line_strings=line_strings,
                supplementary=supplementary,
                string_offsets=index,
            ),
        )
        data = program.build()
        offsets = b"".join(value.to_bytes(8 if dwarf64 else 4, byte_order) for value in index.values)
        sections = LineSections(
            data,
            line_str=line_strings.data,
            strings=strings.data,
            str_offsets=b"header.." + offsets,
            supplementary=supplementary.data,
            big=byte_order == "big",
        )
        header = LineHeader(sections, 0, comp_dir="/src", name="a.c")
        assert header.problems == []
        assert header.directories == ["/src", "inc", "/usr/include"]
        paths = [header.file_path(number) for number in header.file_numbers]
        assert paths == ["/src/a.c", "/src/inc/b.h", "/usr/include/c.h", "/d.h", "/src/e.h"], form
        assert header.file_path(5) is None
        assert header.file_path(-1) is None


@pytest.mark.parametrize(
    ("comp_dir", "expected"),
    [
        ("/cd", ["/cd/unit.c", "/cd/sub/a.c", "/abs/b.c", "/cd/c.c", "/d.c", "C:\\e.c", "/cd/f.c", None]),
        (None, ["unit.c", "sub/a.c", "/abs/b.c", "c.c", "/d.c", "C:\\e.c", "f.c", None]),
    ],
)
def test_paths_before_version_5(comp_dir: str | None, expected: list[str | None]) -> None:
    files = [("a.c", 1), ("b.c", 2), ("c.c", 0), ("/d.c", 1), ("C:\\e.c", 1), ("f.c", 77)]
    program = LineProgramBuilder(version=3, directories=["sub", "/abs"], files=files)
    header = LineHeader(LineSections(program.build()), 0, comp_dir=comp_dir, name="unit.c")
    assert [header.file_path(number) for number in range(8)] == expected
    assert header.directories == [comp_dir, "sub", "/abs"]
    assert header.file_numbers == range(1, 7)


def test_directory_0_of_version_5_stands_in_for_a_compilation_directory() -> None:
    program = LineProgramBuilder(directories=["/cd", "sub"], files=[("a.c", 0), ("b.c", 1)])
    header = LineHeader(LineSections(program.build()), 0)
    assert [header.file_path(number) for number in range(3)] == ["/cd/a.c", "sub/b.c", None]


def test_files_that_a_program_defines() -> None:
    program = LineProgramBuilder(version=4, directories=["sub"], files=["a.c"])
    program.define_file("bé.c", 1)
    program.define_file("c.c")
    program.define_file("d.c", 1 << 40)
    data = program.build()
    defined = LineReader(data).read(0).defined
    header = LineHeader(LineSections(data), 0, comp_dir="/cd", defined=defined)
    assert [header.file_path(number) for number in header.file_numbers] == [
        "/cd/a.c",
        "/cd/sub/bé.c",
        "/cd/c.c",
        "/cd/d.c",
    ]


def test_names_that_are_no_text_or_do_not_end() -> None:
    program = LineProgramBuilder(version=2, files=["\udcff.c"])
    header = LineHeader(LineSections(program.build()), 0)
    assert header.file_path(1) == "\udcff.c"
    program = LineProgramBuilder(
        files=[("/a.c",), (0x100,), (1,)], file_format=[(LNCT_PATH, Form.LINE_STRP)], directories=["/"]
    )
    header = LineHeader(LineSections(program.build(), line_str=b"/a"), 0)
    assert [header.file_path(number) for number in range(3)] == [None, None, None]
    long = "/" + "x" * 5000
    header = LineHeader(LineSections(program.build(), line_str=long.encode() + b"\0"), 0)
    assert header.file_path(0) == long


@pytest.mark.parametrize(
    ("message", "program"),
    [
        ("no format", LineProgramBuilder(directories=[()], directory_format=[])),
        ("unknown form 0x99", LineProgramBuilder(directories=["/"], files=["a.c"], file_format=[(LNCT_PATH, 0x99)])),
        ("unknown form 0x19", LineProgramBuilder(directories=["/"], files=[(1,)], file_format=[(LNCT_PATH, 0x19)])),
    ],
)
def test_tables_that_make_no_sense(message: str, program: LineProgramBuilder) -> None:
    if 0x99 in dict(program.file_format).values():
        program.forms.encode = lambda form, value: b"/\0"  # type: ignore[method-assign]
    header = LineHeader(LineSections(program.build()), 0, comp_dir="/cd")
    assert message in str(header.problems[0])
    assert header.file_path(0) is None


def test_cut_tables_keep_what_stands_before() -> None:
    program = LineProgramBuilder(version=4, directories=["sub"], files=["a.c", "b.c"])
    data = program.build()
    end = data.index(b"b.c")
    header = LineHeader(LineSections(data[: end + 2]), 0, comp_dir="/cd")
    assert header.file_path(1) is None  # the header runs past the section's end, as a whole
    assert header.problems
    tables = LineTables(program.build(header_length=end - 10), False, 0)
    assert len(tables.files[0]) == 1
    assert tables.error is not None


def test_offsets_that_are_none() -> None:
    for offset in (-5, 0, 1 << 70):
        header = LineHeader(LineSections(b""), offset, comp_dir="/cd", name="a.c")
        assert header.problems
        assert header.file_path(1) is None
