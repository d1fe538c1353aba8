"""Whatever the bytes say, an image answers, or raises a clew.Error; and it does not take long."""

from __future__ import annotations

import contextlib
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import Error
from clew.image import Image, elf
from clew.memory import BytesMemory
from clew.testing.elf import ElfBuilder

SECONDS = 5


def object_file(machine: int, bits: int, byte_order: elf.ByteOrder, *, large: bool = False) -> bytes:
    builder = ElfBuilder(machine=machine, bits=bits, byte_order=byte_order, type=elf.ET_REL, large_numbers=large)
    builder.section(".text", bytes(32), executable=True, alignment=16)
    builder.section(".text.b", bytes(32), executable=True, alignment=16)
    builder.section(".eh_frame", bytes(64), flags=elf.SHF_ALLOC, alignment=8)
    builder.section(".debug_frame", bytes(200), compress="zlib")
    builder.section(".debug_line", bytes(200), compress="zstd")
    builder.section(".zdebug_info", bytes(200), compress="zdebug")
    builder.section(".bss", size=0x100, flags=elf.SHF_ALLOC)
    builder.build_id(b"12345678")
    for number in range(6):
        builder.symbol(f"f{number}", 4 * number, size=8, section=".text", type=elf.STT_FUNC, binding=number % 3)
    for offset in range(0, 40, 4):
        builder.relocation(".rela.eh_frame", offset, 1 + offset % 5, "f1", offset)
        builder.relocation(".rel.debug_frame", offset, 35 + offset % 7, "f2")
    return builder.build()


def shared_file(bits: int, byte_order: elf.ByteOrder, *, headers: bool = True) -> bytes:
    builder = ElfBuilder(bits=bits, byte_order=byte_order, section_headers=headers)
    layout = builder.layout
    symbols = bytes(layout.symbol_size * 3)
    builder.section(".dynsym", symbols, type=elf.SHT_DYNSYM, address=0x400, link=".dynstr", entry_size=24)
    builder.section(".dynstr", b"\0one\0two\0", type=elf.SHT_STRTAB, address=0x500)
    hashes = b"".join(n.to_bytes(4, byte_order) for n in (1, 1, 1, 0, *[0] * (bits // 32), 1, 2, 3))
    builder.section(".gnu.hash", hashes, address=0x600)
    builder.section(".text", bytes(64), address=0x1000, executable=True)
    builder.section(".eh_frame_hdr", b"\1\x1b\3\x3b" + (0xFC).to_bytes(4, byte_order), address=0x2000)
    builder.section(".eh_frame", bytes(64), address=0x2100)
    tags = ((6, 0x400), (5, 0x500), (10, 9), (0x6FFFFEF5, 0x600), (3, 0x3000), (0, 0))
    builder.section(".dynamic", b"".join(layout.dynamic.pack(*each) for each in tags), type=6, address=0x3000)
    builder.build_id(b"12345678", address=0x4000)
    for name in (".dynsym", ".dynstr", ".gnu.hash", ".text", ".eh_frame_hdr", ".eh_frame", ".dynamic"):
        builder.segment(elf.PT_LOAD, [name], flags=5)
    builder.segment(elf.PT_DYNAMIC, [".dynamic"])
    builder.segment(elf.PT_GNU_EH_FRAME, [".eh_frame_hdr"])
    builder.segment(elf.PT_NOTE, [".note.gnu.build-id"])
    return builder.build()


SEEDS = [
    object_file(elf.EM_X86_64, 64, "little"),
    object_file(elf.EM_RISCV, 64, "little"),
    object_file(elf.EM_RISCV, 32, "big", large=True),
    object_file(elf.EM_MSP430, 32, "little"),
    object_file(elf.EM_RL78, 32, "little"),
    object_file(elf.EM_MIPS, 64, "big"),
    object_file(elf.EM_LOONGARCH, 64, "little"),
    shared_file(64, "little"),
    shared_file(32, "big"),
    shared_file(64, "little", headers=False),
]


def use_everything(data: bytes) -> None:
    """Ask an image of these bytes for all it has."""
    try:
        images = [Image.from_bytes(data)]
    except Error:
        images = []
    with contextlib.suppress(Error):
        images.append(Image.from_memory(BytesMemory(data, 0x7F000), 0x7F000, "loaded", 1 << 20))
    for image in images:
        repr(image)
        for section in image.sections:
            repr(section)
            assert len(section.raw) <= image.source.size
            for attribute in ("expanded", "data", "data_at_layout", "compressed", "layout_address"):
                with contextlib.suppress(Error):
                    getattr(section, attribute)
        for segment in image.segments:
            repr(segment)
            assert len(segment.data) <= image.source.size
        for symbols in (image.symbols("symtab"), image.symbols("dynsym"), image.symbols()):
            assert len(symbols) <= len(data)
            symbols.names(range(len(symbols)))
            symbols.functions()
            symbols.find("f1")
            for address in (0, 4, 0x1000, 2**64 - 1, -1, 2**70):
                found = symbols.at(address)
                assert found is None or found[1] >= 0
        list(image.notes())
        _ = image.build_id, image.dynamic, image.got_address(), image.text_address()
        assert all(start < end for start, end in image.code_ranges())
        for found_frame in (image.eh_frame(), image.eh_frame_hdr()):
            assert found_frame is None or len(found_frame[1])
        image.section_addresses()
        for address in (0, 0x1000, 0x2000, 2**64 - 1, -1, 2**70):
            for size in (0, 1, 8, 2**40, -1):
                found_bytes = image.bytes_at(address, size)
                assert found_bytes is None or len(found_bytes) == size
        assert all(str(problem) for problem in image.problems)


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_the_seeds_themselves_are_fine(seed: int) -> None:
    use_everything(SEEDS[seed])


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_a_cut_file_never_raises_anything_else(seed: int) -> None:
    data = SEEDS[seed]
    for end in [*range(0, min(len(data), 200), 7), *range(200, len(data), len(data) // 25)]:
        use_everything(data[:end])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(range(len(SEEDS))), st.randoms(use_true_random=False), st.integers(1, 20))
def test_a_mutated_file_never_raises_anything_else(seed: int, random: random.Random, count: int) -> None:
    data = bytearray(SEEDS[seed])
    # The tables decide more than the contents do.
    layout = Image.from_bytes(SEEDS[seed]).header
    tables = [range(64), range(layout.segment_offset, layout.segment_offset + 500)]
    tables.append(range(layout.section_offset, len(data)) if layout.section_offset else range(len(data)))
    for _ in range(count):
        where = random.choice([*tables, range(len(data))])
        position = random.choice(where) % len(data)
        value = random.choice([0, 1, 0x7F, 0x80, 0xFF, data[position] ^ 1 << random.randrange(8)])
        data[position] = value
        if random.random() < 0.2:
            data[position : position + 8] = random.choice([b"\xff" * 8, b"\0" * 8, bytes(7) + b"\x7f"])
    start = time.perf_counter()
    use_everything(bytes(data))
    assert time.perf_counter() - start < SECONDS


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_bytes_after_the_magic_never_raise_anything_else(tail: bytes) -> None:
    use_everything(elf.MAGIC + tail)
    use_everything(elf.MAGIC + b"\2\1\1" + bytes(9) + tail)
