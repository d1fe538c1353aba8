"""Minidumps made in memory, for tests: of any machine whose contexts clew reads, in either byte order.

>>> from clew.target import open_minidump
>>> import tempfile
>>> dump = MinidumpBuilder("x86-64")
>>> dump.thread(42, {"rip": 0x1004, "rsp": 0x7ff0}, name="main", stack=(0x7ff0, b"\\x2a" + bytes(15)))
>>> with tempfile.NamedTemporaryFile() as file, dump.write(file.name) as target:
...     [(thread.id, thread.name, hex(thread.pc)) for thread in target.threads], target.memory.read(0x7ff0, 1)
([(42, 'main', '0x1004')], b'*')
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from struct import Struct, pack, pack_into

from clew.arch import Machine, machine_named
from clew.errors import UsageError
from clew.target import Target, open_minidump
from clew.target.minidump.contexts import CONTROL, INTEGER, PROCESSORS, ContextLayout, layouts_of, place_of
from clew.target.minidump.file import SIGNATURE, VERSION, StreamType

LINUX = 0x8201
WINDOWS = 2


class MinidumpBuilder:
    """A minidump in the making: add threads, memory and modules, then :meth:`build` it.

    Lists are in the order in which their records were added; streams come in the order of their types.

    Args:
        machine: its name, or the machine itself in the byte order that is wanted.
        platform: the number of the system.
        processor: the number of the processor, where a machine has more than one.
    """

    def __init__(
        self, machine: str | Machine = "x86-64", *, platform: int = LINUX, processor: int | None = None
    ) -> None:
        self.machine = machine_named(machine) if isinstance(machine, str) else machine
        numbers = [number for number, name in PROCESSORS.items() if name == self.machine.name]
        if not numbers:
            raise UsageError(f"minidumps have no registers of {self.machine.name}")
        self.prefix = "<" if self.machine.byte_order == "little" else ">"
        self.platform = platform
        self.processor = numbers[0] if processor is None else processor
        # The header is filled in at last.
        self._bytes = bytearray(32)
        self._threads: list[bytes] = []
        self._names: list[bytes] = []
        self._memory: list[bytes] = []
        self._memory64: list[tuple[int, bytes]] = []
        self._modules: list[bytes] = []
        self._regions: list[bytes] = []
        self._streams: list[tuple[int, bytes]] = []

    def put(self, data: bytes) -> int:
        """Put bytes into the file, and say at which offset."""
        self._bytes += bytes(-len(self._bytes) % 8)
        at = len(self._bytes)
        self._bytes += data
        return at

    def text(self, text: str) -> int:
        """Put a text into the file, and say at which offset."""
        data = text.encode("utf-16-le" if self.prefix == "<" else "utf-16-be")
        return self.put(pack(self.prefix + "I", len(data)) + data + bytes(2))

    def stream(self, type: int, data: bytes) -> None:
        """Add a stream of any type."""
        self._streams.append((type, data))

    def context(self, registers: Mapping[str, int], *, old: bool = False, parts: int = CONTROL | INTEGER) -> bytes:
        """The bytes of a thread's context.

        Args:
            registers: by any name of the machine's; the pc also as ``pc``. The others are 0.
            old: in the oldest of the forms that the machine has, instead of the newest.
            parts: the flags that say what is filled in.
        """
        layout: ContextLayout = layouts_of(self.machine)[-1 if old else 0]
        data = bytearray(layout.whole)
        lowest = layout.processor & -layout.processor
        pack_into(self.prefix + layout.flags[1], data, layout.flags[0], lowest | parts)
        places: dict[str | int, tuple[int, str]] = {}
        for run in layout.runs:
            size = Struct("<" + run.code).size
            for index, name in enumerate(run.names):
                number = place_of(self.machine, name)
                place = run.offset + index * size, run.code
                places[name if number is None else number] = place
                if name in ("rip", "eip"):
                    places["pc"] = place
        for name, value in registers.items():
            number = self.machine.register_number(name)
            key = name if number is None or name == "pc" else number
            if key == "pc" and key not in places and number is not None:
                key = number
            if key not in places:
                raise UsageError(f"{self.machine.name} has no register {name} in a minidump")
            at, code = places[key]
            pack_into(self.prefix + code, data, at, value)
        return bytes(data)

    def thread(
        self,
        id: int,
        registers: Mapping[str, int] | bytes,
        *,
        name: str | None = None,
        stack: tuple[int, bytes] = (0, b""),
        old: bool = False,
    ) -> None:
        """Add a thread.

        Args:
            registers: as for :meth:`context`, or the context itself.
            stack: the address of the part of the stack that is dumped, and its bytes.
        """
        context = registers if isinstance(registers, bytes) else self.context(registers, old=old)
        start, data = stack
        memory = pack(self.prefix + "QII", start, len(data), self.put(data) if data else 0)
        where = pack(self.prefix + "II", len(context), self.put(context))
        self._threads.append(pack(self.prefix + "IIIIQ", id, 0, 0, 0, 0) + memory + where)
        if name is not None:
            self._names.append(pack(self.prefix + "IQ", id, self.text(name)))

    def exception(
        self, thread: int, code: int, address: int, registers: Mapping[str, int] | bytes, *, flags: int = 0
    ) -> None:
        """Say in which thread it crashed, why, and with which registers."""
        context = registers if isinstance(registers, bytes) else self.context(registers)
        fields = pack(self.prefix + "IIIIQQII120x", thread, 0, code, flags, 0, address, 0, 0)
        where = pack(self.prefix + "II", len(context), self.put(context) if context else 0)
        self.stream(StreamType.EXCEPTION, fields + where)

    def memory(self, address: int, data: bytes, *, wide: bool = False) -> None:
        """Add memory to the list of ranges, or, ``wide``, to the one of full dumps."""
        if wide:
            self._memory64.append((address, data))
        else:
            self._memory.append(pack(self.prefix + "QII", address, len(data), self.put(data)))

    def module(
        self,
        name: str,
        base: int,
        size: int,
        *,
        build_id: bytes | None = None,
        guid: bytes | None = None,
        age: int = 0,
        debug_file: str | None = None,
    ) -> None:
        """Add a module; the first is the program.

        Args:
            build_id: in Breakpad's record for ELF files.
            guid: 16 bytes as they are in the file, in the record of a PDB, with ``age`` and ``debug_file``.
        """
        record = b""
        if build_id is not None:
            record = (b"LEpB" if self.prefix == "<" else b"BpEL") + build_id
        elif guid is not None:
            signature = b"RSDS" if self.prefix == "<" else b"SDSR"
            record = signature + guid + pack(self.prefix + "I", age) + os.fsencode(debug_file or name) + b"\0"
        fields = pack(self.prefix + "QIIII52x", base, size, 0, 0, self.text(name))
        self._modules.append(fields + pack(self.prefix + "II24x", len(record), self.put(record) if record else 0))

    def region(self, start: int, size: int, *, allocation: int | None = None, state: int = 0x1000) -> None:
        """Add a region to the list of memory information."""
        allocated = start if allocation is None else allocation
        self._regions.append(pack(self.prefix + "QQIIQIIII", start, allocated, 4, 0, size, state, 4, 0x20000, 0))

    def maps(self, text: bytes) -> None:
        """Add what ``/proc/PID/maps`` says."""
        self.stream(StreamType.LINUX_MAPS, text)

    def process(self, id: int) -> None:
        """Add the number of the process."""
        self.stream(StreamType.MISC_INFO, pack(self.prefix + "IIIIII", 24, 1, id, 0, 0, 0))

    def build(self, *, system: bool = True, padded: bool = False) -> bytes:
        """The dump's bytes. The builder can be added to afterwards, and built again.

        Args:
            system: with the stream that says which processor it is.
            padded: with four bytes between the counts of lists and their records, as some writers have it.
        """
        kept = bytes(self._bytes)
        try:
            streams = list(self._streams)
            for type, records in (
                (StreamType.THREAD_LIST, self._threads),
                (StreamType.MODULE_LIST, self._modules),
                (StreamType.MEMORY_LIST, self._memory),
                (StreamType.THREAD_NAMES, self._names),
            ):
                if records:
                    head = pack(self.prefix + "I", len(records)) + bytes(4 if padded else 0)
                    streams.append((type, head + b"".join(records)))
            if self._memory64:
                at = self.put(b"".join(data for _, data in self._memory64))
                head = pack(self.prefix + "QQ", len(self._memory64), at)
                sizes = [pack(self.prefix + "QQ", start, len(data)) for start, data in self._memory64]
                streams.append((StreamType.MEMORY64_LIST, head + b"".join(sizes)))
            if self._regions:
                head = pack(self.prefix + "IIQ", 16, 48, len(self._regions))
                streams.append((StreamType.MEMORY_INFO_LIST, head + b"".join(self._regions)))
            if system:
                streams.append((StreamType.SYSTEM_INFO, self._system()))
            streams.sort(key=lambda stream: stream[0])
            directory = b"".join(pack(self.prefix + "III", type, len(data), self.put(data)) for type, data in streams)
            at = self.put(directory)
            signature = SIGNATURE if self.prefix == "<" else SIGNATURE[::-1]
            self._bytes[:32] = signature + pack(self.prefix + "IIIIIQ", VERSION, len(streams), at, 0, 0, 0)
            return bytes(self._bytes)
        finally:
            self._bytes = bytearray(kept)

    def _system(self) -> bytes:
        fields = pack(self.prefix + "HHHBBIIII", self.processor, 6, 0, 1, 0, 5, 10, 0, self.platform)
        return fields + pack(self.prefix + "I28x", self.text("Linux 5.10.0"))

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        exe: str | os.PathLike[str] | None = None,
        sysroot: str | os.PathLike[str] | None = None,
        debug_dirs: Iterable[str | os.PathLike[str]] = (),
    ) -> Target:
        """Write the dump to a file, and open it; the options are those of :func:`clew.target.open_minidump`."""
        Path(path).write_bytes(self.build())
        return open_minidump(path, exe=exe, sysroot=sysroot, debug_dirs=debug_dirs)
