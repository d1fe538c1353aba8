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
from dataclasses import dataclass
from functools import cached_property

from clew.errors import Problem
from clew.native.dwarf_files import FileBook
from clew.native.dwarf_line_tables import LineTables

SECTION = ".debug_line"

Bytes = bytes | bytearray | memoryview


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

    @cached_property
    def _book(self) -> FileBook:
        """What reads them, for all readers of DWARF."""
        own = self.sections
        book = FileBook(own.line, own.strings, own.line_str, own.str_offsets, own.supplementary, own.big)
        # What cannot be an offset is one beyond the section.
        offset = min(max(self.offset, 0), len(own.line))
        book.open(offset, self.comp_dir, self.name, self.str_offsets_base, tuple(self.defined))
        return book

    @property
    def tables(self) -> LineTables:
        """The tables as they stand in the header, names unread. Indices count from 0 in every version."""
        return self._book.tables

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
        stated = self._book.directories()
        return stated if self.version >= 5 else [self.comp_dir, *stated]

    @property
    def file_numbers(self) -> range:
        """The numbers that files have: from 0 on in version 5, from 1 on before."""
        return range(0 if self.version >= 5 else 1, self._book.limit)

    def file_path(self, number: int) -> str | None:
        """The path of a file by its number in a row, in ``DW_AT_decl_file`` or in ``DW_AT_call_file``.

        It is put together as binutils' addr2line does it: the name if it is absolute; else its directory before it; else
        the compilation's directory before that. From version 5 on directory 0 is the compilation's own; where that is
        relative, it comes twice, as addr2line, llvm-symbolizer and symbolic all have it. Neither ``.`` nor ``..`` is
        resolved. A Windows path is absolute too.

        Before version 5, number 0 stands for no file in a row, and is the unit itself here. None where there is no such
        file, or no readable name.
        """
        return self._book.path(number)
