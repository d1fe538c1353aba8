"""Opens any bytes as a recording of perf, and walks its samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from fuzz_target_inputs import folder

from clew.errors import Error
from clew.target.perfdata import Batch, PerfData, SampledProcess, open_perf_data
from clew.walk import End, SampleWalker, Walker
from clew.walk.samples import ENDS, NO_STACK

MOST = 40


def read_recording(data: bytes) -> None:
    """The bytes as a recording. What raises clew.Error is passed over."""
    path = folder() / "input"
    path.write_bytes(data)
    try:
        recording = open_perf_data(path, sysroot=folder())
    except Error:
        return
    with recording:
        walk_samples(recording)
        for problem in recording.problems:
            str(problem)
        assert len(recording.problems) <= 1000


def walk_samples(recording: PerfData) -> None:
    """Each walk ends with a reason; batches say what samples say."""
    walkers: dict[SampledProcess, Walker] = {}
    found = walked(recording)
    try:
        columns = [(pid, time, state) for each in recording.batches() for pid, time, state in _columns(each)]
    except Error:
        return
    for index, sample in enumerate(islice(recording.samples(), MOST)):
        pid, time, state = columns[index]
        process = recording.state(state)
        assert (sample.process, sample.process.pid, sample.time) == (process, pid, time)
        memory = process.memory
        assert memory.read(memory.stack_end, 1) is None or process.target.modules.at(memory.stack_end) is not None
        if sample.thread is None:
            continue
        if process not in walkers:
            walkers[process] = Walker(process.target, limit=100)
        stack = walkers[process].walk(sample.thread)
        assert 0 < len(stack.frames) <= 100
        assert stack.detail
        assert found[index] == (stack.end, [frame.pc.address for frame in stack.frames])
    for walker in walkers.values():
        for module in walker.target.modules[:MOST]:
            assert module.start < module.end


def walked(recording: PerfData) -> list[tuple[End | None, list[int]]]:
    """The same stacks, walked many at a time."""
    walker = SampleWalker(recording, limit=100)
    found: list[tuple[End | None, list[int]]] = []
    try:
        for batch in recording.batches():
            stacks = walker.walk(batch)
            for index, end in enumerate(stacks.end.tolist()):
                found.append((None if end == NO_STACK else ENDS[end], stacks.pcs(index).tolist()))
                if len(found) >= MOST:
                    return found
    except Error:
        pass
    return found


def _columns(batch: Batch) -> Iterator[tuple[int, int, int]]:
    return zip(batch.pid.tolist(), batch.time.tolist(), batch.state.tolist(), strict=True)
