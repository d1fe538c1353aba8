"""The frames that the fast walker found, made when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from clew.target.model import Thread
from clew.walk.model import Frame
from clew.walk.step import Here

_U8 = npt.NDArray[np.uint64]
_I4 = npt.NDArray[np.int32]


class Run:
    """Frames that the compiled core left one after another.

    Args:
        here: the first of them; None for the thread's first frame.
        thread: whose they are.
        notes: what :meth:`clew.native.stepper.Stepper.notes` says of them.
    """

    __slots__ = ("_lists", "_notes", "here", "thread")

    def __init__(self, here: Here | None, thread: Thread, notes: tuple[_U8, _U8, _U8, _I4, _I4, _U8, _U8]) -> None:
        self.here = here
        self.thread = thread
        self._notes = notes
        self._lists: tuple[list[int], list[int], list[int], list[int], list[int], list[list[int]]] | None = None

    def place(self, index: int) -> tuple[int, int]:
        """The numbers of a frame's module and row."""
        return int(self._notes[3][index]), int(self._notes[4][index])

    def places(self) -> Iterator[tuple[int, int | None]]:
        """What tells that a walk has been somewhere already: pc and stack pointer."""
        return zip(self._notes[0].tolist(), self._notes[2].tolist(), strict=True)

    def pcs(self) -> list[int]:
        """The pcs."""
        pcs: list[int] = self._notes[0].tolist()
        return pcs

    def at(self, index: int) -> tuple[int, int, int, int, int, list[int]]:
        """A frame's pc, CFA, number of module and row, a bit for each slot that is known, and the slots."""
        if self._lists is None:
            pc, cfa, _, module, row, known, values = (column.tolist() for column in self._notes)
            self._lists = (pc, cfa, module, row, known, values)
        pc, cfa, module, row, known, values = self._lists
        return pc[index], cfa[index], module[index], row[index], known[index], values[index]

    def __len__(self) -> int:
        return len(self._notes[0])


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

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    @property
    def pcs(self) -> list[int]:
        """All pcs, without making frames."""
        out = [0 if frame is None else frame.pc.address for frame in self._made]
        for first, run in self._parts:
            out[first : first + len(run)] = run.pcs()
        return out
