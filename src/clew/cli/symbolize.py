"""``clew symbolize``: functions, files and lines of addresses, as ``addr2line`` prints them."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from clew._version import __version__
from clew.cli.output import add_json, complain, print_json, problems_json, report, warn
from clew.cli.target import add_debug_dir, debug_directories, missing_file
from clew.errors import Error, NotFoundError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew.cli.symbolize_answers import Answers
    from clew.cli.symbolize_input import AddressReader
    from clew.symbols import SourceFrame, Symbolizer

#: The file that compilers write when nobody names another, and that addr2line reads.
_DEFAULT = "a.out"

DESCRIPTION = """\
Prints which functions, files and lines addresses of a file are, in the words of addr2line: its
options, its output, and its exit codes (0, also for what is unknown; 1 for a file that cannot be
read). Addresses are hexadecimal, or FUNCTION+OFFSET; without any they are read from standard
input, one a line, and each is answered at once. The debugging information is looked for where it
is installed (see `clew doctor`), split DWARF and debuginfod included.

  clew symbolize -e /usr/bin/python3.11 -fip 0x4fa0b5
  clew symbolize -e a.out --json 1139 1145
"""

ANYWHERE = "addresses"
"""These stand before, between and behind options."""

#: The styles of addr2line. They choose between manglings, which differ anyhow.
_STYLES = ("auto", "gnu-v3", "java", "gnat", "dlang", "rust")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "addresses", metavar="ADDRESS", nargs="*", help="hexadecimal, with or without 0x, or FUNCTION+OFFSET"
    )
    parser.add_argument("-e", "--exe", metavar="FILE", default=_DEFAULT, help="the file that they are in (a.out)")
    parser.add_argument("-a", "--addresses", dest="show", action="store_true", help="print each address, too")
    parser.add_argument("-f", "--functions", action="store_true", help="print names of functions")
    parser.add_argument("-i", "--inlines", action="store_true", help="print also what the code was inlined into")
    parser.add_argument(
        "-C", "--demangle", action="store_true", help="names as people write them; =none for as they stand in the file"
    )
    parser.add_argument("-p", "--pretty-print", action="store_true", help="one line for each function")
    parser.add_argument("-s", "--basenames", action="store_true", help="files without their directories")
    parser.add_argument("-j", "--section", metavar="NAME", help="addresses are offsets in this section")
    add_debug_dir(parser, "where else debug files are installed")
    add_json(parser)
    parser.add_argument("-v", "--version", action="version", version=f"clew {__version__}")
    # Found out rather than told: what kind of file it is, and how deep names nest.
    hidden = argparse.SUPPRESS
    parser.add_argument("-b", "--target", help=hidden)
    parser.add_argument("-r", "-R", "--recurse-limit", "--no-recurse-limit", action="store_true", help=hidden)
    # An optional value would take the first address.
    styles = [f"--demangle={style}" for style in _STYLES]
    parser.add_argument(*styles, dest="demangle", action="store_true", help=hidden)
    parser.add_argument("--demangle=none", dest="demangle", action="store_false", help=hidden)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    try:
        with _open(options) as symbols:
            _print(options, symbols)
    except Error as error:
        complain(error)
        # addr2line's code for all that goes wrong.
        return 1
    return 0


def _print(options: argparse.Namespace, symbols: Symbolizer) -> None:
    from clew.cli.symbolize_input import AddressReader

    answers = _answers(options, symbols)
    blocks = _blocks(options.addresses, AddressReader(symbols))
    if options.json:
        _print_json(options, answers, [address for block in blocks for address in block])
    else:
        for block in blocks:
            sys.stdout.write(answers.text(block))
            sys.stdout.flush()
    for sentence in symbols.missing:
        warn(f"{options.exe}: {sentence}")
    report(options.exe, [*symbols.image.problems, *symbols.problems])


def _open(options: argparse.Namespace) -> Symbolizer:
    from clew.symbols import Places, Symbolizer

    places = Places.default(debug_directories(options))
    try:
        return Symbolizer.open(options.exe, places=places, discriminators=True)
    except NotFoundError:
        error = missing_file(options.exe)
        if options.exe == _DEFAULT:
            error.hint = "name the file with -e: clew symbolize -e FILE ADDRESS"
        raise error from None


def _answers(options: argparse.Namespace, symbols: Symbolizer) -> Answers:
    from clew.cli.symbolize_answers import Answers
    from clew.cli.symbolize_text import Form

    form = Form(
        addresses=options.show,
        functions=options.functions,
        inlines=options.inlines,
        demangle=options.demangle,
        pretty=options.pretty_print,
        basenames=options.basenames,
        digits=symbols.image.elf_class // 4,
    )
    return Answers(symbols, form, options.section)


def _blocks(addresses: list[str], reader: AddressReader) -> Iterable[list[int]]:
    """The addresses that are asked for, as they come."""
    if addresses:
        return [[reader.address(os.fsencode(each)) for each in addresses]]
    return reader.blocks(sys.stdin.buffer) if sys.stdin is not None else []


def _print_json(options: argparse.Namespace, answers: Answers, addresses: list[int]) -> None:
    document: dict[str, Any] = {"file": options.exe}
    image = answers.symbols.image
    if image.build_id is not None:
        document["build_id"] = image.build_id.hex()
    document["addresses"] = [
        {"address": f"{max(address, 0):#x}", "frames": [_frame_json(frame) for frame in frames]}
        for address, frames in zip(addresses, answers.frames(addresses), strict=True)
    ]
    missing = [Problem(sentence, lost=False) for sentence in answers.symbols.missing]
    print_json(document | {"problems": problems_json([*missing, *image.problems, *answers.symbols.problems])})


def _frame_json(frame: SourceFrame) -> dict[str, Any]:
    """A frame, with the keys of ``clew stack --json``."""
    out: dict[str, Any] = {"inlined": frame.inlined}
    if frame.function is not None:
        out["function"] = frame.function
        if frame.demangled != frame.function:
            out["demangled"] = frame.demangled
    if frame.offset is not None:
        out["function_offset"] = f"{frame.offset:#x}"
    if frame.file:
        out["file"] = frame.file
    if frame.line:
        out["line"] = frame.line
    if frame.discriminator:
        out["discriminator"] = frame.discriminator
    return out
