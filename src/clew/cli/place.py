"""A place in a target: an address, or a function and how far into it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.cli.target import Target
from clew.errors import NotFoundError, UsageError
from clew.image import Image
from clew.image.elf import SHN_UNDEF, STT_NOTYPE

if TYPE_CHECKING:
    from clew.read.dwarf_cfi import CfiSection

# Without 0x there must be a digit: what is all letters, such as add or face, is rather a name.
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]+|[a-fA-F]*[0-9][0-9a-fA-F]*")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,16}")
_DISTANCE = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+", re.ASCII)

#: Names that are compared with a name that is not there; more would take too long.
_MOST_NAMES = 200_000


def parse_address(text: str) -> int | None:
    """A hexadecimal address of at most 64 bits, with or without 0x, or None where the text is none.

    >>> parse_address("0x3fc80"), parse_address("3fc80"), parse_address("face"), parse_address("qsort")
    (261248, 261248, None, None)
    """
    number = int(text, 16) if _ADDRESS.fullmatch(text) else None
    return number if number is not None and number < 1 << 64 else None


def find_functions(image: Image, name: str) -> list[tuple[int, int]]:
    """Address and size of every function of this name: local ones may share it. Sorted, none twice.

    Raises:
        NotFoundError: there is none; the hint names some that sound like it.
        UsageError: the name is empty.
    """
    if not name:
        raise UsageError(
            "the name of a function is missing", hint="write an address such as 0x1234, or a function's name"
        )
    symbols = image.symbols()
    defined = [index for index in symbols.find(name) if symbols.shndx[index] != SHN_UNDEF]
    # What assembler code does not declare to be a function may be one.
    code = [i for i in defined if symbols.is_code[i]] or [i for i in defined if symbols.type[i] == STT_NOTYPE]
    found = {int(symbols.address[index]): int(symbols.size[index]) for index in code}
    if found:
        return sorted(found.items())
    tables = symbols, image.symbols("dynsym")
    if any(table.shndx[index] == SHN_UNDEF for table in tables for index in table.find(name)):
        message = f"the function {name!r} is used in this file, and defined in another"
        raise NotFoundError(message, file=image.name, hint="name the library that has it")
    names = symbols.names(symbols.functions()[:_MOST_NAMES].tolist())
    close: list[str] = []
    if names:
        from difflib import get_close_matches

        close = get_close_matches(name, names, 3) or [other for other in names if name in other][:3]
    if close:
        hint = f"did you mean {', '.join(dict.fromkeys(close))}?"
    elif _HEXADECIMAL.fullmatch(name):
        hint = f"for an address write 0x{name}"
    else:
        hint = "`nm -C` lists what it has" if names else "it has no function symbols; give an address instead"
    raise NotFoundError(f"there is no function {name!r}", file=image.name, hint=hint)


def find_place(target: Target, text: str) -> int:
    """The file's own address that ``ADDRESS``, ``FUNCTION`` or ``FUNCTION+OFFSET`` names.

    The offset is decimal, or hexadecimal with 0x. A function that is called like a number, or has a plus in its name, goes
    before the number and the sum.

    Raises:
        NotFoundError: there is no such function, or the address is not in the target.
        UsageError: it is none of these, or several functions have the name.
    """
    if target.image.symbols().find(text):
        return _only_function(target, text)
    address = parse_address(text)
    if address is not None:
        if address < target.bias:
            raise NotFoundError(f"{address:#x} is not in {target.name}, which is loaded from {target.bias:#x} on")
        return address - target.bias
    base, _, offset = text.rpartition("+")
    if base and _DISTANCE.fullmatch(offset):
        place = find_place(target, base) + int(offset, 16 if offset[1:2] in ("x", "X") else 10)
        if place < 1 << 64:
            return place
    if text[:1].isdecimal():
        raise UsageError(f"{text!r} is no address", hint="write up to 16 hexadecimal digits, or FUNCTION+0x10")
    return _only_function(target, text)


def _only_function(target: Target, name: str) -> int:
    found = find_functions(target.image, name)
    if len(found) > 1:
        addresses = ", ".join(f"{address + target.bias:#x}" for address, _ in found[:8])
        raise UsageError(
            f"{len(found)} functions are called {name!r}", file=target.name, hint=f"give one's address: {addresses}"
        )
    return found[0][0]


def place_name(target: Target, address: int) -> str | None:
    """The function that holds an address and how far into it that is, as ``name+0x…``, or None."""
    symbols = target.image.symbols()
    found = symbols.at(address)
    if found is None:
        return None
    return symbols.name(found[0]) + (f"+{found[1]:#x}" if found[1] else "")


def not_covered(target: Target, sections: Sequence[CfiSection], address: int) -> NotFoundError:
    """The error for an address (the file's own) that no unwind table covers; the hint names the nearest function."""
    from clew.read.dwarf_cfi.origins import nearest_fde

    message = f"no unwind table covers {address + target.bias:#x}"
    if target.bias:
        message += f", which is {address:#x} in the file"
    if any(section.problems for section in sections):
        message += "; but some entries cannot be read, and what they cover is not known"
    near = nearest_fde(sections, address)
    hint = None
    if near is not None:
        name = place_name(target, near.start)
        start, stop = near.start + target.bias, near.stop + target.bias
        hint = f"the nearest function that has a table is {f'{name}, ' if name else 'at '}{start:#x}..{stop:#x}"
    return NotFoundError(message, file=target.name, hint=hint)
