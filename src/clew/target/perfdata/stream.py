"""The records of a file, one run after another: from its windows, and out of compressed records."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.arch import ByteOrder
from clew.errors import DependencyError, Problem
from clew.native.perf_records import BROKEN, STOPPED, Splitter
from clew.target.perfdata.records import COMPRESSED, COMPRESSED2
from clew.target.perfdata.windows import Windows

ROOM = 4096
"""How many samples one run has at most."""

_PIECE = 1 << 10
"""How many compressed bytes are expanded at once: Zstandard makes at most 128 KiB out of four (RFC 8878, 3.1.1.2)."""

_RATIO = 1 << 12
"""How many bytes one compressed byte may stand for. Stacks that are mostly zero come near a thousand."""

_RATIO_ALLOWANCE = 1 << 26

Columns = dict[str, npt.NDArray[np.generic]]


@dataclass(slots=True)
class Run:
    """Some records that follow one another.

    Attributes:
        buffer: the bytes that hold them.
        samples, records: the columns of :class:`clew.native.perf_records.Splitter`.
        position: what to add to an offset in the buffer for a number that rises over the whole file; where nothing is
            compressed, it makes an offset in the file.
    """

    buffer: memoryview
    samples: Columns
    records: Columns
    position: int


class Records:
    """Goes through the records of a file, as often as asked.

    Args:
        windows: the file.
        begin, end: where its records are.
        order: its byte order.
        report: told about what is damaged. Offsets are those in the file where the records are not compressed.
    """

    def __init__(
        self, windows: Windows, begin: int, end: int, order: ByteOrder, report: Callable[[Problem], None]
    ) -> None:
        self.windows = windows
        self.begin = begin
        self.end = end
        self.order: ByteOrder = order
        self.report = report

    def runs(self, splitter: Splitter) -> Iterator[Run]:
        """All runs. The splitter has to stop at compressed records.

        Raises:
            DependencyError: there are compressed records, and no library for them.
            Error: the file cannot be read.
        """
        position = self.begin
        expander: _Expander | None = None
        # Bytes that came out of compressed records beyond those that went in, so that positions rise.
        excess = 0
        while position < self.end:
            window = self.windows.window(position, self.end)
            at = 0
            while True:
                stop = splitter.split(window, at, len(window))
                yield from self._run(splitter, window, position + excess)
                at = splitter.at
                if stop == STOPPED:
                    size = int.from_bytes(window[at + 6 : at + 8], self.order)
                    expander = expander or _Expander()
                    for data in expander.expand(_payload(window, at, size, self.order), self.report, position + at):
                        yield from self._inner(splitter, expander, data, position + at + excess)
                        excess += len(data)
                    at += size
                elif stop not in (0, BROKEN):
                    continue
                else:
                    break
            if stop == BROKEN:
                self.report(Problem("a record has an impossible size; what follows is left out", offset=position + at))
                break
            if at == 0:
                self.report(Problem("the last record is cut short", offset=position))
                break
            position += at
        if expander is not None and expander.left:
            self.report(Problem("the last compressed record is cut short", offset=position))
        splitter.release()

    def _run(self, splitter: Splitter, buffer: memoryview, position: int) -> Iterator[Run]:
        if splitter.unknown:
            self.report(Problem("samples of an event that the file does not describe are left out"))
        for offset, message in splitter.problems:
            self.report(Problem(message, offset=position + offset))
        if splitter.sample_count or splitter.record_count:
            samples, records = splitter.columns()
            yield Run(buffer, samples, records, position)

    def _inner(self, splitter: Splitter, expander: _Expander, data: bytes, position: int) -> Iterator[Run]:
        """The records in what was expanded, after what was left over from before."""
        if expander.damaged:
            return
        position -= len(expander.left)
        buffer = memoryview(expander.left + data)
        at = 0
        while True:
            stop = splitter.split(buffer, at, len(buffer))
            yield from self._run(splitter, buffer, position)
            at = splitter.at
            if stop not in (0, BROKEN, STOPPED):
                continue
            break
        expander.left = bytes(buffer[at:])
        if stop in (BROKEN, STOPPED) or len(expander.left) >= 1 << 16:
            self.report(Problem("what is compressed holds a record of an impossible size", offset=position + at))
            expander.damaged, expander.left = True, b""


def _payload(window: memoryview, at: int, size: int, order: ByteOrder) -> bytes:
    """The compressed bytes of a record. A COMPRESSED2 says how many they are, and is padded."""
    kind = int.from_bytes(window[at : at + 4], order)
    if kind == COMPRESSED2:
        length = int.from_bytes(window[at + 8 : at + 16], order) if size >= 16 else 0
        return bytes(window[at + 16 : at + min(size, 16 + length)])
    return bytes(window[at + 8 : at + size]) if kind == COMPRESSED else b""


class _Expander:
    """Expands compressed records, which are one Zstandard stream that is flushed after each.

    Attributes:
        left: the beginning of a record whose rest comes out of the next.
        damaged: whether nothing more can be made of it.
    """

    def __init__(self) -> None:
        self.left = b""
        self.damaged = False
        self._room = _RATIO_ALLOWANCE
        self._make, self._errors = _zstd()
        self._stream = self._make()

    def expand(self, data: bytes, report: Callable[[Problem], None], offset: int) -> Iterator[bytes]:
        """What the bytes give, piece by piece."""
        for at in range(0, len(data), _PIECE):
            if self.damaged:
                return
            try:
                if self._stream.eof:
                    self._stream = self._make()
                made = self._stream.decompress(data[at : at + _PIECE])
            except self._errors as error:
                report(Problem(f"compressed records are damaged ({error}); they are left out", offset=offset))
                self.damaged = True
                return
            self._room += _RATIO * _PIECE - len(made)
            if self._room < 0:
                report(Problem("compressed records expand absurdly; the last of them are left out", offset=offset))
                self.damaged = True
                return
            if made:
                yield made


def _zstd() -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    """What makes a stream that expands bytes as they come, and what that raises where they are damaged."""
    module: Any
    try:
        module = importlib.import_module("compression.zstd")  # Python 3.14
    except ImportError:
        pass
    else:
        return module.ZstdDecompressor, (module.ZstdError, EOFError)
    try:
        module = importlib.import_module("zstandard")
    except ImportError:
        raise DependencyError(
            "the records are compressed with Zstandard, which this Python cannot read", hint="pip install 'clew[zstd]'"
        ) from None
    return lambda: module.ZstdDecompressor().decompressobj(), (module.ZstdError,)
