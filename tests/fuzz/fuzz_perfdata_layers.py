"""Opens any bytes as a recording of perf, walks its samples, prints and counts them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from fuzz_target_inputs import folder

from clew.cli.output import Palette
from clew.cli.report_counts import count_stacks
from clew.cli.report_json import collapsed, report_json
from clew.cli.report_text import report_lines
from clew.cli.script_frames import FrameBook
from clew.cli.script_samples import SampleReader, Wanted
from clew.cli.script_writer import ScriptWriter
from clew.errors import Error
from clew.symbols.debug_places import Places
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
        print_samples(recording)
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


def print_samples(recording: PerfData) -> None:
    """The text of all samples, and their stacks as ``report`` prints them: in each the same number of them."""
    places = Places(())
    samples = 0
    try:
        reader = SampleReader(recording, FrameBook(recording, places), Wanted(), most=100)
        writer = ScriptWriter(reader, ("comm", "pid", "tid", "time", "ip", "sym", "symoff", "dso"))
        for rows, order in reader.rows():
            samples += len(order)
            text = b"".join(map(bytes, writer.write(rows, order)))
            assert text.isascii() or text.decode()
            assert b"\x1b" not in text
        counted = count_stacks(SampleReader(recording, FrameBook(recording, places), Wanted(), most=100, marks=False))
    except Error:
        return
    assert counted.samples == samples
    assert sum(stack["count"] for stack in report_json(counted, "input")["stacks"]) == samples
    for form in (False, True):
        lines = report_lines(counted, "input", Palette(False), children=form, graph=form, limit=20, least=0)
        assert not any("\x1b" in line or "\n" in line for line in lines)
    assert not any("\n" in line for line in collapsed(counted, (0,)))


def _columns(batch: Batch) -> Iterator[tuple[int, int, int]]:
    return zip(batch.pid.tolist(), batch.time.tolist(), batch.state.tolist(), strict=True)
