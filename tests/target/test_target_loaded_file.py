"""How far files were moved, on systems whose pages are larger than the smallest."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from clew.arch import machine_named
from clew.image import Image
from clew.memory import BytesMemory, Mapping
from clew.target.loaded_file import bias_of
from clew.target.mapped_modules import mapped_modules
from clew.target.module_files import ModuleFiles

R, RX = 4, 5
BIAS = 0x7F0000000000


def program(segments: list[tuple[int, int, int, int]], alignment: int = 0x10000) -> bytes:
    """An ELF64 file for AArch64 (gABI, "Program Header"): flags, offset, address and size of each segment."""
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + pack(
        "<HHIQQQIHHHHHH", 3, 183, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    table = b"".join(pack("<IIQQQQQQ", 1, flags, at, to, to, size, size, alignment) for flags, at, to, size in segments)
    end = max(at + size for _, at, _, size in segments)
    return (head + table).ljust(end, b"\0")


# As lld lays out files for pages of 64 KiB: the segments stand close together in the file, and far apart in memory.
SPREAD = program([(R, 0, 0, 0x2ABC0), (RX, 0x2ABC0, 0x3ABC0, 0x8000)])


@pytest.mark.parametrize("page", [0x1000, 0x4000, 0x10000])
def test_code_that_begins_within_a_page(page: int) -> None:
    start, offset = (0x3ABC0 + BIAS) & -page, 0x2ABC0 & -page
    assert bias_of(Image.from_bytes(SPREAD), start, offset, code=True) == BIAS


def test_what_is_no_code_is_not_taken_for_it() -> None:
    image = Image.from_bytes(program([(R, 0, 0, 0x5C0), (RX, 0x5C0, 0x105C0, 0x100)]))
    assert bias_of(image, BIAS) == BIAS
    assert bias_of(image, BIAS + 0x10000, 0, code=True) == BIAS


def test_a_part_that_no_segment_has() -> None:
    assert bias_of(Image.from_bytes(SPREAD), BIAS, 0x40000) is None
    assert bias_of(Image.from_bytes(SPREAD), BIAS, 0x40000, code=True) is None


def test_a_file_without_build_id_is_not_too_small_for_large_pages(tmp_path: Path) -> None:
    path = tmp_path / "it.so"
    path.write_bytes(SPREAD)
    mappings = [
        Mapping(BIAS, BIAS + 0x30000, 0, "r--p", str(path)),
        Mapping(BIAS + 0x30000, BIAS + 0x50000, 0x20000, "r-xp", str(path)),
    ]
    files = ModuleFiles(machine_named("aarch64"), print)
    memory = BytesMemory(SPREAD[:0x1000], BIAS)
    [module] = mapped_modules(mappings, memory, files, lambda start, end, name: False)
    assert module.image is not None
    # What is mapped of it in pages of 4 KiB would be more than it has.
    mappings[1] = Mapping(BIAS + 0x3A000, BIAS + 0x50000, 0x2A000, "r-xp", str(path))
    [module] = mapped_modules(mappings, memory, files, lambda start, end, name: False)
    assert module.image is None
