"""A target by its number or its file, whatever it is."""

from __future__ import annotations

import os
from collections.abc import Iterable

from clew.errors import UsageError
from clew.image.source import first_bytes
from clew.target.core import open_core
from clew.target.minidump import open_minidump
from clew.target.minidump.file import SIGNATURE
from clew.target.model import Target
from clew.target.module_files import Path
from clew.target.process import open_process

_MAXIMUM_DIGITS = 10


def open_target(
    spec: Path,
    *,
    exe: Path | None = None,
    sysroot: Path | None = None,
    debug_dirs: Iterable[Path] = (),
    stop: bool = True,
) -> Target:
    """The process of that number, or what a file holds: its contents tell which kind it is, not its name.

    Digits are a process; write ``./1234`` for a file of such a name.

    Args:
        exe, sysroot, debug_dirs: where the files of a core or minidump are, see :func:`clew.target.open_core`;
            ``debug_dirs`` is for processes too.
        stop: whether to hold a process; see :func:`clew.target.open_process`.

    Raises:
        UsageError: an option is given that makes no sense for a process.
        Others: as the functions that open each kind.
    """
    text = os.fsdecode(spec)
    if text.isascii() and text.isdigit() and len(text) <= _MAXIMUM_DIGITS:
        if exe is not None or sysroot is not None:
            raise UsageError("a process has its own files", hint="leave --exe and --sysroot out")
        return open_process(int(text), stop=stop, debug_dirs=debug_dirs)
    opener = open_minidump if first_bytes(text, len(SIGNATURE)) in (SIGNATURE, SIGNATURE[::-1]) else open_core
    return opener(spec, exe=exe, sysroot=sysroot, debug_dirs=debug_dirs)
