"""``clew stack``: of processes that the test starts, and of cores of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stopped_programs import build, goes_on, standing

import clew.cli.stack as command
from clew.cli import main
from clew.image import Image

CLEW = [sys.executable, "-m", "clew"]
Answer = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the programs are for x86-64")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("stands"))


@pytest.fixture(scope="module")
def threads(program: Path) -> Iterator[int]:
    """A process of three threads."""
    with standing(program, "threads") as pid:
        yield pid


@pytest.fixture(scope="module")
def core(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A core of a process of three threads, written by gdb."""
    if shutil.which("gcore") is None:
        pytest.skip("gcore is not installed")
    folder = tmp_path_factory.mktemp("core")
    with standing(program, "threads") as pid:
        done = subprocess.run(["gcore", "-o", folder / "core", str(pid)], check=False, capture_output=True, timeout=120)
        if done.returncode:
            pytest.skip("gcore cannot write a core here")
        yield folder / f"core.{pid}"


FRAME = re.compile(
    r"#(\d+) +0x([0-9a-f]{16}) (?:(\S+)\+0x([0-9a-f]+)|\((?:no symbol|no module)\)) *(\S+)?(?: +at \S+)?"
    r"(?: +\[(\w+)\])?"
)


def parsed(text: str) -> dict[int, tuple[list[tuple[int, str]], str]]:
    """Frames (pc and function) and end of each thread, out of the text."""
    found: dict[int, tuple[list[tuple[int, str]], str]] = {}
    thread, frames = 0, []
    for line in text.splitlines():
        if line.startswith("TID "):
            thread, frames = int(re.match(r"TID (\d+)", line)[1]), []  # type: ignore[index]
        elif line.startswith("#"):
            match = FRAME.fullmatch(line)
            assert match, line
            assert int(match[1]) == len(frames)
            frames.append((int(match[2], 16), match[3] or ""))
        elif line.startswith("end: "):
            found[thread] = frames, line[5:]
    return found


def functions(thread: dict[str, Any]) -> list[str]:
    return [frame.get("function", "") for frame in thread["frames"]]


def test_every_thread_with_its_name_and_its_end(threads: int, answer: Answer) -> None:
    code, out, error = answer("stack", str(threads))
    assert (code, error) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"process {threads}  x86-64  ")
    assert lines[0].endswith("/stands threads")
    assert {line for line in lines if '"first":' in line or '"second":' in line} == {
        line for line in lines if line.startswith("TID") and f"TID {threads} " not in line
    }
    stacks = parsed(out)
    assert len(stacks) == 3
    assert {end for _, end in stacks.values()} == {"entry"}
    assert [name for _, name in stacks[threads][0]][1:3] == ["inner", "main"]
    for thread, (frames, _) in stacks.items():
        if thread != threads:
            assert [name for _, name in frames][1:4] == ["inner", "outer", "run"]
    assert goes_on(threads)


def aliases(path: str, name: str) -> set[str]:
    """All names that a function has in the symbol tables of a file."""
    with Image.open(path) as image:
        for table in (image.symbols("symtab"), image.symbols("dynsym")):
            starts = {int(table.address[index]) for index in table.find(name)}
            if starts:
                return {table.name(i) for i in range(len(table)) if int(table.address[i]) in starts}
    return {name}


@pytest.mark.skipif(shutil.which("eu-stack") is None, reason="eu-stack is not installed")
def test_frames_and_names_are_those_of_eu_stack(threads: int, answer: Answer) -> None:
    done = subprocess.run(["eu-stack", "-p", str(threads)], check=True, capture_output=True, text=True, timeout=60)
    peer: dict[int, list[tuple[int, str]]] = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"TID (\d+):", line):
            peer[int(match[1])] = []
        elif match := re.match(r"#\d+ +0x([0-9a-f]+) *(?:- \d+ )?(\S*)", line):
            peer[max(peer, key=list(peer).index)].append((int(match[1], 16), match[2]))
    ours = parsed(answer("stack", str(threads))[1])
    assert ours.keys() == peer.keys()
    libc = next(
        line.split()[-1] for line in Path(f"/proc/{threads}/maps").read_text().splitlines() if "libc.so" in line
    )
    for thread, (frames, _) in ours.items():
        assert [pc for pc, _ in frames] == [pc for pc, _ in peer[thread]]
        for (_, name), (_, other) in zip(frames, peer[thread], strict=True):
            # One address may have many names, and each program has its own way to choose.
            mine, its = name.partition("@")[0], other.partition("@")[0]
            assert mine == its or mine in aliases(libc, its) or not its


