"""Samples and records split into columns, against what the builder was told to put there."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from struct import pack

import pytest

from clew.native import compiled
from clew.native.perf_records import BROKEN, DONE, FULL, NONE, STOPPED, Splitter
from clew.testing.perfdata import PerfDataBuilder

ALL = sum(1 << bit for bit in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16))
KERNEL = (1 << 64) - 128


def splitter(
    builder: PerfDataBuilder,
    *,
    wanted: Sequence[int] = (1, 3),
    stops: Sequence[int] = (81,),
    samples: bool = True,
    room: int = 100,
) -> Splitter:
    events: list[int] = []
    pairs = []
    for index, event in enumerate(builder.events):
        # As many as there are bits; the pc is word 1 of them, the stack pointer word 0.
        words = event.mask.bit_count()
        events += [event.type, event.read_format, event.branch, words, 1 if words > 1 else NONE, 0 if words else NONE]
        events.append(event.sample_id_all)
        pairs += [(id, index) for id in event.ids]
    pairs.sort()
    ids, owners = [id for id, _ in pairs], [index for _, index in pairs]
    return Splitter(events, ids, owners, builder.order == ">", wanted, stops, samples, room)


@pytest.mark.parametrize("machine", ["x86-64", "s390x"])
def test_every_field_of_a_sample(machine: str) -> None:
    builder = PerfDataBuilder(machine)
    names = ("rsp", "rip") if machine == "x86-64" else ("r15", "pswa")
    # Words of the read format: all that there is, of one event; the branch stack with its index and counters.
    builder.event(type=ALL, read_format=0b10111, branch=1 << 17 | 1 << 19, registers=names, stack=True, ids=(3,))
    builder.sample(
        pid=10,
        tid=-11,
        time=12,
        ip=(1 << 64) - 13,
        cpu=14,
        period=15,
        misc=1,
        read=(1, 2, 3, 4, 5),
        chain=(KERNEL, 16),
        raw=bytes(12),
        branches=range(8),
        registers={names[0]: 0x7000, names[1]: 0x1234},
        stack=b"abcdefgh" * 2,
        filled=9,
        tail=bytes(48),
    )
    data = builder.records[0]
    split = splitter(builder)
    assert split.split(data, 0, len(data)) == DONE
    assert split.at == len(data)
    samples, records = split.columns()
    row = {name: column.tolist() for name, column in samples.items()}
    stack = data.index(b"abcdefgh")
    chain = data.index(pack(builder.order + "Q", KERNEL))
    assert records["kind"].tolist() == []
    assert row == {
        "offset": [0],
        "misc": [1],
        "event": [0],
        "pid": [10],
        "tid": [-11],
        "cpu": [14],
        "time": [12],
        "period": [15],
        "ip": [(1 << 64) - 13],
        "chain_offset": [chain],
        "chain_count": [2],
        "abi": [2],
        "pc": [0x1234],
        "sp": [0x7000],
        "registers_offset": [stack - 8 - 16],
        "stack_offset": [stack],
        "stack_size": [9],
    }


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (0b00000, (7,)),
        (0b00111, (7, 1, 2, 3)),
        (0b11011, (2, 8, 9, 1, 4, 2, 4)),  # GROUP, both times, two events with value and lost
        (0b01100, (3, 1, 1, 2, 2, 3, 3)),  # GROUP, three events with value and id
        (0b01000, (0,)),
    ],
)
def test_what_follows_each_read_format(form: int, words: tuple[int, ...]) -> None:
    builder = PerfDataBuilder()
    builder.event(type=1 << 4 | 1 << 5, read_format=form)
    builder.sample(read=words, chain=(5, 6, 7))
    split = splitter(builder)
    split.split(builder.records[0], 0, len(builder.records[0]))
    assert split.problems == []
    assert split.columns()[0]["chain_count"].tolist() == [3]


def test_events_are_told_apart_by_their_ids() -> None:
    builder = PerfDataBuilder()
    builder.event(type=1 << 16 | 1 << 1, ids=(50, 7))
    builder.event(type=1 << 16 | 1 << 1 | 1 << 8, ids=(9,))
    builder.sample(event=1, pid=2, period=77)
    builder.sample(event=0, pid=1)
    builder.events[0].ids = [7]
    builder.sample(event=0, pid=3)
    builder.events[0].ids = [8]  # of nobody
    builder.sample(event=0, pid=4)
    builder.events[0].ids = [0]  # what perf itself makes
    builder.sample(event=0, pid=5)
    builder.events[0].ids = [50, 7]
    data = b"".join(builder.records)
    split = splitter(builder)
    assert split.split(data, 0, len(data)) == DONE
    samples, _ = split.columns()
    assert samples["event"].tolist() == [1, 0, 0, 0]
    assert samples["pid"].tolist() == [2, 1, 3, 5]
    assert samples["period"].tolist() == [77, 0, 0, 0]
    assert split.unknown == 1


def test_ids_without_identifier_stand_behind_the_address() -> None:
    builder = PerfDataBuilder()
    kind = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6
    builder.event(type=kind, ids=(5,))
    builder.event(type=kind, ids=(6,))
    builder.sample(event=1)
    builder.named(1, "a")
    builder.add(3, 0, pack("<ii", 4, 4) + b"b\0\0\0\0\0\0\0", event=1, time=99)
    data = b"".join(builder.records)
    split = splitter(builder)
    split.split(data, 0, len(data))
    samples, records = split.columns()
    assert samples["event"].tolist() == [1]
    assert records["time"].tolist() == [0, 99]


@pytest.mark.parametrize("kind", [0, 1 << 1, 1 << 2, 1 << 1 | 1 << 2 | 1 << 7 | 1 << 9 | 1 << 16])
def test_records_end_where_their_sample_id_begins(kind: int) -> None:
    builder = PerfDataBuilder()
    builder.event(type=kind, ids=(1,))
    builder.named(3, "abc", time=17)
    data = builder.records[0]
    split = splitter(builder)
    split.split(data, 0, len(data))
    _, records = split.columns()
    assert records["end"].tolist() == [8 + 8 + 8]
    assert records["time"].tolist() == [17 if kind & 4 else 0]


def test_every_cut_of_a_sample_costs_only_that_sample() -> None:
    builder = PerfDataBuilder()
    builder.event(type=ALL, read_format=0b1000, registers=("rsp", "rip"), stack=True)
    builder.sample(read=(1, 2), chain=(1, 2), branches=(1, 2, 3), registers={}, stack=bytes(16))
    whole = builder.records[0]
    for size in range(8, len(whole), 8):
        cut = pack("<IHH", 9, 2, size) + whole[8:size]
        data = cut + whole
        split = splitter(builder)
        assert split.split(data, 0, len(data)) == DONE
        assert split.columns()[0]["offset"].tolist() == [size]
        assert [offset for offset, _ in split.problems] == [0]


@pytest.mark.parametrize("count", [100, 1 << 13, 1 << 61 | 1 << 31, (1 << 64) - 1])
@pytest.mark.parametrize("bit", [4, 5, 10, 11, 13])
def test_absurd_counts(bit: int, count: int) -> None:
    builder = PerfDataBuilder()
    builder.event(type=1 << bit, read_format=8)
    data = pack("<IHHQQ", 9, 2, 24, count, 0)
    split = splitter(builder)
    assert split.split(data, 0, len(data)) == DONE
    assert split.sample_count == 0
    assert split.problem_count == 1


def test_why_it_stops() -> None:
    builder = PerfDataBuilder()
    builder.event()
    for number in range(3):
        builder.sample(pid=number)
    builder.add(81, 0, bytes(8))
    builder.sample(pid=3)
    builder.add(71, 0, pack("<Q", 24) + bytes(32))
    builder.records.append(b"\xff" * 24)
    builder.sample(pid=4)
    builder.add(66, 0, pack("<I", 3) + bytes(4))
    builder.records.append(b"\xff" * 8)
    builder.sample(pid=5)
    builder.records.append(pack("<IHH", 9, 0, 4))
    data = b"".join(builder.records)
    split = splitter(builder, room=2)
    assert split.split(data, 0, len(data)) == FULL
    assert split.columns()[0]["pid"].tolist() == [0, 1]
    assert split.split(data, split.at, len(data)) == STOPPED
    assert split.columns()[0]["pid"].tolist() == [2]
    split = splitter(builder, stops=())
    assert split.split(data, 0, len(data)) == BROKEN
    assert split.columns()[0]["pid"].tolist() == [0, 1, 2, 3, 4, 5]
    assert split.at == len(data) - 8
    # Cut in the middle of a record, it is the caller's to go on.
    split.split(data, 0, 100)
    assert split.at == 96 - 96 % len(builder.records[0])


@pytest.mark.parametrize("size", [1 << 40, 1 << 63, (1 << 64) - 1])
def test_trace_data_of_absurd_size(size: int) -> None:
    builder = PerfDataBuilder()
    builder.event()
    builder.add(71, 0, pack("<Q", size))
    builder.sample()
    data = b"".join(builder.records)
    split = splitter(builder)
    assert split.split(data, 0, len(data)) == DONE
    assert split.at >= len(data)


def corpus_digest() -> str:
    """What splitting says of damaged records, in a few letters."""
    random = Random(3)
    digest = hashlib.sha256()
    for turn in range(300):
        builder = PerfDataBuilder(random.choice(("x86-64", "s390x")))
        names = builder.names[:3]
        for _ in range(random.choice((1, 2))):
            builder.event(
                type=random.getrandbits(12) | random.choice((0, 1 << 16)),
                read_format=random.getrandbits(5),
                branch=random.getrandbits(20),
                registers=names,
                stack=True,
                ids=(random.randrange(4),),
            )
        for number in range(6):
            words = [random.getrandbits(3) for _ in range(random.randrange(8))]
            event = random.randrange(len(builder.events))
            builder.sample(event=event, pid=number, read=words, chain=words, registers={}, stack=bytes(16), time=turn)
            builder.named(number, "name", time=number)
        data = bytearray(b"".join(builder.records))
        for _ in range(random.randrange(4)):
            data[random.randrange(len(data))] = random.choice((0, 1, 8, 9, 71, 255, random.getrandbits(8)))
        split = splitter(builder, room=random.choice((3, 100)))
        at = 0
        for _ in range(20):
            stop = split.split(data, at, len(data))
            samples, records = split.columns()
            columns = [*samples.values(), *records.values()]
            digest.update(repr((stop, split.at, split.problems, split.unknown)).encode())
            digest.update(repr([column.tolist() for column in columns]).encode())
            if stop != FULL:
                break
            at = split.at
    return digest.hexdigest()


@pytest.mark.skipif(not compiled(), reason="the core is not compiled here, so there is nothing to compare it with")
def test_compiled_and_uncompiled_agree() -> None:
    path = os.pathsep.join(each for each in sys.path if each)
    environment = {**os.environ, "CLEW_PURE": "1", "PYTHONPATH": path}
    command = [sys.executable, __file__]
    pure = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert pure.returncode == 0, pure.stderr
    assert pure.stdout.strip() == corpus_digest()


def test_offsets_rise() -> None:
    builder = PerfDataBuilder()
    builder.event()
    for _ in range(50):
        builder.sample()
    data = b"".join(builder.records)
    split = splitter(builder)
    split.split(data, 0, len(data))
    offsets = split.columns()[0]["offset"].tolist()
    assert all(low < high for low, high in pairwise(offsets))


if __name__ == "__main__":
    assert not compiled()
    print(corpus_digest())
