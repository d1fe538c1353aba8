"""Names of code that a JIT compiler made: the map files of perf (linux, tools/perf/Documentation/jit-interface.txt)."""

from __future__ import annotations

import os
import stat
from bisect import bisect_right

from clew.symbols.names import Name

#: A map grows for as long as its process compiles; what is beyond is not read.
_LARGEST = 1 << 28


class PerfMap:
    """Names by address, from lines of ``START SIZE NAME`` with hexadecimal numbers.

    Of several lines around an address the last one counts: code is compiled again where older code was thrown away.

    >>> names = PerfMap.parse(b"7f0010 20 py::main:/app.py\\n7f0100 8 [stub]\\n")
    >>> names.at(0x7f0018)
    Name(function='py::main:/app.py', offset=8)
    >>> names.at(0x7f0030) is None
    True
    """

    def __init__(self, entries: list[tuple[int, int, int, str]]) -> None:
        # (start, end, turn, name), later lines over earlier ones of the same start.
        self._entries = sorted(entries)
        self._starts = [entry[0] for entry in self._entries]
        self._longest = max((entry[1] - entry[0] for entry in self._entries), default=0)

    @classmethod
    def parse(cls, data: bytes) -> PerfMap:
        """The map in these bytes. Lines that are not of the form are passed over; so is a last line that is cut."""
        entries: list[tuple[int, int, int, str]] = []
        for turn, line in enumerate(data.split(b"\n")[:-1]):
            parts = line.split(b" ", 2)
            try:
                start, size = int(parts[0], 16), int(parts[1], 16)
                name = parts[2].decode("utf-8", "backslashreplace").strip()
            except (ValueError, IndexError):
                continue
            if size > 0 and 0 <= start < 1 << 64:
                entries.append((start, start + size, turn, name))
        return cls(entries)

    @classmethod
    def of_process(cls, pid: int) -> PerfMap | None:
        """The map of a process on this machine, in its own mount namespace; None where it has none.

        One that belongs to neither the process's user, nor root, nor this one, is none: anybody may write to ``/tmp``.
        """
        namespaced, owners = pid, {0, os.geteuid()}
        try:
            with open(f"/proc/{pid}/status", "rb") as status:
                for line in status:
                    if line.startswith(b"NSpid:"):
                        namespaced = int(line.split()[-1])
                    elif line.startswith(b"Uid:"):
                        owners.update(map(int, line.split()[1:]))
        except (OSError, ValueError):
            pass
        path = f"/proc/{pid}/root/tmp/perf-{namespaced}.map"
        try:
            # Whoever may write to /tmp could put a link or a pipe there.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with open(descriptor, "rb") as stream:
            try:
                there = os.fstat(descriptor)
                if not stat.S_ISREG(there.st_mode) or there.st_uid not in owners:
                    return None
                return cls.parse(stream.read(_LARGEST))
            except OSError:
                return None

    def __len__(self) -> int:
        return len(self._entries)

    def at(self, address: int) -> Name | None:
        """The name of the code that an address is in, or None."""
        index = bisect_right(self._starts, address) - 1
        best: tuple[int, int, str] | None = None
        steps = 0
        while index >= 0 and self._starts[index] > address - self._longest and steps < 4096:
            start, end, turn, name = self._entries[index]
            if address < end and (best is None or turn > best[0]):
                best = (turn, start, name)
            index -= 1
            steps += 1
        return None if best is None else Name(best[2], address - best[1])
