"""Samples walked many at a time: the same stacks as one at a time by the general walker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew.walk.samples
from clew.image import Image
from clew.testing import Cfa, CfiBuilder, ElfBuilder, Instruction, Op
from clew.testing.perfdata import PerfDataBuilder
from clew.walk import End, SampleWalker, Walker
from clew.walk.samples import ENDS, NO_STACK

CODE, SIZE, MAPPED = 0x2000, 0x40, 0x7F00_0000_0000
STACK = 0x7FFF_0000_0000
TYPE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8

# One function each, of SIZE bytes: what its rows say behind cfa = rsp+8, rip = *(cfa-8).
FUNCTIONS: tuple[list[Instruction], ...] = (
    [],
    [Cfa.def_cfa_offset(32), Cfa.offset(3, 3), Cfa.offset(6, 2)],
    [Cfa.def_cfa(6, 16), Cfa.offset(6, 2)],
    [Cfa.undefined(16)],
    [Cfa.def_cfa_offset(24), Cfa.same_value(3), Cfa.register(12, 13), Cfa.val_offset(14, 1), Cfa.undefined(15)],
    [Cfa.def_cfa_expression(Op.breg(7, 8) + Op.breg(16, 0) + bytes.fromhex("3f1a3b2a332422"))],
    [Cfa.def_cfa_expression(Op.breg(7, 16))],
    [Cfa.def_cfa_offset(4096), Cfa.offset(3, 2)],
    [Cfa.def_cfa_offset(12)],
)


def library(path: Path) -> Path:
    elf = ElfBuilder()
    end = CODE + SIZE * len(FUNCTIONS)
    cfi = CfiBuilder(byte_order="little", address_size=8, address=end)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    for number, instructions in enumerate(FUNCTIONS):
        cfi.fde(cie, start=CODE + number * SIZE, size=SIZE, instructions=instructions)
    elf.section(".text", b"\x90" * (end - CODE), address=CODE, executable=True)
    elf.section(".eh_frame", cfi.build(), address=end)
    elf.segment(1, (".text", ".eh_frame"), flags=5)
    path.write_bytes(elf.build())
    return path


@pytest.fixture(autouse=True, params=["packed", "steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By packed tables first, or only by the steps of the compiled core."""
    if request.param == "steps":
        monkeypatch.setattr(clew.walk.samples, "packed_walker", lambda walker: None)
    else:
        pytest.importorskip("clew.native.packed_walk", reason="needs the extension in C", exc_type=ImportError)
    return str(request.param)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("samples") / "it.so")


def mapped(builder: PerfDataBuilder, file: Path) -> None:
    """The file's code, at MAPPED."""
    offset = 0
    if file.exists():
        with Image.open(file) as image:
            offset = next(each.offset + CODE - each.address for each in image.segments if each.type == 1)
    builder.mapped2(1, str(file), MAPPED, 0x1000, offset)


def recording(file: Path, samples: Callable[[PerfDataBuilder], None]) -> PerfDataBuilder:
    builder = PerfDataBuilder()
    builder.event(type=TYPE, registers=("rip", "rsp", "rbp", "rbx", "rcx"), stack=True)
    builder.named(1, "it")
    mapped(builder, file)
    samples(builder)
    return builder


def compare(builder: PerfDataBuilder, path: Path) -> list[End]:
    """Walks both ways; the ends."""
    ends: list[End] = []
    with builder.write(path) as data:
        fast = SampleWalker(data, limit=50)
        for batch in data.batches():
            stacks = fast.walk(batch)
            again = fast.walk(batch)
            for index, sample in enumerate(batch.samples()):
                if sample.thread is None:
                    assert stacks.end[index] == NO_STACK
                    continue
                target = sample.process.target
                expected = Walker(target, limit=50).walk(sample.thread)
                assert stacks.pcs(index).tolist() == [frame.pc.address for frame in expected.frames]
                assert again.pcs(index).tolist() == stacks.pcs(index).tolist()
                assert ENDS[stacks.end[index]] is expected.end is ENDS[again.end[index]]
                assert stacks.in_call[index] == sample.thread.interrupted_call
                first = int(stacks.first[index])
                modules = [
                    None if number < 0 else target.modules[number]
                    for number in stacks.module[first : first + len(expected.frames)].tolist()
                ]
                assert modules == [frame.module for frame in expected.frames]
                ends.append(expected.end)
    return ends