def test_the_json_contract(threads: int, document: Callable[..., Any], program: Path) -> None:
    found = document("stack", str(threads))
    command = found["target"].pop("command")
    assert found["target"] == {"kind": "process", "machine": "x86-64", "process_id": threads}
    assert command.endswith("stands threads")
    assert found["problems"] == []
    assert found["threads"][0]["id"] == threads
    with Image.open(program) as image:
        build_id = image.build_id
        symbols = image.symbols()
        [inner] = [int(symbols.address[index]) for index in symbols.find("inner")]
    for thread in found["threads"]:
        assert thread["end"] == "entry"
        assert thread["frames"][0]["trust"] == "context"
        for frame in thread["frames"]:
            assert frame.keys() >= {"pc", "trust", "inlined", "module", "build_id", "module_offset"}
            assert frame["inlined"] is False
            for key in ("pc", "module_offset", "function_offset"):
                assert re.fullmatch("0x[0-9a-f]+", frame[key])
        frame = thread["frames"][1]
        assert (frame["function"], frame["trust"], frame["module"]) == ("inner", "cfi", str(program))
        assert build_id is not None
        assert frame["build_id"] == build_id.hex()
        assert int(frame["module_offset"], 16) == inner + int(frame["function_offset"], 16)


def test_rules_and_words(threads: int, document: Callable[..., Any], answer: Answer) -> None:
    found = document("stack", str(threads), "--why", "--registers", "--thread", str(threads))
    [thread] = found["threads"]
    for frame, caller in zip(thread["frames"], thread["frames"][1:], strict=False):
        read = {each["register"]: each for each in frame["reads"]}
        # The return address was read where the rule says, and is the caller's pc; the CFA is its stack pointer.
        assert read["rip"]["value"] == caller["pc"] == caller["registers"]["rip"]
        assert int(read["rip"]["address"], 16) == int(frame["cfa"], 16) - 8
        assert frame["rule"]["registers"]["rip"] == "*(cfa-8)"
        assert caller["registers"]["rsp"] == frame["cfa"]
        assert "rax" not in caller["registers"]
        assert "unknown" not in caller
    assert "rax" in thread["frames"][0]["registers"]
    _, out, _ = answer("stack", str(threads), "--why", "--registers", "--thread", str(threads))
    word = read["rip"]
    assert f"\n      cfa = {frame['rule']['cfa']}  " in out
    assert f"rip = *{int(word['address'], 16):#018x} = {int(word['value'], 16):#018x}\n" in out
    assert re.search(r"\n      rax +0x[0-9a-f]{16}  rdx ", out)


