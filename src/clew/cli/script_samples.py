"""The samples of a recording with the frames of their stacks, as columns: what ``script`` prints and ``report`` counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.native.columns import distinct
from clew.target.perfdata.attributes import SAMPLE_CALLCHAIN, SAMPLE_PERIOD, SAMPLE_STACK_USER
from clew.walk.model import End, Trust

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.cli.script_frames import FrameBook
    from clew.target.perfdata import Batch, PerfData
    from clew.walk.samples import SampleStacks, SampleWalker

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

MOST_FRAMES = 127
"""The most frames of the kernel's and of the program's part of a stack each, unless told (``PERF_MAX_STACK_DEPTH``)."""

NOT_WALKED = 255
"""In place of the reason why a stack ended: there is no copy of it."""

#: ``End.STACK_COPY_END`` in the columns of walks.
_CUT = tuple(End).index(End.STACK_COPY_END)

_BY_TABLE = frozenset((Trust.CONTEXT, Trust.CFI, Trust.SIGNAL))
"""How frames are found that are certain."""

_MOST_SHOWN = 9
"""Names and numbers that are kept of samples that were not wanted: one more than is told."""


@dataclass(slots=True)
class Rows:
    """Samples.

    Attributes:
        when: by which they are put in order (u8).
        thread: index in :attr:`SampleReader.threads` (u4).
        event: index of its event (u2).
        cpu (i4), time, period (u8): as in :class:`clew.target.perfdata.Batch`.
        end: why its stack ended: an index in :data:`clew.walk.samples.ENDS`, or ``NOT_WALKED`` (u1).
        tableless: whether its stack has frames that were found without an unwind table (u1).
        alone: whether it has one frame only, where it was, and no call chain (u1).
        first, last: its frames in ``numbers`` (u8).
        numbers: of frames, innermost first (u4).
    """

    when: U64
    thread: U32
    event: U16
    cpu: I32
    time: U64
    period: U64
    end: U8
    tableless: U8
    alone: U8
    first: U64
    last: U64
    numbers: U32

    def __len__(self) -> int:
        return len(self.when)

    def taken(self, which: I64) -> Rows:
        """Some of the samples, with their frames only."""
        columns = {each.name: getattr(self, each.name)[which] for each in fields(self) if each.name != "numbers"}
        sizes = columns["last"] - columns["first"]
        last = np.cumsum(sizes, dtype=np.uint64)
        first = last - sizes
        places = np.repeat(columns["first"] - first, sizes.astype(np.int64)) + np.arange(
            int(sizes.sum()), dtype=np.uint64
        )
        numbers = self.numbers[places.astype(np.int64)]
        return Rows(**{**columns, "first": first, "last": last, "numbers": numbers})


def joined(parts: Sequence[Rows]) -> Rows:
    """Samples of several, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = {each.name: np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Rows)}
    sizes = np.array([len(part.numbers) for part in parts], np.uint64)
    moved = np.repeat(np.cumsum(sizes) - sizes, [len(part) for part in parts]).astype(np.uint64)
    columns["first"] = columns["first"] + moved
    columns["last"] = columns["last"] + moved
    return Rows(**columns)


