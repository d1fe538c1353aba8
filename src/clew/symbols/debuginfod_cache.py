"""The directory where debuginfod's clients keep what servers sent, shared with those of elfutils.

    CACHE/BUILDID/debuginfo                the debug file
    CACHE/BUILDID/executable               the program or library
    CACHE/BUILDID/source##usr##src##a.c    a source file: / is written ##, and # is written #_
    CACHE/cache_clean_interval_s           seconds between cleanings; when it was last changed, the last one was
    CACHE/max_unused_age_s                 seconds that a file is kept after it was used last
    CACHE/cache_miss_s                     seconds for which an empty file says that no server has the file

Of debuginfod-client-config(7), and of what ``debuginfod-find`` of elfutils 0.188 writes.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from clew.image.source import first_bytes

#: Control files, and what they say where they are not there.
_CLEAN_INTERVAL = ("cache_clean_interval_s", 86_400)
_MAXIMUM_AGE = ("max_unused_age_s", 604_800)
_MISS = ("cache_miss_s", 600)

_FOLDER = re.compile(r"[a-f0-9]+")
#: Also what a download left behind that was killed.
_KEPT = re.compile(r"(debuginfo|executable)(\.[^.]{6,8})?|(source|section).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of debuginfod.

    Attributes:
        directory: where it is. It is made when there is something to keep.
    """

    directory: str

    def place(self, build_id: bytes, kind: str, source: str | None = None) -> str:
        """Where a file is kept.

        Args:
            kind: ``debuginfo``, ``executable`` or ``source``.
            source: the path of a source file.
        """
        suffix = "" if source is None else source.replace("#", "#_").replace("/", "##")
        return os.path.join(self.directory, build_id.hex(), kind + suffix)

    def missing_for(self, path: str) -> float | None:
        """For how many seconds more no server is asked for a file again; None where one may be asked."""
        try:
            status = os.lstat(path)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(status.st_mode) or status.st_size:
            return None
        left = status.st_mtime + self._number(*_MISS) - time.time()
        # A time to come is one of another clock.
        return left if 0 <= left <= self._number(*_MISS) else None

    def set_missing(self, path: str) -> None:
        """Remember that no server has a file."""
        with suppress(OSError):
            if os.path.lexists(path) and not os.lstat(path).st_size:
                os.unlink(path)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))

    def make(self, path: str) -> None:
        """Makes the directory that a file is kept in, and the file that says when the cache was cleaned last.

        Raises:
            OSError: it cannot be written.
        """
        os.makedirs(self.directory, exist_ok=True)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        name, default = _CLEAN_INTERVAL
        with suppress(OSError), open(os.path.join(self.directory, name), "x") as control:
            control.write(f"{default}")

    @contextmanager
    def incoming(self, path: str) -> Iterator[Incoming]:
        """A file of another name beside the one at ``path``, which takes its place when it is kept, and goes otherwise.

        Whoever reads the cache sees the whole file or none, whatever ends this program, and whoever else writes it.

        Raises:
            OSError: it cannot be written.
        """
        descriptor, name = tempfile.mkstemp(prefix=f"{os.path.basename(path)[:200]}.", dir=os.path.dirname(path))
        file = Incoming(name, path, descriptor)
        try:
            yield file
        finally:
            with suppress(OSError):
                os.close(descriptor)
            if not file.kept:
                with suppress(OSError):
                    os.unlink(name)

    def used(self, path: str) -> None:
        """Remember that a file was used now; file systems may be told not to do so themselves."""
        with suppress(OSError):
            os.utime(path, ns=(time.time_ns(), os.stat(path).st_mtime_ns))

    def clean(self) -> None:
        """Removes what was not used for long, if it is time to. What cannot be removed stays."""
        control = os.path.join(self.directory, _CLEAN_INTERVAL[0])
        try:
            if time.time() - os.stat(control).st_mtime < self._number(*_CLEAN_INTERVAL):
                return
            # First, so that of several programs one cleans.
            os.utime(control)
            folders = [entry for entry in os.scandir(self.directory) if _FOLDER.fullmatch(entry.name)]
        except OSError:
            return
        oldest = time.time() - self._number(*_MAXIMUM_AGE)
        for folder in folders:
            with suppress(OSError):
                if not folder.is_dir(follow_symlinks=False) or folder.is_symlink():
                    continue
                for entry in os.scandir(folder.path):
                    if _KEPT.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_atime < oldest:
                        os.unlink(entry.path)
                if folder.stat(follow_symlinks=False).st_mtime < oldest:
                    os.rmdir(folder.path)

    def _number(self, name: str, default: int) -> int:
        text = first_bytes(os.path.join(self.directory, name), 32).strip()
        return int(text) if re.fullmatch(rb"[0-9]{1,18}", text) else default


@dataclass(slots=True)
class Incoming:
    """A file on its way into the cache.

    Attributes:
        path: what it is called until it is kept.
        place: what it is called then.
        kept: whether it was.
    """

    path: str
    place: str
    _descriptor: int
    kept: bool = False
    size: int = 0

    def write(self, data: bytes) -> None:
        """Appends. Raises OSError where there is no room."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self.size += len(data)

    def clear(self) -> None:
        """Forgets what was written."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.size = 0

    def keep(self) -> None:
        """Puts it in its place. Raises OSError where that cannot be."""
        os.fchmod(self._descriptor, 0o400)
        os.rename(self.path, self.place)
        self.kept = True
