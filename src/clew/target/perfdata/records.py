"""The records that tell what processes did: mapped a file, became another program, forked, ended.

Layouts: ``enum perf_event_type`` in ``linux/perf_event.h``.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import fsdecode
from struct import Struct
from sys import intern

from clew.arch import ByteOrder

MMAP, LOST, COMM, EXIT, FORK, MMAP2, LOST_SAMPLES = 1, 2, 3, 4, 7, 10, 13
HEADER_ATTR, HEADER_BUILD_ID, FINISHED_ROUND, EVENT_UPDATE = 64, 67, 68, 78
HEADER_FEATURE, COMPRESSED, COMPRESSED2 = 80, 81, 83

MISC_CPUMODE = 7
MISC_KERNEL = 1
MISC_USER = 2
MISC_GUEST_KERNEL = 4
MISC_MMAP_DATA = MISC_COMM_EXEC = MISC_FORK_EXEC = 1 << 13
MISC_MMAP_BUILD_ID = 1 << 14
MISC_LOST_SAMPLES_BPF = 1 << 15

_PROT_EXEC = 4
_MAXIMUM_PATH = 4096


@dataclass(frozen=True, slots=True)
class Mapped:
    """A file, or anonymous memory, that a process mapped.

    Attributes:
        start, end: the addresses.
        offset: where in the file they begin.
        executable: whether code may run there.
        path: as the kernel names it: a file, or ``//anon``, ``[vdso]`` and the like.
        build_id: of the file, where the record has it.
    """

    start: int
    end: int
    offset: int
    executable: bool
    path: str
    build_id: bytes | None


def same_file(one: Mapped, other: Mapped) -> bool:
    """Whether two mappings are parts of one file that lies as it does."""
    return (
        one.path == other.path
        and one.start - one.offset == other.start - other.offset
        and (one.build_id == other.build_id or None in (one.build_id, other.build_id))
    )


class RecordReader:
    """Reads single records out of a buffer. Fields that are cut read as nothing; the caller knows the record's end."""

    def __init__(self, order: ByteOrder) -> None:
        prefix = "<" if order == "little" else ">"
        self._pair = Struct(prefix + "ii")
        self._mapping = Struct(prefix + "iiQQQ")
        self._protection = Struct(prefix + "II")
        self._task = Struct(prefix + "iiiiQ")
        self._word = Struct(prefix + "Q")

    def mapping(self, data: memoryview, kind: int, misc: int, start: int, end: int) -> tuple[int, Mapped] | None:
        """The process and what it mapped, of a MMAP or MMAP2; None for the kernel's own, or where it is damaged."""
        at = start + 8 + self._mapping.size
        tail = at + 24 + self._protection.size if kind == MMAP2 else at
        if tail > end or misc & MISC_CPUMODE in (MISC_KERNEL, MISC_GUEST_KERNEL):
            return None
        pid, _, address, size, offset = self._mapping.unpack_from(data, start + 8)
        executable = not misc & MISC_MMAP_DATA
        build_id = None
        if kind == MMAP2:
            executable = bool(self._protection.unpack_from(data, at + 24)[0] & _PROT_EXEC)
            if misc & MISC_MMAP_BUILD_ID:
                build_id = bytes(data[at + 4 : at + 4 + min(data[at], 20)]) or None
        if pid < 0 or not size or address + size > 1 << 64:
            return None
        return pid, Mapped(address, address + size, offset, executable, _text(data, tail, end), build_id)

    def kernel_mapping(self, data: memoryview, kind: int, misc: int, start: int, end: int) -> Mapped | None:
        """What a MMAP or MMAP2 says of the kernel's own code; None where it says nothing of that, or is damaged."""
        at = start + 8 + self._mapping.size
        tail = at + 24 + self._protection.size if kind == MMAP2 else at
        if tail > end or misc & MISC_CPUMODE != MISC_KERNEL:
            return None
        _, _, address, size, offset = self._mapping.unpack_from(data, start + 8)
        if not size:
            return None
        return Mapped(address, min(address + size, 1 << 64), offset, True, _text(data, tail, end), None)

    def name(self, data: memoryview, start: int, end: int) -> tuple[int, int, str] | None:
        """Process, thread, and the thread's new name, of a COMM."""
        if start + 16 > end:
            return None
        pid, tid = self._pair.unpack_from(data, start + 8)
        return pid, tid, _text(data, start + 16, end)

    def task(self, data: memoryview, start: int, end: int) -> tuple[int, int, int, int, int] | None:
        """Process, its parent, thread, its parent, and the time, of a FORK or EXIT."""
        if start + 8 + self._task.size > end:
            return None
        found: tuple[int, int, int, int, int] = self._task.unpack_from(data, start + 8)
        return found

    def lost(self, data: memoryview, kind: int, start: int, end: int) -> int:
        """How many records a LOST, or samples a LOST_SAMPLES, says that there was no room for."""
        at = start + (16 if kind == LOST else 8)
        return int(self._word.unpack_from(data, at)[0]) if at + 8 <= end else 0


def _text(data: memoryview, start: int, end: int) -> str:
    text = bytes(data[start : min(end, start + _MAXIMUM_PATH)])
    return intern(fsdecode(text.split(b"\0", 1)[0]))