@dataclass(frozen=True, slots=True)
class SampledThread:
    """A thread under one name.

    Attributes:
        pid, tid: -1 where unknown.
        name: as perf makes one up where nobody said it: ``:`` and the number.
    """

    pid: int
    tid: int
    name: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which samples are wanted: those of all of these, where something is named at all.

    Attributes:
        names: of threads. pids, tids: numbers.
        events: numbers of events.
        first, last: times in nanoseconds.
    """

    names: frozenset[str] = frozenset()
    pids: frozenset[int] = frozenset()
    tids: frozenset[int] = frozenset()
    events: frozenset[int] = frozenset()
    first: int = 0
    last: int = (1 << 64) - 1


class SampleReader:
    """Reads the samples of a recording.

    Args:
        data: the recording.
        book: numbers the frames.
        wanted: which samples.
        most: how many frames the kernel's and the program's part of a stack have at most.
        chains: whether stacks are wanted, or only where each sample was.
        marks: whether a stack whose copy was too short ends with perf's mark for that, a frame at the last address.

    Attributes:
        threads: by number.
        chained: for each event, whether its samples have call chains.
    """

    def __init__(
        self,
        data: PerfData,
        book: FrameBook,
        wanted: Wanted,
        *,
        most: int = MOST_FRAMES,
        chains: bool = True,
        marks: bool = True,
    ) -> None:
        self.data = data
        self.book = book
        self.threads: list[SampledThread] = []
        self._wanted = wanted
        self._most = most
        self._marks = marks
        self._numbers: dict[SampledThread, int] = {}
        self._names, self._pids, self._tids = _Seen(wanted.names), _Seen(wanted.pids), _Seen(wanted.tids)
        self.chained = np.array(
            [chains and bool(each.sample_type & SAMPLE_CALLCHAIN) for each in data.events], np.uint8
        )
        copied = [chains and bool(each.sample_type & SAMPLE_STACK_USER) for each in data.events]
        self._walked = np.array(copied, np.uint8) & self.chained
        self._has_period = [bool(each.sample_type & SAMPLE_PERIOD) for each in data.events]
        self._usual = np.array([each.period for each in data.events], np.uint64)
        self._walker: SampleWalker | None = None

    def walks(self, event: int) -> bool:
        """Whether samples of an event have copies of stacks, to be walked."""
        return bool(self._walked[event])

    def rows(self) -> Iterator[tuple[Rows, I64]]:
        """The samples, many at a time: some of them in the order of time, as far as the file's marks allow it, like perf.

        Which these are, and in which order, is the second part; the others follow later.
        """
        waiting: list[Rows] = []
        # The latest time so far; that before the last mark; that before the one before it, up to which all is known.
        latest = marked = limit = -1
        for batch in self.data.batches():
            waiting.append(self._rows(batch))
            for place in batch.rounds.tolist():
                limit, marked = marked, max(latest, int(batch.when[:place].max(initial=0)))
            latest = max(latest, int(batch.when.max(initial=0)))
            if len(batch.rounds) and limit >= 0:
                rows = joined(waiting)
                order = np.argsort(rows.when, kind="stable").astype(np.int64)
                count = int(np.searchsorted(rows.when[order], np.uint64(limit), "right"))
                yield rows, order[:count]
                rest = np.sort(order[count:])
                waiting = [rows.taken(rest)] if len(rest) else []
            if self.book.full:
                # Their numbers mean nothing after that; where there is so much, the order in time matters less.
                if waiting:
                    rows = joined(waiting)
                    yield rows, np.argsort(rows.when, kind="stable").astype(np.int64)
                waiting = []
                self.book.forget()
        if waiting:
            rows = joined(waiting)
            yield rows, np.argsort(rows.when, kind="stable").astype(np.int64)

    def _rows(self, batch: Batch) -> Rows:
        thread, chosen = self._threads(batch)
        chained = self.chained[batch.event]
        walking = chosen & (self._walked[batch.event] != 0) & (batch.abi != 0) & (batch.stack_size != 0)
        if walking.any():
            stacks = self._walk(batch, walking)
            first, size, pc, end = (
                stacks.first,
                np.where(walking, stacks.size, 0).astype(np.uint32),
                stacks.pc,
                stacks.end,
            )
            exact, tableless = _exact(stacks)
            cut = ((stacks.end == _CUT) & walking & self._marks).astype(np.uint8)
        else:
            first = size = np.zeros(len(batch), np.uint32)
            pc, exact = np.zeros(1, np.uint64), np.zeros(1, np.uint8)
            tableless = np.zeros(len(batch), np.uint8)
            end = np.full(len(batch), NOT_WALKED, np.uint8)
            cut = np.zeros(len(batch), np.uint8)
        begins, numbers, alone = self.book.numbers.samples(
            batch.buffer,
            self.book.spaces(batch.state),
            chained,
            batch.misc,
            batch.ip,
            batch.chain_offset,
            batch.chain_count,
            first,
            size,
            pc,
            exact,
            cut,
            self._most,
        )
        rows = Rows(
            when=batch.when,
            thread=thread,
            event=batch.event,
            cpu=batch.cpu,
            time=batch.time,
            period=self._period(batch),
            end=end,
            tableless=tableless,
            alone=alone,
            first=begins[:-1],
            last=begins[1:],
            numbers=numbers,
        )
        return rows if chosen.all() else rows.taken(np.flatnonzero(chosen))

    def _walk(self, batch: Batch, walking: npt.NDArray[np.bool_]) -> SampleStacks:
        if self._walker is None:
            from clew.walk.samples import SampleWalker

            self._walker = SampleWalker(self.data, limit=self._most)
        return self._walker.walk(batch, walking)

    def _threads(self, batch: Batch) -> tuple[U32, npt.NDArray[np.bool_]]:
        """The number of each sample's thread, and which are wanted."""
        wanted = self._wanted
        numbers = np.zeros(len(batch), np.uint32)
        chosen = (batch.time >= np.uint64(wanted.first)) & (batch.time <= np.uint64(wanted.last))
        if wanted.events:
            chosen &= np.isin(batch.event, sorted(wanted.events))
        codes = batch.pid.astype(np.int64) << 32 | batch.tid.astype(np.int64) & 0xFFFFFFFF
        for code in distinct(codes).tolist():
            which = np.flatnonzero(codes == code)
            pid, tid = code >> 32, (code & 0xFFFFFFFF) - (code << 1 & 1 << 32)
            if not chosen[which].any():
                continue
            if not (self._pids.fits(pid) and self._tids.fits(tid)):
                chosen[which] = False
                continue
            names = self.data.history.threads.get(tid)
            periods = (
                np.searchsorted(np.array(names.since, np.uint64), batch.when[which], "right") if names else which * 0
            )
            for period in distinct(periods).tolist():
                name = names.names[period - 1] if names is not None and period else None
                if name is None:
                    name = "swapper" if tid == 0 else f":{tid}"
                some = which[periods == period]
                if not self._names.fits(name):
                    chosen[some] = False
                else:
                    numbers[some] = self._number(SampledThread(pid, tid, name))
        return numbers, chosen

    def unmatched(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Which names and numbers of those that are wanted no sample had: the option, these, and some that there are."""
        for option, seen in (("--pid", self._pids), ("--tid", self._tids), ("--comm", self._names)):
            missing = [str(each) for each in sorted(seen.wanted - seen.found)]
            if missing:
                yield option, missing, [str(each) for each in seen.there]

    def _period(self, batch: Batch) -> U64:
        """For how many events each sample stands: where it does not say so, what its event was set to."""
        if all(self._has_period):
            return batch.period
        return np.where(np.array(self._has_period)[batch.event], batch.period, self._usual[batch.event])

    def _number(self, thread: SampledThread) -> int:
        number = self._numbers.get(thread)
        if number is None:
            number = self._numbers[thread] = len(self.threads)
            self.threads.append(thread)
        return number


class _Seen:
    """What samples have, beside what is wanted of it; all fits where nothing is.

    Attributes:
        wanted: what the user named.
        found: what of that some sample had.
        there: what samples have, the first few.
    """

    def __init__(self, wanted: frozenset[int] | frozenset[str]) -> None:
        self.wanted = wanted
        self.found: set[int | str] = set()
        self.there: list[int | str] = []

    def fits(self, value: int | str) -> bool:
        """Whether a sample that has this is wanted."""
        if not self.wanted:
            return True
        if len(self.there) < _MOST_SHOWN and value not in self.there:
            self.there.append(value)
        if value not in self.wanted:
            return False
        self.found.add(value)
        return True


def _exact(stacks: SampleStacks) -> tuple[U8, U8]:
    """What the stacks of the general walker are: by frame, and by sample.

    The first says which pcs were interrupted, and are shown as they are: of signals' frames, and of what they interrupted. The
    second says which samples have frames that were found without an unwind table.
    """
    tableless = np.zeros(len(stacks), np.uint8)
    exact = np.zeros(max(len(stacks.pc), 1), np.uint8)
    for index, stack in stacks.others.items():
        first = int(stacks.first[index])
        for place, frame in enumerate(stack.frames):
            if frame.pc.lookup == frame.pc.address:
                exact[first + place] = 1
            if frame.trust not in _BY_TABLE:
                tableless[index] = 1
    return exact, tableless
