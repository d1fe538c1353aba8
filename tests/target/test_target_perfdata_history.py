"""What was mapped when: the modules of sampled processes."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
from perf_files import CODE_ADDRESS, CODE_OFFSET, PAGE, library

from clew.memory import process_mappings
from clew.target.perfdata import PerfData
from clew.target.perfdata.history import MAXIMUM_COPIES, MAXIMUM_MAPPINGS, History
from clew.target.perfdata.records import Mapped
from clew.testing.perfdata import PerfDataBuilder
from clew.walk import End, Walker

BASE = 0x7F0000000000
CODE = BASE + CODE_ADDRESS
ONE, OTHER = b"\x01" * 20, b"\x02" * 20


def recording() -> PerfDataBuilder:
    builder = PerfDataBuilder()
    builder.event(registers=("rsp", "rip"), stack=True)
    return builder


def take(builder: PerfDataBuilder, pid: int, time: int, pc: int = CODE, stack: bytes = b"") -> None:
    builder.sample(pid=pid, time=time, ip=pc, registers={"rip": pc, "rsp": 0x7000}, stack=stack)


def found(data: PerfData) -> list[str | None]:
    """The module of each sample's pc."""
    names = []
    for sample in data.samples():
        module = sample.process.target.modules.at(sample.ip)
        names.append(None if module is None else Path(module.name).name)
    return names


def test_a_module_is_found_and_walked(tmp_path: Path) -> None:
    path = str(library(tmp_path / "one.so", ONE))
    builder = recording()
    builder.mapped2(1, path, CODE, PAGE, CODE_OFFSET, build_id=ONE)
    back = (CODE + 0x20).to_bytes(8, "little")
    take(builder, 1, 5, stack=back + bytes(8))
    take(builder, 1, 6, stack=back)
    with builder.write(tmp_path / "perf.data") as data:
        samples = data.samples()
        sample = next(samples)
        assert sample.thread is not None
        modules = sample.process.target.modules
        [module] = modules
        assert module is modules.at(CODE) is modules[0]
        assert (module.bias, module.start, module.end, module.build_id) == (BASE, CODE, CODE + PAGE, ONE)
        assert modules.at(CODE + PAGE) is None
        assert modules.at(CODE - 1) is None
        walker = Walker(sample.process.target)
        stack = walker.walk(sample.thread)
        assert [frame.pc.address for frame in stack.frames] == [CODE, CODE + 0x20]
        assert stack.end is End.NULL_RETURN_ADDRESS
        sample = next(samples)
        assert sample.thread is not None
        stack = walker.walk(sample.thread)
        assert [frame.pc.address for frame in stack.frames] == [CODE, CODE + 0x20]
        assert stack.end is End.STACK_COPY_END
        # Code is as it is in the file; the rest is not known.
        memory = sample.process.memory
        assert memory.read(CODE, 4) == b"\x90" * 4
        assert memory.read(CODE + PAGE - 2, 4) is None
        assert memory.read(CODE - 8, 4) is None
        assert memory.window(CODE + 5) == (CODE, b"\x90" * PAGE)


def test_files_are_shared_and_modules_too(tmp_path: Path) -> None:
    path = str(library(tmp_path / "one.so", ONE))
    builder = recording()
    for pid, base in ((1, BASE), (2, BASE), (3, BASE + 0x100000)):
        builder.mapped2(pid, path, base + CODE_ADDRESS, PAGE, CODE_OFFSET)
        take(builder, pid, 5, base + CODE_ADDRESS)
    with builder.write(tmp_path / "perf.data") as data:
        first, second, third = (sample.process.target.modules.at(sample.ip) for sample in data.samples())
        assert first is not None
        assert third is not None
        assert first is second
        assert third is not first
        assert third.bias - first.bias == 0x100000
        assert first.image is third.image
        assert first.table is not None
        assert first.table is third.table


def test_the_state_stays_while_nothing_is_replaced(tmp_path: Path) -> None:
    builder = recording()
    for number in range(50):
        builder.mapped2(1, f"/lib/{number}.so", CODE + number * PAGE, PAGE, time=10 * number)
        take(builder, 1, 10 * number + 5, CODE + number * PAGE)
        builder.named(1, f"name {number}", time=10 * number)
    with builder.write(tmp_path / "perf.data") as data:
        assert len({id(sample.process) for sample in data.samples()}) == 1
        assert found(data) == [f"{number}.so" for number in range(50)]
        assert [each.thread and each.thread.name for each in data.samples()] == [f"name {n}" for n in range(50)]


