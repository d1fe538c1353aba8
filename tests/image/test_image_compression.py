"""Compressed sections, and those that only say so."""

from __future__ import annotations

import importlib
import sys
import types
import zlib
from typing import Any

import pytest
import zstandard

from clew.errors import DependencyError, FormatError
from clew.image import Image, Section, compress, elf
from clew.testing.elf import ElfBuilder

CONTENTS = bytes(range(256)) * 10


def made(data: bytes = CONTENTS, name: str = ".debug_frame", **arguments: Any) -> Section:
    bits, byte_order = arguments.pop("bits", 64), arguments.pop("byte_order", "little")
    builder = ElfBuilder(bits=bits, byte_order=byte_order)
    builder.section(name, data, **arguments)
    section = Image.from_bytes(builder.build(), "file").section(".debug_frame")
    assert section is not None
    return section


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_compressed_sections(bits: int, byte_order: str, method: str) -> None:
    section = made(bits=bits, byte_order=byte_order, compress=method)
    assert section.compressed
    assert section.data == CONTENTS
    assert section.data is section.data
    assert len(section.raw) == section.size < len(CONTENTS)


def test_zdebug_is_found_by_the_new_name() -> None:
    section = made(name=".zdebug_frame", compress="zdebug")
    assert section.name == ".zdebug_frame"
    assert section.compressed
    assert section.data == CONTENTS


def test_zdebug_without_the_mark_is_not_compressed() -> None:
    section = made(b"plain contents", name=".zdebug_frame")
    assert not section.compressed
    assert section.data == b"plain contents"


def test_streams_may_follow_one_another() -> None:
    data = zlib.compress(b"one") + zlib.compress(b"two")
    assert compress.expand_zlib(memoryview(data), 6) == b"onetwo"
    frames = zstandard.ZstdCompressor().compress(b"one") + zstandard.ZstdCompressor().compress(b"two")
    assert compress.expand_zstd(memoryview(frames), 6) == b"onetwo"


def header(method: int, size: int) -> bytes:
    return elf.LAYOUTS[64, "little"].compression.pack(method, 0, size, 1)


ZLIB, ZSTD = zlib.compress(CONTENTS), zstandard.ZstdCompressor().compress(CONTENTS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"short", "too small for a compression header"),
        (header(77, 10) + ZLIB, "unknown compression method 77"),
        (header(1, len(CONTENTS) + 1) + ZLIB, "gives 2560 bytes instead of the stated 2561"),
        (header(1, len(CONTENTS) - 1) + ZLIB, "more than the stated 2559 bytes"),
        (header(1, 0) + ZLIB, "more than the stated 0 bytes"),
        (header(1, len(CONTENTS)) + ZLIB[:-5], "cut short"),
        (header(1, len(CONTENTS)) + ZLIB + b"junk", "damaged"),
        (header(1, len(CONTENTS)) + b"junk" * 10, "damaged"),
        (header(1, 5), "out of proportion"),
        (header(1, 1 << 40) + ZLIB, "out of proportion"),
        (header(2, len(CONTENTS) + 1) + ZSTD, "gives 2560 bytes instead of the stated 2561"),
        (header(2, len(CONTENTS) - 1) + ZSTD, "more than the stated 2559 bytes"),
        (header(2, len(CONTENTS)) + ZSTD[:-5], "instead of"),
        (header(2, len(CONTENTS)) + ZSTD + b"junk", "damaged"),
        (header(2, len(CONTENTS)) + b"junk" * 10, "damaged"),
        (header(2, 1 << 40) + ZSTD, "out of proportion"),
    ],
)
def test_damaged_contents(data: bytes, message: str) -> None:
    section = made(data, flags=elf.SHF_COMPRESSED)
    with pytest.raises(FormatError, match=message) as caught:
        _ = section.data
    assert (caught.value.file, caught.value.section) == ("file", ".debug_frame")


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    # A gigabyte of zeros, which Zstandard stores in a few dozen kilobytes.
    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=1 << 30)
    bomb = b"".join(compressor.compress(bytes(1 << 24)) for _ in range(64)) + compressor.flush()
    with pytest.raises(FormatError, match="out of proportion"):
        compress.expand_zstd(memoryview(bomb), 1 << 30)
    with pytest.raises(FormatError, match="more than the stated"):
        compress.expand_zstd(memoryview(bomb), 1000)


def test_empty_contents() -> None:
    assert compress.expand_zlib(memoryview(zlib.compress(b"")), 0) == b""
    assert compress.expand_zstd(memoryview(zstandard.ZstdCompressor().compress(b"")), 0) == b""


def test_zstandard_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    section = made(header(2, len(CONTENTS)) + ZSTD, flags=elf.SHF_COMPRESSED)
    with pytest.raises(DependencyError) as caught:
        _ = section.data
    assert caught.value.hint == "pip install 'clew[zstd]'"
    assert caught.value.section == ".debug_frame"


def test_the_standard_library_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    # What Python 3.14 has, made of zstandard.
    module: Any = types.ModuleType("compression.zstd")
    module.ZstdError = zstandard.ZstdError
    module.ZstdFile = lambda file: zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    find = importlib.import_module

    def import_module(name: str, package: str | None = None) -> Any:
        assert name != "zstandard"
        return module if name == "compression.zstd" else find(name, package)

    monkeypatch.setattr(compress.importlib, "import_module", import_module)
    assert compress.expand_zstd(memoryview(ZSTD), len(CONTENTS)) == CONTENTS
