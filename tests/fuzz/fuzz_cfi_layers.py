"""Everything that clew does with call frame information, done to any bytes; and what must hold whatever they are.

The fuzz targets and the comparison of the compiled core with the uncompiled one stand on :func:`read_everything`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from clew.errors import Error
from clew.read.dwarf_cfi import CfiSection, EhFrameHeader, Fde, Terminator
from clew.table import Row, Table, compare, merge

MACHINES = ("x86-64", "aarch64", "i386", "riscv64", "sparc64", "mips", "s390x", "dwarf-example")
ADDRESSES = (0x2000, 0, 0xFFFFFFFFFFFFF000, 0x7FFFFFF0)
#: Rows, entries and lines of one kind that are looked at; hostile input may have very many.
MOST = 200


@dataclass(frozen=True, slots=True)
class Choices:
    """How bytes are read as a section; the first two bytes of a fuzzer's input choose."""

    machine: str = "x86-64"
    eh: bool = True
    address: int = 0x2000
    address_size: int | None = None
    bases: tuple[int | None, int | None] = (None, None)
    code: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def of(cls, first: int, second: int) -> Choices:
        return cls(
            MACHINES[first & 7],
            eh=not first & 8,
            address=ADDRESSES[first >> 4 & 3],
            address_size=(None, 4, 8, 2)[second & 3],
            bases=(0x1000, 0x3000) if second & 4 else (None, None),
            code=((0x1000, 0x100000),) if second & 8 else None,
        )

    def section(self, data: bytes) -> CfiSection:
        return CfiSection(
            data,
            name=".eh_frame" if self.eh else ".debug_frame",
            address=self.address,
            machine=self.machine,
            address_size=self.address_size,
            text_base=self.bases[0],
            data_base=self.bases[1],
            code=self.code,
        )


def decode(blob: bytes) -> tuple[bytes, Choices]:
    """A fuzzer's input: two bytes of choices, and a section."""
    first, second = (*blob[:2], 0, 0)[:2]
    return blob[2:], Choices.of(first, second)


def rows_of(fde: Fde) -> tuple[list[Row], Error | None]:
    """The rows of an FDE and what ended them."""
    rows: list[Row] = []
    try:
        rows.extend(islice(fde.rows(), MOST))
    except Error as error:
        return rows, error
    return rows, None


def read_everything(data: bytes, choices: Choices) -> None:
    """Goes through all layers. Raises AssertionError where they contradict each other, clew.Error where they give up."""
    for _ in facts(data, choices):
        pass


def digest(data: bytes, choices: Choices) -> str:
    """A number for everything that there is to know about a section."""
    sum_ = hashlib.sha256()
    for fact in facts(data, choices):
        sum_.update(repr(fact).encode())
    return sum_.hexdigest()[:16]


def facts(data: bytes, choices: Choices) -> Iterator[Any]:
    """All that the layers say, one thing after the other."""
    try:
        section = choices.section(data)
    except Error as error:
        yield str(error)
        return
    machine = section.machine
    yield section.problems
    good: dict[int, list[Row]] = {}
    for entry in islice(section.entries(), MOST):
        yield entry
        if isinstance(entry, Terminator):
            continue
        try:
            for instruction in entry.instructions():
                yield instruction, instruction.text(machine)
        except Error as error:
            yield str(error)
        if isinstance(entry, Fde):
            rows, error_ = rows_of(entry)
            yield from (plain(row, section) for row in rows)
            yield str(error_)
            if error_ is None:
                good[entry.index] = rows
    table = section.table()
    yield table.start.tobytes(), table.rule.tobytes(), table.lost, table.problems
    yield None if table.args_size is None else table.args_size.tobytes()
    yield list(islice(table.ranges, MOST))
    for rule in table.rules[:MOST]:
        yield rule.text(machine), rule.to_json(machine), rule.return_address, rule.key_b
    yield table.invalid_expressions()
    normal = table.normalise()
    yield normal.start.tobytes(), normal.rule.tobytes()
    check(section, table, normal, good)
    yield from header(data, choices)


def plain(row: Row, section: CfiSection) -> tuple[int, int, str, int]:
    return row.start, row.end, row.rule.text(section.machine), row.args_size


def check(section: CfiSection, table: Table, normal: Table, good: dict[int, list[Row]]) -> None:
    """What holds of any section: sorted rows, layers that agree, and tables that equal themselves."""
    assert len(table.start) == len(table.rule)
    assert bool((table.start[1:] > table.start[:-1]).all()), "rows are sorted and none is empty"
    assert not len(table.rule) or int(table.rule.max()) < len(table.rules)
    assert not len(table.rule) or int(table.rule[-1]) == 0, "the last row ends the table"
    assert next(compare(table, table), None) is None
    again = normal.normalise()
    assert np.array_equal(normal.start, again.start)
    assert np.array_equal(normal.rule, again.rule)
    if len(section.data) % 4 == 0:
        assert next(compare(merge([table, table]), table), None) is None
    for index, rows in good.items():
        for row in rows:
            assert row.start < row.end
            around = [fde for fde in section.fdes_at(row.start) if fde.index in good or fde.cie.opaque]
            found = table.lookup(row.start)
            if around and around[-1].index == index:
                assert found is not None, hex(row.start)
                assert (found.rule, found.args_size) == (row.rule, row.args_size), hex(row.start)


def header(data: bytes, choices: Choices) -> Iterator[Any]:
    """The bytes read as ``.eh_frame_hdr``."""
    section = choices.section(b"")
    try:
        parsed = EhFrameHeader.parse(
            data, address=choices.address, byte_order=section.byte_order, address_size=section.address_size
        )
        yield parsed.version, parsed.eh_frame, parsed.count, parsed.table_encoding
        yield from islice(parsed.entries(), MOST)
    except Error as error:
        yield str(error)
