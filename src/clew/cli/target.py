"""What a command is pointed at: a file, or a module of a running process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import PAGESIZE
from typing import TYPE_CHECKING

from clew.errors import NotFoundError, UsageError
from clew.image import Image
from clew.image.elf import PF_X, PT_LOAD

if TYPE_CHECKING:
    import argparse

    from clew.memory import Mapping

#: What the kernel adds to the path of a mapped file that was removed or replaced (proc(5)).
_DELETED = " (deleted)"
_VDSO = "[vdso]"

#: The most that is read of a module out of a process's memory.
_MOST_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Target:
    """A binary file, and how far its addresses are from those that the user names.

    Attributes:
        image: the file.
        name: how to call it.
        bias: what to subtract from a user's address to get the file's own.
    """

    image: Image
    name: str
    bias: int = 0


def add_target(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """The ``FILE`` and ``--pid`` arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs=nargs,
        help="an ELF file; with --pid, a loaded module: its path or part of its name ([vdso])",
    )
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="look in this running process; addresses that you name are then its own"
    )


def open_target(file: str, pid: int | None = None) -> Target:
    """The file, or the module of the process that has this path or name, or else the only one whose path contains it.

    Raises:
        NotFoundError: no such file, process or module. UsageError: several modules. Others: as :meth:`Image.open`.
    """
    if pid is None:
        try:
            return Target(Image.open(file), file)
        except NotFoundError:
            raise missing_file(file) from None
    from clew.memory import process_mappings

    mappings = process_mappings(pid)
    modules = list(dict.fromkeys(m.path for m in mappings if _is_module(m)))
    matches = [path for path in modules if file in (path, os.path.basename(path))]
    matches = matches or [path for path in modules if file in path]
    if not matches:
        names = sorted(os.path.basename(path) for path in modules)
        raise NotFoundError(f"process {pid} has no module {file!r}", hint=f"it has {', '.join(names[:12])}")
    if len(matches) > 1:
        raise UsageError(f"process {pid} has several modules {file!r}", hint=f"name one of {', '.join(matches)}")
    return _of_mapping(pid, next(m for m in mappings if m.path == matches[0]), mappings)


def missing_file(path: str) -> NotFoundError:
    """The error for a file that does not exist; the hint names some that are called nearly so."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        close = get_close_matches(name, os.listdir(folder or "."), 3)
    except (OSError, ValueError):
        close = []
    hint = f"did you mean {', '.join(os.path.join(folder, each) for each in close)}?" if close else "check the path"
    return NotFoundError("there is no such file", file=path, hint=hint)


def module_at(pid: int, address: int) -> Target:
    """The module of a process that an address is in. Raises NotFoundError when there is none."""
    from clew.memory import process_mappings

    mappings = process_mappings(pid)
    for mapping in mappings:
        if address in mapping:
            if _is_module(mapping):
                return _of_mapping(pid, mapping, mappings)
            what = mapping.path or "anonymous memory"
            raise NotFoundError(f"{address:#x} of process {pid} is in {what}, not in a module")
    raise NotFoundError(f"{address:#x} is not mapped in process {pid}")


def _is_module(mapping: Mapping) -> bool:
    return mapping.path == _VDSO or mapping.path.startswith("/")


def _of_mapping(pid: int, mapping: Mapping, mappings: Sequence[Mapping]) -> Target:
    """The module that a mapping is part of."""
    path = mapping.path
    ours = [each for each in mappings if each.path == path]
    # A file may also be mapped to be read, as this program does it: where its code is, it is loaded.
    code = mapping if mapping.executable else next((m for m in ours if m.executable and m.end > mapping.start), mapping)
    if path == _VDSO or path.endswith(_DELETED):
        # No file, or none any more: what is at the path now, if anything, may be another version.
        from clew.memory import ProcessMemory

        head = next((each for each in reversed(ours) if each.offset == 0 and each.start <= code.start), code)
        with ProcessMemory(pid) as memory:
            image = Image.from_memory(memory, head.start, path, _MOST_BYTES)
        return Target(image, path, image.load_bias or 0)
    # Through the process's root, for in a container its path means another file.
    image = Image.open(f"/proc/{pid}/root{path}")
    for segment in image.segments:
        # The kernel maps whole pages, so the mapping may begin before the segment does.
        low = segment.offset - segment.offset % PAGESIZE
        alike = segment.type == PT_LOAD and bool(segment.flags & PF_X) == code.executable
        if alike and low <= code.offset < segment.offset + segment.file_size:
            return Target(image, path, code.start - (segment.address + code.offset - segment.offset))
    raise NotFoundError(f"no segment of it is where process {pid} has it mapped", file=path)
