"""Units read by several processes: for files whose DWARF takes one of them seconds.

Each process has its share of the units, next to each other, in the order of the file. What it makes are columns, with names
and files of its own; they are put one behind the other, and renumbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from clew.errors import Problem
from clew.native.dwarf_assemble import Assembler
from clew.symbols.dwarf.info import DebugInfo, silent
from clew.symbols.symbol_map import NO_FILE, U8, U16, U32, U64

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LARGE = 1 << 26
"""Bytes of ``.debug_info`` that are worth more than one process."""

FunctionColumns = tuple[U64, U64, U32, U32, U32, U32, U32, U8]
LineColumns = tuple[U64, U32, U32, U32, U32 | None]
InlineColumns = tuple[U16, U32, U32, U32, U32, U64, U64]


class Columns(Protocol):
    """The columns of functions, lines and inlined calls, as an :class:`Assembler` has them."""

    @property
    def inlines(self) -> int:
        """How many inlined calls."""

    def function_columns(self) -> FunctionColumns:
        """Those of functions."""

    def line_columns(self) -> LineColumns:
        """Those of lines."""

    def inline_columns(self) -> InlineColumns:
        """Those of inlined calls, and of their ranges."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one process made of its units."""

    functions: FunctionColumns
    lines: LineColumns
    inlines: InlineColumns
    names: list[str]
    files: list[str]
    problems: list[Problem]


def read_shares(
    info: DebugInfo, discriminators: bool, processes: int, progress: Callable[[int], None] = silent
) -> tuple[Columns, list[str], list[str], list[Problem]]:
    """The columns of all units, their names and files, and what was wrong, read by several processes.

    Args:
        info: the DWARF. Its sections are read already, so that all processes have the same bytes.
        discriminators: whether lines keep theirs.
        processes: how many at most, this one included.
        progress: is called now and then with how many units are done, as far as this process knows.
    """
    own, *others = info.shares(processes)
    with _started(info, discriminators, others) as waiting:
        shares = [_read(info, discriminators, own, lambda done: progress(done * (1 + len(others))))]
        for bounds, answer in zip(others, waiting, strict=True):
            try:
                shares.append(answer.recv())
            except (EOFError, OSError):
                # It was ended, for want of memory perhaps: then this one does its work.
                shares.append(_read(info, discriminators, bounds, progress))
    return _joined(shares)


@contextmanager
def _started(
    info: DebugInfo, discriminators: bool, shares: Sequence[tuple[int, int]]
) -> Iterator[list[Connection[Share, Share]]]:
    """A process for each share, and where it answers."""
    from multiprocessing import get_context

    context = get_context("fork")
    started, answers = [], []
    try:
        for bounds in shares:
            answer, send = context.Pipe(duplex=False)
            process = context.Process(target=_answer, args=(info, discriminators, bounds, send), daemon=True)
            process.start()
            send.close()
            started.append(process)
            answers.append(answer)
        yield answers
    finally:
        for answer in answers:
            answer.close()
        for process in started:
            process.terminate()
            process.join()


def _answer(info: DebugInfo, discriminators: bool, bounds: tuple[int, int], send: Connection[Share, Share]) -> None:
    send.send(_read(info, discriminators, bounds, silent))


def _read(info: DebugInfo, discriminators: bool, bounds: tuple[int, int], progress: Callable[[int], None]) -> Share:
    assembler = Assembler(discriminators, info.line_bound)
    info.read_units(*bounds, assembler, progress)
    return Share(
        assembler.function_columns(),
        assembler.line_columns(),
        assembler.inline_columns(),
        info.names,
        info.files,
        info.problems,
    )


@dataclass(frozen=True, slots=True)
class _Joined:
    """The columns of several shares."""

    functions: FunctionColumns
    lines: LineColumns
    calls: InlineColumns

    @property
    def inlines(self) -> int:
        return len(self.calls[0])

    def function_columns(self) -> FunctionColumns:
        return self.functions

    def line_columns(self) -> LineColumns:
        return self.lines

    def inline_columns(self) -> InlineColumns:
        return self.calls


def _joined(shares: Sequence[Share]) -> tuple[Columns, list[str], list[str], list[Problem]]:
    """The shares one behind the other."""
    names: dict[str, int] = {}
    files: dict[str, int] = {}
    lines = calls = ranges = 0
    functions_of, lines_of, calls_of = [], [], []
    for share in shares:
        name, file = _numbers(share.names, names), _numbers(share.files, files)
        address, size, called, first_line, end_line, first_call, end_call, orphan = share.functions
        functions_of.append(
            (
                address,
                size,
                name[np.minimum(called, len(name) - 1)],
                first_line + np.uint32(lines),
                end_line + np.uint32(lines),
                first_call + np.uint32(calls),
                end_call + np.uint32(calls),
                orphan,
            )
        )
        at, length, line, source, mark = share.lines
        lines_of.append((at, length, line, file[np.minimum(source, len(file) - 1)], mark))
        depth, callee, place, number, first_range, range_address, range_size = share.inlines
        callee, place = name[np.minimum(callee, len(name) - 1)], file[np.minimum(place, len(file) - 1)]
        # The last one's end is the next share's beginning.
        bounds = first_range[:-1] + np.uint32(ranges)
        calls_of.append((depth, callee, place, number, bounds, range_address, range_size))
        lines, calls, ranges = lines + len(at), calls + len(depth), ranges + len(range_address)
    columns = _Joined(
        tuple(np.concatenate(parts) for parts in zip(*functions_of, strict=True)),  # type: ignore[arg-type]
        tuple(  # type: ignore[arg-type]
            None if parts[0] is None else np.concatenate(parts) for parts in zip(*lines_of, strict=True)
        ),
        tuple(np.concatenate(parts) for parts in zip(*calls_of, strict=True)),  # type: ignore[arg-type]
    )
    ends = np.append(columns.calls[4], np.uint32(ranges)).astype(np.uint32)
    columns = _Joined(columns.functions, columns.lines, (*columns.calls[:4], ends, *columns.calls[5:]))
    problems = dict.fromkeys(problem for share in shares for problem in share.problems)
    return columns, list(names), list(files), list(problems)


def _numbers(texts: Sequence[str], known: dict[str, int]) -> U32:
    """The numbers of texts among all; the last element is for what has none."""
    numbers = [known.setdefault(text, len(known)) for text in texts]
    return np.array([*numbers, NO_FILE], np.uint32)
