"""What ``addr2line`` takes for an address: a hexadecimal number, or a symbol and how far into it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from clew.cli.symbolize_names import gnu_demangled
from clew.image.elf import SHN_UNDEF, STT_FILE

if TYPE_CHECKING:
    from clew.image import SymbolTable
    from clew.symbols import Symbolizer

UNKNOWN = -1
"""The address of a symbol that is not there."""

_BLOCK = 1 << 20
_HIGHEST = (1 << 64) - 1
#: Lines of up to 99 characters; what is longer is several lines to addr2line.
_LINES = re.compile(rb"[^\n]{0,98}\n|[^\n]{99}")
_PLAIN = re.compile(rb"(?:(?:0[xX])?[0-9a-fA-F]{1,16}\n)*")
_NUMBER = re.compile(rb"(?:0[xX](?=[0-9a-fA-F]))?([0-9a-fA-F]*)")
_SYMBOL = re.compile(rb"([^ \t\n\v\f\r+]*)[ \t\n\v\f\r]*(?:\+[ \t\n\v\f\r]*(0[xX][0-9a-fA-F]+|[0-9]+))?")
_SPACE = b" \t\n\v\f\r"
#: Names that are remembered, and symbols that are demangled to find a name.
_MOST_NAMES = 1 << 16
_MOST_DEMANGLED = 200_000


class AddressReader:
    """Reads addresses of a file.

    Args:
        symbols: the file's.
    """

    def __init__(self, symbols: Symbolizer) -> None:
        self._symbols = symbols
        self._known: dict[bytes, int] = {}

    def blocks(self, source: BinaryIO) -> Iterator[list[int]]:
        """The addresses in a stream, one a line, as many at once as there are without waiting."""
        rest = b""
        while block := source.read1(_BLOCK):  # type: ignore[attr-defined]
            data = rest + block
            end = data.rfind(b"\n") + 1
            if _PLAIN.fullmatch(data, 0, end):
                found = [int(line, 16) for line in data[:end].split()]
            else:
                found, end = [], 0
                for line in _LINES.finditer(data):
                    found.append(self.address(line[0]))
                    end = line.end()
            rest = data[end:]
            if found:
                yield found
        if rest:
            yield [self.address(rest)]

    def address(self, text: bytes) -> int:
        """The address that a text stands for. What is neither number nor symbol is :data:`UNKNOWN`, as a symbol that is not
        there; an empty text is 0."""
        text = text.partition(b"\0")[0].lstrip(_SPACE)
        first = text[:1]
        if not first or first.isdigit() or (first in b"abcdefABCDEF" and b"+" not in text):
            found = _NUMBER.match(text)
            digits = found[1] if found is not None else b""
            return min(int(digits, 16), _HIGHEST) if digits else 0
        parts = _SYMBOL.match(text)
        assert parts is not None
        start = self._known.get(parts[1])
        if start is None:
            if len(self._known) >= _MOST_NAMES:
                self._known.clear()
            start = self._known[parts[1]] = self._find(parts[1])
        return UNKNOWN if start == UNKNOWN else (start + _offset(parts[2])) & _HIGHEST

    def _find(self, name: bytes) -> int:
        """The address of the first symbol of a name, or else of a name as people write it."""
        if not name:
            # A table mostly begins with a symbol that has neither name nor address.
            return 0
        for table in self._symbols.tables:
            for index in table.find(name):
                if _is_place(table, index):
                    return int(table.address[index])
        return self._demangled.get(name.decode("utf-8", "backslashreplace"), UNKNOWN)

    @cached_property
    def _demangled(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for table in self._symbols.tables:
            for index in _mangled(table):
                found.setdefault(gnu_demangled(table.name(index)), int(table.address[index]))
        return found


def _mangled(table: SymbolTable) -> list[int]:
    first = range(min(len(table), _MOST_DEMANGLED))
    return [index for index in first if table.name_bytes(index).startswith(b"_Z") and _is_place(table, index)]


def _is_place(table: SymbolTable, index: int) -> bool:
    return bool(table.shndx[index] != SHN_UNDEF and table.type[index] != STT_FILE)


def _offset(text: bytes | None) -> int:
    """A number as C writes it: decimal, hexadecimal with 0x, octal with 0."""
    if not text:
        return 0
    if text[:2] in (b"0x", b"0X"):
        return min(int(text, 16), _HIGHEST)
    if text[0] == ord("0"):
        octal = re.match(rb"[0-7]*", text)
        assert octal is not None
        return min(int(octal[0], 8), _HIGHEST)
    # What is longer is too large anyhow, and Python reads only numbers of some thousand digits.
    return min(int(text[:40]), _HIGHEST)
