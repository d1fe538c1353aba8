"""The frames that the fast walker found, made when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from clew.target.model import Module, Thread
from clew.walk.model import Frame
from clew.walk.step import Here


class Run:
    """Frames that the compiled core left one after another.

    Args:
        here: the first of them; None for the thread's first frame.
        thread: whose they are.
        notes: what :meth:`clew.native.stepper.Stepper.notes` says of them.
    """

    __slots__ = ("_lists", "_notes", "here", "thread")

    def __init__(self, here: Here | None, thread: Thread, notes: npt.NDArray[np.uint64]) -> None:
        self.here = here
        self.thread = thread
        self._notes = notes
        self._lists: list[list[int]] | None = None

    def places(self) -> Iterator[tuple[int, int | None]]:
        """What tells that a walk has been somewhere already: pc and stack pointer."""
        return zip(self.column(0), self.column(2), strict=True)

    def column(self, index: int) -> list[int]:
        """One number of each frame: 0 its pc, 1 its CFA, 2 its stack pointer, 3 the number of its module, 4 that of its row."""
        numbers: list[int] = self._notes[:, index].tolist()
        return numbers

    def last(self) -> tuple[int, int]:
        """The numbers of the last frame's module and row."""
        return int(self._notes[-1, 3]), int(self._notes[-1, 4])

    def at(self, index: int) -> list[int]:
        """All numbers of a frame; behind those of :meth:`column` a bit for each slot that is known, then the slots."""
        if self._lists is None:
            self._lists = self._notes.tolist()
        return self._lists[index]

    def __len__(self) -> int:
        return len(self._notes)


class Frames(Sequence[Frame]):
    """Frames from the innermost out; equal to a tuple of the same frames.

    Args:
        make: makes a frame of a run.
    """

    def __init__(self, make: Callable[[Run, int], Frame]) -> None:
        self._make = make
        self._made: list[Frame | None] = []
        self._parts: list[tuple[int, Run]] = []

    def add(self, frame: Frame) -> None:
        """Adds one."""
        self._made.append(frame)

    def add_run(self, run: Run) -> None:
        """Adds those of a run."""
        self._parts.append((len(self._made), run))
        self._made.extend([None] * len(run))

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Frame, ...]: ...
    def __getitem__(self, index: int | slice) -> Frame | tuple[Frame, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        frame = self._made[index]
        if frame is None:
            number = index % len(self._made)
            first, run = next(part for part in reversed(self._parts) if part[0] <= number)
            frame = self._made[number] = self._make(run, number - first)
        return frame

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    # Frames hold dictionaries of registers.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))

    @property
    def pcs(self) -> list[int]:
        """All pcs, without making frames."""
        out = [0 if frame is None else frame.pc.address for frame in self._made]
        for first, run in self._parts:
            out[first : first + len(run)] = run.column(0)
        return out

    def modules(self, number: Callable[[Module | None], int]) -> list[int]:
        """The number of each frame's module, without making frames; ``number`` gives it for those that were made."""
        out = [0 if frame is None else number(frame.module) for frame in self._made]
        for first, run in self._parts:
            out[first : first + len(run)] = run.column(3)
        return out