def test_unknown_registers_are_named_and_never_zero(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.target import open_target

    with open_target(str(threads)) as target:
        # As of a thread that waits in uninterruptible sleep.
        thread = target.threads[0]
        sp = target.machine.stack_pointer
        registers = {number: thread.registers[number] for number in (sp, 16)}
        few = type(thread)(thread.id, registers, thread.pc, thread.name, True)
        stacks = command.walk_threads(target, [few])
    from clew.cli.output import Palette
    from clew.cli.stack_json import stack_json
    from clew.cli.stack_names import FrameNames
    from clew.cli.stack_text import Style, stack_lines

    names = FrameNames(target)
    first = stack_json(stacks[0], names, registers=True)["frames"][0]
    assert first["registers"].keys() == {"rsp", "rip"}
    assert first["unknown"] == ["rbx", "rbp", "r12", "r13", "r14", "r15"]
    lines = list(stack_lines(stacks[0], names, Style(Palette(False), registers=True)))
    assert "      unknown rbx rbp r12 r13 r14 r15" in lines


def test_chosen_threads_only(threads: int, document: Callable[..., Any], answer: Answer) -> None:
    every = [thread["id"] for thread in document("stack", str(threads))["threads"]]
    found = document("stack", str(threads), "--thread", str(every[2]), "--thread", str(every[0]))
    assert [thread["id"] for thread in found["threads"]] == [every[0], every[2]]
    code, out, error = answer("stack", str(threads), "--thread", "1")
    assert (code, out) == (3, "")
    assert "there is no thread 1" in error
    assert str(threads) in error


def test_a_limit_is_a_reason(threads: int, answer: Answer) -> None:
    code, out, error = answer("stack", str(threads), "--limit", "2")
    assert (code, error) == (1, "")
    for frames, end in parsed(out).values():
        assert len(frames) == 2
        assert end == "limit, the limit of 2 frames is reached"


def test_without_names(threads: int, document: Callable[..., Any], answer: Answer) -> None:
    for thread in document("stack", str(threads), "--no-names")["threads"]:
        assert functions(thread) == [""] * len(thread["frames"])
    out = answer("stack", str(threads), "--no-names")[1]
    assert re.search(r"\n#1  0x[0-9a-f]{16} \(no symbol\)  stands\+0x[0-9a-f]+\n", out)


def test_code_of_a_jit_compiler_has_the_names_of_its_map(program: Path, answer: Answer) -> None:
    with standing(program, "jit") as pid:
        code, out, error = answer("stack", str(pid))
        found = json.loads(answer("stack", str(pid), "--json")[1])
    assert (code, error) == (1, "")
    assert re.search(r"\n#1  0x[0-9a-f]{16} py::hot\+0xb\n", out)
    assert "\nend: no_module, nothing that is loaded is at 0x" in out
    frame = found["threads"][0]["frames"][1]
    assert (frame["function"], "module" in frame) == ("py::hot", False)


def test_a_frame_says_how_it_was_found(program: Path, answer: Answer, document: Callable[..., Any]) -> None:
    with standing(program, "bare") as pid:
        code, out, _ = answer("stack", str(pid))
        assert code == 1
        assert "no row" in parsed(out)[pid][1]
        # A scan finds the rest, and every frame that it found says so.
        code, out, _ = answer("stack", str(pid), "--scan")
    assert re.search(r"main\+0x[0-9a-f]+ +stands +at stands\.c:\d+ +\[scan\]\n", out)


def test_demangled_or_raw(tmp_path: Path, document: Callable[..., Any]) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    source, built = tmp_path / "a.cc", tmp_path / "a"
    source.write_text(
        "#include <cstdio>\n#include <unistd.h>\nnamespace a { template <class T> struct b {\n"
        '__attribute__((noinline)) int c(T) { puts("ready"); fflush(stdout); pause(); return 1; } }; }\n'
        "int main() { return a::b<int>().c(1) + 1; }\n"
    )
    subprocess.run(["g++", "-O1", "-o", built, source], check=True)
    with standing(built) as pid:
        plain, raw = document("stack", str(pid)), document("stack", str(pid), "--raw-names")
    assert functions(plain["threads"][0])[1] == "a::b<int>::c(int)"
    assert functions(raw["threads"][0])[1] == "_ZN1a1bIiE1cEi"


def test_a_python_process(document: Callable[..., Any]) -> None:
    code = "import sys, time; print('ready', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.1)
            [thread] = document("stack", str(process.pid))["threads"]
            assert goes_on(process.pid)
        finally:
            process.kill()
    assert thread["end"] == "entry"
    assert functions(thread)[-1] == "_start"


def test_a_core_is_walked_as_the_process_was(core: Path, document: Callable[..., Any], answer: Answer) -> None:
    found = document("stack", str(core))
    assert (found["target"]["kind"], found["target"]["file"]) == ("core", str(core))
    assert len(found["threads"]) == 3
    for thread in found["threads"]:
        assert thread["end"] == "entry"
        assert "inner" in functions(thread)
    assert answer("stack", str(core))[1].startswith(f"core {core}  x86-64  process ")


def test_a_core_on_another_machine(core: Path, program: Path, tmp_path: Path, answer: Answer) -> None:
    # Nothing is at its place there.
    (tmp_path / "root").mkdir()
    code, out, _ = answer("stack", str(core), "--sysroot", str(tmp_path / "root"), "--json")
    assert code == 1
    modules = {frame["module"] for thread in json.loads(out)["threads"] for frame in thread["frames"]}
    assert "its file was not found" in out
    # Debug directories find files by their names.
    libc = next(path for path in modules if "libc.so" in path)
    folders = ("--debug-dir", str(program.parent), "--debug-dir", os.path.dirname(libc))
    code, out, _ = answer("stack", str(core), "--sysroot", str(tmp_path / "root"), *folders, "--json")
    assert code == 0
    assert all("inner" in functions(thread) for thread in json.loads(out)["threads"])


def test_the_wrong_program_is_used_and_told(core: Path, answer: Answer) -> None:
    code, _, error = answer("stack", str(core), "--exe", os.path.realpath("/bin/sh"))
    assert code == 1
    assert "which was named, has build id" in error
    assert "it is used nevertheless" in error


def test_symbols_in_a_separate_file(program: Path, tmp_path: Path, document: Callable[..., Any]) -> None:
    if shutil.which("objcopy") is None:
        pytest.skip("objcopy is not installed")
    stripped, debug = tmp_path / "stands", tmp_path / "debug"
    with Image.open(program) as image:
        assert image.build_id is not None
        build_id = image.build_id.hex()
    place = debug / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, place], check=True)
    subprocess.run(["objcopy", "--strip-all", program, stripped], check=True)
    with standing(stripped, "threads") as pid:
        [without, *_] = document("stack", str(pid))["threads"]
        [there, *_] = document("stack", str(pid), "--debug-dir", str(debug))["threads"]
    assert (without["end"], there["end"]) == ("entry", "entry")
    assert functions(without)[1:3] == ["", ""]
    assert functions(there)[1:3] == ["inner", "main"]


