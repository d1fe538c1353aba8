"""The recording that ``script`` and ``report`` read: a file, or standard input; and what is told of what was not found."""

from __future__ import annotations

import os
import stat
import tempfile
from posixpath import basename
from typing import TYPE_CHECKING

from clew.cli.output import advise, report, warn
from clew.cli.target import debug_directories, missing_file
from clew.errors import Error, FormatError, NotFoundError, UsageError

if TYPE_CHECKING:
    import argparse

    from clew.cli.script_frames import FrameBook
    from clew.cli.script_samples import SampleReader
    from clew.target.perfdata import PerfData

_USUAL = "perf.data"
_STANDARD_INPUT = "-"
_PIECE = 1 << 20


def name_of_input(options: argparse.Namespace) -> str:
    """The file that the options name. Where they name none, a pipe on standard input, or ``perf.data``, as perf has it.

    Raises:
        UsageError: they name two.
    """
    if options.input is not None and options.file is not None:
        raise UsageError("name one file")
    named = options.input or options.file
    if named:
        return str(named)
    try:
        piped = stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        piped = False
    return _STANDARD_INPUT if piped else _USUAL


def opened(options: argparse.Namespace) -> PerfData:
    """The recording. Raises as :func:`clew.target.open_perf_data`, and FormatError for a directory."""
    from clew.cli.walking import allow_many_files, check_places

    check_places(options)
    allow_many_files()
    path = options.target
    if path == _STANDARD_INPUT:
        data = _from_standard_input(options)
    elif os.path.isdir(path):
        raise FormatError(
            "this is a directory: recordings in directories, as of perf record --threads, are not read",
            file=path,
            hint="record into a file, without --threads",
        )
    elif not os.path.lexists(path):
        if options.input is None and options.file is None:
            raise NotFoundError(
                "there is no such file", file=path, hint="record one: perf record -g COMMAND, or name a file"
            )
        raise missing_file(path)
    else:
        data = _open(options, path)
    _check_exe(options, data)
    return data


def _open(options: argparse.Namespace, path: str) -> PerfData:
    from clew.target.perfdata import open_perf_data

    return open_perf_data(path, exe=options.exe, sysroot=options.sysroot, debug_dirs=debug_directories(options))


def _from_standard_input(options: argparse.Namespace) -> PerfData:
    """What comes on standard input, which is kept in a file without a name: it is gone through twice."""
    if os.isatty(0):
        raise UsageError("standard input is a terminal", hint="perf record -o - COMMAND | clew script -i -")
    name = "standard input"
    try:
        with tempfile.NamedTemporaryFile(prefix="clew-") as copy:
            while piece := os.read(0, _PIECE):
                copy.write(piece)
            copy.flush()
            try:
                data = _open(options, copy.name)
            except Error as error:
                if error.file == copy.name:
                    error.file = name
                raise
    except OSError as error:
        raise Error(f"it cannot be kept in a temporary file: {error.strerror}", file=name) from None
    data.name = name
    return data


def _check_exe(options: argparse.Namespace, data: PerfData) -> None:
    """Warns where the file that the user names stands for none."""
    if options.exe is None:
        return
    name = basename(options.exe)
    if not any(basename(each.path.removesuffix(" (deleted)")) == name for each in data.history.mappings()):
        warn(f"--exe {options.exe}: nothing of the name {name!r} was loaded in the recording; it is not used")


def tell_problems(file: str, book: FrameBook, data: PerfData) -> int:
    """Prints what is wrong with a recording, and what to do about files that were not found.

    Returns:
        as :func:`clew.cli.output.report`.
    """
    code = report(file, data.problems)
    if book.missing:
        where = "FILE" if file == _STANDARD_INPUT else file
        advise(
            f"`clew doctor {where}` says where files were looked for; --exe, --sysroot or --debug-dir says where they are"
        )
    return code


def tell_unmatched(reader: SampleReader) -> None:
    """Warns of names and numbers that the user gave, and no sample has."""
    for option, given, there in reader.unmatched():
        few = [*there[:8], *(["…"] if len(there) > 8 else [])]
        warn(f"no sample is of {option} {','.join(given)}: there {_are(there)} {', '.join(few) or 'none'}")


def _are(there: list[str]) -> str:
    return "is" if len(there) < 2 else "are"
