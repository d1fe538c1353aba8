"""The first way through a recording: everything but the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from clew.arch import Machine
from clew.errors import Problem
from clew.native.perf_records import NONE, Splitter
from clew.target.perfdata.attributes import Event
from clew.target.perfdata.header import Header
from clew.target.perfdata.history import MAXIMUM_MAPPINGS, History
from clew.target.perfdata.pipe import read_pipe_record
from clew.target.perfdata.records import (
    COMM,
    COMPRESSED,
    COMPRESSED2,
    EVENT_UPDATE,
    FORK,
    HEADER_BUILD_ID,
    HEADER_FEATURE,
    LOST,
    LOST_SAMPLES,
    MISC_COMM_EXEC,
    MISC_FORK_EXEC,
    MISC_LOST_SAMPLES_BPF,
    MMAP,
    MMAP2,
    Mapped,
    RecordReader,
)
from clew.target.perfdata.registers import pc_and_sp
from clew.target.perfdata.stream import ROOM, Records, Run

WANTED = (MMAP, MMAP2, COMM, FORK, LOST, LOST_SAMPLES, HEADER_BUILD_ID, HEADER_FEATURE, EVENT_UPDATE)

_ALLOWANCE = 1 << 18
"""How many changes of processes even a small file may tell of, beside one for every eight bytes."""

_Change = Mapped | tuple[int, str, bool] | tuple[int, int, int, bool]


def splitter_events(events: Sequence[Event], machine: Machine | None) -> npt.NDArray[np.uint64]:
    """What :class:`clew.native.perf_records.Splitter` has to know of events. Without a machine, registers are not found."""
    numbers: list[int] = []
    for event in events:
        mask = event.sample_regs_user
        pc, sp = pc_and_sp(machine, mask) if machine is not None else (NONE, NONE)
        forms = event.sample_type, event.read_format, event.branch_sample_type
        numbers += [*forms, mask.bit_count(), pc, sp, event.sample_id_all]
    return np.array(numbers, np.uint64)


def splitter_ids(events: Sequence[Event]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """All ids of events, sorted, and whose they are."""
    pairs = sorted({each: index for index, event in reversed([*enumerate(events)]) for each in event.ids}.items())
    return np.array([id for id, _ in pairs], np.uint64), np.array([index for _, index in pairs], np.uint32)


class Index:
    """What a recording says apart from its samples.

    Args:
        records: of the file.
        header: of the file; features that are among the records are added to it.
        timed: whether records have times. Without, what stands first in the file came first.
        report: told about what is damaged.

    Attributes:
        history: of processes and threads.
        kernel: where the kernel's own code was, its modules included, in the file's order.
        lost_records: that the kernel found no room for, samples and others.
        lost_samples: that the kernel or perf counted as lost. They may be among the former.
    """

    def __init__(self, records: Records, header: Header, timed: bool, report: Callable[[Problem], None]) -> None:
        self.history = History(report)
        self.kernel: list[Mapped] = []
        self.lost_records = self.lost_samples = 0
        self._header = header
        self._timed = timed
        self._report = report
        self._reader = RecordReader(header.order)
        self._most = _ALLOWANCE + (header.end - header.begin) // 8
        self._changes: list[tuple[int, int, int, _Change]] = []
        ids, owners = splitter_ids(header.events)
        splitter = Splitter(
            splitter_events(header.events, None),
            ids,
            owners,
            header.order == "big",
            WANTED,
            (COMPRESSED, COMPRESSED2),
            False,
            ROOM,
        )
        for run in records.runs(splitter):
            self._read(run)
        self._tell()

    def _read(self, run: Run) -> None:
        """Keep what one run says about processes, for when the order in time is known."""
        columns = run.records
        lists = [columns[name].tolist() for name in ("kind", "misc", "offset", "end", "time")]
        for kind, misc, start, end, time in zip(*lists, strict=True):
            when = time if self._timed else run.position + start
            if not self._record(run, kind, misc, start, end, when):
                self._report(Problem(f"a record of kind {kind} is damaged", offset=run.position + start))

    def _record(self, run: Run, kind: int, misc: int, start: int, end: int, when: int) -> bool:
        buffer, reader = run.buffer, self._reader
        if kind in (MMAP, MMAP2):
            mapping = reader.mapping(buffer, kind, misc, start, end)
            if mapping is not None:
                self._change(when, *mapping)
            elif len(self.kernel) < MAXIMUM_MAPPINGS:
                own = reader.kernel_mapping(buffer, kind, misc, start, end)
                if own is not None:
                    self.kernel.append(own)
        elif kind == COMM:
            name = reader.name(buffer, start, end)
            if name is None:
                return False
            self._change(when, name[0], (name[1], name[2], bool(misc & MISC_COMM_EXEC)))
        elif kind == FORK:
            task = reader.task(buffer, start, end)
            if task is None:
                return False
            pid, parent, tid, parent_tid, _ = task
            self._change(when, pid, (parent, tid, parent_tid, not misc & MISC_FORK_EXEC))
        elif kind == LOST:
            self.lost_records += reader.lost(buffer, kind, start, end)
        elif kind == LOST_SAMPLES:
            # With this bit, they were filtered out by a program and not lost.
            if not misc & MISC_LOST_SAMPLES_BPF:
                self.lost_samples += reader.lost(buffer, kind, start, end)
        elif self._header.pipe:
            read_pipe_record(self._header, kind, misc, bytes(buffer[start:end]), run.position + start)
        return True

    def _change(self, when: int, pid: int, change: _Change) -> None:
        # Compressed records may be many more than the file has bytes.
        if len(self._changes) < self._most:
            self._changes.append((when, len(self._changes), pid, change))
        else:
            self._report(Problem("there are absurdly many records of processes; the last of them are left out"))

    def _tell(self) -> None:
        """Tell the history all changes in the order of time; of equal times, in the file's."""
        history = self.history
        self._changes.sort(key=lambda each: each[:2])
        for when, _, pid, change in self._changes:
            if isinstance(change, Mapped):
                history.mapped(pid, change, when)
            elif len(change) == 3:
                history.named(pid, change[0], change[1], when, change[2])
            else:
                history.forked(pid, change[0], change[1], change[2], when, change[3])
        self._changes = []
