"""Reads any bytes as a Breakpad symbol file: the map keeps its promises, and what is written of it reads the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clew.errors import Error
from clew.read.breakpad import ModuleRecord
from clew.symbols.sym_file import SymbolFile
from clew.symbols.symbol_map import NO_FILE, NO_NAME, SymbolMap
from clew.write.breakpad.symbols import symbol_text

MODULE = ModuleRecord("Linux", "x86_64", "0", "demo")
MOST_PROBLEMS = 1000


def read_symbol_file(data: bytes) -> None:
    """The bytes as a symbol file. What raises clew.Error is passed over."""
    try:
        file = SymbolFile.open(data)
    except Error:
        return
    symbols = file.symbols
    check(symbols)
    assert len(file.problems) <= MOST_PROBLEMS
    lines = data.count(b"\n") + 1
    assert file.records.text_lines in (lines - 1, lines)
    assert all(problem.line is None or 1 <= problem.line <= lines for problem in file.problems), file.problems
    rows = len(symbols.functions.address) + len(symbols.lines.address) + len(symbols.inlines.range_address)
    assert rows <= 16 * len(data)
    for text in file.cfi.texts():
        assert bytes(text).startswith(b"STACK")
    list(file.stack_win.programs)
    text = written(file)
    again = SymbolFile.open(text)
    check(again.symbols)
    assert written(again) == text


def written(file: SymbolFile) -> bytes:
    texts = (bytes(text) for text in file.cfi.texts())
    return b"".join(symbol_text(MODULE, file.info, file.symbols, stack_win=file.stack_win, cfi_chunks=texts))


def check(symbols: SymbolMap) -> None:
    """What every map promises."""
    functions, lines, inlines, publics = symbols.functions, symbols.lines, symbols.inlines, symbols.publics
    last = functions.address + (functions.size - np.uint64(1))
    assert (functions.size > 0).all()
    assert (last >= functions.address).all()
    assert (functions.address[1:] > last[:-1]).all()
    assert (publics.address[1:] > publics.address[:-1]).all()
    for column, count, none in (
        (functions.name, len(symbols.names), NO_NAME),
        (publics.name, len(symbols.names), NO_NAME),
        (inlines.name, len(symbols.names), NO_NAME),
        (inlines.call_file, len(symbols.files), NO_FILE),
        (lines.file, len(symbols.files), NO_FILE),
    ):
        assert ((column < count) | (column == none)).all()
    for at in range(len(functions.address)):
        low, high = int(functions.address[at]), int(last[at])
        rows = slice(functions.first_line[at], functions.end_line[at])
        ordered(
            [(int(a), int(a) + int(s) - 1) for a, s in zip(lines.address[rows], lines.size[rows], strict=True)],
            low,
            high,
        )
        around = [[(low, high)]]
        for row in range(functions.first_inline[at], functions.end_inline[at]):
            depth = int(inlines.depth[row])
            pieces = ranges(
                inlines.range_address, inlines.range_size, inlines.first_range[row], inlines.first_range[row + 1]
            )
            assert pieces
            assert depth < len(around)
            ordered(pieces, low, high)
            for first, end in pieces:
                assert sum(max(0, min(end, b) - max(first, a) + 1) for a, b in around[depth]) == end - first + 1
            around[depth + 1 :] = [pieces]


def ranges(
    address: npt.NDArray[np.uint64], size: npt.NDArray[np.uint64], first: int, end: int
) -> list[tuple[int, int]]:
    return [(int(address[r]), int(address[r]) + int(size[r]) - 1) for r in range(first, end)]


def ordered(pieces: list[tuple[int, int]], low: int, high: int) -> None:
    """They follow each other, in the range from ``low`` to ``high``."""
    at = low
    for first, last in pieces:
        assert at <= first <= last <= high
        at = last + 1
