"""Breakpad symbol files: functions, lines, inlined calls and symbols as a map, and what the file says besides.

    with SymbolFile.open("xul.sym") as file:
        print(file.module.id, len(file.symbols.functions.address))
        for problem in file.problems:
            print(problem)

What is read leniently, and which record counts where some contradict each other, is said in
:mod:`clew.read.breakpad.records` and :mod:`clew.symbols.sym_map`.
"""

from __future__ import annotations

import os
from functools import cached_property
from types import TracebackType

from clew.errors import FormatError, Problem
from clew.image import source as sources
from clew.image.source import Source
from clew.read.breakpad.flaws import Flaws
from clew.read.breakpad.module import ModuleRecord
from clew.read.breakpad.records import CfiText, Records, StackWin, read_records
from clew.symbols.sym_map import symbol_map
from clew.symbols.symbol_map import SymbolMap


class SymbolFile:
    """A symbol file that has been read.

    The text is mapped; names are decoded, and records put in relation to each other, when they are asked for.

    Attributes:
        name: the file's name, or what the caller called the bytes.
        records: everything that it says, as it says it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.name = source.name
        self._flaws = Flaws()
        self.records: Records = read_records(source.slice(0, source.size), self._flaws)
        if not len(self.records):
            hint = "such a file begins with MODULE; `clew dump-syms` makes one of a program"
            raise FormatError("this is no Breakpad symbol file", file=self.name, hint=hint)

    @classmethod
    def open(cls, what: str | os.PathLike[str] | bytes | bytearray | memoryview, name: str = "<bytes>") -> SymbolFile:
        """The symbol file in a file, which is mapped, or in bytes, which are not copied.

        The mapping follows the file: do not cut a file short while it is in use.

        Args:
            what: a path, or the text itself.
            name: what to call bytes in messages.

        Raises:
            NotFoundError: there is no such file.
            FormatError: there is no record in it.
            Error: it may not be read.
        """
        if isinstance(what, (bytes, bytearray, memoryview)):
            return cls(sources.from_bytes(what, name))
        return cls(sources.from_file(what))

    def close(self) -> None:
        """Let go of the file. What was handed out stays valid."""
        self._source.close()

    def __enter__(self) -> SymbolFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SymbolFile({self.name!r}, {len(self.records):,} records)"

    @property
    def module(self) -> ModuleRecord | None:
        """What the file is about; None where it does not say."""
        return self.records.module

    @property
    def info(self) -> tuple[tuple[str, str], ...]:
        """The ``INFO`` records: keyword and the rest of the line."""
        return self.records.info

    @property
    def code_id(self) -> str | None:
        """The identifier of the code file (``INFO CODE_ID``), without the file's name that may follow it."""
        for keyword, rest in self.info:
            if keyword == "CODE_ID" and rest:
                return rest.split(" ", 1)[0]
        return None

    @cached_property
    def symbols(self) -> SymbolMap:
        """Functions with their lines and inlined calls, and symbols of the linker; addresses relative to the module."""
        return symbol_map(self.records, self._flaws)

    @property
    def stack_win(self) -> StackWin:
        """The ``STACK WIN`` records."""
        return self.records.stack_win

    @property
    def cfi(self) -> CfiText:
        """The ``STACK CFI`` records, as text."""
        return self.records.cfi

    @property
    def problems(self) -> list[Problem]:
        """What is wrong with the file, with lines. There can be more once :attr:`symbols` has been used."""
        return self._flaws.problems
