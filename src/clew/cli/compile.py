"""``clew compile``: an unwind table as code, or as a packed table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.cli.output import add_json, add_section, print_json, printable, problems_json, report
from clew.cli.target import open_target
from clew.errors import Error, NotFoundError, UsageError
from clew.image.elf import ET_REL

if TYPE_CHECKING:
    from clew.image import Image
    from clew.table import Table
    from clew.write.compiled import Plan

DESCRIPTION = """\
Makes what undoes a frame faster than a table can: a shared object with one function, which takes
the registers of a frame and gives those of its caller.

  asm     machine code for x86-64, at once and without a compiler
  c       C, compiled with $CC or cc: a tree of comparisons
  packed  no code: the table as one piece of memory, looked up in place; without -o and --out it
          goes into the cache, where libclew-unwind and clew's own walkers look for it

  clew compile --backend asm --out unwinders /lib/x86_64-linux-gnu/libc.so.6
  clew compile --backend c --source /bin/ls
"""


@dataclass(frozen=True, slots=True)
class Made:
    """What was made of a file.

    Attributes:
        data: the object, or the source.
        plan: what was compiled; None of a packed table.
        size: bytes of code and tables; None of a source.
    """

    data: bytes
    plan: Plan | None = None
    size: int | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", metavar="FILE", help="a program or a shared object")
    parser.add_argument("--backend", choices=("c", "asm", "packed"), required=True, help="what to make")
    parser.add_argument(
        "--abi",
        choices=("full", "paper"),
        default="full",
        help="full: every integer register (the default); paper: rip, rsp, rbp and rbx, as eh_elfs have them",
    )
    parser.add_argument(
        "--deref", action="store_true", help="memory is loaded by a function that is passed: for other address spaces"
    )
    parser.add_argument(
        "--switch",
        action="store_true",
        help="with --backend c: a case for each row, not a tree, which takes compilers minutes",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-o", "--output", metavar="OUT", help="the file to write (default: beside FILE; a packed table: the cache)"
    )
    where.add_argument("--out", metavar="DIR", help="write DIR/PATH/OF/FILE, with an index by build id")
    parser.add_argument("--source", action="store_true", help="the source instead: on standard output, or to -o OUT")
    add_section(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    _check(options)
    image = open_target(options.file).image
    from clew.read.frames import read_table

    if image.type == ET_REL:
        raise UsageError(
            "the addresses of an object file mean nothing before it is linked",
            file=options.file,
            hint="compile the program or library that it goes into",
        )
    path = _path(options, image)
    table = read_table(image, options.section)
    made = _make(options, image, table)
    if path is None:
        if options.json:
            raise UsageError("--json and --source both want standard output", hint="write the source to -o OUT")
        sys.stdout.flush()
        sys.stdout.buffer.write(made.data)
        sys.stdout.buffer.flush()
    else:
        _put(options, image, made, path)
    problems = [*image.problems, *table.problems, *table.invalid_expressions()]
    if options.json:
        print_json(_document(options, image, table, made, path, problems_json(problems)))
    elif path is not None:
        print(f"{printable(str(path))}: {_summary(image, made)}")
    return report(options.file, problems, table.lost)


def _check(options: argparse.Namespace) -> None:
    """Raises UsageError where options do not go together."""
    if options.switch and options.backend != "c":
        raise UsageError("--switch goes with --backend c")
    if options.backend == "packed":
        for name in ("deref", "source"):
            if getattr(options, name):
                raise UsageError(f"--{name} does not go with --backend packed: there is no code")
        if options.abi != "full":
            raise UsageError("a packed table has every register: --abi is for code")
    if options.source and options.out is not None:
        raise UsageError("--source goes with -o OUT, or to standard output")


def _path(options: argparse.Namespace, image: Image) -> Path | None:
    """Where to write; None for standard output.

    Raises:
        Error: nothing can be written there, which is worth knowing before the work is done.
    """
    from clew.write.compiled.files import place_of, suffix, writable

    if options.source and options.output in (None, "-"):
        return None
    if options.output == "-":
        raise UsageError("only a source goes to standard output", hint="name a file, with -o OUT")
    if options.output is not None:
        path = Path(options.output)
        if not path.parent.is_dir():
            raise NotFoundError("there is no such directory", file=str(path.parent), hint="check the path of -o")
        if path.exists() and os.path.samefile(path, options.file):
            what = "source" if options.source else "object"
            raise UsageError(f"the {what} would take the place of the file that it is made of", file=options.output)
        return path
    if options.backend == "packed" and options.out is None:
        from clew.write.packed import table_path

        if options.section is not None:
            raise UsageError("the cache holds whole tables, not that of a section", hint="name a file, with -o OUT")
        if not image.build_id:
            raise UsageError(
                "the cache is by build id, and the file has none", file=options.file, hint="name a file, with -o OUT"
            )
        return table_path(image.build_id)
    path = place_of(options.file, options.out, suffix(options.backend, options.abi, options.deref))
    if not writable(path):
        beside = "" if options.out else " beside the file"
        hint = None if options.out else "name a place, with -o OUT or --out DIR"
        raise Error(f"nothing can be written{beside}", file=str(path.parent), hint=hint)
    return path


def _make(options: argparse.Namespace, image: Image, table: Table) -> Made:
    """The object or the source of a table."""
    if options.backend == "packed":
        from clew.write.packed import packed

        data = packed(table, image)
        return Made(data, None, len(data))
    from clew.write.compiled import Information, abi_of, plan

    abi = abi_of(table.machine, options.abi)
    what = plan(table, abi)
    information = Information.of(abi, image.e_machine, options.deref, what.base, what.end, image.build_id)
    if options.backend == "asm":
        from clew.write.assembler import assemble, shared_object

        assembled = assemble(what, information, deref=options.deref)
        if options.source:
            return Made(_bytes(assembled.text()), what)
        return Made(shared_object(assembled), what, assembled.size)
    from clew.write.c import build, source

    lines = source(what, information, name=image.name, deref=options.deref, switch=options.switch)
    if options.source:
        return Made(_bytes(lines), what)
    data = build(lines, table.machine)
    return Made(data, what, _size(data))


def _bytes(lines: Iterable[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("ascii")


def _size(data: bytes) -> int:
    """Bytes of code and tables in a shared object."""
    from clew.image import Image

    with Image.from_bytes(data) as image:
        sections = (image.section(name) for name in (".text", ".rodata"))
        return sum(section.size for section in sections if section is not None)


def _put(options: argparse.Namespace, image: Image, made: Made, path: Path) -> None:
    """Writes what was made and, in a directory, the link by build id."""
    from clew.write.compiled.files import index_place, put, put_link, suffix

    if path.exists() and not path.is_file():
        # A pipe or a device is written as it is.
        try:
            path.write_bytes(made.data)
        except OSError as error:
            raise Error(f"cannot be written: {error.strerror}", file=str(path)) from None
        return
    put(made.data, path)
    if options.out is not None:
        link = index_place(options.out, image.build_id, suffix(options.backend, options.abi, options.deref))
        if link is not None:
            put_link(link, path)


def _frames_size(image: Image) -> int | None:
    """Bytes of the section that was compiled, where it has a name."""
    section = image.section(".eh_frame")
    return section.size if section is not None and section.has_data and section.size else None


def _summary(image: Image, made: Made) -> str:
    """What was made, in a line."""
    parts = [f"{made.size if made.size is not None else len(made.data):,} bytes"]
    frames = _frames_size(image)
    if made.size is not None and frames:
        parts[0] += f" ({made.size / frames:.2f} of .eh_frame)"
    if made.plan is not None:
        parts.append(f"{len(made.plan.start):,} leaves")
        parts.append(f"{len(made.plan.bodies):,} bodies")
    return ", ".join(parts)


def _document(
    options: argparse.Namespace,
    image: Image,
    table: Table,
    made: Made,
    path: Path | None,
    problems: list[dict[str, Any]],
) -> dict[str, Any]:
    values = {
        "file": options.file,
        "machine": table.machine.name,
        "build_id": None if image.build_id is None else image.build_id.hex(),
        "backend": options.backend,
        "abi": None if options.backend == "packed" else options.abi,
        "deref": None if options.backend == "packed" else options.deref,
        "output": None if path is None else str(path),
        "size": made.size,
        "eh_frame_size": _frames_size(image),
        "leaves": None if made.plan is None else len(made.plan.start),
        "bodies": None if made.plan is None else len(made.plan.bodies),
        "problems": problems,
    }
    return {key: value for key, value in values.items() if value is not None}
