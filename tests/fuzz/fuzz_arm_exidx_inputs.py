"""Small libraries of 32-bit Arm with unwinding entries that fuzzing begins with, and everything that clew reads of those."""

from __future__ import annotations

from random import Random

from clew.errors import Error
from clew.image import Image
from clew.read.arm_exidx import exidx_section
from clew.read.frames import read_table
from clew.testing.arm_exidx import ExidxBuilder

_INSTRUCTIONS = (
    "a8 03aa 9b408480 b108 b27f b2ff01 a8d1 b8 b301 c901 c800 c0 c620 c701 b4b5 8800 8200 a09401 8000 ff 3f3f3f97 80ff"
)


def small_file(random: Random) -> bytes:
    """A well-formed library, in either byte order, whose entries are of all models."""
    builder = ExidxBuilder(byte_order=random.choice(("little", "little", "big")))
    start = 0x1000
    for _ in range(random.randrange(1, 12)):
        known = _INSTRUCTIONS.split()
        data = "".join(random.choice(known) for _ in range(random.randrange(1, 4)))
        match random.randrange(5):
            case 0:
                builder.cantunwind(start)
            case 1:
                builder.compact(start, data[:6])
            case 2 | 3:
                builder.compact(start, data, model=random.choice((1, 2)), lsda=bytes(random.randrange(0, 9, 4)))
            case _:
                builder.generic(start, 0x1000, data)
        start += random.randrange(2, 40, 2)
    return builder.file(code=(0x1000, bytes(0x200)), entry=0x1001, segment=random.random() < 0.5)


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed files to begin with."""
    return [small_file(random) for _ in range(count)]


def read_everything(data: bytes) -> None:
    """Entries, instructions and the table agree. What raises clew.Error is passed over."""
    image = Image.from_bytes(data)
    section = exidx_section(image)
    if section is None:
        return
    table = section.table()
    readable = 0
    for index in range(min(len(section), 200)):
        try:
            entry = section.entry_at(index)
        except Error:
            continue
        readable += 1
        assert 0 <= entry.start < 1 << 32
    assert readable + table.lost >= min(len(section), 200) or table.problems
    assert (table.start[1:] > table.start[:-1]).all()
    assert len(table.ranges) <= len(section)
    for row in table:
        assert row.rule.information
        row.rule.text(table.machine)
    for problem in table.problems:
        str(problem)
    read_table(image).normalise()
