"""Compressed sections: ``SHF_COMPRESSED`` (gABI chapter 4, "Section Compression") and the older ``.zdebug_*``.

The size that a section states is a claim. Nothing is allocated on its word: the output grows with what the compressed
bytes really give, and a claim out of all proportion is refused before that.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import zlib
from typing import Any

from clew.errors import DependencyError, FormatError
from clew.image.elf import ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, Layout

inflate: Any = zlib
# Intel's ISA-L under zlib's interface, where it is built for the machine: 22 MB of debugging information in 38 ms, zlib 91.
with contextlib.suppress(ImportError):
    inflate = importlib.import_module("isal.isal_zlib")

MAXIMUM_SIZE = 1 << 32
"""The most bytes that a section may expand to."""

MAXIMUM_RATIO = 1032
"""How many bytes one compressed byte may stand for. Deflate cannot do better (zlib Technical Details, "Maximum
Compression Factor"). Zstandard can, but debugging information never comes near."""

ZSTD_ALLOWANCE = 1 << 24
"""What a small Zstandard section may expand to regardless of the ratio: a run of zeros costs it almost nothing."""

STEP = 1 << 22
"""How many bytes a Zstandard reader is asked for at once: it sets aside what it is asked for before it knows better."""

ZDEBUG_HEADER = 12
"""Bytes before the data of a ``.zdebug_*`` section: ``ZLIB`` and the expanded size, 64 bits, most significant first."""


def expand_section(layout: Layout, data: memoryview) -> bytes:
    """The contents of an ``SHF_COMPRESSED`` section, which begins with an ``Elf32_Chdr`` or ``Elf64_Chdr``.

    Raises:
        FormatError: the header is cut, names an unknown method, or states a size that the contents do not have.
        DependencyError: the method is Zstandard and no library for it is installed.
    """
    header = layout.compression
    if len(data) < header.size:
        raise FormatError("the section is too small for a compression header")
    fields = header.unpack_from(data)
    method, size = fields[0], fields[2] if layout.bits == 64 else fields[1]
    if method == ELFCOMPRESS_ZLIB:
        return expand_zlib(data[header.size :], size)
    if method == ELFCOMPRESS_ZSTD:
        return expand_zstd(data[header.size :], size)
    raise FormatError(f"unknown compression method {method}")


def is_zdebug(data: memoryview) -> bool:
    """Whether the bytes begin as those of a compressed ``.zdebug_*`` section do."""
    return len(data) >= ZDEBUG_HEADER and bytes(data[:4]) == b"ZLIB"


def expand_zdebug(data: memoryview) -> bytes:
    """The contents of a ``.zdebug_*`` section. Raises FormatError as :func:`expand_section` does."""
    return expand_zlib(data[ZDEBUG_HEADER:], int.from_bytes(data[4:ZDEBUG_HEADER], "big"))


def expand_zlib(data: memoryview, size: int) -> bytes:
    """Exactly ``size`` bytes from one zlib stream, or from several that follow one another, as a linker leaves them.

    Raises:
        FormatError: the streams are damaged, or give another number of bytes.
    """
    _check_claim(size, len(data) * MAXIMUM_RATIO)
    pieces: list[bytes] = []
    left = size
    while len(data):
        stream = inflate.decompressobj()
        try:
            # One byte more than is allowed shows that there is more; 0 would mean no limit.
            piece = stream.decompress(data, left + 1)
        except (zlib.error, inflate.error) as error:
            raise FormatError(f"the compressed data is damaged ({error})") from None
        left = _take(pieces, piece, left, size)
        if not stream.eof:
            raise FormatError("the compressed data is cut short")
        data = data[len(data) - len(stream.unused_data) :]
    return _result(pieces, left, size)


def expand_zstd(data: memoryview, size: int) -> bytes:
    """Exactly ``size`` bytes from one Zstandard frame or several.

    Raises:
        FormatError: the frames are damaged, or give another number of bytes.
        DependencyError: neither Python 3.14's ``compression.zstd`` nor ``zstandard`` is there.
    """
    _check_claim(size, len(data) * MAXIMUM_RATIO + ZSTD_ALLOWANCE)
    pieces: list[bytes] = []
    left = size
    reader, damaged = _zstd_reader(data)
    try:
        while piece := reader.read(min(left + 1, STEP)):
            left = _take(pieces, piece, left, size)
    except damaged as error:
        raise FormatError(f"the compressed data is damaged ({error})") from None
    return _result(pieces, left, size)


def _check_claim(size: int, limit: int) -> None:
    if size > min(limit, MAXIMUM_SIZE):
        raise FormatError(f"the stated size of {size} bytes is out of proportion to the compressed data")


def _take(pieces: list[bytes], piece: bytes, left: int, size: int) -> int:
    if len(piece) > left:
        raise FormatError(f"the compressed data gives more than the stated {size} bytes")
    pieces.append(piece)
    return left - len(piece)


def _result(pieces: list[bytes], left: int, size: int) -> bytes:
    if left:
        raise FormatError(f"the compressed data gives {size - left} bytes instead of the stated {size}")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _zstd_reader(data: memoryview) -> tuple[Any, tuple[type[Exception], ...]]:
    """A file-like object over all frames, and what it raises for damaged ones."""
    try:
        module = importlib.import_module("compression.zstd")  # Python 3.14
    except ImportError:
        pass
    else:
        return module.ZstdFile(io.BytesIO(data)), (module.ZstdError, EOFError)
    try:
        module = importlib.import_module("zstandard")
    except ImportError:
        raise DependencyError(
            "the section is compressed with Zstandard, which this Python cannot read", hint="pip install 'clew[zstd]'"
        ) from None
    return module.ZstdDecompressor().stream_reader(data, read_across_frames=True), (module.ZstdError,)
