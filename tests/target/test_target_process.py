from __future__ import annotations

import gc
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from live_processes import Start, is_free, settle, states

from clew.errors import Error, NotFoundError, UsageError
from clew.target import Target, open_process, open_target, stopped
from clew.target.process_memory import StoppedMemory

NOBODY = 0x7FFF_FFFF  # larger than any pid_max


def said(process: subprocess.Popen[str]) -> list[int]:
    """The numbers of the first line of a program: loop, message, ids of threads."""
    assert isinstance(process.args, list)
    settle(process.pid)
    loop, message, *ids = str(process.args[-1]).split()
    return [int(loop, 16), int(message, 16), *map(int, ids)]


def waiting(pid: int, thread: int) -> tuple[int, int]:
    """The stack pointer and the pc of a thread that waits in the kernel, as proc_pid_syscall(5) has them."""
    words = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
    return int(words[-2], 16), int(words[-1], 16)


def test_threads_registers_memory_modules(start: Start) -> None:
    process = start("threads", "loop")
    loop, message, *ids = said(process)
    expected = {thread: waiting(process.pid, thread) for thread in (*ids[1:], process.pid)}
    with open_target(str(process.pid)) as target:
        assert states(process.pid) == {"t"}
        assert target.problems == []
        assert {thread.id for thread in target.threads} == {process.pid, *ids}
        threads = {thread.id: thread for thread in target.threads}
        for thread, (pointer, pc) in expected.items():
            found = threads[thread]
            assert (found.registers[target.machine.stack_pointer], found.pc) == (pointer, pc)
            assert found.interrupted_call
            start_of_stack, end = target.stack_limits[thread]
            assert start_of_stack <= pointer < end
        assert threads[process.pid].name == "threads"
        if platform.machine() == "x86_64":
            running = threads[ids[0]]
            assert running.pc == loop
            assert not running.interrupted_call
            wanted = {3: 0x1111222233334444, 12: 0x5555666677778888, 15: 0x42, 16: loop}
            assert {number: running.registers[number] for number in wanted} == wanted
        assert target.memory.read(message, 21) == b"the thread of Ariadne"
        module = target.modules.at(message)
        assert isinstance(process.args, list)
        assert module is not None
        assert module.name == process.args[0]
        image = module.image
        assert image is not None
        assert image.build_id == module.build_id
        symbols = image.symbols()
        assert int(symbols.address[symbols.find("message")[0]]) + module.bias == message
        assert "[vdso]" in {each.name for each in target.modules}
        for thread in target.threads:
            there = target.modules.at(thread.pc)
            assert there is not None
            assert there.table is not None
        memory = target.memory
    assert memory.read(message, 21) is None
    assert is_free(process.pid)
    assert process.poll() is None


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_registers_are_those_that_gdb_shows(start: Start) -> None:
    process = start("threads", "loop")
    settle(process.pid)
    with open_process(process.pid) as target:
        threads = {thread.id: thread for thread in target.threads}
        machine = target.machine
    names = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16)), "rip"]
    if machine.name != "x86-64":
        pytest.skip("the names of registers here are those of x86-64")
    commands = ["-ex", "thread apply all info registers " + " ".join(names)]
    shown = subprocess.run(
        ["gdb", "-nx", "-batch", "-p", str(process.pid), *commands],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    compared = 0
    current = 0
    for line in shown.splitlines():
        words = line.split()
        header = re.match(r"Thread .*LWP (\d+)", line)
        if header is not None:
            current = int(header[1])
        elif len(words) >= 2 and words[0] in names and current:
            # A call that was interrupted is restarted, so only the register that says so may differ.
            if words[0] != "rax":
                number = machine.register_number(words[0])
                assert number is not None
                assert threads[current].registers[number] == int(words[1], 16), line
            compared += 1
    assert compared == len(names) * len(threads)


def test_the_process_goes_on_after_an_exception(start: Start) -> None:
    process = start("threads")
    with pytest.raises(ZeroDivisionError), open_process(process.pid) as target:
        assert 1 // (len(target.threads) - 4)
    assert is_free(process.pid)


def test_the_process_goes_on_when_the_target_is_given_up(start: Start) -> None:
    process = start("threads")
    target: Target | None = open_process(process.pid)
    assert target is not None
    assert states(process.pid) == {"t"}
    target = None
    gc.collect()
    assert is_free(process.pid)


class Ring(BaseException):
    pass


# An exception in what Python runs when an object ends is dropped, and told.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_leaves_nothing_stopped(start: Start) -> None:
    process = start("threads", "loop")

    def ring(number: int, frame: FrameType | None) -> None:
        raise Ring

    before = signal.signal(signal.SIGALRM, ring)
    caught = 0
    try:
        for delay in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + delay * 5e-5)
                with open_process(process.pid) as target:
                    assert target.threads
                    time.sleep(0.01)
            except Ring:
                caught += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert is_free(process.pid)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert caught > 30


