"""The outside of a minidump: its header, the directory of its streams, and the lists and strings that streams hold.

``minidumpapiset.h`` of the Windows SDK defines the format (``MINIDUMP_HEADER``, ``MINIDUMP_DIRECTORY``), and Breakpad's
``minidump_format.h`` the streams and values that other systems have. Everything is in the byte order of the machine that
wrote it; the signature tells which. A place in the file is an *RVA*, an offset from its beginning, and a size. No number
in the file decides how much memory is taken: counts are bounded by the bytes that are there.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from clew.arch import ByteOrder
from clew.errors import FormatError, Problem
from clew.image.source import Source, from_bytes, from_file

Report = Callable[[Problem], None]

SIGNATURE = b"MDMP"
VERSION = 0xA793
"""The low half of the header's version; the other half is its writer's own."""

_HEADER_SIZE = 32
_MAXIMUM_STREAMS = 1 << 12
_MAXIMUM_STRING = 1 << 16


class StreamType(enum.IntEnum):
    """What a stream holds, of those that clew reads (``MINIDUMP_STREAM_TYPE``; above 0xffff, Breakpad's and Crashpad's)."""

    UNUSED = 0
    THREAD_LIST = 3
    MODULE_LIST = 4
    MEMORY_LIST = 5
    EXCEPTION = 6
    SYSTEM_INFO = 7
    MEMORY64_LIST = 9
    MISC_INFO = 15
    MEMORY_INFO_LIST = 16
    THREAD_NAMES = 24
    LINUX_PROC_STATUS = 0x47670004
    LINUX_MAPS = 0x47670009


@dataclass(frozen=True, slots=True)
class Location:
    """A run of bytes in the file (``MINIDUMP_LOCATION_DESCRIPTOR``).

    Attributes:
        size: how many.
        rva: the offset of the first.
    """

    size: int
    rva: int


@dataclass(frozen=True, slots=True)
class Stream:
    """An entry of the directory.

    Attributes:
        type: what it holds; one that is not in :class:`StreamType` is kept as it is.
        location: where.
    """

    type: int
    location: Location

    @property
    def name(self) -> str:
        """What a problem calls it."""
        try:
            return StreamType(self.type).name.lower().replace("_", " ")
        except ValueError:
            return f"stream {self.type:#x}"


class MinidumpFile:
    """A minidump's header and directory, and the means to read its streams. The file is mapped: do not cut it short.

    What is wrong is told to ``report`` and left out.

    Attributes:
        byte_order: of everything in it.
        time: when it was written, in seconds since 1970.
        flags: ``MINIDUMP_TYPE``, what its writer was asked to include.
        streams: the directory, in the file's order, without the unused entries.

    Raises:
        FormatError: it is no minidump, or has no directory.
        NotFoundError, Error: it cannot be opened.
    """

    def __init__(self, source: Source, report: Report) -> None:
        self._source = source
        self.name = source.name
        self.report = report
        head = bytes(source.slice(0, _HEADER_SIZE))
        if head[:4] not in (SIGNATURE, SIGNATURE[::-1]):
            raise FormatError("this is no minidump: it does not begin with MDMP", file=self.name)
        if len(head) < _HEADER_SIZE:
            raise FormatError(f"the minidump is cut short: it has {len(head)} bytes", file=self.name)
        self.byte_order: ByteOrder = "little" if head[:4] == SIGNATURE else "big"
        self.prefix = "<" if self.byte_order == "little" else ">"
        _, version, count, rva, _, self.time, self.flags = Struct(self.prefix + "IIIIIIQ").unpack(head)
        if version & 0xFFFF != VERSION:
            raise FormatError(f"the minidump's version is {version & 0xFFFF:#x}, not {VERSION:#x}", file=self.name)
        # Names may overlap in a damaged file: what they come to is bounded by its size.
        self._text_left = source.size + _MAXIMUM_STRING
        self.streams = self._directory(count, rva)
        self._by_type: dict[int, Stream] = {}
        for stream in self.streams:
            if stream.type in self._by_type:
                self.report(Problem(f"a second {stream.name} is left out"))
            else:
                self._by_type[stream.type] = stream

    @classmethod
    def open(cls, path: str | os.PathLike[str], report: Report) -> MinidumpFile:
        """The minidump at a path."""
        source = from_file(path)
        try:
            return cls(source, report)
        except BaseException:
            source.close()
            raise

    @classmethod
    def from_bytes(cls, data: bytes, report: Report, name: str = "<memory>") -> MinidumpFile:
        """The minidump in these bytes."""
        return cls(from_bytes(data, name), report)

    def _directory(self, count: int, rva: int) -> list[Stream]:
        record = Struct(self.prefix + "III")
        data = self._source.slice(rva, min(count, _MAXIMUM_STREAMS) * record.size)
        there = len(data) // record.size
        if count and not there:
            raise FormatError("the directory of streams is not in the file", file=self.name, offset=rva)
        if there < count:
            self.report(Problem(f"of {count} streams, the directory has {there}", offset=rva))
        streams = [
            Stream(type, Location(size, at)) for type, size, at in record.iter_unpack(data[: there * record.size])
        ]
        return [stream for stream in streams if stream.type != StreamType.UNUSED]

    def stream(self, type: int) -> Stream | None:
        """The first stream of a type, or None."""
        return self._by_type.get(type)

    def data(self, location: Location) -> memoryview:
        """The bytes of a run, as many as are there."""
        return self._source.slice(location.rva, location.size)

    def stream_data(self, type: int) -> memoryview | None:
        """The bytes of the first stream of a type, or None where there is none; what is cut is told."""
        stream = self.stream(type)
        if stream is None:
            return None
        data = self.data(stream.location)
        if len(data) < stream.location.size:
            self.report(
                Problem(
                    f"it is cut short: {len(data)} of {stream.location.size} bytes", stream.name, stream.location.rva
                )
            )
        return data

    def unpack(self, form: str, data: memoryview | bytes, offset: int = 0) -> tuple[Any, ...] | None:
        """The fields at an offset, or None where the bytes do not reach. ``form`` is that of :mod:`struct`, unaligned."""
        record = Struct(self.prefix + form)
        if offset < 0 or offset + record.size > len(data):
            return None
        return record.unpack_from(data, offset)

    def records(self, type: int, form: str, *, count_form: str = "I") -> list[tuple[Any, ...]]:
        """The records of a stream that is a list: a count, and as many records.

        Some writers align the records to eight bytes, with four between them and the count.
        """
        data = self.stream_data(type)
        stream = self.stream(type)
        if data is None or stream is None:
            return []
        head = self.unpack(count_form, data)
        if head is None:
            self.report(Problem("it has no count of its records", stream.name, stream.location.rva))
            return []
        record = Struct(self.prefix + form)
        start = Struct(self.prefix + count_form).size
        if count_form == "I" and stream.location.size == start + 4 + head[-1] * record.size:
            start += 4
        return self.list_of(record, data[start:], head[-1], stream)

    def list_of(
        self, record: Struct, data: memoryview, count: int, stream: Stream, step: int | None = None
    ) -> list[tuple[Any, ...]]:
        """At most ``count`` records that lie ``step`` bytes apart: as many as are there."""
        step = record.size if step is None else step
        there = min(count, max(0, (len(data) - record.size) // step + 1)) if len(data) >= record.size else 0
        if there < count:
            self.report(Problem(f"it has {there} of its {count} records", stream.name, stream.location.rva))
        if step == record.size:
            return list(record.iter_unpack(data[: there * record.size]))
        return [record.unpack_from(data, index * step) for index in range(there)]

    def string(self, rva: int) -> str | None:
        """The text at an offset (``MINIDUMP_STRING``: its size in bytes, then UTF-16), or None where it is not there."""
        head = self.unpack("I", self._source.slice(rva, 4)) if rva else None
        if head is None:
            return None
        size = min(head[0] & ~1, _MAXIMUM_STRING)
        data = self._source.slice(rva + 4, size)
        if len(data) < size or head[0] > _MAXIMUM_STRING or not self.spend(size):
            self.report(Problem(f"a text of {head[0]} bytes is not read", offset=rva))
            return None
        text = bytes(data).decode("utf-16-le" if self.byte_order == "little" else "utf-16-be", "replace")
        return text.split("\0", 1)[0]

    def spend(self, size: int) -> bool:
        """Whether so many bytes more may be kept as texts: records may share theirs, but not without end."""
        if size > self._text_left:
            return False
        self._text_left -= size
        return True

    @property
    def whole(self) -> memoryview:
        """All bytes of the file."""
        return self._source.slice(0, self._source.size)

    def close(self) -> None:
        """Let go of the file."""
        self._source.close()
