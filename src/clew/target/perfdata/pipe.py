"""The pipe's form: what a header holds in a file comes as records.

Sources: ``tools/perf/Documentation/perf.data-file-format.txt``, "perf.data pipe mode", and the structures in
``tools/lib/perf/include/perf/event.h`` of Linux.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.errors import FormatError, Problem
from clew.target.perfdata.attributes import SMALLEST, read_event
from clew.target.perfdata.header import MAXIMUM_EVENTS, Header
from clew.target.perfdata.records import EVENT_UPDATE, HEADER_ATTR, HEADER_BUILD_ID, HEADER_FEATURE
from clew.target.perfdata.windows import Windows

_KERNEL_KINDS = 64
_UPDATE_NAME = 2
# What perf puts after the attributes, and before the first record of the kernel's.
_ENDS = (68, 81, 82, 83)
_MAXIMUM_RECORDS = 1 << 17


def read_pipe_head(windows: Windows, header: Header, report: Callable[[Problem], None]) -> None:
    """Read the records at the beginning, up to the first that only can be read when the events are known.

    Raises:
        FormatError: there are no attributes.
    """
    at = header.begin
    for _ in range(_MAXIMUM_RECORDS):
        head = windows.read(at, 8)
        kind, misc, size = (int.from_bytes(head[a:b], header.order) for a, b in ((0, 4), (4, 6), (6, 8)))
        if len(head) < 8 or size < 8 or kind < _KERNEL_KINDS or kind in _ENDS:
            break
        record = windows.read(at, size)
        if kind == HEADER_ATTR and len(header.events) < MAXIMUM_EVENTS:
            _attribute(header, record, report, at)
        elif kind in (HEADER_FEATURE, EVENT_UPDATE, HEADER_BUILD_ID):
            read_pipe_record(header, kind, misc, record, at)
        # As in the splitter: AUXTRACE and TRACING_DATA are followed by more.
        more = int.from_bytes(record[8:16], header.order) if kind == 71 else 0
        if kind == 66:
            more = -(-int.from_bytes(record[8:12], header.order) // 8) * 8
        at += size + more
    if not header.events:
        raise FormatError("the file does not say what was sampled", file=windows.name, offset=header.begin)


def _attribute(header: Header, record: bytes, report: Callable[[Problem], None], at: int) -> None:
    size = int.from_bytes(record[12:16], header.order)
    if size < SMALLEST or 8 + size > len(record):
        report(Problem("an attribute is damaged", offset=at))
        return
    event = read_event(record[8 : 8 + size], header.order)
    ids = record[8 + size :]
    event.ids = [int.from_bytes(ids[n : n + 8], header.order) for n in range(0, len(ids) - 7, 8)]
    header.events.append(event)


def read_pipe_record(header: Header, kind: int, misc: int, record: bytes, offset: int) -> None:
    """A feature, a build id, or the name of an event."""
    if kind == HEADER_FEATURE and len(record) >= 16:
        header.reader.read(int.from_bytes(record[8:16], header.order), record[16:], offset + 16)
    elif kind == HEADER_BUILD_ID:
        header.reader.build_id(record, misc)
    elif kind == EVENT_UPDATE and int.from_bytes(record[8:16], header.order) == _UPDATE_NAME:
        id = int.from_bytes(record[16:24], header.order)
        name = record[24:].split(b"\0", 1)[0].decode("utf-8", "replace")
        for event in header.events:
            if id in event.ids and name:
                event.name = name
