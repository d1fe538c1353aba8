"""The program as a whole: terminals, pipes, interrupts, and what is imported when."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

import clew
from clew.cli import main
from clew.cli.output import Palette, counted, printable, report
from clew.errors import Problem

CLEW = [sys.executable, "-m", "clew"]


def run(
    *arguments: str | bytes, stdout: int | IO[bytes] = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """The program in a process of its own, its output in pipes."""
    settings = {**os.environ, **environment}
    command = [*CLEW, *arguments]
    return subprocess.run(command, check=False, stdout=stdout, stderr=subprocess.PIPE, env=settings, timeout=60)


def on_a_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """The program on a terminal: its exit code, and all that it writes there."""
    master, slave = pty.openpty()
    settings = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment}
    process = subprocess.Popen([*CLEW, *arguments], stdin=slave, stdout=slave, stderr=slave, env=settings)
    os.close(slave)
    written = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:  # EIO, when nobody has the other end any more
            break
        if not piece:
            break
        written += piece
    os.close(master)
    return process.wait(timeout=60), written.decode().replace("\r\n", "\n")


def without_colours(text: str) -> str:
    for code in ("0", "1", "2", "31", "32", "33", "36"):
        text = text.replace(f"\x1b[{code}m", "")
    return text


def test_colours_on_a_terminal_only(library: str) -> None:
    plain = run("explain", library, "enter+4")
    assert (plain.returncode, plain.stderr) == (0, b"")
    code, text = on_a_terminal("explain", library, "enter+4")
    assert code == 0
    assert "cfa = \x1b[36mrbp+16\x1b[0m" in text
    assert without_colours(text) == plain.stdout.decode()


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_they_are_not_wanted(environment: dict[str, str], library: str) -> None:
    code, text = on_a_terminal("explain", library, "nowhere", **environment)
    assert code == 3
    assert "clew: error:" in text
    assert "\x1b" not in text


def test_errors_have_colours_too(library: str) -> None:
    _, text = on_a_terminal("explain", library, "nowhere")
    assert "clew: \x1b[31merror:\x1b[0m" in text


def test_a_progress_bar_on_a_terminal(library: str) -> None:
    folder = Path(library).parent
    for number in range(4):
        (folder / f"{number}.so").write_bytes(Path(library).read_bytes())
    code, text = on_a_terminal("stats", str(folder), "-j", "2")
    assert code == 0
    assert "reading tables" in text
    # It is gone in the end.
    assert "\x1b[2K" in text
    assert "█" in text
    assert b"reading tables" not in run("stats", str(folder), "-j", "2").stderr


def test_a_reader_that_goes_away(library: str) -> None:
    # Of this much text some is still unwritten when the pipe breaks; the help is written at once.
    for arguments, code in ((["table", "--format", "readelf", sys.executable], 141), (["--help"], 0)):
        process = subprocess.Popen([*CLEW, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        error = process.stderr.read()
        process.stderr.close()
        # As the shell has it for a program that SIGPIPE ends: nobody knows what there was still to find.
        assert (process.wait(timeout=60), error) == (code, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [["table"], ["table", "--json"], ["table", "--format", "readelf"]])
def test_a_full_disk(arguments: list[str], library: str) -> None:
    with open("/dev/full", "wb") as full:
        done = run(*arguments, library, stdout=full)
    assert (done.returncode, done.stderr) == (3, b"clew: error: cannot write: No space left on device\n")


@pytest.fixture
def many(tmp_path: Path, library: str) -> str:
    """A folder with enough work for two processes, however fast they are."""
    data = Path(library).read_bytes()
    (tmp_path / "many").mkdir()
    for number in range(3000):
        (tmp_path / "many" / f"{number}.so").write_bytes(data)
    return str(tmp_path / "many")


def at_work(folder: str, output: int) -> tuple[subprocess.Popen[bytes], list[int]]:
    """``clew stats`` in a process group of its own, once its pool is there: the program, and the pool's processes."""
    command = [*CLEW, "stats", "-j", "2", folder]
    settings = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    process = subprocess.Popen(command, stdout=output, stderr=output, env=settings, start_new_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        process.wait()
        pytest.skip("this kernel does not tell the children of a process")
    deadline = time.monotonic() + 30
    pool: list[int] = []
    while len(pool) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
        pool = [int(child) for child in children.read_text().split()]
    return process, pool


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_at_once_and_without_a_word(number: signal.Signals, many: str) -> None:
    process, pool = at_work(many, subprocess.PIPE)
    if number == signal.SIGINT:
        # As Ctrl-C on a terminal: to all processes of the group.
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (130 if number == signal.SIGINT else -number, b"", b"")
    deadline = time.monotonic() + 30
    while any(map(alive, pool)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, pool))


