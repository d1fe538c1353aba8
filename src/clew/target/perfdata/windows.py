"""The file through sliding windows, so that one of any size takes little memory."""

from __future__ import annotations

import mmap
import os

from clew.errors import Error
from clew.image.source import map_file, open_file

WINDOW = 1 << 25
"""How many bytes of the file are mapped at once."""


class Windows:
    """A file, of which one part after another is mapped.

    The mapping follows the file: do not cut it short while it is read.

    Attributes:
        name: the file's name.
        size: its size when it was opened.

    Raises:
        NotFoundError: there is no such file.
        FormatError: it is no regular file.
        Error: it may not be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = -1
        self.name, self._descriptor, self.size = open_file(path)

    def read(self, offset: int, size: int) -> bytes:
        """A copy of up to ``size`` bytes: those that are there."""
        size = min(size, self.size - offset)
        if offset < 0 or size <= 0 or self._descriptor < 0:
            return b""
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise Error(f"the file cannot be read: {error.strerror}", file=self.name, offset=offset) from None

    def window(self, offset: int, end: int) -> memoryview:
        """The bytes from ``offset`` up to ``end``, at most :data:`WINDOW`. They stay valid as long as somebody has them.

        Raises:
            Error: the file was closed, or cannot be read.
        """
        if self._descriptor < 0:
            raise Error("the file is closed", file=self.name)
        slack = offset % mmap.ALLOCATIONGRANULARITY
        size = min(end, self.size) - offset
        size = min(size, WINDOW)
        if size <= 0:
            return memoryview(b"")
        mapping = map_file(self._descriptor, size + slack, offset - slack)
        return memoryview(mapping)[slack:] if mapping is not None else memoryview(self.read(offset, size))

    def close(self) -> None:
        """Let go of the file; windows that were handed out stay valid."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()