def test_code_in_the_place_of_other_code(tmp_path: Path) -> None:
    builder = recording()
    builder.mapped2(1, "/lib/a.so", CODE, 4 * PAGE, time=10)
    builder.mapped2(1, "//anon", CODE + PAGE, PAGE, time=20)
    builder.mapped(1, "/lib/b.so", CODE + 2 * PAGE, PAGE, time=30)
    # Data is no code, wherever it is; where code was, that is gone.
    builder.mapped2(1, "/lib/c.so", CODE + 3 * PAGE, PAGE, protection=1, time=40)
    builder.mapped(1, "/lib/d.so", CODE + 9 * PAGE, PAGE, misc=2 | 1 << 13, time=40)
    for time in (5, 15, 25, 35, 45):
        for page in (0, 1, 2, 3, 9):
            take(builder, 1, time, CODE + page * PAGE)
    with builder.write(tmp_path / "perf.data") as data:
        names = found(data)
        a, b = "a.so", "b.so"
        assert names[:5] == [None] * 5
        assert names[5:10] == [a, a, a, a, None]
        assert names[10:15] == [a, None, a, a, None]
        assert names[15:20] == [a, None, b, a, None]
        assert names[20:25] == [a, None, b, None, None]


def test_protections_that_change_change_nothing(tmp_path: Path) -> None:
    builder = recording()
    builder.mapped2(1, "/lib/a.so", CODE, 4 * PAGE, PAGE, time=10)
    take(builder, 1, 11)
    builder.mapped2(1, "/lib/a.so", CODE + PAGE, PAGE, 2 * PAGE, protection=3, time=20)
    builder.mapped2(1, "/lib/a.so", CODE + PAGE, PAGE, 2 * PAGE, time=30)
    builder.mapped2(1, "/lib/a.so", CODE + 4 * PAGE, PAGE, 5 * PAGE, time=40)
    take(builder, 1, 41, CODE + 4 * PAGE)
    with builder.write(tmp_path / "perf.data") as data:
        first, second = data.samples()
        assert first.process is second.process
        [module] = first.process.target.modules
        assert (module.start, module.end) == (CODE, CODE + 5 * PAGE)


def test_exec_and_fork(tmp_path: Path) -> None:
    builder = recording()
    builder.named(1, "shell")
    builder.mapped2(1, "/bin/shell", CODE, PAGE)
    builder.forked(2, 1, time=10)
    builder.named(2, "tool", by_exec=True, time=20)
    builder.mapped2(2, "/bin/tool", CODE, PAGE, time=21)
    builder.forked(3, 1, time=30)
    builder.mapped2(3, "/lib/own.so", CODE + PAGE, PAGE, time=31)
    # Synthesised: the parent's mappings are not the child's.
    builder.forked(4, 1, time=30, misc=1 << 13)
    builder.exited(2, time=40)
    # The number of a process is used again.
    builder.forked(2, 3, time=50)
    for pid, time in ((1, 5), (2, 5), (2, 15), (2, 20), (2, 25), (3, 35), (4, 35), (1, 99), (2, 55), (9, 55)):
        take(builder, pid, time)
    take(builder, 1, 99, CODE + PAGE)
    take(builder, 2, 99, CODE + PAGE)
    with builder.write(tmp_path / "perf.data") as data:
        shell, own = "shell", "own.so"
        # What is mapped where nothing was before is taken to have been there all the time since execve(2).
        assert found(data) == [shell, None, shell, "tool", "tool", shell, None, shell, shell, None, None, own]
        commands = [sample.process.command for sample in data.samples()]
        assert commands == [shell, None, shell, "tool", "tool", shell, shell, shell, shell, None, shell, shell]


def test_times_count_and_not_the_order_in_the_file(tmp_path: Path) -> None:
    builder = recording()
    take(builder, 1, 25)
    take(builder, 1, 15)
    builder.mapped2(1, "/lib/b.so", CODE, PAGE, time=20)
    builder.mapped2(1, "/lib/a.so", CODE, PAGE, time=10)
    with builder.write(tmp_path / "perf.data") as data:
        assert found(data) == ["b.so", "a.so"]


@pytest.mark.parametrize("all_ids", [False, True])
def test_without_times_the_order_in_the_file_counts(tmp_path: Path, all_ids: bool) -> None:
    pytest.importorskip("zstandard")
    builder = PerfDataBuilder()
    builder.event(type=3, registers=("rsp", "rip"), sample_id_all=all_ids)
    for compressed in range(2):
        for name in "abc":
            builder.mapped(1, f"/lib/{name}.so", CODE, PAGE)
            take(builder, 1, 0)
        if not compressed:
            builder.compress()
    with builder.write(tmp_path / "perf.data") as data:
        assert found(data) == ["a.so", "b.so", "c.so"] * 2


