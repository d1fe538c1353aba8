"""The frame of a ``perf.data`` file: its header, attributes, features, and where the records are.

Source: ``tools/perf/Documentation/perf.data-file-format.txt`` of Linux. A recording that went through a pipe has a short
header, and attributes and features come as records among the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clew.arch import ByteOrder
from clew.errors import FormatError, Problem
from clew.target.perfdata.attributes import SMALLEST, Event, read_event
from clew.target.perfdata.features import FEATURES, HOSTNAME, FeatureReader
from clew.target.perfdata.windows import Windows

MAGIC = {b"PERFILE2": "little", b"2ELIFREP": "big"}
"""The first eight bytes: the number ``PERF_MAGIC2`` in the byte order of the machine that wrote it."""

_FILE_HEADER = 104
_PIPE_HEADER = 16
MAXIMUM_EVENTS = 1 << 14
"""How many kinds of events a recording may have."""

_MAXIMUM_IDS = 1 << 20
_MAXIMUM_FEATURE = 1 << 24


@dataclass
class Header:
    """What stands around the records.

    Attributes:
        order: of all numbers in the file.
        pipe: whether it is the pipe's form, where attributes and features are among the records.
        events: what was sampled; in the pipe's form they are added as their records are read.
        begin, end: where the records are in the file.
        reader: has read the features.
        ended: whether perf came to write the size of the records, and what follows them.
    """

    order: ByteOrder
    pipe: bool
    events: list[Event]
    begin: int
    end: int
    reader: FeatureReader
    ended: bool = True


def read_header(windows: Windows, report: Callable[[Problem], None]) -> Header:
    """The header, and what it leads to.

    Raises:
        FormatError: this is no ``perf.data``, or of the first version; or what it needs first is cut off.
    """
    head = windows.read(0, _FILE_HEADER)
    if head[:8] == b"PERFFILE":
        raise FormatError("this perf.data is of version 1, which ended with Linux 2.6", file=windows.name)
    if not head:
        # perf makes the file first, and writes the header when it begins to record.
        raise FormatError(
            "the file is empty: perf record did not come to write to it, or was not ended properly",
            file=windows.name,
            hint="record again, and stop perf with Ctrl-C or SIGINT, not with SIGKILL",
        )
    if head[:8] not in MAGIC or len(head) < _PIPE_HEADER:
        raise FormatError("this is no perf.data", file=windows.name, hint="make one with `perf record -g`")
    order: ByteOrder = "little" if MAGIC[head[:8]] == "little" else "big"
    words = [int.from_bytes(head[at : at + 8], order) for at in range(0, len(head) - 7, 8)]
    events: list[Event] = []
    reader = FeatureReader(order, events, report)
    if words[1] == _PIPE_HEADER:
        return Header(order, True, events, _PIPE_HEADER, windows.size, reader)
    if words[1] < _FILE_HEADER or len(head) < _FILE_HEADER:
        raise FormatError("the header is cut short or of an unknown size", file=windows.name, offset=8)
    _, _, entry, attributes, attributes_size, begin, size = words[:7]
    events += _events(windows, order, entry, (attributes, attributes_size), report)
    if not events:
        raise FormatError("the file does not say what was sampled", file=windows.name, offset=24)
    end = begin + size
    ended = bool(size) or _ended(windows, order, head[72:104], begin)
    if not ended:
        # perf writes the size when it ends; until then it is 0, and no features follow.
        report(Problem("the recording was not ended properly: it does not say how long it is", offset=48, lost=False))
        end = windows.size
    elif end > windows.size:
        report(Problem(f"the file is cut short: {end - max(windows.size, begin)} bytes of records are missing"))
        end = windows.size
    if ended:
        _features(windows, order, head[72:104], begin + size, reader, report)
    return Header(order, False, events, min(begin, end), end, reader, ended)


def _events(
    windows: Windows, order: ByteOrder, entry: int, section: tuple[int, int], report: Callable[[Problem], None]
) -> list[Event]:
    """The attributes, each with a section of ids behind it."""
    offset, size = section
    if entry < SMALLEST + 16 or entry > 1 << 16:
        raise FormatError(f"attributes of {entry} bytes are of no known form", file=windows.name, offset=16)
    events: list[Event] = []
    left = min(_MAXIMUM_IDS, windows.size // 8)
    for at in range(offset, min(offset + size, windows.size) - entry + 1, entry):
        if len(events) == MAXIMUM_EVENTS:
            report(Problem(f"there are more than {MAXIMUM_EVENTS} attributes", offset=at))
            break
        data = windows.read(at, entry)
        event = read_event(data[:-16], order)
        ids, length = (int.from_bytes(data[entry - back :][:8], order) for back in (16, 8))
        found = windows.read(ids, min(length, 8 * left))
        left -= len(found) // 8
        event.ids = [int.from_bytes(found[n : n + 8], order) for n in range(0, len(found) - 7, 8)]
        if len(found) < length:
            report(Problem("ids of an event are missing", offset=ids))
        events.append(event)
    if size % entry or offset + size > windows.size:
        report(Problem("the attributes are cut short", offset=offset))
    return events


def _ended(windows: Windows, order: ByteOrder, bits: bytes, begin: int) -> bool:
    """Whether a recording without records was ended: features follow at once."""
    place = windows.read(begin, 8)
    count = _feature_bits(bits, order).bit_count()
    return bool(count) and int.from_bytes(place, order) == begin + 16 * count


def _feature_bits(bits: bytes, order: ByteOrder) -> int:
    """The bitmap of features, whose words are as wide as ``long`` was."""
    wide, narrow = (
        int.from_bytes(
            b"".join(
                bits[at : at + size][::-1] if order == "big" else bits[at : at + size] for at in range(0, 32, size)
            ),
            "little",
        )
        for size in (8, 4)
    )
    # Nothing tells the width; every recording has the host's name.
    return narrow if narrow >> HOSTNAME & 1 and not wide >> HOSTNAME & 1 else wide


def _features(
    windows: Windows,
    order: ByteOrder,
    bits: bytes,
    offset: int,
    reader: FeatureReader,
    report: Callable[[Problem], None],
) -> None:
    """The features: a table of sections behind the data, one for each bit that is set."""
    present = _feature_bits(bits, order)
    at = offset
    for feature in range(FEATURES):
        if not present >> feature & 1:
            continue
        place = windows.read(at, 16)
        at += 16
        where, size = int.from_bytes(place[:8], order), int.from_bytes(place[8:], order)
        if len(place) < 16:
            report(Problem("the table of features is cut short", offset=at - 16))
            return
        data = windows.read(where, min(size, _MAXIMUM_FEATURE)) if feature in reader.WANTED else b""
        if feature in reader.WANTED and len(data) < size:
            report(Problem(f"feature {feature} is cut short or absurdly large", offset=where))
        reader.read(feature, data, where)
