"""What the streams of a minidump say, record by record, as far as a walk needs it.

The structures are those of ``minidumpapiset.h`` and of Breakpad's ``minidump_format.h``; see :mod:`clew.target.minidump.file`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from struct import Struct

from clew.arch import ByteOrder
from clew.errors import Problem
from clew.memory import Mapping, parse_mappings
from clew.target.minidump.file import Location, MinidumpFile, StreamType

LINUX = (0x8201, 0x8203)
"""The platforms Linux and Android, whose exception codes are signals' numbers."""

_DUMP_REQUESTED = 0xFFFFFFFF  # Breakpad, minidump_exception_linux.h: nothing crashed

_MISC_PROCESS_ID = 1
_FREE = 0x10000
_MAXIMUM_BUILD_ID = 64
_MAXIMUM_NAME = 4096


@dataclass(frozen=True, slots=True)
class SystemInfo:
    """The machine that the dump is from (``MINIDUMP_SYSTEM_INFO``).

    Attributes:
        processor: the number of its architecture, see :data:`clew.target.minidump.contexts.PROCESSORS`.
        level, revision: of the processor.
        processors: how many it has.
        platform: the number of the system: 2 Windows, 0x8101 macOS, 0x8201 Linux, 0x8203 Android…
        version: major, minor and build number.
        service_pack: further words about the version; on Linux what ``uname -srvmo`` says.
    """

    processor: int
    level: int
    revision: int
    processors: int
    platform: int
    version: tuple[int, int, int]
    service_pack: str | None


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """A thread (``MINIDUMP_THREAD``).

    Attributes:
        id: the system's number of it.
        stack_start: the address of the part of its stack that was dumped.
        stack: where that is in the file; of size 0 where it is not there, or only in the memory list.
        context: where its registers are.
        name: its name, if it has one (``MINIDUMP_THREAD_NAME``).
    """

    id: int
    stack_start: int
    stack: Location
    context: Location
    name: str | None


@dataclass(frozen=True, slots=True)
class ExceptionRecord:
    """Why the dump was written (``MINIDUMP_EXCEPTION_STREAM``).

    Attributes:
        thread_id: the thread that it happened in.
        code, flags: Windows' exception code; a signal's number and ``si_code`` on Linux; Mach's exception and code.
        address: where it happened, or what was accessed.
        context: where the thread's registers are, as they were then.
    """

    thread_id: int
    code: int
    flags: int
    address: int
    context: Location

    def signal(self, platform: int | None) -> int | None:
        """The signal's number, where it is one."""
        return self.code if platform in LINUX and self.code not in (0, _DUMP_REQUESTED) else None


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """Memory that was dumped: ``size`` bytes at address ``start``, which are at ``rva`` in the file."""

    start: int
    size: int
    rva: int


@dataclass(frozen=True, slots=True)
class CodeView:
    """What identifies a module's debugging information.

    Attributes:
        kind: ``pdb70`` (a GUID and an age; Breakpad's older writers put the beginning of a build id there), ``pdb20``,
            ``elf`` (a build id), or ``unknown``.
        identity: the GUID's 16 bytes as they are in the file, or the build id, or the four bytes of a time.
        age: the revision of the PDB; 0 where there is none.
        file: the file of the debugging information.
    """

    kind: str
    identity: bytes
    age: int = 0
    file: str | None = None

    @property
    def build_id(self) -> bytes | None:
        """The build id, where the record is one."""
        return self.identity if self.kind == "elf" and any(self.identity) else None

    def debug_id(self, byte_order: ByteOrder = "little") -> str | None:
        """The identifier by which Breakpad's symbol files are named: the GUID in upper-case, the age in lower-case digits.

        That of a build id is made of its first 16 bytes, as if they were a GUID.

        >>> CodeView("elf", bytes.fromhex("c0bcc3f1279865fe3058404b2831d9e64135386c")).debug_id()
        'F1C3BCC09827FE653058404B2831D9E60'

        Args:
            byte_order: the dump's.
        """
        if self.kind == "pdb20":
            return f"{int.from_bytes(self.identity, byte_order):08X}{self.age:x}"
        if self.kind not in ("pdb70", "elf"):
            return None
        guid = self.identity[:16].ljust(16, b"\0")
        first, second, third = (int.from_bytes(guid[a:b], byte_order) for a, b in ((0, 4), (4, 6), (6, 8)))
        return f"{first:08X}{second:04X}{third:04X}{guid[8:].hex().upper()}{self.age:x}"


