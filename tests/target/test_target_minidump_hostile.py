"""Minidumps that are damaged in any way: an Error, or a target with its problems; never anything else."""

from __future__ import annotations

import tracemalloc
from functools import lru_cache
from pathlib import Path
from struct import pack

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_target_core import program

from clew.errors import Error
from clew.target import open_minidump
from clew.target.minidump import StreamType
from clew.testing.minidump import MinidumpBuilder

BASE = 0x5555_0000_0000


@lru_cache
def example() -> bytes:
    dump = MinidumpBuilder()
    for number in range(1, 4):
        stack = (0x7000 + 0x100 * number, bytes(64))
        dump.thread(number, {"rip": BASE + 0x1000 + number, "rsp": stack[0]}, name=f"thread {number}", stack=stack)
    dump.exception(2, 11, 0, {"rip": BASE + 0x1001, "rsp": 0x7200})
    dump.module("/nowhere/prog", BASE, 0x3000, build_id=b"\x11" * 20)
    dump.module("/nowhere/lib", BASE + 0x4000, 0x3000, guid=bytes(range(16)), age=1)
    dump.memory(BASE, program()[:512])
    dump.memory(0x9000, bytes(100), wide=True)
    dump.region(0x7000, 0x1000)
    dump.maps(b"7000-8000 rw-p 00000000 00:00 0 [stack]\n")
    dump.process(1)
    return dump.build()


def use(path: Path) -> None:
    try:
        target = open_minidump(path, debug_dirs=[path.parent / "debug"])
    except Error:
        return
    with target:
        for thread in target.threads:
            target.memory.read(thread.pc, 16)
        for module in target.modules:
            assert 0 <= module.start < module.end <= 1 << target.machine.bits
            assert module.image is not None or module.trouble is not None
            target.memory.read(module.start, 1 << 13)
        assert len(target.problems) <= 1000


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 13), st.one_of(st.binary(min_size=1, max_size=8), st.just(b"\xff\xff\xff\xff"))),
        max_size=12,
    ),
    st.integers(0, 1 << 14),
)
def test_changed_bytes(tmp_path: Path, changes: list[tuple[int, bytes]], size: int) -> None:
    data = bytearray(example())
    for at, change in changes:
        data[at % len(data) : at % len(data) + len(change)] = change
    path = tmp_path / "dump"
    path.write_bytes(data[: size % len(data)] if size % 3 == 0 else data)
    use(path)


def test_every_fourth_prefix(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    for size in range(0, len(example()), 4):
        path.write_bytes(example()[:size])
        use(path)


def test_counts_that_cannot_be(tmp_path: Path) -> None:
    dump = MinidumpBuilder()
    huge = pack("<I", 0xFFFFFFFF)
    for type in (StreamType.THREAD_LIST, StreamType.MODULE_LIST, StreamType.MEMORY_LIST, StreamType.THREAD_NAMES):
        dump.stream(type, huge + bytes(200))
    dump.stream(StreamType.MEMORY64_LIST, pack("<QQ", 1 << 60, 0) + bytes(40))
    dump.stream(StreamType.MEMORY_INFO_LIST, pack("<IIQ", 16, 48, 1 << 60) + bytes(100))
    dump.stream(StreamType.EXCEPTION, bytes(3))
    with dump.write(tmp_path / "dump") as target:
        texts = "\n".join(map(str, target.problems))
    assert "thread list: 0x" in texts
    assert "it has 4 of its 4294967295 records" in texts
    assert "it has 2 of its 1152921504606846976 records" in texts


def test_a_list_of_regions_whose_records_are_too_small(tmp_path: Path) -> None:
    dump = MinidumpBuilder()
    dump.stream(StreamType.MEMORY_INFO_LIST, pack("<IIQ", 16, 0, 1 << 60) + bytes(100))
    with dump.write(tmp_path / "dump") as target:
        assert any("records of 0 bytes are not read" in str(problem) for problem in target.problems)


def test_memory_that_contradicts_itself(tmp_path: Path) -> None:
    dump = MinidumpBuilder()
    dump.memory(0x1000, b"abcdefgh")
    # The same again is no contradiction, as what Windows writes around a pc.
    dump.memory(0x1002, b"cdefghij")
    with dump.write(tmp_path / "dump") as target:
        assert [str(each) for each in target.problems] == ["the minidump has no thread"]
        assert target.memory.read(0x1000, 10) == b"abcdefghij"
    dump.memory(0x1004, b"!!!!")
    with dump.write(tmp_path / "dump") as target:
        assert "1 ranges of memory contradict others" in " ".join(map(str, target.problems))
        assert target.memory.read(0x1000, 10) == b"abcdefghij"


def test_records_that_share_a_long_text_do_not_take_memory_without_end(tmp_path: Path) -> None:
    dump = MinidumpBuilder()
    # 4,000 modules whose names all are the same 60 kB.
    name = dump.text("a" * 30_000)
    record = pack("<QIIII52x", 0x1000, 0x1000, 0, 0, name) + pack("<II24x", 0, 0)
    dump.stream(StreamType.MODULE_LIST, pack("<I", 4000) + 4000 * record)
    path = tmp_path / "dump"
    path.write_bytes(dump.build())
    tracemalloc.start()
    try:
        use(path)
        assert tracemalloc.get_traced_memory()[1] < 64 * path.stat().st_size
    finally:
        tracemalloc.stop()
