"""Recordings of perf that a builder makes: every record, field and form that is read."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from clew.arch import ByteOrder, machine_named
from clew.errors import DependencyError, FormatError, NotFoundError
from clew.target.perfdata import PerfData, Sample, open_perf_data
from clew.target.perfdata.registers import NAMES
from clew.testing.perfdata import PerfDataBuilder

TIMED = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8
FORMS = [("little", False, None), ("big", False, None), ("little", True, None), ("big", True, None)]


def simple(order: ByteOrder = "little", pipe: bool = False) -> PerfDataBuilder:
    """Two processes, of which one has two threads, and a sample of each."""
    builder = PerfDataBuilder("powerpc64", byte_order=order, pipe=pipe)
    builder.event("clock", type=TIMED, registers=("r1", "nip", "r31"), stack=True, ids=(4, 5))
    builder.command("perf", "record", "a b")
    builder.named(10, "first")
    builder.named(20, "second")
    builder.forked(10, 10, tid=11, parent_tid=10, time=50)
    builder.named(10, "worker", tid=11, time=60)
    for tid, time in ((10, 55), (11, 55), (11, 65)):
        registers = {"r1": 0x7000 + tid, "nip": 0x1000 + time, "r31": tid}
        builder.sample(
            pid=10,
            tid=tid,
            time=time,
            ip=0x1000 + time,
            cpu=3,
            period=9,
            registers=registers,
            stack=b"s" * 64,
            filled=40,
        )
    builder.sample(pid=20, time=70, registers={})
    return builder


def check(data: PerfData) -> None:
    assert data.problems == []
    assert [event.name for event in data.events] == ["clock"]
    assert data.command == "perf record a b"
    assert data.machine.name == "powerpc64"
    machine = data.machine
    seen = []
    for sample in data.samples():
        assert sample.thread is not None
        seen.append((sample.process.pid, sample.process.command, sample.thread.id, sample.thread.name, sample.time))
        if sample.process.pid == 10:
            sp = sample.thread.registers[machine.stack_pointer]
            assert sp == 0x7000 + sample.thread.id
            assert sample.thread.registers == {1: sp, 31: sample.thread.id}
            assert sample.thread.pc == sample.ip == 0x1000 + sample.time
            assert (sample.cpu, sample.period, sample.event) == (3, 9, data.events[0])
            memory = sample.process.memory
            assert memory is sample.process.target.memory
            assert memory.stack_end == sp + 40
            assert memory.read(sp + 32, 8) == b"s" * 8
            assert memory.read(sp + 33, 8) is None
            assert memory.read(sp - 1, 1) is None
            assert memory.read(sp, 0) == b""
            assert memory.window(sp + 39) is not None
            assert memory.window(sp + 40) is None
    assert seen == [
        (10, "first", 10, "first", 55),
        (10, "first", 11, "first", 55),
        (10, "first", 11, "worker", 65),
        (20, "second", 20, "second", 70),
    ]


@pytest.mark.parametrize("pipe", [False, True])
@pytest.mark.parametrize("order", ["little", "big"])
def test_both_orders_and_forms(tmp_path: Path, order: ByteOrder, pipe: bool) -> None:
    with simple(order, pipe).write(tmp_path / "perf.data") as data:
        check(data)
        check(data)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("order", ["little", "big"])
def test_compressed(tmp_path: Path, order: ByteOrder, second: bool) -> None:
    pytest.importorskip("zstandard")
    builder = simple(order)
    builder.compress(3, second=second)
    with builder.write(tmp_path / "perf.data") as data:
        check(data)


def test_compressed_records_go_on_in_the_next(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    builder = PerfDataBuilder()
    builder.event(type=TIMED, registers=("rsp", "rip"), stack=True)
    since = 0
    for number in range(100):
        builder.sample(pid=1, tid=number, time=number, registers={"rip": number}, stack=bytes([number]) * 1000)
        if number % 30 == 7:
            builder.compress(since)
            since = len(builder.records)
    with builder.write(tmp_path / "perf.data") as data:
        for number, sample in enumerate(data.samples()):
            assert sample.thread is not None
            assert (sample.thread.id, sample.thread.pc) == (number, number)
            assert sample.process.memory.read(0, 1000) == bytes([number]) * 1000
        assert number == 99
        assert data.problems == []


def test_compressed_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("zstandard")
    builder = simple()
    builder.compress()
    (tmp_path / "perf.data").write_bytes(builder.build())
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    monkeypatch.setitem(__import__("sys").modules, "compression.zstd", None)
    with pytest.raises(DependencyError) as caught:
        open_perf_data(tmp_path / "perf.data")
    assert caught.value.hint == "pip install 'clew[zstd]'"


@pytest.mark.parametrize("size", [64, 72, 80, 96, 104, 112, 120, 128, 136, 200])
def test_every_size_of_attributes(tmp_path: Path, size: int) -> None:
    builder = PerfDataBuilder()
    builder.event(type=TIMED, registers=("rsp", "rip") if size >= 96 else ())
    builder.sample(pid=4, registers={"rip": 5} if size >= 96 else None, ip=5, time=9)
    (tmp_path / "perf.data").write_bytes(builder.build(size))
    with open_perf_data(tmp_path / "perf.data") as data:
        [sample] = data.samples()
        assert sample.thread is not None
        assert (sample.thread.pc, sample.time) == (5, 9)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"loongarch32", "riscv32", "powerpc", "s390"}))
def test_registers_of_every_machine(tmp_path: Path, name: str) -> None:
    machine = machine_named(name)
    known = {each: machine.register_number(each) for each in NAMES[name]}
    builder = PerfDataBuilder(name)
    names = [each for each in NAMES[name] if name != "i386" or not each.startswith("r")]
    builder.event(registers=names, stack=True)
    values = {each: 0x1000 + index for index, each in enumerate(names)}
    builder.sample(registers=values, stack=bytes(8), abi=1 if machine.bits == 32 else 2)
    with builder.write(tmp_path / "perf.data") as data:
        [sample] = data.samples()
        assert data.machine == machine
        assert sample.thread is not None
        expected = {number: values[each] for each, number in known.items() if number is not None and each in values}
        assert sample.thread.registers == expected
        pc = {"x86-64": "rip", "i386": "eip", "powerpc64": "nip", "s390x": "pswa"}.get(name, "pc")
        assert sample.thread.pc == values[pc]
        sp = sample.thread.registers[machine.stack_pointer]
        assert sample.process.memory.stack_start == sp


@pytest.mark.parametrize(
    ("name", "narrow", "words"),
    [
        # asm/perf_regs.h of x86: ax, bx, cx, dx, …, sp is the eighth word and ip the ninth; DWARF's order is another.
        ("x86-64", "i386", {"rbx": 3, "rsp": 4, "rip": 8, "rdi": 7}),
        # arch/arm64/kernel/perf_regs.c: sp and pc of such a program are in their own words and in those of x13 and x15.
        ("aarch64", "arm", {"x11": 11, "x13": 13, "x14": 14, "x15": 15, "sp": 13, "pc": 15}),
    ],
)
def test_narrow_programs(tmp_path: Path, name: str, narrow: str, words: dict[str, int]) -> None:
    builder = PerfDataBuilder(name)
    builder.event(registers=NAMES[name], stack=True)
    builder.named(1, "a")
    builder.sample(registers={each: 0x100 + number for each, number in words.items()}, abi=1, stack=b"12345678")
    builder.sample(registers={each: 0x100 + number for each, number in words.items()}, abi=2, stack=b"12345678")
    with builder.write(tmp_path / "perf.data") as data:
        first, _ = samples = list(data.samples())
        assert [sample.process.target.machine.name for sample in samples] == [narrow, name]
        assert first.thread is not None
        machine = machine_named(narrow)
        registers = first.thread.registers
        assert {number: registers[number] for number in words.values()} == {n: 0x100 + n for n in words.values()}
        assert first.thread.pc == registers[machine.program_counter or machine.return_address]
        batch = next(data.batches())
        process = data.state(int(batch.state[0]))
        next(batch.samples())
        assert process.memory.stack_start == registers[machine.stack_pointer]


def only(builder: PerfDataBuilder, path: Path) -> Sample:
    with builder.write(path / "perf.data") as data:
        [sample] = data.samples()
        return sample


def test_samples_in_the_kernel(tmp_path: Path) -> None:
    kernel, user = (1 << 64) - 128, (1 << 64) - 512
    builder = PerfDataBuilder()
    builder.event(type=1 << 0 | 1 << 1 | 1 << 5, registers=("rcx", "rsp", "rip"), stack=True)
    chain = (kernel, 0xFFFFFFFF81000000, 0xFFFFFFFF81000010, user, 0x1000, 0x2000)
    builder.sample(misc=1, ip=chain[1], chain=chain, registers={"rip": 0x1000, "rcx": 0x1000})
    builder.sample(misc=1, ip=chain[1], chain=chain[:3], registers={"rip": 0x1000, "rcx": 0x999})
    builder.sample(misc=2, ip=0x1000, registers={"rip": 0x1000, "rcx": 0x1000})
    builder.sample(misc=1, ip=chain[1], chain=chain[:3])
    builder.sample(misc=1, ip=chain[1], chain=chain)
    with builder.write(tmp_path / "perf.data") as data:
        call, fault, plain, thread, frames = data.samples()
    assert call.thread is not None
    assert fault.thread is not None
    assert plain.thread is not None
    # syscall leaves the pc in rcx: so this one came by a call, and the next one by a fault.
    assert [each.thread.interrupted_call for each in (call, fault, plain) if each.thread] == [True, False, False]
    assert [each.in_kernel for each in (call, fault, plain, thread)] == [True, True, False, True]
    assert call.kernel_chain == chain[1:3]
    assert call.user_chain == chain[4:]
    assert call.ip == chain[1]
    # A thread of the kernel has no program.
    assert thread.thread is None
    assert thread.kernel_chain == chain[1:3]
    assert frames.thread is not None
    assert frames.thread.pc == 0x1000
    assert frames.thread.registers == {}


def test_no_stack_was_copied(tmp_path: Path) -> None:
    builder = PerfDataBuilder()
    builder.event(registers=("rsp", "rip"), stack=True)
    builder.sample(registers={"rsp": 0x7000, "rip": 1})
    memory = only(builder, tmp_path).process.memory
    assert (memory.stack_start, memory.stack_end) == (0x7000, 0x7000)
    assert memory.read(0x7000, 8) is None


def test_what_was_lost(tmp_path: Path) -> None:
    builder = PerfDataBuilder()
    builder.event(ids=(1,))
    builder.lost(3)
    builder.lost(4)
    builder.lost_samples(5)
    builder.lost_samples(100, misc=1 << 15)
    with builder.write(tmp_path / "perf.data") as data:
        assert data.lost == 7


def test_events_of_several_forms(tmp_path: Path) -> None:
    builder = PerfDataBuilder()
    builder.event("one", type=1 << 16 | TIMED, ids=(1, 2), registers=("rsp", "rip"))
    builder.event("two", type=1 << 16 | 1 << 1 | 1 << 2, ids=(3,))
    builder.named(5, "name", time=1)
    builder.add(3, 0, pack("<ii", 5, 5) + b"other\0\0\0", event=1, time=50, pid=5, tid=5)
    builder.sample(event=1, pid=5, time=10)
    builder.sample(event=0, pid=5, time=60, registers={"rip": 7})
    with builder.write(tmp_path / "perf.data") as data:
        two, one = data.samples()
        assert [each.event.name for each in (two, one)] == ["two", "one"]
        assert two.thread is not None
        assert one.thread is not None
        assert (two.thread.name, one.thread.name) == ("name", "other")
        assert data.problems == []


def test_batches_have_what_samples_have(tmp_path: Path) -> None:
    with simple().write(tmp_path / "perf.data") as data:
        [batch] = data.batches()
        assert len(batch) == 4
        for index, sample in enumerate(data.samples()):
            process = data.state(int(batch.state[index]))
            assert process is sample.process
            assert batch.time[index] == sample.time
            at = int(batch.stack_offset[index])
            assert bytes(batch.buffer[at : at + int(batch.stack_size[index])]) == (b"s" * 40 if index < 3 else b"")


@pytest.mark.parametrize("arch", ["x86_64", "i686", "armv8l", "ppc64le", "s390x", "riscv64", "aarch64"])
def test_machines_by_their_names(tmp_path: Path, arch: str) -> None:
    builder = PerfDataBuilder(arch=arch)
    builder.event()
    with builder.write(tmp_path / "perf.data") as data:
        assert data.machine.name in NAMES


def test_features_of_a_narrow_big_endian_machine(tmp_path: Path) -> None:
    """Their bitmap is made of ``long``, which had four bytes: in each eight, the halves are the other way round."""
    blob = bytearray(simple("big").build())
    for at in range(72, 104, 8):
        blob[at : at + 8] = blob[at + 4 : at + 8] + blob[at : at + 4]
    (tmp_path / "perf.data").write_bytes(blob)
    with open_perf_data(tmp_path / "perf.data") as data:
        check(data)


def test_a_machine_that_nobody_knows(tmp_path: Path) -> None:
    for arch in ("vax", None):
        builder = PerfDataBuilder(arch=arch)
        builder.event()
        with pytest.raises(FormatError, match="machine"):
            builder.write(tmp_path / "perf.data")


def test_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    with pytest.raises(NotFoundError):
        open_perf_data(path)
    for content in (b"", b"\x7fELF" + bytes(200), b"PERFILE2", b"PERFFILE" + bytes(200), b"PERFILE2" + bytes(200)):
        path.write_bytes(content)
        with pytest.raises(FormatError):
            open_perf_data(path)
    with pytest.raises(FormatError):
        open_perf_data(tmp_path)
    with pytest.raises(FormatError):
        open_perf_data("/dev/null")


def test_a_recording_that_was_not_ended(tmp_path: Path) -> None:
    builder = simple()
    blob = bytearray(builder.build())
    # data.size, which perf writes last; features come after that.
    begin, size = (int.from_bytes(blob[at : at + 8], "little") for at in (40, 48))
    blob[48:56] = bytes(8)
    (tmp_path / "perf.data").write_bytes(blob[: begin + size])
    with pytest.raises(FormatError, match="machine"):
        open_perf_data(tmp_path / "perf.data")
