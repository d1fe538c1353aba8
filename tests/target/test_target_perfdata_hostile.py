"""Recordings that are cut, changed or made up: nothing but clew.Error, and what is whole is kept."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.arch import ByteOrder
from clew.errors import Error
from clew.target.perfdata import open_perf_data
from clew.target.perfdata.modules import is_file
from clew.target.perfdata.records import Mapped
from clew.testing.perfdata import PerfDataBuilder

TIMED = 0b111


def recording(order: ByteOrder = "little", pipe: bool = False, machine: str = "powerpc64") -> PerfDataBuilder:
    builder = PerfDataBuilder(machine, byte_order=order, pipe=pipe)
    sp, pc = ("r1", "nip") if machine == "powerpc64" else ("rsp", "rip")
    builder.event("clock", type=TIMED | 1 << 5, registers=(sp, pc), stack=True, ids=(1,))
    builder.build_id("/lib/a.so", b"\x05" * 20)
    builder.named(1, "name")
    builder.mapped2(1, "/lib/a.so", 0x10000, 0x1000)
    builder.mapped(1, "/lib/b.so", 0x20000, 0x1000)
    builder.forked(2, 1, time=5)
    for number in range(4):
        builder.sample(
            pid=1 + number % 2, time=number, registers={sp: 0x7000, pc: 0x10000}, stack=bytes(32), chain=(1, 2)
        )
    builder.lost(1)
    return builder


BLOBS = [recording(order, pipe).build() for order in ("little", "big") for pipe in (False, True)]


def read(path: Path) -> int:
    """How many samples are read, with everything that can be asked of them."""
    count = 0
    with open_perf_data(path, sysroot=path.parent / "nothing") as data:
        for sample in data.samples():
            count += 1
            memory = sample.process.memory
            assert len(memory.read(memory.stack_start, memory.stack_end - memory.stack_start) or b"") <= 1 << 16
            if sample.thread is not None:
                sample.process.target.modules.at(sample.thread.pc)
        assert sum(len(batch) for batch in data.batches()) == count
        assert len(data.problems) <= 1000
    return count


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "perf.data"


@settings(deadline=None, max_examples=400)
@given(data=st.data())
def test_changed_bytes(path: Path, data: st.DataObject) -> None:
    blob = bytearray(data.draw(st.sampled_from(BLOBS)))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(blob) - 8))
        width = data.draw(st.sampled_from((1, 2, 4, 8)))
        value = data.draw(
            st.one_of(st.sampled_from((0, 1, 8, 9, 255, len(blob), (1 << 64) - 1)), st.integers(0, (1 << 64) - 1))
        )
        blob[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(
            width, data.draw(st.sampled_from(("little", "big")))
        )
    path.write_bytes(blob)
    try:
        assert read(path) < 1000
    except Error as error:
        str(error)


@pytest.mark.parametrize("number", range(len(BLOBS)))
def test_every_cut(path: Path, number: int) -> None:
    blob = BLOBS[number]
    counts = []
    for size in range(0, len(blob), 8):
        path.write_bytes(blob[:size])
        try:
            counts.append(read(path))
        except Error:
            counts.append(0)
    path.write_bytes(blob)
    # What was cut away has no samples, and the rest has those that it holds, in the pipe's form, whose head comes first.
    assert read(path) == 4
    if number % 2:
        assert counts == sorted(counts)
        assert set(counts) == {0, 1, 2, 3, 4}


def pieces(builder: PerfDataBuilder) -> Iterator[tuple[bytes, str]]:
    order = builder.order
    yield pack(order + "IHH", 9, 2, 0), "impossible size"
    yield pack(order + "IHH", 9, 2, 7), "impossible size"
    yield pack(order + "IHH", 10, 2, 0xFFF8), "cut short"
    yield bytes(4), "cut short"


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("order", ["little", "big"])
def test_what_stands_before_a_broken_record_is_kept(tmp_path: Path, order: ByteOrder, which: int) -> None:
    builder = recording(order)
    piece, message = list(pieces(builder))[which]
    builder.records.append(piece)
    with builder.write(tmp_path / "perf.data") as data:
        assert len(list(data.samples())) == 4
        assert [message in problem.message for problem in data.problems] == [True]
        [problem] = data.problems
        assert (tmp_path / "perf.data").read_bytes()[problem.offset :].startswith(piece)


def test_bad_samples_and_records_cost_only_themselves(tmp_path: Path) -> None:
    builder = recording()
    good = [record for record in builder.records if record[0] == 9]
    builder.records.insert(2, good[0][:4] + pack("<HH", 2, 32) + good[0][8:32])
    builder.records.insert(2, pack("<IHHQ", 7, 0, 16, 0))
    builder.add(7, 0, bytes(8))
    builder.add(12345, 7, bytes(16))
    builder.add(5, 0, bytes(24))
    with builder.write(tmp_path / "perf.data") as data:
        assert len(list(data.samples())) == 4
        assert [str(problem).partition(": ")[2] for problem in data.problems] == [
            "a record ends before its sample_id",
            "a record of kind 7 is damaged",
            "the data ends inside a number",
        ]


def test_a_dead_recorder(tmp_path: Path) -> None:
    """perf that was killed leaves a size of 0; which machine it was is then told by the files that it names."""
    builder = recording(machine="x86-64")
    builder.mapped(1, str(Path("/proc/self/exe").resolve()), 0x400000, 0x1000)
    blob = bytearray(builder.build())
    begin, size = (int.from_bytes(blob[at : at + 8], "little") for at in (40, 48))
    blob[48:56] = bytes(8)
    (tmp_path / "perf.data").write_bytes(blob[: begin + size])
    try:
        data = open_perf_data(tmp_path / "perf.data")
    except Error:
        pytest.skip("this Python is not of x86-64")
    with data:
        assert len(list(data.samples())) == 4
        assert "not ended properly" in data.problems[0].message
        assert data.machine.bits == 64


@pytest.mark.parametrize("second", [False, True])
def test_compressed_zeros_without_end(tmp_path: Path, second: bool) -> None:
    zstandard = pytest.importorskip("zstandard")
    # Sixty bytes that stand for a gigabyte; the first record in it has an impossible size.
    made = zstandard.ZstdCompressor(level=1).compressobj()
    bomb = b"".join(made.compress(bytes(1 << 20)) for _ in range(1 << 10)) + made.flush()
    builder = recording()
    for at in range(0, len(bomb), 60000):
        part = bomb[at : at + 60000]
        builder.records.append(
            builder.record(81, 0, part) if not second else builder.record(83, 0, pack("<Q", len(part)) + part)
        )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with builder.write(tmp_path / "perf.data") as data:
        assert len(list(data.samples())) == 4
        assert any("impossible size" in problem.message for problem in data.problems)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000


def test_compressed_records_without_end(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    builder = recording()
    # Each is a whole one, of a kind that is remembered.
    renamed = builder.record(3, 0, pack("<ii", 1, 1) + bytes(8) + bytes(16))
    made = zstandard.ZstdCompressor(level=1).compressobj()
    bomb = b"".join(made.compress(renamed * 20_000) for _ in range(30)) + made.flush()
    for at in range(0, len(bomb), 60000):
        builder.records.append(builder.record(81, 0, bomb[at : at + 60000]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with builder.write(tmp_path / "perf.data") as data:
        assert any("left out" in problem.message for problem in data.problems)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000


def test_damaged_compression(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    builder = recording()
    builder.compress(2)
    record = bytearray(builder.records[2])
    record[8:12] = b"\xff" * 4
    builder.records[2] = bytes(record)
    builder.sample(pid=1, registers={}, time=9)
    with builder.write(tmp_path / "perf.data") as data:
        assert len(list(data.samples())) == 1
        assert "damaged" in data.problems[0].message


def test_many_processes_that_nobody_knows(tmp_path: Path) -> None:
    builder = PerfDataBuilder()
    builder.event(type=TIMED)
    for number in range(3000):
        builder.sample(pid=number - 1500, time=number)
    with builder.write(tmp_path / "perf.data") as data:
        kept = [sample.process for sample in data.samples()]
        assert len(set(map(id, kept))) == 3000
        assert [process.pid for process in kept] == list(range(-1500, 1500))
        assert all(len(process.target.modules) == 0 for process in kept)


def test_many_ids_that_all_events_share(tmp_path: Path) -> None:
    builder = PerfDataBuilder()
    for _ in range(200):
        builder.event(ids=(1,))
    blob = bytearray(builder.build())
    # Each attribute claims the whole file as its ids.
    for index in range(200):
        at = 104 + 8 * 200 + 144 * index + 128
        blob[at : at + 16] = pack("<QQ", 0, 1 << 60)
    (tmp_path / "perf.data").write_bytes(blob)
    with open_perf_data(tmp_path / "perf.data") as data:
        assert sum(len(event.ids) for event in data.events) <= len(blob) // 8
        assert len(data.problems) >= 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/lib/it.so", True),
        ("/usr/../proc/kcore", False),
        ("/./dev/mem", False),
        ("//anon", False),
        ("[heap]", False),
        ("", False),
    ],
)
def test_names_that_are_no_files(path: str, expected: bool) -> None:
    assert is_file(Mapped(0x1000, 0x2000, 0, True, path, None)) is expected
