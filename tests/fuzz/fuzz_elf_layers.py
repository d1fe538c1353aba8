"""Everything that clew reads of an ELF file and its call frame information, done to any bytes."""

from __future__ import annotations

from itertools import islice

from clew.errors import Error
from clew.image import Image
from clew.image.image import SymbolSource
from clew.read.frames import frame_sections, read_table

MOST = 200


def read_everything(data: bytes) -> None:
    """Goes through sections, segments, symbols, notes and frames. What raises clew.Error is passed over."""
    try:
        image = Image.from_bytes(data)
    except Error:
        return
    for what in (sections, segments, symbols, facts, frames):
        try:
            what(image)
        except Error:
            continue
    for problem in image.problems:
        str(problem)


def sections(image: Image) -> None:
    for section in islice(image.sections, MOST):
        repr(section)
        try:
            assert len(section.data) <= 1 << 28
            section.data_at_layout  # noqa: B018
        except Error:
            continue


def segments(image: Image) -> None:
    for segment in islice(image.segments, MOST):
        repr(segment)
        len(segment.data)


def symbols(image: Image) -> None:
    which: SymbolSource
    for which in ("symtab", "dynsym"):
        table = image.symbols(which)
        some = range(min(len(table), MOST))
        table.names(some)
        for index in some:
            table.find(table.name_bytes(index))
            table.at(int(table.address[index]))
        table.functions()
        for address in (0, 0x10010, (1 << 64) - 1):
            table.at(address)


def facts(image: Image) -> None:
    image.build_id  # noqa: B018
    image.code_ranges()
    image.text_address()
    image.got_address()
    for note in islice(image.notes(), MOST):
        repr(note)


def frames(image: Image) -> None:
    for section in frame_sections(image):
        for fde in islice(section.fdes(), 20):
            for row in islice(fde.rows(), 20):
                row.rule.text(section.machine)
    table = read_table(image)
    table.normalise()
