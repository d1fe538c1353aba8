"""Small line number programs that fuzzing begins with, and everything that clew reads of those."""

from __future__ import annotations

from random import Random

import numpy as np

from clew.native.dwarf_lines import NO_FILE, LineReader, LineRows
from clew.symbols.dwarf.lines import LineHeader, LineSections
from clew.testing.dwarf_forms import Form, FormEncoder, StringTable
from clew.testing.dwarf_lines import LNCT_DIRECTORY, LNCT_MD5, LNCT_PATH, LineProgramBuilder

#: The first byte of an input says how the rest is read.
BIG, DISCRIMINATORS, CODE, NARROW = 1, 2, 4, 8
#: Then the size of what stands before the strings, in two bytes.
_HEAD = 3
_CODE_START, _CODE_END = 0x1000, 0x4000


def small_program(random: Random) -> bytes:
    """One to three well-formed programs with the strings that they refer to."""
    flags = random.randrange(16)
    strings = StringTable()
    data = b""
    for _ in range(random.randrange(1, 4)):
        forms = FormEncoder(byte_order="big" if flags & BIG else "little", line_strings=strings)
        version = random.choice((2, 3, 4, 5))
        form = random.choice((Form.STRING, Form.LINE_STRP))
        names = ["/src", "inc", "/usr/include"]
        program = LineProgramBuilder(
            version=version,
            byte_order="big" if flags & BIG else "little",
            address_size=4 if flags & NARROW else 8,
            dwarf64=random.random() < 0.1,
            directories=names if version < 5 else [(name,) for name in names],
            files=[("a.c", 0), ("b.h", 1)] if version < 5 else [("a.c", 0, bytes(16)), ("b.h", 2, bytes(16))],
            min_instruction=random.choice((1, 1, 2, 4)),
            most_operations=1 if random.random() < 0.9 else 3,
            directory_format=[(LNCT_PATH, form)],
            file_format=[(LNCT_PATH, form), (LNCT_DIRECTORY, Form.UDATA), (LNCT_MD5, Form.DATA16)],
            forms=forms,
        )
        for _ in range(random.randrange(4)):
            _sequence(random, program)
        data += program.build()
    return bytes((flags,)) + len(data).to_bytes(2, "little") + data + strings.data


def _sequence(random: Random, program: LineProgramBuilder) -> None:
    program.set_address(random.randrange(0, 0x5000, 16))
    for _ in range(random.randrange(12)):
        match random.randrange(10):
            case 0:
                program.advance_pc(random.choice((1, 200, 1 << 20)))
            case 1:
                program.advance_line(random.choice((-3, 7, 300, -(1 << 20))))
            case 2:
                program.set_file(random.randrange(4))
            case 3:
                program.set_column(random.choice((1, 200)))
            case 4:
                program.discriminator(random.randrange(200))
            case 5:
                program.const_add_pc()
            case 6:
                program.fixed_advance_pc(random.randrange(1 << 16))
            case 7:
                program.set_address(random.randrange(0x5000))
            case _:
                program.special(random.randrange(17), random.randrange(-5, 9))
    if random.random() < 0.9:
        program.end_sequence()


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed inputs to begin with."""
    return [small_program(random) for _ in range(count)]


def read_everything(blob: bytes) -> None:
    """All programs of the section, the paths of their files, and what rows must be whatever the input is."""
    flags = blob[0] if blob else 0
    size = int.from_bytes(blob[1:_HEAD], "little")
    line, strings = blob[_HEAD : _HEAD + size], blob[_HEAD + size :]
    big = bool(flags & BIG)
    code = ([_CODE_START], [_CODE_END]) if flags & CODE else (None, None)
    reader = LineReader(line, big, *code, discriminators=bool(flags & DISCRIMINATORS))
    merging = LineReader(line, big, *code, merge=True)
    sections = LineSections(
        line, line_str=strings, strings=strings, str_offsets=strings, supplementary=strings, big=big
    )
    offset = 0
    while offset < len(line):
        rows = reader.read(offset, 4 if flags & NARROW else 8)
        check_rows(rows, offset, len(line))
        same_lines(rows, merging.read(offset, 4 if flags & NARROW else 8))
        header = LineHeader(sections, offset, comp_dir="/cd", name="a.c", defined=rows.defined)
        for number in [*header.file_numbers[:20], *rows.file[:20].tolist()]:
            path = header.file_path(number)
            assert path is None or isinstance(path, str)
        str(header.directories[:20])
        for problem in (*rows.problems, *header.problems):
            assert problem.section == ".debug_line"
            str(problem)
        offset = rows.end


def check_rows(rows: LineRows, offset: int, size: int) -> None:
    """What holds of rows whatever they were read from."""
    count = len(rows.address)
    assert len(rows.line) == len(rows.file) == count
    assert offset < rows.end <= size
    # An opcode makes a row at the most, and of overlaps each sequence is cut once.
    assert count <= rows.end - offset
    assert (rows.address[1:] > rows.address[:-1]).all()
    ends = rows.file == NO_FILE
    assert not rows.line[ends].any()
    if count:
        assert ends[-1]
        assert not ends[0]
        assert not (ends[1:] & ends[:-1]).any()


def same_lines(rows: LineRows, merged: LineRows) -> None:
    """Rows that were merged say the same of every address."""
    where = np.searchsorted(merged.address, rows.address, "right") - 1
    assert (merged.line[where] == rows.line).all()
    assert (merged.file[where] == rows.file).all()
    assert len(merged.address) <= len(rows.address)
