"""Breakpad symbol files, from a map of symbols: the format is that of Breakpad's ``docs/symbol_files.md``.

Records come in the order ``MODULE``, ``INFO``, ``FILE``, ``INLINE_ORIGIN``, ``FUNC`` with its ``INLINE`` and line records,
``PUBLIC``, ``STACK``. Files and names of inlined calls are numbered from 0 on, only those that are mentioned, each text once.
Lines and inlined calls are cut to their function. What the format cannot say is made harmless: control characters in names
become blanks, an unknown or empty name ``<name omitted>``, an unknown file the number behind all others, which no ``FILE`` has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from clew.native.breakpad_text import SymbolText
from clew.native.columns import distinct
from clew.symbols.symbol_map import NO_NAME, SymbolMap

if TYPE_CHECKING:
    from clew.read.breakpad.module import ModuleRecord
    from clew.read.breakpad.records import StackWin

U32 = npt.NDArray[np.uint32]

OMITTED = b"<name omitted>"
"""The name of what has none, as dump_syms writes it."""

#: Bytes of names, and how many names, that are handed to the compiled core at once.
_BATCH = 1 << 18
_MOST = 1 << 13
_CHUNK = 1 << 20

#: Whatever could end a line, or be taken for something else by a terminal, becomes a blank.
_HARMLESS = bytes(0x20 if byte < 0x20 or byte == 0x7F else byte for byte in range(256))


class Stream(Protocol):
    """What text is written to."""

    def write(self, text: bytes, /) -> object:
        """Take some more of it."""


def harmless(text: str) -> bytes:
    """A text as a field at the end of a line: UTF-8, without control characters, without blanks around it.

    >>> harmless("operator new\\n")
    b'operator new'
    """
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "replace")
    return raw.translate(_HARMLESS).strip(b" ")


def write_symbols(
    stream: Stream,
    module: ModuleRecord,
    info: Iterable[tuple[str, str]],
    symbols: SymbolMap,
    *,
    name_text: Callable[[str], str] | None = None,
    stack_win: StackWin | None = None,
    cfi_chunks: Iterable[bytes] = (),
) -> None:
    """Writes a symbol file, piece by piece. The arguments are those of :func:`symbol_text`."""
    for piece in symbol_text(module, info, symbols, name_text=name_text, stack_win=stack_win, cfi_chunks=cfi_chunks):
        stream.write(piece)


def symbol_text(
    module: ModuleRecord,
    info: Iterable[tuple[str, str]],
    symbols: SymbolMap,
    *,
    name_text: Callable[[str], str] | None = None,
    stack_win: StackWin | None = None,
    cfi_chunks: Iterable[bytes] = (),
) -> Iterator[bytes]:
    """The text of a symbol file, in pieces of about a mebibyte.

    Args:
        module: the ``MODULE`` record; ``name`` is the last component of the file's path.
        info: ``INFO`` records, keyword and text, such as ``("CODE_ID", "…")``.
        symbols: functions, lines, inlined calls and public symbols; addresses relative to the module.
        name_text: turns a name of the map into the one that is written, such as :func:`clew.symbols.demangle`. Called once
            for each of the map's names that is written.
        stack_win: ``STACK WIN`` records.
        cfi_chunks: ``STACK CFI`` records as text, whole lines; they go last.
    """
    names = _Names(symbols, name_text)
    functions, lines, inlines = symbols.functions, symbols.lines, symbols.inlines
    text = SymbolText(
        (
            functions.address,
            functions.size,
            functions.parameter_size,
            functions.multiple,
            functions.first_line,
            functions.end_line,
            functions.first_inline,
            functions.end_inline,
        ),
        (lines.address, lines.size, lines.line, lines.file),
        (
            inlines.depth,
            inlines.name,
            inlines.call_file,
            inlines.call_line,
            inlines.first_range,
            inlines.range_address,
            inlines.range_size,
        ),
        len(symbols.files),
        len(symbols.names),
    )
    yield from _pieces(_head(module, info))
    files, origins = text.used()
    file_texts = _Numbers(files, lambda index: harmless(symbols.files[index]))
    yield from _pieces(file_texts.records(b"FILE"))
    origin_texts = _Numbers(origins, names.text)
    if origins[-1]:
        # An unknown name has a text, unlike an unknown file.
        origin_texts.add(len(origins) - 1, OMITTED)
    yield from _pieces(origin_texts.records(b"INLINE_ORIGIN"))
    text.number(file_texts.number, origin_texts.number)
    del file_texts, origin_texts
    for first, end, written, bounds in names.batches(functions.name):
        text.begin(first, end, written, bounds)
        while piece := text.more():
            yield piece
    publics = symbols.publics
    for first, end, written, bounds in names.batches(publics.name):
        part = slice(first, end)
        yield text.publics(publics.address[part], publics.parameter_size[part], publics.multiple[part], written, bounds)
    if stack_win is not None:
        yield from _pieces(_stack_win(stack_win))
    yield from cfi_chunks


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines gathered to pieces."""
    piece = bytearray()
    for line in lines:
        piece += line
        if len(piece) >= _CHUNK:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _word(text: str, otherwise: bytes) -> bytes:
    """A field that is not the last."""
    return harmless(text).replace(b" ", b"_") or otherwise