@dataclass(frozen=True, slots=True)
class ModuleRecord:
    """A loaded file (``MINIDUMP_MODULE``).

    Attributes:
        name: its path; empty where it cannot be read.
        base: where it begins. Breakpad's on Linux: its lowest mapping.
        size: how far it reaches.
        checksum, time: from its header (PE).
        version: file version, as four numbers; None where there is none.
        code_view: what identifies its debugging information, if it says.
    """

    name: str
    base: int
    size: int
    checksum: int
    time: int
    version: tuple[int, int, int, int] | None
    code_view: CodeView | None


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """A part of the address space (``MINIDUMP_MEMORY_INFO``): ``state``, ``protection`` and ``type`` are Windows' bits."""

    start: int
    size: int
    allocation_start: int
    state: int
    protection: int
    type: int


def read_system_info(file: MinidumpFile) -> SystemInfo | None:
    """The system information, or None where there is none."""
    data = file.stream_data(StreamType.SYSTEM_INFO)
    fields = None if data is None else file.unpack("HHHBBIIIII", data)
    if fields is None:
        return None
    processor, level, revision, count, _, major, minor, build, platform, text = fields
    return SystemInfo(processor, level, revision, count, platform, (major, minor, build), file.string(text))


def read_thread_names(file: MinidumpFile) -> dict[int, str]:
    """Names of threads by their numbers."""
    names: dict[int, str] = {}
    for thread, rva in file.records(StreamType.THREAD_NAMES, "IQ"):
        name = file.string(rva)
        if name is not None:
            names.setdefault(thread, name)
    return names


def read_threads(file: MinidumpFile) -> list[ThreadRecord]:
    """The threads, in the dump's order."""
    names = read_thread_names(file)
    return [
        ThreadRecord(id, start, Location(size, rva), Location(context_size, context), names.get(id))
        for id, _, _, _, _, start, size, rva, context_size, context in file.records(
            StreamType.THREAD_LIST, "IIIIQQIIII"
        )
    ]


def read_exception(file: MinidumpFile) -> ExceptionRecord | None:
    """Why the dump was written, or None where it does not say."""
    data = file.stream_data(StreamType.EXCEPTION)
    fields = None if data is None else file.unpack("IIIIQQII120sII", data)
    if fields is None:
        return None
    thread, _, code, flags, _, address, _, _, _, size, rva = fields
    return ExceptionRecord(thread, code, flags, address, Location(size, rva))


def read_memory(file: MinidumpFile) -> list[MemoryRange]:
    """What both memory lists hold, in the dump's order."""
    found = [MemoryRange(*record) for record in file.records(StreamType.MEMORY_LIST, "QII")]
    data = file.stream_data(StreamType.MEMORY64_LIST)
    stream = file.stream(StreamType.MEMORY64_LIST)
    head = None if data is None else file.unpack("QQ", data)
    if head is not None and data is not None and stream is not None:
        # All of them stand one behind the other in the file, from one place on.
        count, rva = head
        for start, size in file.list_of(Struct(file.prefix + "QQ"), data[16:], count, stream):
            found.append(MemoryRange(start, size, rva))
            rva += size
    return found


