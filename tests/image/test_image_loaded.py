"""Images read from memory: the vdso, a loaded file, and memory with holes."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from clew.errors import FormatError
from clew.image import Image, elf
from clew.memory import BytesMemory, Memory, ProcessMemory, process_mappings
from clew.testing.elf import ElfBuilder

BASE = 0x7F0000000000


class Pages:
    """Memory made of runs of bytes at addresses."""

    def __init__(self, *runs: tuple[int, bytes]) -> None:
        self.runs = [BytesMemory(data, address) for address, data in runs]

    def read(self, address: int, size: int) -> bytes | None:
        for run in self.runs:
            data = run.read(address, size)
            if data is not None:
                return data
        return None


def loaded(image: Image, base: int, *, rest: bytes = b"") -> Memory:
    """The image as a program loader maps it, with ``rest`` behind the last segment."""
    loads = [segment for segment in image.segments if segment.type == elf.PT_LOAD]
    runs = [(base + each.address, bytes(each.data)) for each in loads]
    return Pages(*runs[:-1], (runs[-1][0], runs[-1][1] + rest))


def shared() -> tuple[bytes, Image]:
    """Text and frames; the data is at another address than its offset. The first segment begins with the file."""
    builder = ElfBuilder()
    builder.section(".text", b"\x90" * 64, address=0x1000, executable=True)
    builder.section(".eh_frame_hdr", b"\1\x1b\xff\xff" + (0xFC).to_bytes(4, "little"), address=0x2000)
    builder.section(".eh_frame", bytes(range(64)), address=0x2100)
    builder.section(".data", b"changed", address=0x5000)
    builder.segment(elf.PT_LOAD, [".text"], flags=5)
    builder.segment(elf.PT_LOAD, [".eh_frame_hdr", ".eh_frame"])
    builder.segment(elf.PT_LOAD, [".data"])
    builder.segment(elf.PT_GNU_EH_FRAME, [".eh_frame_hdr"])
    data = bytearray(builder.build())
    record = builder.layout.segment
    fields = list(record.unpack_from(data, 64))
    fields[2:7] = 0, 0, 0, 0x1040, 0x1040
    data[64 : 64 + record.size] = record.pack(*fields)
    return bytes(data), Image.from_bytes(bytes(data))


def test_a_loaded_file_without_its_section_headers() -> None:
    _, image = shared()
    found = Image.from_memory(loaded(image, BASE, rest=bytes(0x1000)), BASE, "lib")
    assert (found.name, found.load_bias) == ("lib", BASE)
    assert found.sections == ()
    assert found.bytes_at(0x1000, 64) == b"\x90" * 64
    assert found.bytes_at(0x5000, 7) == b"changed"
    assert found.eh_frame() == (0x2100, bytes(range(64)))
    assert found.code_ranges() == image.code_ranges()
    assert found.problems == []


def test_section_headers_that_are_loaded_too() -> None:
    data, image = shared()
    offset = image.segments[2].offset
    found = Image.from_memory(loaded(image, BASE, rest=data[offset + 7 :]), BASE, "[vdso]")
    assert [section.name for section in found.sections] == [section.name for section in image.sections]
    section = found.section(".eh_frame")
    assert section is not None
    assert section.data == bytes(range(64))
    assert found.problems == []


def test_memory_that_is_not_readable_is_not_made_up() -> None:
    _, image = shared()
    loads = [segment for segment in image.segments if segment.type == elf.PT_LOAD]
    whole = bytes(loads[0].data)
    memory = Pages((BASE, whole[:0x1000]), (BASE + 0x5000, b"changed"))
    found = Image.from_memory(memory, BASE, "lib")
    assert found.bytes_at(0x1000, 4) is None
    assert found.bytes_at(0x5000, 7) == b"changed"
    assert found.eh_frame() is None
    assert "not readable" in str(found.problems[0])
    assert found.problems[0].lost


def test_the_size_limit() -> None:
    _, image = shared()
    found = Image.from_memory(loaded(image, BASE), BASE, "lib", size_limit=0x1020)
    assert found.bytes_at(0x1000, 0x20) == b"\x90" * 0x20
    assert found.bytes_at(0x1000, 0x21) is None
    assert found.source.size == 0x1020
    assert "size limit" in str(found.problems[0])


def test_no_image() -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        Image.from_memory(BytesMemory(b""), 0x1000, "nothing")
    with pytest.raises(FormatError, match="not an ELF file"):
        Image.from_memory(BytesMemory(bytes(100)), 0, "nothing")
    data = ElfBuilder().build()
    with pytest.raises(FormatError, match="no loaded segment"):
        Image.from_memory(BytesMemory(data), 0, "nothing")


def test_addresses_that_a_loader_has_moved() -> None:
    builder = ElfBuilder(section_headers=False)
    record = builder.layout.dynamic
    moved = record.pack(elf.DT_PLTGOT, BASE + 0x1008) + record.pack(elf.DT_NULL, 0)
    builder.section(".dynamic", moved, address=0x1000)
    builder.segment(elf.PT_LOAD, [".dynamic"])
    builder.segment(elf.PT_DYNAMIC, [".dynamic"])
    image = Image.from_bytes(builder.build())
    # The header is loaded too, a page before.
    segment = image.segments[0]
    memory = Pages((BASE + 0x1000 - segment.offset, builder.build()))
    found = Image.from_memory(memory, BASE + 0x1000 - segment.offset, "lib")
    assert found.load_bias == BASE
    assert found.got_address() == 0x1008


def vdso() -> int | None:
    mappings = process_mappings(os.getpid()) if Path("/proc/self/maps").exists() else []
    return next((mapping.start for mapping in mappings if mapping.path == "[vdso]"), None)


@pytest.mark.skipif(vdso() is None, reason="this process has no vdso")
def test_the_vdso() -> None:
    base = vdso()
    assert base is not None
    with ProcessMemory(os.getpid()) as memory:
        image = Image.from_memory(memory, base, "[vdso]")
    frame = image.eh_frame()
    assert frame is not None
    assert len(frame[1]) > 4
    assert image.build_id is not None
    symbols = image.symbols()
    names = set(symbols.names(range(len(symbols))))
    assert any("clock_gettime" in name for name in names), names
    assert image.problems == []


def test_a_library_of_this_process() -> None:
    mappings = process_mappings(os.getpid())
    libc = ctypes.CDLL(None)
    address = ctypes.cast(libc.printf, ctypes.c_void_p).value
    assert address is not None
    path = next(mapping.path for mapping in mappings if address in mapping)
    # Whoever reads the file may have it mapped once more.
    base = max(each.start for each in mappings if each.path == path and not each.offset and each.start <= address)
    with ProcessMemory(os.getpid()) as memory, Image.open(path) as file:
        image = Image.from_memory(memory, base, path)
        assert image.load_bias == base
        assert image.build_id == file.build_id
        assert image.code_ranges() == file.code_ranges()
        inside, outside = image.eh_frame(), file.eh_frame()
        assert inside is not None
        assert outside is not None
        assert inside[0] == outside[0]
        assert inside[1][: len(outside[1])] == outside[1]
        [index] = [i for i in image.symbols().find("printf") if image.symbols().shndx[i]]
        assert image.symbols().value[index] + base == address