def test_an_interrupt_leaves_a_terminal_as_it_was(many: str) -> None:
    master, slave = pty.openpty()
    process, _ = at_work(many, slave)
    os.close(slave)
    written = b""
    while b"reading tables" not in written:
        written += os.read(master, 1 << 16)
    os.killpg(process.pid, signal.SIGINT)
    try:
        while piece := os.read(master, 1 << 16):
            written += piece
    except OSError:  # EIO: nobody has the other end any more
        pass
    os.close(master)
    assert process.wait(timeout=60) == 130
    # The cursor, which the bar hides, is there again.
    assert written.rindex(b"\x1b[?25h") > written.rindex(b"\x1b[?25l")
    assert b"Traceback" not in written


def test_characters_that_the_terminal_does_not_have(library: str) -> None:
    done = run("table", library, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"rsp+8   \\xb7" in done.stdout


def test_a_file_name_that_is_no_text(library: str) -> None:
    odd = os.fsencode(library) + b"\xff"
    os.rename(library, odd)
    done = run("explain", odd, "enter")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"library.so\\udcff" in done.stdout
    done = run("explain", odd, "nowhere")
    assert done.returncode == 3
    assert b"library.so\\udcff: there is no function" in done.stderr


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr()
    for command in ("table", "explain", "diff", "stats", "stack", "doctor", "symbolize", "dump-syms"):
        assert re.search(f"^    {command}\\s", printed.out, re.MULTILINE)
        assert main([command, "--help"]) == 0
        assert f"usage: clew {command}" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"clew {clew.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["table"], ["--nothing"], ["explain", "--pid"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "usage: clew" in printed.err


def test_the_help_needs_neither_numpy_nor_rich() -> None:
    code = "import sys; from clew.cli import main; main(['--help']); print(sorted({'numpy', 'rich', 'json'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] in ("[]", "['json']")


def test_text_from_files_is_made_printable() -> None:
    assert printable("main+0x10 ünïcode · 名") == "main+0x10 ünïcode · 名"
    assert printable("\x1b[31m\n\x7f\x9b\u202e\udcff") == r"\x1b[31m\n\x7f\x9b\u202e\udcff"


def test_plurals() -> None:
    assert [counted(number, "row") for number in (0, 1, 2, 1234567)] == ["0 rows", "1 row", "2 rows", "1,234,567 rows"]


def test_colours() -> None:
    off, on = Palette(False), Palette(True)
    for name in ("bold", "dim", "red", "green", "yellow", "cyan"):
        assert getattr(off, name)("x") == "x"
        assert getattr(on, name)("x").startswith("\x1b[")
        assert getattr(on, name)("x").endswith("mx\x1b[0m")


@pytest.mark.parametrize(
    ("problems", "lost", "code", "lines"),
    [
        ([], 0, 0, 0),
        ([Problem("a", lost=False)], 0, 0, 1),
        ([Problem("a")], 0, 1, 1),
        ([Problem("a"), Problem("a")], 0, 1, 1),
        ([], 1, 1, 0),
        ([Problem(str(number)) for number in range(20)], 20, 1, 20),
        ([Problem(str(number)) for number in range(21)], 21, 1, 21),
        ([Problem(str(number)) for number in range(30)], 1000, 1, 21),
    ],
)
def test_reports(problems: list[Problem], lost: int, code: int, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("file", problems, lost) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == lines
    if lines > 20:
        assert printed.err.endswith(f"file: and {max(len(problems), lost) - 20} more\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_without_an_output(closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m clew table --address 0 /proc/self/exe {closed}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode in (1, 2, 3)
