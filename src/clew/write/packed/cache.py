"""Packed tables kept by build id, for every program of this user to map: ``$XDG_CACHE_HOME/clew/tables``.

A file is written beside its place and then moved there, which the file system does at once: who reads sees a whole table or
none, and of several writers the last one counts; they write the same.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import tempfile
from pathlib import Path

from clew.errors import Error
from clew.image import Image
from clew.read.frames import machine_of, read_table
from clew.read.packed import PackedTable
from clew.read.packed.checksum import source_of
from clew.table import Table
from clew.write.packed.table import packed

SUFFIX = ".packed"


def cache_directory() -> Path:
    """Where packed tables are kept (XDG Base Directory Specification: ``~/.cache`` unless ``XDG_CACHE_HOME`` is absolute).

    Raises:
        Error: there is no such place: the user has no home directory, or one that depends on where a program is started.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        raise Error("there is no place for packed tables: the user has no home directory", hint="set XDG_CACHE_HOME")
    return Path(base) / "clew" / "tables"


def table_path(build_id: bytes, directory: Path | None = None) -> Path:
    """The file of the table of the file with this build id. Raises as :func:`cache_directory` does.

    >>> table_path(bytes.fromhex("0123456789"), Path("tables")).as_posix()
    'tables/01/23456789.packed'
    """
    name = build_id.hex()
    return (cache_directory() if directory is None else directory) / name[:2] / f"{name[2:]}{SUFFIX}"


def find(build_id: bytes, directory: Path | None = None, *, check: bool = True) -> PackedTable | None:
    """The table in the cache, mapped; None if it is not there, or is not sound and has to be made anew.

    Nor is one taken that somebody else may have written: a check makes it harmless, not true.

    ``check`` as for :class:`clew.read.packed.PackedTable`.
    """
    try:
        path = table_path(build_id, directory)
        # Not to wait for who writes into a pipe.
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(number, "rb"):
            if not _trusted(os.fstat(number)):
                return None
            data = mmap.mmap(number, 0, access=mmap.ACCESS_READ)
        table = PackedTable(memoryview(data), str(path), check=check)
    except (OSError, ValueError, Error):
        return None
    return table if table.build_id == build_id[:32] else None


def _trusted(status: os.stat_result) -> bool:
    """Whether a file is one that only this user, or root, can have written."""
    mine = status.st_uid in (os.geteuid(), 0)
    return mine and stat.S_ISREG(status.st_mode) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def store(data: bytes, build_id: bytes, directory: Path | None = None) -> Path:
    """Keeps a table; the path of its file.

    Raises:
        Error: the file system does not let it.
    """
    path = table_path(build_id, directory)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with open(number, "wb") as file:
            file.write(data)
        # Nothing in it is secret, and other users' programs may be told to look here.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise Error(f"the packed table cannot be kept: {error.strerror}", file=str(path)) from None
    return path


def packed_table(
    image: Image, table: Table | None = None, directory: Path | None = None, *, check: bool = True
) -> PackedTable:
    """The packed table of a file: from the cache, or made and put there.

    A cache that cannot be written is no reason not to have the table.

    Args:
        image: the file.
        table: its unwind table, where it is at hand.
        directory: of the cache, if it is not the user's own.
        check: as for :class:`clew.read.packed.PackedTable`.

    Raises:
        NotFoundError: the file has no unwind table.
        UsageError: packed tables are not made for its machine.
        FormatError: its table is spread over more addresses than it has bytes.
    """
    build_id = image.build_id
    if build_id:
        kept = find(build_id, directory, check=check)
        # A file may claim another's build id, by accident or not.
        if kept is not None and kept.source == source_of(image) and kept.target.machine == machine_of(image):
            return kept
    data = packed(read_table(image) if table is None else table, image)
    if build_id:
        with contextlib.suppress(Error):
            store(data, build_id, directory)
    return PackedTable(data, image.name, check=False)
