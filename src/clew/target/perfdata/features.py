"""What perf notes about a recording: the feature sections behind the data, or the records that stand for them in a pipe.

Source: ``tools/perf/Documentation/perf.data-file-format.txt`` and ``tools/perf/util/header.h`` of Linux.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from os import fsdecode

from clew.arch import ByteOrder
from clew.errors import Problem
from clew.target.perfdata.attributes import SMALLEST, Event

BUILD_ID = 2
HOSTNAME = 3
OSRELEASE = 4
VERSION = 5
ARCH = 6
CMDLINE = 11
EVENT_DESC = 12
SAMPLE_TIME = 21
FEATURES = 256
"""How many features there can be: the bits of ``adds_features``."""

_TEXTS = {HOSTNAME: "hostname", OSRELEASE: "release", VERSION: "version", ARCH: "arch"}
_MAXIMUM_ARGUMENTS = 1 << 16
_MAXIMUM_BUILD_ID = 20
_KERNEL = 1
_GUEST_KERNEL = 4
_KERNEL_NAME = "[kernel.kallsyms]"
_BUILD_ID_SIZE = 1 << 15


@dataclass
class Features:
    """What the file says about the recording.

    Attributes:
        hostname, release, version, arch: of the machine, its kernel, perf, and ``uname -m``.
        command: the command line of perf.
        build_ids: of user files, by path.
        kernel_build_id: of the kernel; those of its modules are left out.
        first, last: times of the first and the last sample in nanoseconds, if they are noted.
    """

    hostname: str | None = None
    release: str | None = None
    version: str | None = None
    arch: str | None = None
    command: list[str] = field(default_factory=list)
    build_ids: dict[str, bytes] = field(default_factory=dict)
    kernel_build_id: bytes | None = None
    first: int | None = None
    last: int | None = None


class FeatureReader:
    """Reads features into :class:`Features`, and what they say of events into these.

    Attributes:
        WANTED: the features that matter here.

    Args:
        order: the file's byte order.
        events: whose names may be told.
        report: told about what is damaged.
    """

    WANTED = frozenset((BUILD_ID, HOSTNAME, OSRELEASE, VERSION, ARCH, CMDLINE, EVENT_DESC, SAMPLE_TIME))

    def __init__(self, order: ByteOrder, events: list[Event], report: Callable[[Problem], None]) -> None:
        self.order: ByteOrder = order
        self.events = events
        self.report = report
        self.features = Features()

    def read(self, feature: int, data: bytes, offset: int) -> None:
        """Read one feature; ``offset`` is where it is in the file. Those that do not matter here are passed over."""
        found = self.features
        if feature == BUILD_ID:
            self._build_ids(data, offset)
        elif feature in _TEXTS:
            setattr(found, _TEXTS[feature], self._string(data, 0)[0] or None)
        elif feature == CMDLINE:
            found.command = self._strings(data)
        elif feature == EVENT_DESC:
            self._event_names(data)
        elif feature == SAMPLE_TIME and len(data) >= 16:
            found.first, found.last = self._number(data, 0, 8), self._number(data, 8, 8)

    def build_id(self, record: bytes, misc: int) -> None:
        """One ``perf_record_header_build_id``: a header, pid, 24 bytes with the build id, and the file's name."""
        mode = misc & 7
        if mode == _GUEST_KERNEL or len(record) < 37:
            return
        size = _MAXIMUM_BUILD_ID
        if misc & _BUILD_ID_SIZE:
            size = min(record[32], _MAXIMUM_BUILD_ID)
        name = fsdecode(record[36:].split(b"\0", 1)[0])
        value = record[12 : 12 + size]
        if not misc & _BUILD_ID_SIZE and not any(value[16:]):
            # Before the size was noted, shorter ones were filled with zeros: md5 and uuid have 16 bytes.
            value = value[:16]
        if mode == _KERNEL:
            if name == _KERNEL_NAME and any(value):
                self.features.kernel_build_id = value
        elif name and any(value):
            self.features.build_ids[name] = value

    def _build_ids(self, data: bytes, offset: int) -> None:
        at = 0
        while at + 8 <= len(data):
            misc, size = self._number(data, at + 4, 2), self._number(data, at + 6, 2)
            if size < 8 or at + size > len(data):
                self.report(Problem("the list of build ids is damaged", offset=offset + at))
                return
            self.build_id(data[at : at + size], misc)
            at += size

    def _number(self, data: bytes, at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], self.order)

    def _string(self, data: bytes, at: int) -> tuple[str, int]:
        """A length of four bytes and so many bytes of text; and where it ends."""
        size = self._number(data, at, 4)
        return fsdecode(data[at + 4 : at + 4 + size].split(b"\0", 1)[0]), min(at + 4 + size, len(data))

    def _strings(self, data: bytes) -> list[str]:
        found: list[str] = []
        at = 4
        for _ in range(min(self._number(data, 0, 4), _MAXIMUM_ARGUMENTS)):
            if at + 4 > len(data):
                break
            text, at = self._string(data, at)
            found.append(text)
        return found

    def _event_names(self, data: bytes) -> None:
        """A count and the attributes' size; for each an attribute, a count of ids, the name, and the ids."""
        count, attribute_size = self._number(data, 0, 4), self._number(data, 4, 4)
        at = 8
        if attribute_size < SMALLEST:
            return
        for index in range(min(count, len(self.events))):
            if at + attribute_size + 8 > len(data):
                return
            at += attribute_size
            ids = self._number(data, at, 4)
            name, at = self._string(data, at + 4)
            at += 8 * ids
            # The events of both lists are in the same order.
            if name:
                self.events[index].name = name