def test_a_file_of_another_build_is_refused(tmp_path: Path) -> None:
    path = str(library(tmp_path / "one.so", OTHER))
    builder = recording()
    builder.mapped2(1, path, CODE, PAGE, CODE_OFFSET)
    builder.build_id(path, ONE)
    take(builder, 1, 5)
    with builder.write(tmp_path / "perf.data") as data:
        [sample] = data.samples()
        module = sample.process.target.modules.at(CODE)
        assert module is not None
        assert module.image is None
        assert module.table is None
        assert module.build_id == ONE
        assert "its file was not found" in str(module.trouble)
        assert [OTHER.hex() in problem.message for problem in data.problems] == [True]
    with builder.write(tmp_path / "perf.data", exe=tmp_path / "one.so") as data:
        [sample] = data.samples()
        module = sample.process.target.modules.at(CODE)
        assert module is not None
        assert module.table is not None
        assert "used nevertheless" in data.problems[0].message
    library(tmp_path / "else/one.so", ONE)
    with builder.write(tmp_path / "perf.data", debug_dirs=[tmp_path / "else"]) as data:
        [sample] = data.samples()
        module = sample.process.target.modules.at(CODE)
        assert module is not None
        assert module.table is not None


@pytest.mark.parametrize(("size", "sized"), [(20, True), (20, False), (16, False), (8, True)])
@pytest.mark.parametrize("pipe", [False, True])
def test_build_ids(tmp_path: Path, size: int, sized: bool, pipe: bool) -> None:
    builder = PerfDataBuilder(pipe=pipe)
    builder.event()
    builder.build_id("/lib/a.so", ONE[:size], sized=sized)
    builder.build_id("/lib/b.so", OTHER)
    with builder.write(tmp_path / "perf.data") as data:
        assert data.features.build_ids == {"/lib/a.so": ONE[:size], "/lib/b.so": OTHER}


def test_a_file_without_such_a_part(tmp_path: Path) -> None:
    path = str(library(tmp_path / "one.so", ONE))
    builder = recording()
    builder.mapped2(1, path, CODE, PAGE, 0x100000)
    take(builder, 1, 5)
    with builder.write(tmp_path / "perf.data") as data:
        [sample] = data.samples()
        module = sample.process.target.modules.at(CODE)
        assert module is not None
        assert module.table is None
        assert "no segment" in str(module.trouble)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the recording is of x86-64")
def test_the_vdso(tmp_path: Path) -> None:
    own = next((each for each in process_mappings(os.getpid()) if each.path == "[vdso]"), None)
    if own is None:
        pytest.skip("this system has no vdso")

    def trouble(**features: bytes | str) -> tuple[str | None, bytes | None]:
        builder = recording()
        if "release" in features:
            builder.release(str(features["release"]))
        if "build_id" in features:
            builder.build_id("[vdso]", bytes(features["build_id"]))  # type: ignore[arg-type]
        builder.mapped2(1, "[vdso]", CODE, own.end - own.start)
        take(builder, 1, 5)
        with builder.write(tmp_path / "perf.data") as data:
            [sample] = data.samples()
            module = sample.process.target.modules.at(CODE)
            assert module is not None
            assert module.bias == CODE
            assert (module.table is None) == (module.image is None)
            image = module.image
            message = None if module.trouble is None else module.trouble.message
            return message, None if image is None else image.build_id

    message, build_id = trouble(release=platform.release())
    assert message is None
    assert build_id is not None
    assert trouble(build_id=build_id)[0] is None
    assert "not known on which" in str(trouble()[0])
    assert "another kernel" in str(trouble(release="2.6.32")[0])
    assert "another one" in str(trouble(build_id=ONE, release=platform.release())[0])


def test_a_history_that_nobody_lived_is_bounded() -> None:
    messages: list[str] = []
    history = History(lambda problem: messages.append(problem.message))
    for number in range(MAXIMUM_MAPPINGS + 10):
        history.mapped(1, Mapped(number * PAGE, (number + 1) * PAGE, 0, True, f"/{number}", None), 0)
    assert len(set(messages)) == 1
    assert len(history.processes[1][0].generation.mappings) == MAXIMUM_MAPPINGS
    for number in range(40_000):
        history.mapped(2, Mapped(number * PAGE, (number + 1) * PAGE, 0, True, f"/{number}", None), 0)
    for time in range(1, 200):
        history.forked(100 + time, 2, 100 + time, 2, time, True)
        history.mapped(100 + time, Mapped(1 << 40, 2 << 40, 0, True, "/x", None), time)
        history.mapped(2, Mapped(0, PAGE, 0, True, f"/other {time}", None), time)
    kept = {id(period.generation): period.generation for each in history.processes.values() for period in each}
    assert sum(len(generation.mappings) for generation in kept.values()) <= MAXIMUM_COPIES + 200_000
    assert len(set(messages)) == 2
