"""Writes samples in the form of ``perf script``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.cli.output import printable
from clew.native.columns import distinct
from clew.native.script_text import CPU, IP, MODULE, NANOSECONDS, OFFSET, PERIOD, SYMBOL, TIME, FrameLines, SampleText

if TYPE_CHECKING:
    from clew.cli.script_samples import Rows, SampledThread, SampleReader

I64 = npt.NDArray[np.int64]

#: When the lines of frames take so many bytes, they are forgotten.
_MOST_LINES = 1 << 27

_FRAME_PARTS = {"sym": SYMBOL, "symoff": OFFSET, "dso": MODULE}
_SAMPLE_PARTS = {"cpu": CPU, "time": TIME, "period": PERIOD, "ip": IP}


class ScriptWriter:
    """Makes the text.

    Args:
        reader: where the samples come from.
        fields: what is printed of them.
        nanoseconds: whether times have nine digits behind the point.
    """

    def __init__(self, reader: SampleReader, fields: Collection[str], *, nanoseconds: bool = False) -> None:
        self._reader = reader
        self._fields = frozenset(fields)
        what = sum(bit for name, bit in _SAMPLE_PARTS.items() if name in fields)
        self._lines = FrameLines(sum(bit for name, bit in _FRAME_PARTS.items() if name in fields))
        self._text = SampleText(self._lines, what | (NANOSECONDS if nanoseconds else 0))
        self._age = reader.book.age
        events = reader.data.events
        width = max((len(event.name) for event in events), default=0)
        shown = [printable(event.name).rjust(width) + ": " if "event" in fields else "" for event in events]
        self._events = [each.encode() for each in shown]
        # Names are set to the right where no stacks follow: by event, for each thread.
        self._heads: list[bytes] = []
        self._plain_heads: list[bytes] = []

    def write(self, rows: Rows, order: I64) -> Iterator[memoryview]:
        """The text of some of the samples, in this order, piece by piece; each is valid until the next."""
        book = self._reader.book
        if book.age != self._age:
            self._age = book.age
            self._lines.forget()
        self._add_lines()
        book.count_missing(rows, order)
        book.full = book.full or self._lines.pos > _MOST_LINES
        for thread in self._reader.threads[len(self._heads) :]:
            self._heads.append(self._head(thread, 0))
            self._plain_heads.append(self._head(thread, 16))
        heads = self._heads + self._plain_heads
        plain = self._reader.chained[rows.event] == 0
        head = rows.thread + np.where(plain, len(self._heads), 0).astype(np.uint32)
        self._text.begin(
            order,
            head,
            heads,
            rows.event,
            self._events,
            rows.cpu,
            rows.time,
            rows.period,
            rows.alone,
            rows.first,
            rows.last,
            rows.numbers,
        )
        while piece := self._text.more():
            yield piece

    def _head(self, thread: SampledThread, width: int) -> bytes:
        """The thread's name and its numbers."""
        out = b""
        if "comm" in self._fields:
            out += printable(thread.name).encode().rjust(width) + b" "
        if {"pid", "tid"} <= self._fields:
            out += b"%5d/%-5d " % (thread.pid, thread.tid)
        elif "pid" in self._fields:
            out += b"%5d " % thread.pid
        elif "tid" in self._fields:
            out += b"%5d " % thread.tid
        return out

    def _add_lines(self) -> None:
        """Makes the lines of frames that are new."""
        book = self._reader.book
        frames = book.resolve()
        if not len(frames.address):
            return
        symbols, numbers = _used(frames.symbol)
        modules, places = _used(frames.module)
        self._lines.add(
            frames.alone,
            # What is not part of a call chain is shown as it was.
            np.where(frames.alone, frames.pc, frames.address),
            numbers,
            frames.offset,
            places,
            [book.symbols[each].encode() for each in symbols],
            [book.modules[each].encode() for each in modules],
        )


def _used(column: I64) -> tuple[list[int], I64]:
    """Which numbers a column has, without -1; and the column with the places of these in the list."""
    unique = distinct(column)
    unique = unique[unique >= 0]
    return unique.tolist(), np.where(column < 0, -1, np.searchsorted(unique, column)).astype(np.int64)
