"""The stacks of a recording, counted: what ``report`` prints in its several forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.cli.script_samples import NOT_WALKED
from clew.walk.model import End

if TYPE_CHECKING:
    from clew.cli.script_frames import FrameBook, Frames
    from clew.cli.script_samples import Rows, SampleReader
    from clew.target.perfdata import PerfData

_ENDS = tuple(End)


class Place(NamedTuple):
    """Where a frame is, as far as frames are told apart: a function, or an address where no symbol is known.

    Attributes:
        module: its path as recorded, or ``[unknown]``.
        function: its name, or None.
        address: where ``function`` is None: the offset in the module's file, or as it was where there is none.
        kernel: whether it is the kernel's.
    """

    module: str
    function: str | None
    address: int | None
    kernel: bool


class StackKey(NamedTuple):
    """What stacks are told apart by.

    Attributes:
        event: the event's number.
        comm, pid: the thread's name, and its process.
        end: why the stack ended; None where it was not walked.
        places: numbers of the places of its frames (u4), innermost first.
    """

    event: int
    comm: str
    pid: int
    end: End | None
    places: bytes


@dataclass(slots=True)
class Weight:
    """How much of something there is.

    Attributes:
        samples: how many samples.
        period: how many events they stand for.
    """

    samples: int = 0
    period: int = 0

    def add(self, other: Weight) -> None:
        """Adds another."""
        self.samples += other.samples
        self.period += other.period


@dataclass
class Counted:
    """A recording's stacks.

    Attributes:
        data: the recording.
        stacks: how much there is of each different stack.
        places: by number.
        samples: how many there were.
        ends: why those that were walked ended.
        tableless: how many of those have frames that were found without an unwind table.
        outside: samples that have no stack of a program, such as the kernel's own threads.
        bare: samples that only say where they were.
        chains: samples whose stacks the kernel took, which does not say why they ended.
    """

    data: PerfData
    stacks: dict[StackKey, Weight] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    samples: int = 0
    ends: Counter[End] = field(default_factory=Counter)
    tableless: int = 0
    outside: int = 0
    chains: int = 0
    bare: int = 0

    @property
    def walked(self) -> int:
        """How many stacks were walked."""
        return self.ends.total()

    @property
    def broken(self) -> int:
        """How many of them ended before the outermost frame."""
        return self.walked - self.ends[End.ENTRY]

    def frames(self, key: StackKey) -> list[Place]:
        """The places of a stack, innermost first."""
        return [self.places[number] for number in np.frombuffer(key.places, np.uint32).tolist()]

    def of_event(self, event: int) -> Iterator[tuple[StackKey, Weight]]:
        """The stacks of one event."""
        return ((key, weight) for key, weight in self.stacks.items() if key.event == event)


def count_stacks(reader: SampleReader) -> Counted:
    """Reads all samples, and counts their stacks."""
    counting = _Counting(reader)
    for rows, order in reader.rows():
        counting.add(rows.taken(order))
    return counting.counted


class _Counting:
    """Stacks on the way to be counted."""

    def __init__(self, reader: SampleReader) -> None:
        self.counted = Counted(reader.data)
        self._reader = reader
        self._numbers: dict[Place, int] = {}
        # The number of the place of each frame.
        self._places: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)

    def add(self, rows: Rows) -> None:
        """Counts some samples."""
        self._place(self._reader.book, self._reader.book.resolve())
        self._reader.book.count_missing(rows, np.arange(len(rows)))
        counted = self.counted
        threads = self._reader.threads
        places = self._places[rows.numbers]
        counted.tableless += int(np.count_nonzero(rows.tableless))
        for thread, event, end, alone, first, last, period in zip(
            rows.thread.tolist(),
            rows.event.tolist(),
            rows.end.tolist(),
            rows.alone.tolist(),
            rows.first.tolist(),
            rows.last.tolist(),
            rows.period.tolist(),
            strict=True,
        ):
            sampled = threads[thread]
            reason = None if end == NOT_WALKED else _ENDS[end]
            key = StackKey(event, sampled.name, sampled.pid, reason, places[first:last].tobytes())
            weight = counted.stacks.get(key)
            if weight is None:
                weight = counted.stacks[key] = Weight()
            weight.samples += 1
            weight.period += period
            counted.samples += 1
            if reason is not None:
                counted.ends[reason] += 1
            elif alone:
                counted.bare += 1
            elif not self._reader.walks(event):
                counted.chains += 1
            else:
                counted.outside += 1

    def _place(self, book: FrameBook, frames: Frames) -> None:
        """Finds the places of frames that are new."""
        numbers = []
        for module, symbol, address, kernel in zip(
            frames.module.tolist(), frames.symbol.tolist(), frames.address.tolist(), frames.kernel.tolist(), strict=True
        ):
            if symbol >= 0:
                place = Place(book.modules[module], book.symbols[symbol], None, kernel)
            else:
                place = Place(book.modules[module], None, address, kernel)
            number = self._numbers.get(place)
            if number is None:
                number = self._numbers[place] = len(self.counted.places)
                self.counted.places.append(place)
            numbers.append(number)
        self._places = np.concatenate([self._places, np.array(numbers, np.uint32)])