def read_modules(file: MinidumpFile) -> list[ModuleRecord]:
    """The loaded files, in the dump's order: the first is the program."""
    found = []
    for base, size, checksum, time, name, info, cv_size, cv_rva in file.records(
        StreamType.MODULE_LIST, "QIIII52sII8x16x"
    ):
        code_view = _code_view(file, Location(cv_size, cv_rva))
        found.append(ModuleRecord(file.string(name) or "", base, size, checksum, time, _version(file, info), code_view))
    return found


def _version(file: MinidumpFile, info: bytes) -> tuple[int, int, int, int] | None:
    # VS_FIXEDFILEINFO: its signature, the version of the structure, and the file's version in two words.
    fields = file.unpack("IIII", info)
    if fields is None or fields[0] != 0xFEEF04BD:
        return None
    _, _, high, low = fields
    return high >> 16, high & 0xFFFF, low >> 16, low & 0xFFFF


def _code_view(file: MinidumpFile, location: Location) -> CodeView | None:
    size = min(location.size, 24 + _MAXIMUM_NAME)
    data = bytes(file.data(Location(size, location.rva))) if location.size else b""
    if len(data) < size or len(data) < 4 or not file.spend(len(data)):
        if location.size:
            file.report(Problem("a module's debug record is not read: it is cut short", offset=location.rva))
        return None
    kind = data[:4] if file.byte_order == "little" else data[3::-1]
    if kind == b"RSDS" and len(data) >= 24:
        (age,) = file.unpack("I", data, 20) or (0,)
        return CodeView("pdb70", data[4:20], age, _text(data[24:]))
    if kind == b"NB10" and len(data) >= 16:
        (age,) = file.unpack("I", data, 12) or (0,)
        return CodeView("pdb20", data[8:12], age, _text(data[16:]))
    if kind == b"LEpB":
        return CodeView("elf", data[4 : 4 + _MAXIMUM_BUILD_ID])
    return CodeView("unknown", b"")


def _text(data: bytes) -> str | None:
    return data.split(b"\0", 1)[0].decode("utf-8", "replace") or None


def read_process_id(file: MinidumpFile) -> int | None:
    """The process's number (``MINIDUMP_MISC_INFO``, or what ``/proc/PID/status`` said), or None."""
    data = file.stream_data(StreamType.MISC_INFO)
    fields = None if data is None else file.unpack("III", data)
    if fields is not None and fields[1] & _MISC_PROCESS_ID:
        return int(fields[2])
    status = file.stream_data(StreamType.LINUX_PROC_STATUS)
    found = re.search(rb"^Pid:\s*([0-9]{1,10})$", bytes(status[:_MAXIMUM_NAME]), re.M) if status is not None else None
    return int(found[1]) if found is not None else None


def read_mappings(file: MinidumpFile) -> list[Mapping]:
    """What ``/proc/PID/maps`` said, sorted by address; empty where the dump does not have it."""
    data = file.stream_data(StreamType.LINUX_MAPS)
    problems: list[Problem] = []
    found = parse_mappings(bytes(data), problems) if data is not None else []
    for problem in problems[:1]:
        file.report(Problem(f"{len(problems)} lines of the Linux maps are not read: {problem.message}"))
    return sorted(found, key=lambda each: each.start)


def read_regions(file: MinidumpFile) -> list[MemoryRegion]:
    """What the address space is made of, sorted by address, without what is free; empty where the dump does not say."""
    data = file.stream_data(StreamType.MEMORY_INFO_LIST)
    stream = file.stream(StreamType.MEMORY_INFO_LIST)
    head = None if data is None else file.unpack("IIQ", data)
    if head is None or data is None or stream is None:
        return []
    header_size, step, count = head
    record = Struct(file.prefix + "QQIIQIII")
    if step < record.size or header_size < 16:
        file.report(Problem(f"records of {step} bytes are not read", stream.name))
        return []
    found = [
        MemoryRegion(start, size, allocation, state, protection, type)
        for start, allocation, _, _, size, state, protection, type in file.list_of(
            record, data[header_size:], count, stream, step
        )
        if state != _FREE and size
    ]
    return sorted(found, key=lambda each: each.start)
