"""Where compiled unwinders are: beside the file that they are of, or in a directory that mirrors the file system.

The directory has an index by build id, as the debug files of distributions do: ``.build-id/ab/cdef….clew-asm.so`` is a link to
the object. Files and links are written beside their place and then moved there, so that a reader sees a whole one or none, and
of several writers the last one counts.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from clew.errors import Error
from clew.image import Image
from clew.write.compiled.abi import FULL, INFORMATION, AbiName, Information

Backend = Literal["c", "asm", "packed"]


def suffix(backend: Backend, abi: AbiName = FULL, deref: bool = False) -> str:
    """What is added to a file's name.

    >>> suffix("asm"), suffix("c", "paper", True), suffix("packed")
    ('.clew-asm.so', '.clew-c-paper-deref.so', '.clew-packed')
    """
    if backend == "packed":
        return ".clew-packed"
    return f".clew-{backend}{'' if abi == FULL else f'-{abi}'}{'-deref' if deref else ''}.so"


def place_of(file: str | os.PathLike[str], directory: str | os.PathLike[str] | None, end: str) -> Path:
    """Where the object of a file belongs: beside it or, in a directory, at the file's own path, links resolved."""
    real = Path(os.path.realpath(file))
    name = real.name + end
    return real.with_name(name) if directory is None else Path(directory) / real.parent.relative_to("/") / name


def index_place(directory: str | os.PathLike[str], build_id: bytes | None, end: str) -> Path | None:
    """The link in a directory's index; None without a build id, or with one that no file can be named by."""
    if build_id is None or not 1 < len(build_id) <= 64:
        return None
    name = build_id.hex()
    return Path(directory) / ".build-id" / name[:2] / (name[2:] + end)


def put(data: bytes, path: Path) -> None:
    """Writes a file, which takes its name when all of it is there.

    Raises:
        Error: the file system does not let it.
    """

    def write(part: str) -> None:
        with open(part, "xb") as stream:
            stream.write(data)

    _moved(path, write)


def put_link(path: Path, target: Path) -> None:
    """Makes a link to a file, relative to where the link is.

    Raises:
        Error: the file system does not let it.
    """
    to = os.path.relpath(target, path.parent)
    _moved(path, lambda part: os.symlink(to, part))


def _moved(path: Path, make: Callable[[str], None]) -> None:
    """Makes something in a directory of its own beside a path, and moves it there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".clew-") as folder:
            part = os.path.join(folder, "part")
            make(part)
            os.replace(part, path)
    except OSError as error:
        hint = "name another place, with -o OUT or --out DIR"
        raise Error(f"cannot be written: {error.strerror}", file=str(path), hint=hint) from None


def read_information(path: str | os.PathLike[str]) -> Information | None:
    """What a compiled unwinder says of itself; None where the file is no such object."""
    try:
        with Image.open(path) as image:
            symbols = image.symbols("dynsym")
            for index in symbols.find(INFORMATION):
                data = image.bytes_at(int(symbols.value[index]), int(symbols.size[index]))
                found = None if data is None else Information.unpack(data)
                if found is not None:
                    return found
    except Error:
        pass
    return None


def find_compiled(
    directory: str | os.PathLike[str],
    build_id: bytes,
    *,
    abi: AbiName = FULL,
    deref: bool = False,
    backends: Iterable[Backend] = ("asm", "c"),
) -> Path | None:
    """The compiled unwinder of the file with this build id, or None.

    Args:
        directory: what ``clew compile --out`` was given.
        build_id: the file's. An object that says another one of itself is not taken.
        abi, deref: the interface that is wanted.
        backends: what may have made it, the best first.
    """
    for backend in backends:
        path = index_place(directory, build_id, suffix(backend, abi, deref))
        if path is None:
            continue
        if backend == "packed":
            if path.is_file():
                return path
            continue
        found = read_information(path)
        if found is not None and (found.build_id, found.abi, found.deref) == (build_id, int(abi != FULL), deref):
            return path
    return None


def writable(path: Path) -> bool:
    """Whether something can be put at a path, as far as can be told before the work is done."""
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    with contextlib.suppress(OSError):
        return os.access(folder, os.W_OK | os.X_OK)
    return False
