"""What processes had mapped, and what threads were called, at any time of a recording.

perf records that code is mapped, but not that it is unmapped. So a mapping that takes addresses which nothing had before
says nothing about earlier times but that nobody can have been there; it joins what the process has, and the process
goes on as it is. Only where code takes the place of other code, or a program that of another (execve(2)), does a process
become another *generation* of itself. So there are few, and what was found out for one serves for long.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from clew.errors import Problem
from clew.target.perfdata.records import Mapped, same_file

MAXIMUM_MAPPINGS = 1 << 16
"""Mappings of code that a process may have. Linux allows 65530 of any kind (``vm.max_map_count``)."""

MAXIMUM_COPIES = 1 << 22
"""Mappings that may be kept more than once, all generations together. A recording of real programs has thousands."""


class Generation:
    """The code that a process has mapped, over some time.

    Attributes:
        mappings: sorted, without overlaps.
    """

    __slots__ = ("_starts", "mappings")

    def __init__(self, mappings: list[Mapped] | None = None) -> None:
        self.mappings: list[Mapped] = mappings if mappings is not None else []
        self._starts = [mapping.start for mapping in self.mappings]

    def between(self, start: int, end: int) -> tuple[int, int]:
        """Which of the mappings, from one up to another, have something of these addresses."""
        low = bisect_right(self._starts, start)
        if low and self.mappings[low - 1].end > start:
            low -= 1
        return low, bisect_left(self._starts, end, low)

    def put(self, low: int, high: int, mappings: list[Mapped]) -> None:
        """Put others in the place of some."""
        self.mappings[low:high] = mappings
        self._starts[low:high] = [mapping.start for mapping in mappings]


@dataclass(slots=True)
class Period:
    """A process from a time on.

    Attributes:
        since: that time; the next period's ends it.
        generation: what it has mapped.
        name: of its main thread, the last that it had.
        borrowed: whether the generation is still the parent's.
    """

    since: int
    generation: Generation
    name: str | None = None
    borrowed: bool = False


@dataclass(slots=True)
class Names:
    """The names of a thread, each from a time on."""

    since: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def at(self, time: int) -> str | None:
        """The name at a time, or None before the first."""
        index = bisect_right(self.since, time) - 1
        return self.names[index] if index >= 0 else None


class History:
    """Built from the events of all processes, which have to come in the order of time.

    Args:
        report: told when there is too much to keep.

    Attributes:
        processes: the periods of each, by its number.
        threads: the names of each thread.
    """

    def __init__(self, report: Callable[[Problem], None]) -> None:
        self.processes: dict[int, list[Period]] = {}
        self.threads: dict[int, Names] = {}
        self._report = report
        self._copied = 0
        self._times: dict[int, npt.NDArray[np.uint64]] = {}

    def _period(self, pid: int, time: int) -> Period:
        periods = self.processes.get(pid)
        if periods is None:
            periods = self.processes[pid] = [Period(time, Generation())]
        return periods[-1]

    def _begin(self, pid: int, period: Period) -> None:
        periods = self.processes.setdefault(pid, [])
        if periods and periods[-1].since == period.since:
            periods[-1] = period
        else:
            periods.append(period)

    def named(self, pid: int, tid: int, name: str, time: int, by_exec: bool) -> None:
        """A thread gets another name; ``by_exec`` when it is because the process became another program."""
        names = self.threads.setdefault(tid, Names())
        if not names.names or names.names[-1] != name:
            names.since.append(time)
            names.names.append(name)
        if by_exec:
            self._begin(pid, Period(time, Generation(), name))
        elif pid == tid:
            self._period(pid, time).name = name

    def forked(self, pid: int, parent: int, tid: int, parent_tid: int, time: int, with_maps: bool) -> None:
        """A process or a thread begins. It has the name of the one that made it, and a process also what that had mapped."""
        before = self.threads.get(parent_tid)
        name = before.at(time) if before is not None else None
        if name is not None and tid != parent_tid:
            names = self.threads.setdefault(tid, Names())
            names.since.append(time)
            names.names.append(name)
        if pid == parent:
            return
        periods = self.processes.get(parent)
        if periods is None or not with_maps:
            self._begin(pid, Period(time, Generation(), name))
        else:
            self._begin(pid, Period(time, periods[-1].generation, name, borrowed=True))

    def mapped(self, pid: int, mapping: Mapped, time: int) -> None:
        """A process maps something."""
        period = self._period(pid, time)
        generation = period.generation
        low, high = generation.between(mapping.start, mapping.end)
        there = generation.mappings[low:high]
        same = all(same_file(each, mapping) for each in there)
        # A change of protections is told as a mapping too. What was code once is taken for code.
        if same and not mapping.executable:
            return
        if same and any(each.start <= mapping.start and mapping.end <= each.end for each in there):
            return
        if len(generation.mappings) - len(there) >= MAXIMUM_MAPPINGS:
            self._report(Problem(f"process {pid} maps more than {MAXIMUM_MAPPINGS} pieces of code; some are left out"))
            return
        if period.borrowed or not same:
            self._copied += len(generation.mappings)
            if self._copied > MAXIMUM_COPIES:
                self._report(Problem("too much code is mapped in the place of other code; some of it is left out"))
                return
            generation = Generation(list(generation.mappings))
            if same:
                period.generation, period.borrowed = generation, False
            else:
                self._begin(pid, Period(time, generation, period.name))
        generation.put(low, high, _overlaid(there, mapping))

    def period_at(self, pid: int, time: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """For times of one process, the numbers of its periods; -1 before the first, and for a process nobody knows."""
        times = self._times.get(pid)
        if times is None:
            periods = self.processes.get(pid, [])
            times = self._times[pid] = np.array([period.since for period in periods], np.uint64)
        return np.searchsorted(times, time, "right").astype(np.int64) - 1

    def mappings(self) -> Iterator[Mapped]:
        """All code that anybody has mapped; what several have, several times."""
        for periods in self.processes.values():
            for period in periods:
                yield from period.generation.mappings

    def name_at(self, tid: int, time: int) -> str | None:
        """What a thread was called at a time, or None."""
        names = self.threads.get(tid)
        return names.at(time) if names is not None else None


def _overlaid(there: list[Mapped], mapping: Mapped) -> list[Mapped]:
    """What is left of mappings around a new one, and that one if it is code."""
    left = [_cut(each, each.start, mapping.start) for each in there[:1] if each.start < mapping.start]
    right = [_cut(each, mapping.end, each.end) for each in there[-1:] if each.end > mapping.end]
    return [*left, *([mapping] if mapping.executable else []), *right]


def _cut(mapping: Mapped, start: int, end: int) -> Mapped:
    return Mapped(
        start, end, mapping.offset + start - mapping.start, mapping.executable, mapping.path, mapping.build_id
    )
