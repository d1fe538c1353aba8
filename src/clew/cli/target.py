"""What a command is pointed at: a file, or a module of a running process; and where its debug files are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.errors import FormatError, NotFoundError, UsageError
from clew.image import Image

if TYPE_CHECKING:
    import argparse

    from clew.target import Module


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
        except FormatError:
            from clew.read.packed import names_packed

            if not names_packed(file):
                raise
            hint = "clew diff FILE TABLE compares one with the file that it is of"
            raise FormatError("this is a packed table, not an ELF file", file=file, hint=hint) from None
    from clew.target import open_process

    with open_process(pid, stop=False) as process:
        by_path = {module.name: module for module in reversed(process.modules)}
        modules = sorted(by_path, key=lambda path: by_path[path].start)
        matches = [path for path in modules if file in (path, os.path.basename(path))]
        matches = matches or [path for path in modules if file in path]
        if not matches:
            names = sorted(os.path.basename(path) for path in modules)
            raise NotFoundError(f"process {pid} has no module {file!r}", hint=f"it has {', '.join(names[:12])}")
        if len(matches) > 1:
            raise UsageError(f"process {pid} has several modules {file!r}", hint=f"name one of {', '.join(matches)}")
        return _of_module(by_path[matches[0]])


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
    from clew.target import open_process

    with open_process(pid, stop=False) as process:
        module = process.modules.at(address)
        if module is not None:
            return _of_module(module)
    for mapping in process_mappings(pid):
        if address in mapping:
            what = mapping.path or "anonymous memory"
            raise NotFoundError(f"{address:#x} of process {pid} is in {what}, not in a module")
    raise NotFoundError(f"{address:#x} is not mapped in process {pid}")


def _of_module(module: Module) -> Target:
    """A module, while its process is open: what has no file is read from memory."""
    image = module.image
    if image is None:
        raise module.trouble or NotFoundError("its file was not found", file=module.name)
    return Target(image, module.name, module.bias)


def add_debug_dir(parser: argparse.ArgumentParser, purpose: str) -> None:
    """The ``--debug-dir`` option.

    Args:
        purpose: what is looked for there, as its help.
    """
    parser.add_argument("--debug-dir", metavar="DIR", action="append", default=[], help=f"{purpose} (may be repeated)")


def debug_directories(options: argparse.Namespace) -> list[str]:
    """The directories that the user names, without slashes at the end. Raises NotFoundError where one is not there."""
    for directory in options.debug_dir:
        check_directory("--debug-dir", directory)
    return [directory.rstrip("/") or "/" for directory in options.debug_dir]


def check_directory(option: str, directory: str | None) -> None:
    """Raises NotFoundError where what an option names is no directory."""
    if directory is not None and not os.path.isdir(directory):
        raise NotFoundError(f"{option} names no directory", file=directory, hint="check the path")
