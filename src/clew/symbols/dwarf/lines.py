"""The source files of a line number program: from the numbers in its rows to paths (DWARF 5, 6.2.4).

Rows themselves are read by :class:`clew.native.dwarf_lines.LineReader`. A header's tables are read when the first path is
asked for, and of their strings only those that the path needs.

>>> from clew.testing.dwarf_lines import LineProgramBuilder
>>> program = LineProgramBuilder(version=4, directories=["sub", "/usr/include"], files=[("a.c", 1), ("b.h", 2), ("c.c", 0)])
>>> header = LineHeader(LineSections(program.build()), 0, comp_dir="/src", name="a.c")
>>> [header.file_path(number) for number in range(5)]
['/src/a.c', '/src/sub/a.c', '/usr/include/b.h', '/src/c.c', None]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from clew.errors import Problem
from clew.native.cursor import Cursor, Malformed
from clew.native.dwarf_files import joined
from clew.native.dwarf_line_tables import INDEXED, INLINE, LINE_STR, NONE, STR, SUPPLEMENTARY, LineTables

SECTION = ".debug_line"

Bytes = bytes | bytearray | memoryview
Table = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint32]]


@dataclass(frozen=True, slots=True)
class LineSections:
    """The sections that headers of line programs are read from; one object serves all units of a file.

    Attributes:
        line: the bytes of ``.debug_line`` (or ``.debug_line.dwo``).
        line_str: of ``.debug_line_str``.
        strings: of ``.debug_str``.
        str_offsets: of ``.debug_str_offsets``.
        supplementary: of ``.debug_str`` of the supplementary file (``.gnu_debugaltlink``, ``.debug_sup``).
        big: whether numbers are big-endian.
    """

    line: Bytes
    line_str: Bytes = b""
    strings: Bytes = b""
    str_offsets: Bytes = b""
    supplementary: Bytes = b""
    big: bool = False
    _strings: dict[tuple[int, int], str | None] = field(default_factory=dict, repr=False, compare=False)

    def string(self, kind: int, number: int) -> str | None:
        """A string by what :mod:`clew.native.dwarf_line_tables` knows of it; None where there is none. Kept once read."""
        key = kind, number
        if key not in self._strings:
            self._strings[key] = _string(self._section(kind), number)
        return self._strings[key]

    def _section(self, kind: int) -> Bytes:
        sections = {INLINE: self.line, STR: self.strings, LINE_STR: self.line_str, SUPPLEMENTARY: self.supplementary}
        return sections.get(kind, b"")


class LineHeader:
    """The directories and files of one line program.

    Nothing is read before it is asked for, and nothing raised for what the sections hold: a file that has no readable name
    has no path, and ``problems`` says why the tables end early where they do.

    Args:
        sections: where it is read from.
        offset: where the program begins in ``.debug_line``.
        comp_dir, name: ``DW_AT_comp_dir`` and ``DW_AT_name`` of the unit.
        str_offsets_base: ``DW_AT_str_offsets_base`` of the unit, for names that are indices.
        defined: :attr:`~clew.native.dwarf_lines.LineRows.defined` of the program's rows: files it defines on its way.
    """

    def __init__(
        self,
        sections: LineSections,
        offset: int,
        *,
        comp_dir: str | None = None,
        name: str | None = None,
        str_offsets_base: int = 8,
        defined: Sequence[int] = (),
    ) -> None:
        self.sections = sections
        self.offset = offset
        self.comp_dir = comp_dir
        self.name = name
        self.str_offsets_base = str_offsets_base
        self.defined = defined
        self._tables: LineTables | None = None
        self._paths: dict[int, str | None] = {}

    @property
    def tables(self) -> LineTables:
        """The tables as they stand in the header, names unread. Indices count from 0 in every version."""
        if self._tables is None:
            # What cannot be an offset is one beyond the section.
            size = len(self.sections.line)
            self._tables = LineTables(self.sections.line, self.sections.big, min(max(self.offset, 0), size))
        return self._tables

    @cached_property
    def _directories(self) -> Table:
        return self.tables.directories

    @cached_property
    def _files(self) -> Table:
        return self.tables.files

    @property
    def version(self) -> int:
        """Of the line program; 0 where its header cannot be read."""
        return self.tables.version

    @property
    def problems(self) -> list[Problem]:
        """What is wrong with the tables."""
        error = self.tables.error
        return [] if error is None else [Problem(error, SECTION, self.offset)]

    @property
    def directories(self) -> list[str | None]:
        """The directories as the header names them, from index 0 on.

        From version 5 on the first is that of the compilation. Before it has none in the header, and here is ``comp_dir``.
        """
        stated = [self._directory(index) for index in range(len(self._directories[0]))]
        return stated if self.version >= 5 else [self.comp_dir, *stated]

    @property
    def file_numbers(self) -> range:
        """The numbers that files have: from 0 on in version 5, from 1 on before."""
        count = len(self._files[0])
        return range(count) if self.version >= 5 else range(1, count + len(self.defined) + 1)

    def file_path(self, number: int) -> str | None:
        """The path of a file by its number in a row, in ``DW_AT_decl_file`` or in ``DW_AT_call_file``.

        It is put together as binutils' addr2line does it: the name if it is absolute; else its directory before it; else
        the compilation's directory before that. From version 5 on directory 0 is the compilation's own; where that is
        relative, it comes twice, as addr2line, llvm-symbolizer and symbolic all have it. Neither ``.`` nor ``..`` is
        resolved. A Windows path is absolute too.

        Before version 5, number 0 stands for no file in a row, and is the unit itself here. None where there is no such
        file, or no readable name.
        """
        try:
            return self._paths[number]
        except KeyError:
            path = self._paths[number] = self._path(number)
            return path

    def _path(self, number: int) -> str | None:
        if self.version < 5:
            if number == 0:
                return joined(self.name, None, self.comp_dir)
            number -= 1
        kinds, numbers, directories = self._files
        if 0 <= number < len(kinds):
            name = self._name(int(kinds[number]), int(numbers[number]))
            directory = int(directories[number])
        elif self.version < 5 and 0 <= number - len(kinds) < len(self.defined):
            name, directory = self._definition(self.defined[number - len(kinds)])
        else:
            return None
        if self.version >= 5:
            return joined(name, self._directory(directory), self.comp_dir)
        return joined(name, self._directory(directory - 1) if directory else None, self.comp_dir)

    def _directory(self, index: int) -> str | None:
        kinds, numbers, _ = self._directories
        return self._name(int(kinds[index]), int(numbers[index])) if index < len(kinds) else None

    def _name(self, kind: int, number: int) -> str | None:
        if kind == NONE:
            return None
        if kind == INDEXED:
            width = self.tables.width
            reader = Cursor(self.sections.str_offsets, big=self.sections.big)
            try:
                reader.pos = self.str_offsets_base + number * width
                number = reader.read_fixed(width)
            except (Malformed, OverflowError):
                return None
            kind = STR
        return self.sections.string(kind, number)

    def _definition(self, offset: int) -> tuple[str | None, int]:
        """The name and directory of a file that ``DW_LNE_define_file`` defines, whose operands are at an offset."""
        name = self.sections.string(INLINE, offset)
        if name is None:
            return None, 0
        reader = Cursor(self.sections.line, offset)
        try:
            reader.pos = offset + len(name.encode("utf-8", "surrogateescape")) + 1
            return name, reader.read_uleb()
        except Malformed:
            return None, 0


def _string(data: Bytes, offset: int) -> str | None:
    """The string that begins at an offset; None where it does not end."""
    view = memoryview(data)
    step = 256
    while offset < len(view):
        piece = bytes(view[offset : offset + step])
        end = piece.find(0)
        if end >= 0:
            return piece[:end].decode("utf-8", "surrogateescape")
        if offset + step >= len(view):
            break
        step *= 4
    return None