@pytest.mark.parametrize("end", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_the_end_of_the_tracer_is_the_end_of_the_hold(start: Start, end: str) -> None:
    process = start("threads")
    code = f"from clew.target import open_process\nimport time\nt = open_process({process.pid})\nprint('held', flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", code + "time.sleep(60)"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "held\n"
        assert states(process.pid) == {"t"}
        with pytest.raises(Error, match=f"already traced, by process {tracer.pid}"):
            open_process(process.pid)
        tracer.send_signal(getattr(signal, end))
        tracer.wait(20)
    assert is_free(process.pid)


def test_no_signal_is_lost(start: Start) -> None:
    process = start("threads")
    sent = 0
    for _ in range(20):
        os.kill(process.pid, signal.SIGRTMIN)  # real-time signals queue up
        with open_process(process.pid):
            os.kill(process.pid, signal.SIGRTMIN)
        os.kill(process.pid, signal.SIGRTMIN)
        sent += 3
    assert process.stdin is not None
    assert process.stdout is not None
    time.sleep(0.1)
    process.stdin.write("\n")
    process.stdin.flush()
    assert int(process.stdout.readline()) == sent


def test_a_stopped_process_stays_stopped(start: Start) -> None:
    process = start("threads")
    process.send_signal(signal.SIGSTOP)
    while states(process.pid) != {"T"}:
        time.sleep(0.01)
    with open_process(process.pid) as target:
        assert len(target.threads) == 4
    for _ in range(100):
        if states(process.pid) == {"T"}:
            break
        time.sleep(0.01)
    assert states(process.pid) == {"T"}
    process.send_signal(signal.SIGCONT)
    assert is_free(process.pid)


def test_threads_that_come_and_go(start: Start) -> None:
    process = start("churn")
    for _ in range(20):
        with open_process(process.pid) as target:
            assert states(process.pid) <= {"t", "Z", "X"}
            assert len(target.threads) >= 4
            assert not [problem for problem in target.problems if problem.lost]
    assert is_free(process.pid)


def test_the_first_thread_has_ended(start: Start) -> None:
    process = start("churn", "alone")
    while states(process.pid) != {"Z", "S"}:
        time.sleep(0.01)
    with open_process(process.pid) as target:
        [thread] = target.threads
        assert thread.id != process.pid
        assert target.modules.at(thread.pc) is not None
        assert [problem.lost for problem in target.problems] == [False]
        assert f"thread {process.pid} has ended" in target.problems[0].message


def test_a_process_that_dies_while_it_is_held(start: Start) -> None:
    process = start("threads")
    _, message, *_ = said(process)
    target = open_process(process.pid)
    process.kill()
    while not states(process.pid) <= {"Z", "X"}:
        time.sleep(0.01)
    assert target.memory.read(message, 8) is None
    target.close()
    # Its parent learns how it ended, and not that it was stopped.
    assert process.wait(10) == -signal.SIGKILL
    assert [problem.message for problem in target.problems] == [f"process {process.pid} ended while it was read"]
    with pytest.raises(NotFoundError):
        open_process(process.pid)


def test_its_parent_does_not_see_that_it_is_held(start: Start) -> None:
    process = start("threads")
    with open_process(process.pid):
        assert process.poll() is None
    assert process.poll() is None


def test_a_removed_program(start: Start, compiled: Callable[[str], Path], tmp_path: Path) -> None:
    copy = tmp_path / "threads"
    shutil.copy(compiled("threads"), copy)
    process = start("threads", program=copy)
    copy.unlink()
    copy.write_bytes(b"something else")
    with open_process(process.pid) as target:
        module = target.modules.at(said(process)[1])
        assert module is not None
        assert module.name == f"{copy} (deleted)"
        assert module.image is not None
        assert module.image.build_id == module.build_id


def test_without_stopping(start: Start) -> None:
    process = start("threads", "loop")
    _, message, *ids = said(process)
    with open_process(process.pid, stop=False) as target:
        assert states(process.pid) <= {"S", "R"}
        threads = {thread.id: thread for thread in target.threads}
        assert ids[0] not in threads
        assert any(str(ids[0]) in problem.message for problem in target.problems)
        pointer, pc = waiting(process.pid, ids[1])
        assert (threads[ids[1]].pc, threads[ids[1]].registers[target.machine.stack_pointer]) == (pc, pointer)
        assert target.memory.read(message, 3) == b"the"


def test_what_cannot_be_held() -> None:
    with pytest.raises(NotFoundError, match="no process"):
        open_process(NOBODY)
    with pytest.raises(Error, match="cannot stop itself"):
        open_process(os.getpid())
    with pytest.raises(UsageError):
        open_process(0)
    with pytest.raises(UsageError, match="own files"):
        open_target(str(os.getpid()), exe="x")
    with subprocess.Popen(["true"]) as ended:
        while Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        with pytest.raises(Error, match="has ended"):
            open_process(ended.pid)


def test_stopped_memory_agrees_with_a_copy() -> None:
    import ctypes

    data = bytes(range(256)) * 160
    buffer = ctypes.create_string_buffer(data, len(data))
    base = ctypes.addressof(buffer)
    memory = StoppedMemory(os.getpid())
    for at, size in ((0, 8), (4090, 16), (5, 4096), (0, 40960), (100, 20000), (40959, 1), (7, 0)):
        assert memory.read(base + at, size) == data[at : at + size]
    for address, size in ((0, 8), (-8, 8), (1 << 64, 8), (base, -1), (base, 1 << 40), ((1 << 63) - 4, 8)):
        assert memory.read(address, size) is None
    memory.close()
    memory.close()
    assert memory.read(base, 8) is None


def test_a_thread_that_does_not_stop(start: Start) -> None:
    process = start("vfork")
    while states(process.pid) != {"D"}:
        time.sleep(0.01)
    with open_process(process.pid, timeout=0.1) as target:
        assert [problem.message for problem in target.problems] == [
            f"thread {process.pid} did not stop (state D, uninterruptible sleep)"
        ]
        # Where it waits is known nevertheless.
        pointer, pc = waiting(process.pid, process.pid)
        [thread] = target.threads
        assert (thread.pc, thread.registers) == (pc, {7: pointer, 16: pc}) or target.machine.name != "x86-64"
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"
    assert is_free(process.pid)


def test_threads_for_which_there_was_no_time_are_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start("threads")
    everyone = stopped.threads_of(process.pid)
    calls = iter([[process.pid]])
    monkeypatch.setattr(stopped, "threads_of", lambda pid: next(calls, everyone))
    with open_process(process.pid, timeout=0) as target:
        assert [thread.id for thread in target.threads] == [process.pid]
        assert [str(problem) for problem in target.problems] == [
            f"there was no time to stop {len(everyone) - 1} threads"
        ]
    assert is_free(process.pid)
