"""A Table packed: written once, read by everything that walks fast. ``native/packed.h`` says how it lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clew.errors import UsageError
from clew.image import Image
from clew.native.packed_rows import RowPacker, pages_of, tally
from clew.native.packed_rules import RulePacker
from clew.read.packed import layout
from clew.read.packed.checksum import crc32, source_of
from clew.read.packed.layout import PackedMachine
from clew.table import Table
from clew.write.packed.cells import CellPacker
from clew.write.packed.segments import Stretch, stretches

U1 = npt.NDArray[np.uint8]
U4 = npt.NDArray[np.uint32]
Buffer: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.uint16] | U4 | npt.NDArray[np.void] | bytes | bytearray

_ALIGNMENT = 32


def _machine(table: Table) -> PackedMachine:
    """What packed tables know of the table's machine. Raises UsageError if they are not made for it."""
    target = layout.packed_machine(table.machine)
    if target is None:
        names = " and ".join(each.machine.name for each in layout.MACHINES)
        raise UsageError(f"packed tables are for {names}, and this is a table for {table.machine.name}")
    return target


def packed(table: Table, image: Image | None = None, build_id: bytes | None = None) -> bytes:
    """The table in packed form.

    It says the same as the table at every address that has a rule and, where the file says what can be executed, can be
    executed; registers other than the integer ones are left out. Padding between functions has the rule before it.

    Args:
        table: decoded or normalised.
        image: the file that it is of, for its segments and its build id.
        build_id: the build id, where no file tells it; at most 32 bytes count.

    Raises:
        UsageError: packed tables are not made for this machine.
        FormatError: the rows are spread over far more addresses than the file has bytes.
    """
    target = _machine(table)
    if not table.normalised:
        table = table.normalise()
    pieces = stretches(table, image)
    used = _used(table, pieces)
    records, cells = _rules(table, used, target)
    rules, number = _distinct(table, used, records)
    packer = RowPacker(
        table.start,
        table.rule,
        number,
        sum(piece.last - piece.first + 1 for piece in pieces),
        [piece.size for piece in pieces],
    )
    for piece in pieces:
        packer.pack(piece.first, piece.address, piece.size)
    pages, buckets, rows, escapes = packer.columns()
    if build_id is None and image is not None:
        build_id = image.build_id
    parts: dict[str, Buffer] = {
        "segments": _segments(pieces),
        "pages": pages,
        "buckets": buckets,
        "rows": rows,
        "escapes": np.array(escapes, "<u4"),
        "rules": rules,
        "cells": cells.cells,
        "steps": cells.steps,
    }
    return _assembled(target, parts, (build_id or b"")[:32], 0 if image is None else source_of(image))


def _used(table: Table, pieces: list[Stretch]) -> U4:
    """The rules in use, the most frequent first behind *no information*: their records then lie close together."""
    count = np.zeros(len(table.rules), np.uint64)
    for piece in pieces:
        tally(table.rule, piece.first, piece.last, count)
    count[:1] = 0
    used = np.flatnonzero(count)
    used = used[np.argsort(-count[used].astype(np.int64), kind="stable")]
    return np.concatenate(([0], used)).astype(np.uint32)


def _rules(table: Table, used: U4, target: PackedMachine) -> tuple[U1, CellPacker]:
    """The records of the rules in use, and what holds their cells and steps."""
    out = np.zeros(32 * len(used), np.uint8)
    cells = CellPacker(target)
    columns = table.rules.columns
    rest: Sequence[int] = range(1, len(used))
    if columns is not None:
        machine = target.machine
        packer = RulePacker(
            columns.numbers(),
            target.registers,
            machine.stack_pointer,
            machine.return_address,
            target.saved,
            target.same,
        )
        rest = packer.pack(used, out)
    for index in rest:
        out[32 * index : 32 * index + 32] = np.frombuffer(cells.pack(table.rules[int(used[index])]), np.uint8)
    return out, cells


def _distinct(table: Table, used: U4, records: U1) -> tuple[bytes, U4]:
    """The records without those that are there already, and the packed number of each of the table's rules.

    Rules may differ in what is left out: registers that are not integer ones, and how a return address is signed.
    """
    data = records.tobytes()
    numbers: dict[bytes, int] = {}
    number = np.zeros(max(len(table.rules), 1), np.uint32)
    number[used] = [
        numbers.setdefault(data[at : at + 32], len(numbers)) for at in range(0, len(data), layout.RULE.itemsize)
    ]
    return b"".join(numbers), number


def _segments(pieces: list[Stretch]) -> npt.NDArray[np.void]:
    segments = np.zeros(len(pieces), layout.SEGMENT)
    page = 0
    for segment, piece in zip(segments, pieces, strict=True):
        pages = pages_of(piece.size)
        segment["start"], segment["size"], segment["page"], segment["pages"] = piece.address, piece.size, page, pages
        page += pages
    return segments


def _assembled(target: PackedMachine, parts: dict[str, Buffer], build_id: bytes, source: int) -> bytes:
    """The parts behind their header."""
    header = np.zeros((), layout.HEADER)
    header["magic"], header["version"], header["machine"] = layout.MAGIC, layout.VERSION, target.number
    header["build_id_size"], header["source"] = len(build_id), source
    header["build_id"] = np.void(build_id.ljust(32, b"\0"))
    pieces: list[bytes | memoryview] = []
    offset = layout.HEADER.itemsize
    for name in layout.PARTS:
        part = parts[name]
        data = memoryview(part if isinstance(part, bytes | bytearray) else part.tobytes())
        header[name]["offset"] = offset
        header[name]["count"] = len(data) // layout.RECORDS[name].itemsize
        padding = -len(data) % _ALIGNMENT
        pieces += (data, bytes(padding))
        offset += len(data) + padding
    header["size"] = offset
    out = bytearray(b"".join((header.tobytes(), *pieces)))
    out[12:16] = crc32(memoryview(out)[layout.CHECKED_FROM :]).to_bytes(4, "little")
    return bytes(out)