def test_a_core_that_is_cut(core: Path, tmp_path: Path, answer: Answer) -> None:
    cut = tmp_path / "cut"
    data = core.read_bytes()
    for size in (0x40, 0x200, len(data) // 3, len(data) - 0x2000):
        cut.write_bytes(data[:size])
        code, out, error = answer("stack", str(cut))
        assert code in (1, 3)
        assert error or "end: " in out


def test_the_help(answer: Answer) -> None:
    code, out, _ = answer("stack", "--help")
    assert code == 0
    for option in (
        "--exe",
        "--sysroot",
        "--debug-dir",
        "--thread",
        "--registers",
        "--why",
        "--json",
        "--limit",
        "--scan",
        "--no-lines",
        "--no-inlines",
        "--symbols",
    ):
        assert option in out
    assert main(["--help"]) == 0


def test_a_typing_error_in_the_command(answer: Answer) -> None:
    code, _, error = answer("stak", "1")
    assert code == 2
    assert "stack" in error


def test_the_same_text_on_a_terminal_with_colours(core: Path) -> None:
    from test_cli_main import on_a_terminal, run, without_colours

    for name in ("stack", "doctor"):
        code, text = on_a_terminal(name, str(core))
        assert code == 0
        assert "\x1b[32mentry\x1b[0m" in text
        assert without_colours(text) == run(name, str(core)).stdout.decode()


def test_a_signal_s_frame_says_that_it_is_one(tmp_path: Path, answer: Answer) -> None:
    source = tmp_path / "signal.c"
    source.write_text(
        "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        'static void handler(int number) { puts("there"); fflush(stdout); for (;;) pause(); }\n'
        "int main(void) { signal(SIGUSR1, handler); raise(SIGUSR1); return 0; }\n"
    )
    program = tmp_path / "signal"
    subprocess.run(["gcc", "-O1", "-o", str(program), str(source)], check=True)
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            code, out, _ = answer("stack", str(process.pid))
            assert code == 0
            marked = [line for line in out.splitlines() if "(signal frame)" in line]
            assert len(marked) == 1
            _, out, _ = answer("stack", "--json", str(process.pid))
        finally:
            process.kill()
    frames = json.loads(out)["threads"][0]["frames"]
    assert sum(frame.get("signal_frame", False) for frame in frames) == 1
    assert "main" in [frame.get("function") for frame in frames]
