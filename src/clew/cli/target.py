"""What a command is pointed at: a file, or a module of a running process; and a place in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.errors import NotFoundError, UsageError
from clew.image import Image
from clew.image.elf import PT_LOAD

if TYPE_CHECKING:
    import argparse

    from clew.memory import Mapping

_NUMBER = re.compile(r"(0[xX])?[0-9a-fA-F]+")


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


def add_target(parser: argparse.ArgumentParser) -> None:
    """The ``FILE`` and ``--pid`` arguments."""
    parser.add_argument(
        "file", metavar="FILE", help="an ELF file; with --pid, part of the name of a loaded module ([vdso])"
    )
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="look in this running process; addresses are then its own"
    )


def open_target(file: str, pid: int | None = None) -> Target:
    """The file, or the module of the process whose path ends in or contains that name.

    Raises:
        NotFoundError: no such file, process or module. Others: as :meth:`clew.image.Image.open`.
    """
    if pid is None:
        return Target(Image.open(file), file)
    from clew.memory import process_mappings

    mappings = process_mappings(pid)
    paths = list(dict.fromkeys(m.path for m in mappings if m.path))
    matches = [path for path in paths if path == file or path.rsplit("/", 1)[-1] == file]
    matches = matches or [path for path in paths if file in path]
    if not matches:
        modules = sorted({path.rsplit("/", 1)[-1] for path in paths if path.startswith("/") or path == "[vdso]"})
        raise NotFoundError(f"process {pid} has no module {file!r}", hint=f"it has {', '.join(modules[:12])}")
    return _of_mapping(pid, next(m for m in mappings if m.path == matches[0]), mappings)


def module_at(pid: int, address: int) -> Target:
    """The module of a process that an address is in. Raises NotFoundError when there is none."""
    from clew.memory import process_mappings

    mappings = process_mappings(pid)
    for mapping in mappings:
        if address in mapping:
            if mapping.path == "[vdso]" or mapping.path.startswith("/"):
                return _of_mapping(pid, mapping, mappings)
            raise NotFoundError(
                f"{address:#x} of process {pid} is in {mapping.path or 'anonymous memory'}, not in a module"
            )
    raise NotFoundError(f"{address:#x} is not mapped in process {pid}")


def _of_mapping(pid: int, mapping: Mapping, mappings: list[Mapping]) -> Target:
    first = next(m for m in mappings if m.path == mapping.path)
    if mapping.path == "[vdso]":
        from clew.memory import ProcessMemory

        with ProcessMemory(pid) as memory:
            image = Image.from_memory(memory, first.start, "[vdso]")
        return Target(image, "[vdso]", image.load_bias or 0)
    # Through the process's root: its path may mean another file here (containers), or none any more.
    path = mapping.path.removesuffix(" (deleted)")
    image = Image.open(f"/proc/{pid}/root{path}")
    for candidate in mappings:
        if candidate.path != mapping.path:
            continue
        for segment in image.segments:
            low = segment.offset & ~0xFFF
            if segment.type == PT_LOAD and low <= candidate.offset < segment.offset + segment.file_size:
                linked = segment.address + candidate.offset - segment.offset
                return Target(image, path, candidate.start - linked)
    raise NotFoundError(f"no segment of it is where process {pid} has it mapped", file=path)


def parse_address(text: str) -> int | None:
    """A hexadecimal address, with or without 0x, or None where the text is no number."""
    return int(text, 16) if _NUMBER.fullmatch(text) else None


def find_function(image: Image, name: str) -> tuple[int, int]:
    """Address and size of a function.

    Raises:
        NotFoundError: the file has no such function; the hint names some that sound like it.
    """
    symbols = image.symbols()
    wanted = symbols.find(name)
    code = [index for index in wanted if bool(symbols.is_code[index])] or wanted
    if code:
        index = code[0]
        return int(symbols.address[index]), int(symbols.size[index])
    names = symbols.names(symbols.functions()[:200_000].tolist())
    from difflib import get_close_matches

    close = get_close_matches(name, names, 3) or [other for other in names if name in other][:3]
    hint = f"did you mean {', '.join(dict.fromkeys(close))}?" if close else None
    if not names:
        hint = "it has no function symbols; give an address instead"
    raise NotFoundError(f"there is no function {name!r}", file=image.name, hint=hint)


def find_place(target: Target, text: str) -> int:
    """The file's own address that ``ADDRESS``, ``FUNCTION`` or ``FUNCTION+OFFSET`` names.

    Raises:
        UsageError: the text is neither. NotFoundError: there is no such function.
    """
    name, plus, offset = text.rpartition("+")
    if plus:
        number = parse_address(offset) if offset.lower().startswith("0x") else int(offset) if offset.isdigit() else None
        if number is None:
            raise UsageError(f"{text!r} is no place", hint="write an address such as 0x1234, or FUNCTION+0x10")
        return find_function(target.image, name)[0] + number
    address = parse_address(text)
    # A name can look like a hexadecimal number, such as add; the number is meant only where no function has the name.
    if address is not None and (text[:1].isdigit() or not target.image.symbols().find(text)):
        if address < target.bias:
            raise NotFoundError(f"{address:#x} is not in {target.name}, which is loaded from {target.bias:#x} on")
        return address - target.bias
    return find_function(target.image, text)[0]
