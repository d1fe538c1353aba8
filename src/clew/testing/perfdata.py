"""``perf.data`` files made in memory, for tests: of any machine whose registers perf samples, in either byte order.

>>> data = PerfDataBuilder("x86-64")
>>> data.event(registers=("rsp", "rip"), stack=True)
>>> data.named(7, "work")
>>> data.sample(pid=7, registers={"rip": 0x1004, "rsp": 0x7ff0}, stack=b"\\x2a" + bytes(15))
>>> import tempfile
>>> with tempfile.NamedTemporaryFile() as file, data.write(file.name) as opened:
...     for sample in opened.samples():
...         print(sample.process.command, hex(sample.thread.pc), sample.process.memory.read(0x7ff0, 1))
work 0x1004 b'*'
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from struct import pack
from typing import Any

from clew.arch import ByteOrder, machine_named
from clew.target.perfdata import PerfData, open_perf_data
from clew.target.perfdata.features import ARCH, BUILD_ID, CMDLINE, EVENT_DESC, HOSTNAME, OSRELEASE
from clew.target.perfdata.records import COMM, EXIT, FORK, LOST, LOST_SAMPLES, MISC_USER, MMAP, MMAP2
from clew.target.perfdata.registers import NAMES

SAMPLE = 9
DEFAULT_TYPE = 1 << 0 | 1 << 1 | 1 << 2
"""IP, TID and TIME."""
_REGS, _STACK, _IDENTIFIER = 1 << 12, 1 << 13, 1 << 16
_UNAMES = {"x86-64": "x86_64", "i386": "i686", "arm": "armv7l", "powerpc64": "ppc64", "powerpc": "ppc"}


class _Event:
    def __init__(self, name: str, type: int, read_format: int, branch: int, mask: int, ids: Sequence[int], all: bool):
        self.name, self.type, self.read_format, self.branch, self.mask = name, type, read_format, branch, mask
        self.ids, self.sample_id_all = list(ids), all


class PerfDataBuilder:
    """A recording in the making: add events first, then records, then :meth:`build` it.

    Args:
        machine: its name.
        byte_order: the machine's usual one unless told.
        pipe: make what ``perf record -o -`` writes.
        arch: what ``uname -m`` says; None for no such feature.
    """

    def __init__(
        self, machine: str = "x86-64", *, byte_order: ByteOrder | None = None, pipe: bool = False, arch: str | None = ""
    ) -> None:
        self.machine = machine_named(machine, byte_order)
        self.order = "<" if self.machine.byte_order == "little" else ">"
        self.pipe = pipe
        self.names = NAMES[self.machine.name]
        self.events: list[_Event] = []
        self.records: list[bytes] = []
        self.features: dict[int, bytes] = {}
        self._compressor: Any = None
        self.feature(HOSTNAME, self.text("builder"))
        if arch is not None:
            self.feature(ARCH, self.text(arch or _UNAMES.get(machine, machine)))

    # What stands around the records

    def text(self, text: str) -> bytes:
        """A string as features have it: a length, and bytes up to a multiple of 64."""
        data = os.fsencode(text) + b"\0"
        data = data.ljust(-(-len(data) // 64) * 64, b"\0")
        return pack(self.order + "I", len(data)) + data

    def feature(self, number: int, data: bytes) -> None:
        """Add a feature, or replace it."""
        self.features[number] = data

    def release(self, release: str) -> None:
        """Say which kernel was running."""
        self.feature(OSRELEASE, self.text(release))

    def command(self, *words: str) -> None:
        """Say what perf's command line was."""
        self.feature(CMDLINE, pack(self.order + "I", len(words)) + b"".join(map(self.text, words)))

    def build_id(self, path: str, build_id: bytes, *, sized: bool = True) -> None:
        """Add to the list of build ids."""
        body = pack(self.order + "i", -1) + build_id.ljust(20, b"\0") + bytes([len(build_id) if sized else 0, 0, 0, 0])
        record = self.record(67, (1 << 15 if sized else 0) | MISC_USER, body + self.path(path))
        self.features[BUILD_ID] = self.features.get(BUILD_ID, b"") + record

    def event(
        self,
        name: str = "",
        *,
        type: int = DEFAULT_TYPE,
        read_format: int = 0,
        branch: int = 0,
        registers: Iterable[str] = (),
        stack: bool = False,
        ids: Sequence[int] = (),
        sample_id_all: bool = True,
    ) -> None:
        """Add an event.

        Args:
            type: ``sample_type``; bits for registers and the stack are added where these are given.
            branch: ``branch_sample_type``.
            registers: those that are sampled, by the names of :data:`clew.target.perfdata.registers.NAMES`.
        """
        mask = sum(1 << self.names.index(each) for each in registers)
        type |= (_REGS if mask else 0) | (_STACK if stack else 0)
        self.events.append(_Event(name, type, read_format, branch, mask, ids, sample_id_all))

    def attribute(self, event: _Event, size: int = 128) -> bytes:
        """``struct perf_event_attr`` of so many bytes."""
        flags = 1 << 18 if event.sample_id_all else 0
        # Bit fields begin at the most significant bit where bytes are big-endian.
        flag_bytes = pack("<Q", flags) if self.order == "<" else int(f"{flags:064b}"[::-1], 2).to_bytes(8, "big")
        # A software event: the processor's clock.
        head = pack(self.order + "IIQQQQ", 1, size, 0, 1000, event.type, event.read_format) + flag_bytes
        data = head.ljust(72, b"\0") + pack(self.order + "QQI", event.branch, event.mask, 8192)
        return data.ljust(size, b"\0")[:size]

    # Records

    def record(self, kind: int, misc: int, body: bytes) -> bytes:
        """The bytes of a record."""
        return pack(self.order + "IHH", kind, misc, 8 + len(body)) + body

    def add(
        self, kind: int, misc: int, body: bytes, *, event: int = 0, pid: int = 0, tid: int = 0, time: int = 0
    ) -> None:
        """Add a record that is no sample, with its sample_id."""
        if kind < 64:
            body += self.sample_id(self.events[event], pid, tid, time)
        self.records.append(self.record(kind, misc, body))

    def sample_id(self, event: _Event, pid: int, tid: int, time: int) -> bytes:
        """``struct sample_id``: TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER."""
        if not event.sample_id_all:
            return b""
        id = event.ids[0] if event.ids else 0
        fields = ((1, "ii", (pid, tid)), (2, "Q", (time,)), (6, "Q", (id,)), (9, "Q", (0,)), (7, "II", (0, 0)))
        parts = [pack(self.order + code, *values) for bit, code, values in fields if event.type >> bit & 1]
        if event.type & _IDENTIFIER:
            parts.append(pack(self.order + "Q", id))
        return b"".join(parts)

    def path(self, path: str) -> bytes:
        """A file's name as records have it: up to a multiple of eight bytes."""
        data = os.fsencode(path) + b"\0"
        return data.ljust(-(-len(data) // 8) * 8, b"\0")

    def named(self, pid: int, name: str, *, tid: int | None = None, by_exec: bool = False, time: int = 0) -> None:
        """A COMM."""
        tid = pid if tid is None else tid
        body = pack(self.order + "ii", pid, tid) + self.path(name)
        self.add(COMM, 1 << 13 if by_exec else 0, body, pid=pid, tid=tid, time=time)

    def forked(
        self,
        pid: int,
        parent: int,
        *,
        tid: int | None = None,
        parent_tid: int | None = None,
        time: int = 0,
        misc: int = 0,
    ) -> None:
        """A FORK."""
        tid, parent_tid = pid if tid is None else tid, parent if parent_tid is None else parent_tid
        self.add(
            FORK, misc, pack(self.order + "iiiiQ", pid, parent, tid, parent_tid, time), pid=pid, tid=tid, time=time
        )

    def exited(self, pid: int, *, time: int = 0) -> None:
        """An EXIT."""
        self.add(EXIT, 0, pack(self.order + "iiiiQ", pid, 1, pid, 1, time), pid=pid, tid=pid, time=time)

    def mapped(
        self, pid: int, path: str, start: int, size: int, offset: int = 0, *, misc: int = MISC_USER, time: int = 0
    ) -> None:
        """A MMAP."""
        body = pack(self.order + "iiQQQ", pid, pid, start, size, offset) + self.path(path)
        self.add(MMAP, misc, body, pid=pid, tid=pid, time=time)

    def mapped2(
        self,
        pid: int,
        path: str,
        start: int,
        size: int,
        offset: int = 0,
        *,
        protection: int = 5,
        build_id: bytes | None = None,
        misc: int = MISC_USER,
        time: int = 0,
    ) -> None:
        """A MMAP2, of the form with a build id if one is given."""
        middle = pack(self.order + "IIQQ", 8, 1, 42, 0)
        if build_id is not None:
            misc |= 1 << 14
            middle = pack("B3x20s", len(build_id), build_id)
        body = (
            pack(self.order + "iiQQQ", pid, pid, start, size, offset) + middle + pack(self.order + "II", protection, 2)
        )
        self.add(MMAP2, misc, body + self.path(path), pid=pid, tid=pid, time=time)

    def lost(self, count: int) -> None:
        """A LOST."""
        self.add(LOST, 0, pack(self.order + "QQ", 0, count))

    def lost_samples(self, count: int, misc: int = 0) -> None:
        """A LOST_SAMPLES."""
        self.add(LOST_SAMPLES, misc, pack(self.order + "Q", count))

    def sample(
        self,
        *,
        pid: int = 1,
        tid: int | None = None,
        time: int = 0,
        ip: int = 0,
        cpu: int = 0,
        period: int = 1,
        event: int = 0,
        misc: int = MISC_USER,
        abi: int | None = None,
        registers: Mapping[str, int] | None = None,
        stack: bytes = b"",
        filled: int | None = None,
        chain: Sequence[int] = (),
        read: Sequence[int] = (0,),
        raw: bytes = bytes(4),
        branches: Sequence[int] = (),
        branch_index: int = 0,
        tail: bytes = b"",
    ) -> None:
        """A sample of an event, with the fields that this has.

        Args:
            registers: values by name, 0 where there is none; None for no registers of the program at all.
            stack: the copy of the stack, ``filled`` bytes of which count; all unless told.
            read: the words of ``struct read_format``.
            raw: the size of it, and four bytes, make a multiple of eight.
            branches: words, three or four for each branch.
            tail: what stands behind the stack.
        """
        made, order = self.events[event], self.order
        id = made.ids[0] if made.ids else 0
        tid = pid if tid is None else tid
        block = b"".join(
            pack(order + "Q", (registers or {}).get(self.names[bit] if bit < len(self.names) else "", 0))
            for bit in range(64)
            if made.mask >> bit & 1
        )
        abi = (2 if registers is not None else 0) if abi is None else abi
        filled = len(stack) if filled is None else filled
        branch_step = 4 if made.branch >> 19 & 1 else 3
        index = pack(order + "Q", branch_index) if made.branch >> 17 & 1 else b""
        fields = (
            (16, pack(order + "Q", id)),
            (0, pack(order + "Q", ip)),
            (1, pack(order + "ii", pid, tid)),
            (2, pack(order + "Q", time)),
            (3, pack(order + "Q", 0xADD)),
            (6, pack(order + "Q", id)),
            (9, pack(order + "Q", 0x57)),
            (7, pack(order + "iI", cpu, 0)),
            (8, pack(order + "Q", period)),
            (4, pack(f"{order}{len(read)}Q", *read)),
            (5, pack(f"{order}{1 + len(chain)}Q", len(chain), *chain)),
            (10, pack(order + "I", len(raw)) + raw),
            (11, pack(order + "Q", len(branches) // branch_step) + index + pack(f"{order}{len(branches)}Q", *branches)),
            (12, pack(order + "Q", abi) + (block if abi else b"")),
            (13, pack(order + "Q", len(stack)) + (stack + pack(order + "Q", filled) if stack else b"")),
        )
        body = b"".join(data for bit, data in fields if made.type >> bit & 1)
        self.records.append(self.record(SAMPLE, misc, body + tail))

    def compress(self, since: int = 0, *, second: bool = False) -> None:
        """Put the records from that number on into compressed ones, as ``perf record -z`` does: one stream, flushed after each.

        Args:
            second: of the second form, which says how long it is.
        """
        zstandard: Any = importlib.import_module("zstandard")
        if self._compressor is None:
            self._compressor = zstandard.ZstdCompressor().compressobj()
        plain = b"".join(self.records[since:])
        del self.records[since:]
        # Cuts go through records.
        for at in range(0, len(plain), 5000):
            data = self._compressor.compress(plain[at : at + 5000])
            data += self._compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            if second:
                size = pack(self.order + "Q", len(data))
                self.records.append(self.record(83, 0, size + data.ljust(-(-len(data) // 8) * 8, b"\0")))
            else:
                self.records.append(self.record(81, 0, data))

    # All of it

    def build(self, attribute_size: int = 128) -> bytes:
        """The file's bytes."""
        return self._pipe(attribute_size) if self.pipe else self._file(attribute_size)

    def _ids(self, event: _Event) -> bytes:
        return pack(f"{self.order}{len(event.ids)}Q", *event.ids)

    def _pipe(self, size: int) -> bytes:
        head = [b"PERFILE2" if self.order == "<" else b"2ELIFREP", pack(self.order + "Q", 16)]
        for event in self.events:
            head.append(self.record(64, 0, self.attribute(event, size) + self._ids(event)))
        for number, data in self.features.items():
            head.append(data if number == BUILD_ID else self.record(80, 0, pack(self.order + "Q", number) + data))
        for event in self.events:
            if event.name and event.ids:
                body = pack(self.order + "QQ", 2, event.ids[0]) + self.path(event.name)
                head.append(self.record(78, 0, body))
        return b"".join(head + self.records)

    def _file(self, size: int) -> bytes:
        order = self.order
        if any(event.name for event in self.events):
            description = pack(order + "II", len(self.events), size)
            for event in self.events:
                description += self.attribute(event, size) + pack(order + "I", len(event.ids)) + self.text(event.name)
                description += self._ids(event)
            self.features[EVENT_DESC] = description
        entry = size + 16
        ids = b"".join(map(self._ids, self.events))
        begin = 104 + len(ids) + entry * len(self.events)
        attributes, at = b"", 104
        for event in self.events:
            attributes += self.attribute(event, size) + pack(order + "QQ", at, 8 * len(event.ids))
            at += 8 * len(event.ids)
        data = b"".join(self.records)
        bits = sum(1 << number for number in self.features)
        words = pack(order + "4Q", *(bits >> shift & (1 << 64) - 1 for shift in (0, 64, 128, 192)))
        magic = b"PERFILE2" if order == "<" else b"2ELIFREP"
        sections = (104 + len(ids), len(attributes), begin, len(data), 0, 0)
        head = magic + pack(order + "QQ6Q", 104, entry, *sections) + words
        numbers = sorted(self.features)
        at = begin + len(data) + 16 * len(numbers)
        table, body = b"", b""
        for number in numbers:
            table += pack(order + "QQ", at + len(body), len(self.features[number]))
            body += self.features[number]
        return head + ids + attributes + data + table + body

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        exe: str | os.PathLike[str] | None = None,
        sysroot: str | os.PathLike[str] | None = None,
        debug_dirs: Iterable[str | os.PathLike[str]] = (),
    ) -> PerfData:
        """Write the file, and open it; the options are those of :func:`clew.target.open_perf_data`."""
        Path(path).write_bytes(self.build())
        return open_perf_data(path, exe=exe, sysroot=sysroot, debug_dirs=debug_dirs)