def _head(module: ModuleRecord, info: Iterable[tuple[str, str]]) -> Iterator[bytes]:
    fields = (
        _word(module.os, b"unknown"),
        _word(module.architecture, b"unknown"),
        _word(module.id, b"0" * 33),
        harmless(module.name) or b"unknown",
    )
    yield b"MODULE %b %b %b %b\n" % fields
    for keyword, rest in info:
        yield b" ".join(part for part in (b"INFO", _word(keyword, b"unknown"), harmless(rest)) if part) + b"\n"


class _Numbers:
    """Texts, each with a number: the same for the same text.

    Attributes:
        number: for each index its number, uint32[n].
    """

    def __init__(self, used: U32, text: Callable[[int], bytes]) -> None:
        self._texts: dict[bytes, int] = {}
        self.number = np.zeros(len(used), np.uint32)
        unnamed: list[int] = []
        for index in np.flatnonzero(used[:-1]).tolist():
            made = text(index) or b"<unknown>"
            if made == OMITTED:
                unnamed.append(index)
            else:
                self.add(index, made)
        # What has no name goes last, also when its index is none; so the same map gets the same numbers.
        for index in unnamed:
            self.add(index, OMITTED)
        # The number of what is unknown.
        self.number[-1] = len(self._texts)

    def add(self, index: int, text: bytes) -> None:
        self.number[index] = self._texts.setdefault(text, len(self._texts))

    def records(self, keyword: bytes) -> Iterator[bytes]:
        """A record for each."""
        for text, number in self._texts.items():
            yield b"%b %d %b\n" % (keyword, number, text)


class _Names:
    """Names as they are written. Those that are needed again are kept."""

    def __init__(self, symbols: SymbolMap, name_text: Callable[[str], str] | None) -> None:
        self._names: Sequence[str] = symbols.names
        self._name_text = name_text
        self._count = len(symbols.names)
        times = np.zeros(self._count + 1, np.uint32)
        inlined = distinct(symbols.inlines.name)
        for used in (symbols.functions.name, symbols.publics.name, inlined):
            np.add.at(times, np.minimum(used, np.uint32(self._count)), np.uint32(1))
        self._again = times > 1
        self._kept: dict[int, bytes] = {}

    def text(self, index: int) -> bytes:
        """The text of a name."""
        if index >= self._count or index == NO_NAME:
            return OMITTED
        kept = self._kept.get(index)
        if kept is not None:
            return kept
        name = self._names[index]
        made = harmless(name if self._name_text is None else self._name_text(name)) or OMITTED
        if self._again[index]:
            self._kept[index] = made
        return made

    def batches(self, wanted: U32) -> Iterator[tuple[int, int, bytes, npt.NDArray[np.int64]]]:
        """The texts of many names, some at a time: which, from and to; the texts together; and where each begins."""
        texts: list[bytes] = []
        size = first = 0
        for index in wanted.tolist():
            texts.append(self.text(index))
            size += len(texts[-1])
            if size >= _BATCH or len(texts) >= _MOST:
                yield first, first + len(texts), b"".join(texts), _bounds(texts)
                first += len(texts)
                texts = []
                size = 0
        if texts:
            yield first, first + len(texts), b"".join(texts), _bounds(texts)


def _bounds(texts: list[bytes]) -> npt.NDArray[np.int64]:
    return np.fromiter(accumulate(map(len, texts), initial=0), np.int64, len(texts) + 1)


def _stack_win(records: StackWin) -> Iterator[bytes]:
    columns = zip(
        records.type.tolist(),
        records.address.tolist(),
        records.code_size.tolist(),
        records.prologue_size.tolist(),
        records.epilogue_size.tolist(),
        records.parameter_size.tolist(),
        records.saved_register_size.tolist(),
        records.local_size.tolist(),
        records.max_stack_size.tolist(),
        records.has_program.tolist(),
        records.allocates_base_pointer.tolist(),
        strict=True,
    )
    for index, (*numbers, base) in enumerate(columns):
        last = records.programs.raw(index).translate(_HARMLESS).strip(b" ") if numbers[-1] else b"%x" % base
        # A program of control characters is none, and the record cannot be without one.
        if last:
            yield b"STACK WIN %b %b\n" % (" ".join(format(number, "x") for number in numbers).encode(), last)
