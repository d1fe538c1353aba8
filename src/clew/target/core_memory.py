"""The memory of an ELF core: the segments that it holds, and the files of its modules for what it leaves out.

A core holds of the mappings of files only what the program changed, and perhaps the first page. What is missing is in
the file, as long as nobody could have written to it: only a file's own read-only segments stand in. Everything else that
the core does not hold is unreadable; ``p_memsz`` beyond ``p_filesz`` means *not dumped* here, not zero.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import copy

from clew.errors import Problem
from clew.image import Image
from clew.image.elf import PF_W, PF_X, PT_LOAD
from clew.memory import MAXIMUM_READ, Mapping
from clew.target.model import Modules


class CoreMemory:
    """What a core holds. The file is mapped: do not cut it short meanwhile.

    Attributes:
        mappings: what the program headers say was mapped, sorted and without overlaps, with permissions; without path
            and offset, which they do not know.
    """

    def __init__(self, core: Image, report: Callable[[Problem], None]) -> None:
        self._view = core.source.slice(0, core.source.size)
        self._fill: Callable[[int, int], bytes | None] | None = None
        self.mappings: list[Mapping] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._offsets: list[int] = []
        limit = 1 << core.elf_class
        cut = overlapping = beyond = mapped_end = dumped_end = 0
        for segment in sorted(core.segments, key=lambda each: each.address):
            if segment.type != PT_LOAD:
                continue
            # Some writers of cores give a size of zero in memory to what they have the bytes of.
            end = segment.address + max(segment.memory_size, segment.file_size)
            beyond += end > limit
            start, end = max(segment.address, mapped_end), min(end, limit)
            if start < end:
                mapped_end = end
                flags = segment.flags
                permissions = "r" + ("w" if flags & PF_W else "-") + ("x" if flags & PF_X else "-") + "p"
                self.mappings.append(Mapping(start, end, 0, permissions, ""))
            there = max(0, min(segment.offset + segment.file_size, len(self._view)) - segment.offset)
            cut += there < segment.file_size
            # An absurd size in memory does not hide what other segments hold.
            start, end = max(segment.address, dumped_end), min(segment.address + there, limit)
            overlapping += bool(there) and start != segment.address
            if start < end:
                dumped_end = end
                self._starts.append(start)
                self._ends.append(end)
                self._offsets.append(segment.offset + start - segment.address)
        if cut:
            report(Problem(f"the core is cut short: memory of {cut} segments is missing"))
        if overlapping:
            report(Problem(f"{overlapping} segments overlap others; what comes first counts"))
        if beyond:
            report(Problem(f"{beyond} segments reach beyond the address space"))

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
        """The bytes of several segments, and of what stands in between them."""
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

    def filled_from(self, modules: Modules) -> CoreMemory:
        """The same memory, where the read-only segments of the modules' files stand in for what the core leaves out."""
        other = copy(self)
        other._fill = lambda address, size: _bytes_of_file(modules, address, size)
        return other

    def mapping_at(self, address: int) -> Mapping | None:
        """What was mapped at an address, or None."""
        return mapping_at(self.mappings, address)

    def close(self) -> None:
        """Let go of the core; afterwards nothing of it is readable."""
        self._view = memoryview(b"")
        self._starts, self._ends, self._offsets, self._fill = [], [], [], None

    def __repr__(self) -> str:
        return f"CoreMemory({len(self._starts)} segments)"


def mapping_at(mappings: Sequence[Mapping], address: int) -> Mapping | None:
    """The mapping that an address is in; the mappings are sorted and do not overlap."""
    index = bisect_right(mappings, address, key=lambda each: each.start) - 1
    return mappings[index] if index >= 0 and address < mappings[index].end else None


def _bytes_of_file(modules: Modules, address: int, size: int) -> bytes | None:
    module = modules.at(address)
    image = module.image if module is not None else None
    if module is None or image is None or image.load_bias is not None:
        return None
    linked = address - module.bias
    for segment in image.segments:
        if segment.type == PT_LOAD and segment.address <= linked and linked + size <= segment.end:
            if segment.flags & PF_W:
                return None
            data = image.bytes_at(linked, size)
            return bytes(data) if data is not None else None
    return None
