"""Where an image's bytes come from: a mapped file, bytes at hand, or the memory of another process.

An image asks for a run of file offsets and gets a view of what is there. A run is never longer than asked for, may be
shorter, and is empty where nothing is.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import sys
from bisect import bisect_right

from clew.errors import Error, FormatError, NotFoundError, UsageError

MAXIMUM_UNMAPPED = 1 << 28
"""The largest file that is read into memory where the file system cannot map it, as in ``/proc`` and ``/sys``."""


class Source:
    """The bytes of a file, by offset.

    Attributes:
        name: what the file is called in messages.
        size: the file's size in bytes.
        ranges: the runs of offsets that are there, ``(start, end)`` in order, or None when all are.
    """

    __slots__ = ("_map", "_ranges", "_view", "name", "size")

    def __init__(
        self,
        name: str,
        view: memoryview,
        *,
        mapping: mmap.mmap | None = None,
        ranges: list[tuple[int, int]] | None = None,
    ) -> None:
        self.name = name
        self.size = len(view)
        self._view: memoryview | None = view
        self._map = mapping
        self._ranges = ranges

    def slice(self, offset: int, size: int) -> memoryview:
        """The bytes from ``offset`` on, at most ``size`` of them: as many as are there without a gap.

        Raises:
            UsageError: the image was closed.
        """
        if self._view is None:
            raise UsageError("the image is closed", file=self.name)
        if offset < 0 or size <= 0:
            return self._view[:0]
        end = min(offset + size, self.size)
        if self._ranges is not None:
            index = bisect_right(self._ranges, (offset, self.size + 1)) - 1
            end = min(end, self._ranges[index][1]) if index >= 0 else 0
        return self._view[offset : max(offset, end)]

    def release(self, offset: int = 0, size: int | None = None) -> None:
        """Let the pages of a mapped file go that are not needed for now: they come back when somebody looks at them."""
        advise = getattr(self._map, "madvise", None)
        first = offset + -offset % mmap.PAGESIZE
        last = self.size if size is None else min(offset + size, self.size)
        if advise is not None and first < last:
            with contextlib.suppress(OSError, ValueError):
                advise(mmap.MADV_DONTNEED, first, last - first)

    def close(self) -> None:
        """Let go of the file. Views handed out before stay valid, and keep the mapping alive until they are gone."""
        self._view = None
        if self._map is not None:
            # While somebody still holds a view, the mapping stays, and goes with the last one.
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None


def from_bytes(data: bytes | bytearray | memoryview | mmap.mmap, name: str) -> Source:
    """A source of the bytes at hand; they are not copied."""
    view = memoryview(data)
    if not view.c_contiguous:
        view = memoryview(view.tobytes())
    return Source(name, view.cast("B").toreadonly())


def from_file(path: str | os.PathLike[str]) -> Source:
    """A source that maps a regular file, read-only.

    The mapping follows the file: one that shrinks while it is mapped takes its pages away, and touching those ends the
    process. Copy a file that is being written, or read it into bytes.

    Raises:
        NotFoundError: there is no such file.
        FormatError: it is empty, or no regular file.
        Error: it may not be read.
    """
    name, descriptor, size = open_file(path)
    try:
        return _from_descriptor(name, descriptor, size)
    except OSError as error:
        raise Error(f"cannot read the file: {error.strerror}", file=name) from None
    finally:
        os.close(descriptor)


def open_file(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    """The name of a regular file, a descriptor, which is the caller's to close, and the size. Raises as :func:`from_file`."""
    name = os.fsdecode(path)
    try:
        # A FIFO without a writer would otherwise block here for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _open_error(name, error) from None
    except ValueError:
        raise NotFoundError("a file name cannot hold a null character", file=name.replace("\0", "\\0")) from None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return name, descriptor, status.st_size
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise FormatError("this is a directory", file=name, hint="name one of the files in it")
    raise FormatError("this is not a regular file", file=name, hint="copy its contents to a file first")


def map_file(descriptor: int, size: int, offset: int = 0) -> mmap.mmap | None:
    """A part of a file, mapped read-only; None where it cannot be mapped, as on some file systems.

    The descriptor can be closed. Before Python 3.13 the mapping has one of its own for as long as it lives.

    Args:
        offset: a multiple of ``mmap.ALLOCATIONGRANULARITY``.
    """
    try:
        if sys.version_info >= (3, 13):
            return mmap.mmap(descriptor, size, prot=mmap.PROT_READ, offset=offset, trackfd=False)
        return mmap.mmap(descriptor, size, prot=mmap.PROT_READ, offset=offset)
    except (OSError, ValueError, OverflowError):
        return None


def first_bytes(path: str | os.PathLike[str], size: int) -> bytes:
    """At most so many bytes from the beginning of a regular file; none where it cannot be read: whoever opens it says why."""
    try:
        _, descriptor, _ = open_file(path)
    except Error:
        return b""
    try:
        return os.read(descriptor, size)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _from_descriptor(name: str, descriptor: int, size: int) -> Source:
    mapping = map_file(descriptor, size) if size else None
    if mapping is not None:
        return Source(name, memoryview(mapping), mapping=mapping)
    pieces: list[bytes] = []
    total = 0
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
        total += len(piece)
        if total > MAXIMUM_UNMAPPED:
            raise FormatError("this file cannot be mapped and is too large to be read", file=name)
    if not total:
        raise FormatError("the file is empty", file=name)
    return Source(name, memoryview(b"".join(pieces)))


def _open_error(name: str, error: OSError) -> Error:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFoundError("there is no such file", file=name, hint="check the path")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Error("this user may not read the file", file=name, hint="check its permissions with `ls -l`")
    full = error.errno in (errno.EMFILE, errno.ENFILE)
    hint = "raise the number of files that may be open, with `ulimit -n`" if full else None
    return Error(f"cannot open the file: {error.strerror}", file=name, hint=hint)
