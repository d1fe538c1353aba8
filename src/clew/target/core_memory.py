"""The memory of an ELF core: the segments that it holds.

``p_memsz`` beyond ``p_filesz`` means *not dumped* here, not zero; what stands in for it is told in
:mod:`clew.target.dumped_memory`.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.errors import Problem
from clew.image import Image
from clew.image.elf import PF_W, PF_X, PT_LOAD
from clew.memory import Mapping
from clew.target.dumped_memory import DumpedMemory
from clew.target.parts import mapping_at


class CoreMemory(DumpedMemory):
    """What a core holds. The file is mapped: do not cut it short meanwhile.

    Attributes:
        mappings: what the program headers say was mapped, sorted and without overlaps, with permissions; without path
            and offset, which they do not know.
    """

    def __init__(self, core: Image, report: Callable[[Problem], None]) -> None:
        limit = 1 << core.elf_class
        segments = sorted((each for each in core.segments if each.type == PT_LOAD), key=lambda segment: segment.address)
        runs = ((segment.address, segment.file_size, segment.offset) for segment in segments)
        # An absurd size in memory does not hide what other segments hold.
        super().__init__(core.source.slice(0, core.source.size), runs, limit)
        self.mappings: list[Mapping] = []
        beyond = mapped_end = 0
        for segment in segments:
            # Some writers of cores give a size of zero in memory to what they have the bytes of.
            end = segment.address + max(segment.memory_size, segment.file_size)
            beyond += end > limit
            start, end = max(segment.address, mapped_end), min(end, limit)
            if start < end:
                mapped_end = end
                flags = segment.flags
                permissions = "r" + ("w" if flags & PF_W else "-") + ("x" if flags & PF_X else "-") + "p"
                self.mappings.append(Mapping(start, end, 0, permissions, ""))
        if self.cut:
            report(Problem(f"the core is cut short: memory of {self.cut} segments is missing"))
        if self.overlapping:
            report(Problem(f"{self.overlapping} segments overlap others; what comes first counts"))
        if beyond:
            report(Problem(f"{beyond} segments reach beyond the address space"))

    def mapping_at(self, address: int) -> Mapping | None:
        """What was mapped at an address, or None."""
        return mapping_at(self.mappings, address)
