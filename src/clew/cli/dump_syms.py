"""``clew dump-syms``: Breakpad symbol files of binaries."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from clew.cli.output import counted, printable, report, warn
from clew.cli.pool import add_jobs, process_pool
from clew.cli.progress import progress
from clew.cli.target import add_debug_dir, debug_directories, missing_file
from clew.errors import Error, Problem, UsageError

if TYPE_CHECKING:
    from clew.symbols import Places, Symbolizer
    from clew.write.breakpad.dump import Dump

DESCRIPTION = """\
Writes what a crash reporter needs to know of a binary: functions, source lines, inlined calls,
symbols of the linker, and how to unwind at each instruction. The debugging information is looked
for where it is installed (see `clew doctor`).

  clew dump-syms /usr/bin/python3.11 -o python3.11.sym
  clew dump-syms --store symbols /usr/lib/x86_64-linux-gnu/lib*.so.*
"""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one file.

    Attributes:
        path: the binary.
        problems: what was wrong with it.
        missing: what of its debugging information was not found, in sentences.
        unsaid: what the format cannot say, likewise.
        error: why there is no symbol file; None where there is one.
    """

    path: str
    problems: tuple[Problem, ...] = ()
    missing: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to be written, and where."""

    output: str | None
    store: str | None
    inlines: bool
    cfi: bool
    machine: str | None
    places: Places


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="a program, a shared object, or a debug file")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", metavar="OUT", help="the symbol file (default: standard output)")
    where.add_argument("--store", metavar="DIR", help="write DIR/NAME/ID/NAME.sym, where symbol stores have it")
    parser.add_argument("--no-inlines", action="store_true", help="leave out inlined calls")
    parser.add_argument("--no-cfi", action="store_true", help="leave out the unwind table")
    parser.add_argument("--arch", metavar="NAME", help="what to call the machine, such as x86_64 or arm64")
    add_debug_dir(parser, "where else debug files are installed")
    add_jobs(parser, "share the work")


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if len(options.files) > 1 and options.store is None:
        raise UsageError("several files need a directory for theirs", hint="write them to a store, with --store DIR")
    if options.arch is not None and (not options.arch or options.arch.split() != [options.arch]):
        raise UsageError(f"{options.arch!r} is no name of a machine: it has blanks", hint="such as x86_64")
    if len(options.files) == 1 and not os.path.lexists(options.files[0]):
        raise missing_file(options.files[0])
    from clew.symbols.debug_places import Places

    wishes = Wishes(
        options.output,
        options.store,
        not options.no_inlines,
        not options.no_cfi,
        options.arch,
        Places.default(debug_directories(options)),
    )
    files = list(dict.fromkeys(options.files))
    code = 0
    if len(files) == 1:
        with progress("units", None) as advance:
            # Of one file, why it cannot be read is an error and no finding.
            written = _dump(files[0], wishes, advance, options.jobs or len(os.sched_getaffinity(0)))
        return _tell(written)
    with progress("files", len(files)) as advance:
        for done, written in enumerate(_all(files, wishes, options.jobs), 1):
            code = max(code, _tell(written))
            advance(done)
    return code


def _all(files: list[str], wishes: Wishes, jobs: int | None) -> Iterator[Written]:
    """What became of several files, in their order."""
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(files))
    if jobs == 1:
        yield from (_write(path, wishes) for path in files)
        return
    with process_pool(jobs) as pool:
        yield from pool.map(_write, files, [wishes] * len(files))


def _write(path: str, wishes: Wishes) -> Written:
    """Writes the symbol file of one of several files."""
    try:
        return _dump(path, wishes, lambda done: None)
    except Error as error:
        return Written(path, error=str(error) + (f"; {error.hint}" if error.hint else ""))


def _dump(path: str, wishes: Wishes, advance: Callable[[int], None], processes: int = 1) -> Written:
    """Writes the symbol file of a file."""
    from clew.symbols.symbolizer import Symbolizer
    from clew.write.breakpad.dump import dump_symbols

    with Symbolizer.open(path, places=wishes.places) as symbolizer:
        missing = tuple(symbolizer.missing)
        _keep_inputs(wishes.output, symbolizer)
        dump = dump_symbols(
            symbolizer,
            inlines=wishes.inlines,
            cfi=wishes.cfi,
            machine=wishes.machine,
            progress=advance,
            processes=processes,
        )
        _put(dump, wishes)
    unsaid = () if dump.cfi is None else dump.cfi.unsaid
    sentences = (f"{counted(each.rows, 'row')}: {each.reason}, first at {each.examples[0]:#x}" for each in unsaid)
    return Written(path, dump.problems, missing, tuple(f"what STACK CFI cannot say of {each}" for each in sentences))


def _keep_inputs(output: str | None, symbolizer: Symbolizer) -> None:
    """Refuses to write over a file that is read."""
    if output is None or not os.path.exists(output):
        return
    for image in (symbolizer.image, symbolizer.files.symbols, symbolizer.files.dwarf, symbolizer.files.alternate):
        if image is not None and os.path.exists(image.name) and os.path.samefile(image.name, output):
            raise UsageError("the symbol file would take the place of a file that it is made of", file=output)


def _put(dump: Dump, wishes: Wishes) -> None:
    """Writes a symbol file to where it is wanted."""
    if wishes.store is not None:
        path = _stored(wishes.store, dump)
        os.makedirs(os.path.dirname(path), exist_ok=True)
    elif wishes.output is not None and wishes.output != "-":
        path = wishes.output
    else:
        sys.stdout.flush()
        for piece in dump.text():
            sys.stdout.buffer.write(piece)
        return
    with _replaced(path) as stream:
        for piece in dump.text():
            stream.write(piece)


def _stored(store: str, dump: Dump) -> str:
    """Where in a store a symbol file belongs."""
    from clew.symbols.symbol_store import symbol_file_name

    names = symbol_file_name(dump.module.name)
    if names is None:
        raise Error(f"no store can have a module of the name {dump.module.name!r}", hint="write it to a file, with -o")
    return os.path.join(store, names[0], dump.module.id, names[1])


@contextmanager
def _replaced(path: str) -> Iterator[BinaryIO]:
    """A file to write, which takes its name when all of it is there: nobody finds half a symbol file."""
    if os.path.lexists(path) and not os.path.isfile(path):
        # A pipe or a device is written as it is.
        try:
            with open(path, "wb") as stream:
                yield stream
        except OSError as error:
            raise Error(f"cannot write the symbol file: {error.strerror}", file=path) from None
        return
    there = os.path.realpath(path)
    part = f"{there}.{os.getpid()}.part"
    try:
        with _nameless(os.path.dirname(there)) or open(part, "wb") as stream:
            yield stream
            stream.flush()
            if not os.path.lexists(part):
                # Only with a directory's descriptor, of which the path has no need, does this follow the link.
                os.link(f"/proc/self/fd/{stream.fileno()}", part, src_dir_fd=stream.fileno())
        os.replace(part, there)
    except OSError as error:
        raise Error(f"cannot write the symbol file: {error.strerror}", file=path) from None
    finally:
        if os.path.lexists(part):
            os.unlink(part)


def _nameless(directory: str) -> BinaryIO | None:
    """A file without a name, of which nothing is left when the program is ended; None where there is no such thing."""
    try:
        return open(os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666), "wb")
    except OSError:
        return None


def _tell(written: Written) -> int:
    """Tells what was wrong with one file; the exit code."""
    if written.error is not None:
        warn(written.error)
        return 1
    code = report(written.path, written.problems)
    for sentence in (*written.missing, *written.unsaid):
        warn(f"{printable(written.path)}: {sentence}")
    return code
