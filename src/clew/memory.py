"""The one way bytes are read: an address space that answers with bytes, or with *unreadable*.

Whoever follows an address that came out of a damaged stack or a hostile table asks a :class:`Memory`, and gets exactly
the bytes it asked for or ``None``. There is no third answer: no exception, no short read, no fill byte.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from clew.errors import Error, NotFoundError, Problem

MAXIMUM_READ = 1 << 24
"""The most bytes one :meth:`ProcessMemory.read` returns. A larger request is unreadable: a size read from hostile input
must not decide how much memory clew takes. Read a large region piece by piece."""


class Memory(Protocol):
    """An address space."""

    def read(self, address: int, size: int) -> bytes | None:
        """The ``size`` bytes at ``address``, or None when not every one of them can be read.

        Any two integers are allowed, also negative ones and ones beyond the address space, which are unreadable; a size
        of 0 reads as ``b""`` anywhere. Never raises.
        """
        ...  # pragma: no cover


class BytesMemory:
    """Memory whose only readable part is one run of bytes, from the address ``base`` on."""

    def __init__(self, data: bytes | bytearray | memoryview, base: int = 0) -> None:
        self.data = data
        self.base = base

    def read(self, address: int, size: int) -> bytes | None:
        """The ``size`` bytes at ``address``, or None where the data does not hold all of them."""
        if size <= 0:
            return b"" if size == 0 else None
        start = address - self.base
        if start < 0 or start + size > len(self.data):
            return None
        return bytes(self.data[start : start + size])

    def __repr__(self) -> str:
        return f"BytesMemory({len(self.data)} bytes at {self.base:#x})"


class ProcessMemory:
    """The memory of a process on this machine, running or stopped, through ``/proc/PID/mem``.

    The process is not stopped by reading: what a running one writes meanwhile may be seen or not. Once it has gone,
    everything is unreadable. Use it as a context manager, or call :meth:`close`.

    Raises:
        NotFoundError: there is no such process.
        Error: the kernel does not let this user read it.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = -1
        try:
            self._descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _process_error(pid, error) from None

    def read(self, address: int, size: int) -> bytes | None:
        """The ``size`` bytes at ``address``, or None. At most :data:`MAXIMUM_READ` bytes at once."""
        if size <= 0:
            return b"" if size == 0 else None
        # The offset of pread(2) is signed: the upper half of the address space is the kernel's and has no such name.
        if self._descriptor < 0 or address < 0 or size > MAXIMUM_READ or address + size > 1 << 63:
            return None
        try:
            data = os.pread(self._descriptor, size, address)
        except OSError:
            return None
        return data if len(data) == size else None

    def beginning(self, address: int, size: int) -> bytes:
        """As many of the ``size`` bytes at ``address`` as can be read in a row; at most :data:`MAXIMUM_READ`."""
        if self._descriptor < 0 or address < 0 or not 0 < size <= MAXIMUM_READ or address + size > 1 << 63:
            return b""
        try:
            return os.pread(self._descriptor, size, address)
        except OSError:
            return b""

    def close(self) -> None:
        """Let go of the process; afterwards everything is unreadable. Closing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> ProcessMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ProcessMemory({self.pid})"


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of ``/proc/PID/maps`` (proc(5)): a range of addresses, and what stands behind it.

    Attributes:
        start, end: the first address, and the one after the last.
        offset: byte offset in the file; 0 where there is none.
        permissions: four characters such as ``r-xp``.
        path: the file, or a name in brackets such as ``[stack]``, or empty; as the kernel writes it, so a file that was
            removed ends in `` (deleted)``.
    """

    start: int
    end: int
    offset: int
    permissions: str
    path: str

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.end

    @property
    def executable(self) -> bool:
        """Whether code may run here."""
        return self.permissions[2:3] == "x"


_LINE = re.compile(
    rb"([0-9a-fA-F]{1,16})-([0-9a-fA-F]{1,16}) ([-rwxsp]{4}) ([0-9a-fA-F]{1,16}) "
    rb"[0-9a-fA-F]+:[0-9a-fA-F]+ [0-9]+(?: *([^ ].*))?"
)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        if end < 0:
            end = len(data)
        yield start, data[start:end]
        start = end + 1


def parse_mappings(data: bytes, problems: list[Problem] | None = None) -> list[Mapping]:
    """The mappings in the text of ``/proc/PID/maps``, also of one that was saved in a dump and may be damaged.

    A line that is not of the kernel's form, or whose end is not after its start, is left out, and told to ``problems``
    when that is given. The order is the text's.
    """
    mappings: list[Mapping] = []
    for offset, line in _lines(data):
        match = _LINE.fullmatch(line.rstrip(b"\0 "))
        if match is not None and int(match[1], 16) < int(match[2], 16):
            path = os.fsdecode(match[5] or b"")
            mappings.append(
                Mapping(int(match[1], 16), int(match[2], 16), int(match[4], 16), match[3].decode("ascii"), path)
            )
        elif line.strip(b"\0 ") and problems is not None:
            problems.append(Problem("this line is not a mapping of /proc/PID/maps", offset=offset))
    return mappings


def process_mappings(pid: int) -> list[Mapping]:
    """What the address space of a process on this machine is made of, in the order of addresses.

    Raises:
        NotFoundError: there is no such process.
        Error: the kernel does not let this user see it.
    """
    return parse_mappings(process_maps(pid))


def process_maps(pid: int) -> bytes:
    """The text of ``/proc/PID/maps``. Raises as :func:`process_mappings`."""
    try:
        with open(f"/proc/{pid}/maps", "rb", buffering=0) as file:
            # The kernel hands out a page at a time.
            return b"".join(iter(lambda: file.read(1 << 16), b""))
    except OSError as error:
        raise _process_error(pid, error) from None


def _process_error(pid: int, error: OSError) -> Error:
    if error.errno in (errno.ENOENT, errno.ESRCH):
        return NotFoundError(f"there is no process {pid}", hint="look the process id up with `ps -e`")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Error(
            f"this user may not read the memory of process {pid}",
            hint="run as the process's user or as root; /proc/sys/kernel/yama/ptrace_scope may also need to be 0",
        )
    return Error(f"process {pid} cannot be read: {error.strerror}")
