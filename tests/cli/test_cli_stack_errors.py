"""``clew stack`` and ``clew doctor`` where something is wrong: usage, files, permissions, processes that die, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stopped_programs import build, goes_on, letters, standing

import clew.cli.doctor
import clew.cli.stack

CLEW = [sys.executable, "-m", "clew"]
Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("stands"))


@pytest.fixture(scope="module")
def threads(program: Path) -> Iterator[int]:
    """A process of three threads."""
    with standing(program, "threads") as pid:
        yield pid


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{dir}/missing"], 3, ["there is no such file", "by its number"]),
        (["{dir}/cores"], 3, ["did you mean", "core.txt"]),
        (["{dir}"], 3, ["directory"]),
        (["{dir}/empty"], 3, ["empty"]),
        (["{dir}/core.txt"], 3, ["core.txt"]),
        (["{exe}"], 3, ["not a core", "a process's id"]),
        (["4194305"], 3, ["no process 4194305", "ps -e"]),
        (["0"], 2, ["0 is not the number of a process"]),
        (["{pid}", "--exe", "{exe}"], 2, ["its own files"]),
        (["{pid}", "--sysroot", "{dir}/missing"], 3, ["--sysroot names no directory"]),
        (["{pid}", "--debug-dir", "{dir}/empty"], 3, ["--debug-dir names no directory"]),
        (["{dir}/empty", "--exe", "{dir}/emptz"], 3, ["did you mean"]),
        (["{pid}", "--limit", "0"], 2, ["--limit"]),
        (["{pid}", "--thread", "x"], 2, ["--thread"]),
        (["{pid}", "--no-names", "--raw-names"], 2, ["not allowed with"]),
        ([], 2, ["usage: clew stack"]),
    ],
)
@pytest.mark.parametrize("name", ["stack", "doctor"])
def test_errors(
    name: str, arguments: list[str], code: int, words: list[str], threads: int, tmp_path: Path, answer: Answer
) -> None:
    if name == "doctor" and {"--limit", "--thread", "--no-names"} & set(arguments):
        pytest.skip("doctor has no such option")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "core.txt").write_text("hello, this is no core at all, but long enough to look like one" * 3)
    values = [each.format(dir=tmp_path, pid=threads, exe=os.path.realpath(sys.executable)) for each in arguments]
    found, out, error = answer(name, *values)
    assert (found, out) == (code, "")
    for word in words:
        assert word.replace("stack", name) in error
    assert goes_on(threads)


def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import locale, os, sys, clew.cli, clew.cli.commands, clew.cli.doctor, clew.cli.stack\n"
        "import clew.target.opening, clew.walk.samples\n"
        # What is imported later may be where this user cannot read.
        "clew.cli.commands.parser()\n"
        "os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "sys.exit(clew.cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_no_permission(threads: int, tmp_path: Path) -> None:
    secret = tmp_path / "core"
    secret.write_bytes(b"\x7fELF")
    secret.chmod(0)
    for argument, words in ((str(threads), "this user may not"), (str(secret), "may not")):
        for name in ("stack", "doctor"):
            done = as_nobody(name, argument)
            assert (done.returncode, done.stdout) == (3, "")
            assert words in done.stderr
            assert "clew: hint:" in done.stderr
            assert "Traceback" not in done.stderr
    assert goes_on(threads)


def test_a_process_that_somebody_else_traces(threads: int, answer: Answer) -> None:
    from clew.target import open_target

    code = f"from clew.target import open_target\nt = open_target('{threads}')\nprint('held', flush=True)\ninput()\n"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        status, out, error = answer("stack", str(threads))
    assert (status, out) == (3, "")
    assert f"already traced, by process {other.pid}" in error
    assert goes_on(threads)
    with open_target(str(threads)) as target:
        assert target.threads


@pytest.mark.parametrize("name", ["stack", "doctor"])
def test_a_process_that_dies_while_it_is_walked(
    name: str, program: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = clew.cli.stack.walk_threads

    def killing(target: Any, threads: Any, **options: Any) -> Any:
        os.kill(target.process_id, signal.SIGKILL)
        time.sleep(0.2)
        return walk(target, threads, **options)

    monkeypatch.setattr(clew.cli.stack, "walk_threads", killing)
    monkeypatch.setattr(clew.cli.doctor, "walk_threads", killing)
    with standing(program, "threads") as pid:
        code, out, error = answer(name, str(pid))
    assert (code, out) == (3, "")
    assert f"process {pid} ended while it was read" in error


@pytest.mark.parametrize("name", ["stack", "doctor"])
def test_an_interrupt_lets_the_process_go_on(name: str, threads: int) -> None:
    # A walk that takes for ever.
    code = (
        "import sys, time, clew.cli, clew.cli.doctor, clew.cli.stack\n"
        "def walk(*arguments, **options):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
        "clew.cli.stack.walk_threads = clew.cli.doctor.walk_threads = walk\n"
        f"sys.argv[1:] = [{name!r}, '{threads}']\n"
        "sys.exit(clew.cli.main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert set(letters(threads)) == {"t"}
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (130, "", "")
    assert goes_on(threads)


def test_an_interrupt_at_any_time(program: Path) -> None:
    with standing(program, "deep", "3000") as pid:
        for delay in range(8):
            with subprocess.Popen(
                [*CLEW, "stack", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as process:
                time.sleep(0.15 + 0.06 * delay)
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)
            # Python itself may still be starting, or all may be done.
            assert process.returncode in (0, 1, 130, -signal.SIGINT)
            assert goes_on(pid)
