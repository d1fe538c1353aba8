"""A packed table as it lies in a file: opened, checked, looked up, and made into a Table again."""

from __future__ import annotations

import mmap
import os
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.errors import FormatError
from clew.read.packed import layout
from clew.read.packed.checks import Checker
from clew.read.packed.checksum import crc32
from clew.read.packed.layout import PackedMachine
from clew.read.packed.rules import rule_of
from clew.table import Rule, Table
from clew.table.build import no_ranges
from clew.table.rules import Rules


def is_packed(data: bytes | memoryview) -> bool:
    """Whether some bytes begin as a packed table does."""
    return bytes(data[: len(layout.MAGIC)]) == layout.MAGIC


def names_packed(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a packed table does; not if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return is_packed(file.read(len(layout.MAGIC)))
    except OSError:
        return False


def open_packed(path: str | os.PathLike[str]) -> PackedTable | None:
    """The packed table in a file, mapped; None if the file cannot be opened, or is something else.

    Raises:
        FormatError: it is a packed table, and damaged or of another version.
    """
    if not names_packed(path):
        return None
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    return PackedTable(memoryview(data), os.fspath(path))


class PackedTable:
    """A packed table in memory, checked when it is opened.

    Args:
        data: its bytes, which are not copied; what follows it is left alone.
        name: what it is called in messages.
        check: whether to check it. Who does not has it checked in C before anything but its parts is used.

    Attributes:
        target: the machine.
        build_id: of the file that it is of, or None.
        source: what it was made of, as :func:`clew.read.packed.checksum.source_of` says it; 0 if that is not known.
        parts: its records by part, as numpy arrays of the types in :data:`clew.read.packed.layout.RECORDS`.
        size: how many bytes it has.
        data: these bytes.

    Raises:
        FormatError: it is not a packed table, of another version, cut, or damaged. It names the part.
    """

    def __init__(self, data: bytes | memoryview, name: str = "<bytes>", *, check: bool = True) -> None:
        self.name = name
        view = memoryview(data).cast("B")
        header = self._header(view)
        self.size = int(header["size"])
        self.data = view[: self.size]
        self.target = self._machine(int(header["machine"]))
        size = int(header["build_id_size"])
        if size > 32:
            raise self._damaged("a build id has at most 32 bytes", 11)
        self.source = int(header["source"])
        self.build_id = bytes(header["build_id"].tobytes())[:size] or None
        if check and crc32(view[layout.CHECKED_FROM : self.size]) != int(header["checksum"]):
            raise self._damaged("its checksum is another one", 12)
        offsets: dict[str, int] = {}
        self.parts: dict[str, npt.NDArray[Any]] = {}
        for part in layout.PARTS:
            record = layout.RECORDS[part]
            offset, count = int(header[part]["offset"]), int(header[part]["count"])
            fits = layout.HEADER.itemsize <= offset <= self.size and count <= (self.size - offset) // record.itemsize
            if not fits or offset % record.itemsize:
                raise FormatError(
                    "the packed table is damaged: a part is not inside it", file=name, section=part, hint=layout.DAMAGED
                )
            offsets[part] = offset
            self.parts[part] = np.frombuffer(view, record, count, offset)
        if check:
            Checker(name, self.target, self.parts, offsets).check()

    def _header(self, view: memoryview) -> Any:
        if not is_packed(view):
            raise FormatError("this is not a packed table", file=self.name, offset=0)
        if len(view) < layout.HEADER.itemsize:
            raise self._damaged("it is cut", len(view))
        header = np.frombuffer(view, layout.HEADER, 1)[0]
        if int(header["version"]) != layout.VERSION:
            version = int(header["version"])
            raise FormatError(
                f"this is a packed table of version {version}, and clew reads version {layout.VERSION}",
                file=self.name,
                offset=8,
                hint="make it anew: clew compile --backend packed FILE",
            )
        if not layout.HEADER.itemsize <= int(header["size"]) <= len(view):
            raise self._damaged(f"it says that it has {int(header['size']):,} bytes, and {len(view):,} are there", 16)
        return header

    def _machine(self, number: int) -> PackedMachine:
        for target in layout.MACHINES:
            if target.number == number:
                return target
        raise self._damaged(f"there is no machine {number}", 10)

    def _damaged(self, message: str, offset: int) -> FormatError:
        return FormatError(
            f"the packed table is damaged: {message}", file=self.name, offset=offset, hint=layout.DAMAGED
        )

    @property
    def row_count(self) -> int:
        """Rows that are in it, without the padding of pages."""
        return len(self.parts["rows"]) - layout.ROW_PADDING * len(self.parts["pages"])

    def __repr__(self) -> str:
        rules = len(self.parts["rules"])
        return (
            f"<PackedTable {self.target.machine.name}, {self.row_count:,} rows, {rules:,} rules, {self.size:,} bytes>"
        )

    def lookup(self, address: int) -> Rule | None:
        """The rule at an address of the file, or None where the table says nothing."""
        number = self.find(address)
        return self.rules[number] if number else None

    def find(self, address: int) -> int:
        """The number of the rule at an address, an index in :attr:`rules`; 0 where there is none."""
        for segment in self.parts["segments"]:
            offset = address - int(segment["start"])
            if 0 <= offset < int(segment["size"]):
                page, at = int(segment["page"]) + (offset >> layout.PAGE_BITS), offset & 0xFFFF
                bucket = page * layout.PAGE_STRIDE + (at >> layout.BUCKET_BITS)
                first = int(self.parts["pages"][page])
                low = first + int(self.parts["buckets"][bucket])
                high = first + int(self.parts["buckets"][bucket + 1])
                start = self.parts["rows"][low : high + 1] >> np.uint32(16)
                row = low + int(np.searchsorted(start, at, "right")) - 1
                number = int(self.parts["rows"][row]) & 0xFFFF
                if number != layout.ESCAPED:
                    return number
                escapes = self.parts["escapes"]
                return int(escapes["rule"][int(np.searchsorted(escapes["row"], row))])
        return 0

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules by number; number 0 is *no information*."""
        return [rule_of(self.target, rule, self.parts) for rule in self.parts["rules"]]

    def table(self) -> Table:
        """The rows as a normalised Table. It has no functions: they are not in a packed table.

        A signed return address says no longer whether the pc was part of it, nor by which key.
        """
        starts: list[npt.NDArray[np.uint64]] = []
        numbers: list[npt.NDArray[np.uint32]] = []
        rows, buckets = self.parts["rows"], self.parts["buckets"]
        number = (rows & np.uint32(0xFFFF)).astype(np.uint32)
        number[self.parts["escapes"]["row"]] = self.parts["escapes"]["rule"]
        for segment in self.parts["segments"]:
            start, size = int(segment["start"]), int(segment["size"])
            for index in range(int(segment["pages"])):
                page = int(segment["page"]) + index
                inside = min(size - (index << layout.PAGE_BITS), 1 << layout.PAGE_BITS)
                last = int(buckets[page * layout.PAGE_STRIDE + -(-inside >> layout.BUCKET_BITS)])
                first = int(self.parts["pages"][page])
                mine = slice(first, first + last + 1)
                at = np.uint64((start + (index << layout.PAGE_BITS)) % (1 << 64))
                starts.append((rows[mine] >> np.uint32(16)).astype(np.uint64) + at)
                numbers.append(number[mine])
            starts.append(np.array([start + size], np.uint64))
            numbers.append(np.zeros(1, np.uint32))
        table = Table(
            self.target.machine,
            np.concatenate(starts) if starts else np.zeros(0, np.uint64),
            np.concatenate(numbers) if numbers else np.zeros(0, np.uint32),
            Rules(self.target.machine, rules=self.rules),
            no_ranges(),
        )
        return table.normalise(padding=1)