places = st.integers(0, SIZE * len(FUNCTIONS)).map(lambda offset: MAPPED + offset)
words = st.one_of(
    places,
    st.integers(0, 80).map(lambda number: STACK + 8 * number),
    st.sampled_from([0, 1, MAPPED - 1, (1 << 64) - 1, STACK + 3]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some=st.lists(
        st.tuples(places, words, words, st.lists(words, max_size=60), st.integers(0, 8), st.booleans(), words),
        min_size=1,
        max_size=8,
    )
)
def test_any_samples(file: Path, tmp_path: Path, some: list[tuple[int, int, int, list[int], int, bool, int]]) -> None:
    def samples(builder: PerfDataBuilder) -> None:
        for time, (pc, rbp, rbx, stack, cut, in_kernel, rcx) in enumerate(some):
            data = pack(f"<{len(stack)}Q", *stack)
            builder.sample(
                pid=1,
                time=100 + time,
                ip=pc,
                misc=1 if in_kernel else 2,
                registers={"rip": pc, "rsp": STACK + 8 * cut, "rbp": rbp, "rbx": rbx, "rcx": rcx},
                stack=data,
                filled=max(0, len(data) - cut),
            )
        builder.sample(pid=1, time=1000, registers=None)

    compare(recording(file, samples), tmp_path / "perf.data")


def test_each_kind_of_step(file: Path, tmp_path: Path) -> None:
    """Calls through each function, out of one to the next, with the outermost last."""
    pc = [MAPPED + number * SIZE + 13 for number in (0, 1, 4, 5, 6)] + [MAPPED + 3 * SIZE + 5]
    # Behind each frame its return address: rsp+8, rsp+32, rsp+24, the stub of the PLT behind its push, rsp+16.
    stack = [pc[1], 0, 1, 2, pc[2], 0, 0, pc[3], 0, pc[4], 0, pc[5]]
    # In a stub, rip & 15 is 13: eight more. It was returned to, so that pc is the unadjusted one.

    def samples(builder: PerfDataBuilder) -> None:
        builder.sample(
            pid=1,
            time=100,
            ip=pc[0],
            registers={"rip": pc[0], "rsp": STACK, "rbp": 0, "rbx": 0},
            stack=pack(f"<{len(stack)}Q", *stack),
        )
        builder.sample(
            pid=1, time=101, ip=pc[0], registers={"rip": pc[0], "rsp": STACK}, stack=pack("<5Q", *stack[:5]), filled=24
        )
        # Its own return address, again and again: a function that calls itself.
        builder.sample(
            pid=1, time=102, ip=pc[0], registers={"rip": pc[0], "rsp": STACK}, stack=pack("<3Q", *[pc[0]] * 3)
        )

    path = tmp_path / "perf.data"
    assert compare(recording(file, samples), path) == [End.ENTRY, End.STACK_COPY_END, End.STACK_COPY_END]
    with recording(file, samples).write(path) as data:
        stacks = SampleWalker(data).walk(next(data.batches()))
        assert stacks.pcs(0).tolist() == pc
        # All but the frame whose CFA is an expression that is not the PLT's.
        assert list(stacks.others) == [0]
        assert [len(stacks.pcs(index)) for index in (1, 2)] == [2, 4]


def test_what_is_no_recording_of_stacks_has_no_frames(file: Path, tmp_path: Path) -> None:
    builder = PerfDataBuilder()
    builder.event(type=TYPE)
    mapped(builder, file)
    builder.sample(pid=1, time=100, ip=MAPPED + 4)
    builder.sample(pid=1, time=100, ip=MAPPED + 4, misc=1)
    with builder.write(tmp_path / "perf.data") as data:
        stacks = SampleWalker(data).walk(next(data.batches()))
        assert [stacks.pcs(index).tolist() for index in range(2)] == [[MAPPED + 4], []]
        assert stacks.end[1] == NO_STACK


def test_the_file_is_only_asked_for_when_needed(tmp_path: Path) -> None:
    def samples(builder: PerfDataBuilder) -> None:
        builder.sample(pid=1, time=100, ip=MAPPED, registers={"rip": MAPPED + 4, "rsp": STACK}, stack=bytes(64))

    assert compare(recording(tmp_path / "none.so", samples), tmp_path / "perf.data") == [End.NO_RULE]
