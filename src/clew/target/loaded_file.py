"""What the memory of a target says about a file that is loaded in it: its program headers, where they moved, its build id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from clew.errors import Error
from clew.image import Image, Segment
from clew.image.elf import PF_X, PT_LOAD, PT_NOTE
from clew.memory import Memory

PAGE = 4096
"""The smallest unit in which files are mapped, on every machine that Linux runs on."""

_LARGEST_PAGE = 1 << 16  # AArch64 and PowerPC, where the kernel is built so

_MAXIMUM_HEAD = 1 << 16
"""How much of a file's beginning is read to find its headers and its build id."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file whose beginning is in memory.

    Attributes:
        header: its headers, read from there; of its contents it has what stands beside them.
        bias: what to add to an address of the file to get the one in memory.
        start, end: the addresses that its loaded segments take, in whole pages.
        build_id: its build id, if it is among what was read.
    """

    header: Image
    bias: int
    start: int
    end: int
    build_id: bytes | None


def loads(image: Image) -> list[Segment]:
    """The segments of a file that are loaded."""
    return [segment for segment in image.segments if segment.type == PT_LOAD and segment.memory_size]


def extent(image: Image, bias: int) -> tuple[int, int] | None:
    """The addresses in memory that a file's loaded segments take, in whole pages, when it is moved by ``bias``.

    None for a file without loaded segments, or where they would lie outside of the address space.
    """
    segments = loads(image)
    if not segments:
        return None
    start = min(segment.address for segment in segments) + bias
    end = max(segment.end for segment in segments) + bias
    if not 0 <= start < end <= 1 << image.elf_class:
        return None
    return start - start % PAGE, end + -end % PAGE


def bias_of(image: Image, start: int, offset: int = 0, *, code: bool = False) -> int | None:
    """How far a file was moved whose byte at ``offset`` is mapped at ``start``; None where none of its segments holds it.

    It is negative where the file lies below the addresses it was linked for, as the vdso of older kernels does. A segment
    is mapped from the beginning of a page on. Pages have 4 KiB or, on some machines, up to the segment's alignment, and
    then hold the end of another segment, too.

    Args:
        code: whether the mapping is executable, which tells segments apart that share a page of the file.
    """
    segments = loads(image)
    executable = [each for each in segments if code and each.flags & PF_X]
    tries = [(each, PAGE) for each in executable]
    tries += [(each, max(each.alignment, PAGE)) for each in executable]
    tries += [(each, PAGE) for each in segments]
    for segment, page in tries:
        if segment.offset - segment.offset % page <= offset < segment.offset + segment.file_size:
            return start - segment.address + segment.offset - offset
    return None


def reaches(image: Image, bias: int, end: int, edges: Iterable[int]) -> bool:
    """Whether a file's loaded segments, moved by ``bias``, reach up to an address, in whole pages.

    Args:
        edges: addresses and offsets at which mappings begin and end: they tell how large pages may be.
    """
    taken = extent(image, bias)
    together = reduce(or_, edges, _LARGEST_PAGE)
    page = max(together & -together, PAGE)
    return taken is not None and taken[1] + -taken[1] % page >= end


def read_loaded_file(memory: Memory, base: int) -> LoadedFile | None:
    """The file whose first byte is at ``base``, or None where no ELF file begins there, or it cannot be read."""
    # A core's last page may be cut; a header alone tells nothing without its program headers.
    head = memory.read(base, PAGE)
    if head is None or head[:4] != b"\x7fELF":
        return None
    try:
        image = _head(head)
        wanted = image.header.segment_offset + image.header.segment_count * image.header.segment_size
        if len(head) < wanted <= _MAXIMUM_HEAD:
            image = _head(memory.read(base, wanted) or head)
        wanted = max((each.offset + each.file_size for each in image.segments if each.type == PT_NOTE), default=0)
        if len(image.source.slice(0, wanted)) < wanted <= _MAXIMUM_HEAD:
            image = _head(memory.read(base, wanted) or head)
    except Error:
        return None
    bias = bias_of(image, base)
    taken = extent(image, bias) if bias is not None else None
    if bias is None or taken is None:
        return None
    return LoadedFile(image, bias, *taken, image.build_id)


def _head(data: bytes) -> Image:
    image = Image.from_bytes(data, "<memory>")
    # Of the sections nothing is loaded.
    image.header.section_offset = image.header.section_count = image.header.names_index = 0
    return image
