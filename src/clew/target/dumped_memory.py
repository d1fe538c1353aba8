"""Memory that a file holds parts of, and the files of modules for what it leaves out.

Dumps hold of the mappings of files only what the program changed, if that. What is missing is in the file, as long as
nobody could have written to it: only a file's own read-only segments stand in. Everything else that the dump does not
hold is unreadable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from copy import copy
from typing import TypeVar

from clew.memory import MAXIMUM_READ
from clew.target.model import Modules

_Self = TypeVar("_Self", bound="DumpedMemory")


class DumpedMemory:
    """What a dump holds. The file is mapped: do not cut it short meanwhile.

    Where runs overlap, the one that starts first counts, and another from where that ends.

    Args:
        view: the file's bytes.
        runs: address, size and offset in the file of each run of memory.
        limit: the end of the address space.

    Attributes:
        cut: how many runs are not wholly in the file.
        overlapping: how many overlap others and have other bytes there.
    """

    def __init__(self, view: memoryview, runs: Iterable[tuple[int, int, int]], limit: int) -> None:
        self._view = view
        self._fill: Callable[[int, int], bytes | None] | None = None
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._offsets: list[int] = []
        self.cut = self.overlapping = 0
        reached = compared = 0
        for address, size, offset in sorted(runs, key=lambda run: run[0]):
            there = max(0, min(offset + size, len(view)) - offset)
            self.cut += there < size
            start, end = max(address, reached), min(address + there, limit)
            twice = min(there, reached - address)
            if twice > 0:
                # Windows' dumps have what is around a pc twice. Damaged ones may have everything very often.
                compared += twice
                known = self.read(address, twice) if compared <= len(view) else None
                self.overlapping += known is None or known != view[offset : offset + twice]
            if start < end:
                reached = end
                self._starts.append(start)
                self._ends.append(end)
                self._offsets.append(offset + start - address)

    def read(self, address: int, size: int) -> bytes | None:
        """The ``size`` bytes at ``address``, or None where not all of them are known. At most 16 MiB at once."""
        if size <= 0:
            return b"" if size == 0 else None
        index = bisect_right(self._starts, address) - 1
        if index >= 0 and address + size <= self._ends[index]:
            offset = self._offsets[index] + address - self._starts[index]
            return bytes(self._view[offset : offset + size])
        return self._pieces(address, size, index) if size <= MAXIMUM_READ and address >= 0 else None

    def _pieces(self, address: int, size: int, index: int) -> bytes | None:
        """The bytes of several runs, and of what stands in between them."""
        pieces: list[bytes] = []
        end = address + size
        while address < end:
            if index >= 0 and address < self._ends[index]:
                step = min(end, self._ends[index])
                offset = self._offsets[index] + address - self._starts[index]
                piece: bytes | None = bytes(self._view[offset : offset + step - address])
            else:
                step = min(end, self._starts[index + 1]) if index + 1 < len(self._starts) else end
                piece = self._fill(address, step - address) if self._fill is not None else None
            if piece is None:
                return None
            pieces.append(piece)
            address = step
            if index + 1 < len(self._starts) and address >= self._starts[index + 1]:
                index += 1
        return b"".join(pieces)

    def filled_from(self: _Self, modules: Modules) -> _Self:
        """The same memory, where the read-only segments of the modules' files stand in for what the dump leaves out."""
        other = copy(self)
        other._fill = lambda address, size: _bytes_of_file(modules, address, size)
        return other

    def close(self) -> None:
        """Let go of the dump; afterwards nothing of it is readable."""
        self._view = memoryview(b"")
        self._starts, self._ends, self._offsets, self._fill = [], [], [], None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._starts)} segments)"


def _bytes_of_file(modules: Modules, address: int, size: int) -> bytes | None:
    module = modules.at(address)
    return None if module is None else module.constant(address, size)
