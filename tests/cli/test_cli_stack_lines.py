"""``clew stack``: source lines and inlined calls, of programs that are compiled here, beside gdb's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lined_program import LINE, WHOLE, Source, compiled, crashed, gdb, gdb_stack, plain, sources
from stopped_programs import standing

from clew.image import Image

Answer = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the programs are for x86-64")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("lines"))


@pytest.fixture(scope="module")
def process(program: Path) -> Iterator[int]:
    with standing(program, "stands") as pid:
        yield pid


@pytest.fixture(scope="module")
def crash(program: Path) -> Path:
    return crashed(program)


def test_lines_and_inlined_calls_of_a_process(process: int, document: Callable[..., Any]) -> None:
    [thread] = document("stack", str(process))["threads"]
    assert sources(thread) == WHOLE
    assert plain(sources(thread)) == gdb_stack(gdb("-p", str(process), "bt"), "lines.c")


def test_the_contract_of_inlined_frames(process: int, program: Path, document: Callable[..., Any]) -> None:
    [thread] = document("stack", str(process), "--registers")["threads"]
    first, second, outer = [frame for frame in thread["frames"] if frame.get("module") == str(program)][:3]
    assert [frame["function"] for frame in (first, second, outer)] == ["innermost", "middle", "outer"]
    for frame in (first, second):
        for key in ("pc", "trust", "module", "build_id", "module_offset"):
            assert frame[key] == outer[key]
        assert (frame["inlined"], outer["inlined"]) == (True, False)
        assert frame["file"] == str(program.parent / "lines.c")
        # What belongs to the frame stands at its function.
        assert not frame.keys() & {"function_offset", "registers"}
    assert outer.keys() >= {"function_offset", "registers"}


def test_a_frame_s_lines_in_the_text(process: int, answer: Answer) -> None:
    code, out, error = answer("stack", str(process))
    assert (code, error) == (0, "")
    lines = out.splitlines()
    place = next(index for index, line in enumerate(lines) if "innermost (inlined)" in line)
    first, second, outer, following = lines[place : place + 4]
    # The number and the pc stand once, before the innermost function.
    assert re.fullmatch(rf"#1  0x[0-9a-f]{{16}} innermost \(inlined\) +lines +at lines\.c:{LINE['innermost']}", first)
    assert re.fullmatch(rf" {{23}}middle \(inlined\) +lines +at lines\.c:{LINE['middle']}", second)
    assert re.fullmatch(rf" {{23}}outer\+0x[0-9a-f]+ +lines +at lines\.c:{LINE['outer']}", outer)
    assert following.startswith("#2  0x")
    assert len({line.index("at lines.c") for line in (first, second, outer, following)}) == 1
    # What --why shows of a frame comes behind all of its functions.
    lines = answer("stack", str(process), "--why")[1].splitlines()
    place = next(index for index, line in enumerate(lines) if "innermost (inlined)" in line)
    assert "outer+" in lines[place + 2]
    assert lines[place + 3].startswith("      cfa = ")


def test_without_inlined_calls(process: int, document: Callable[..., Any]) -> None:
    [thread] = document("stack", str(process), "--no-inlines")["threads"]
    assert sources(thread) == WHOLE[2:]


@pytest.mark.parametrize("option", ["--no-lines", "--no-names"])
def test_without_lines(option: str, process: int, document: Callable[..., Any]) -> None:
    [thread] = document("stack", str(process), option)["threads"]
    assert not any(frame["inlined"] or frame.keys() & {"file", "line"} for frame in thread["frames"])
    named = "outer" in [frame.get("function") for frame in thread["frames"]]
    assert named == (option == "--no-lines")


def test_a_core_of_a_crash(crash: Path, program: Path, document: Callable[..., Any]) -> None:
    # The instruction that failed is looked up where it is.
    [thread] = document("stack", str(crash))["threads"]
    found = sources(thread)
    assert found[:2] == [
        Source("trap", "lines.c", LINE["trap"], True),
        Source("fails", "lines.c", LINE["fails"]),
    ]
    assert thread["frames"][0]["pc"] == thread["frames"][1]["pc"]
    assert [frame["trust"] for frame in thread["frames"][:2]] == ["context", "context"]
    assert plain(found) == gdb_stack(gdb(str(program), str(crash), "bt"), "lines.c")


def test_a_core_of_a_process(process: int, program: Path, document: Callable[..., Any]) -> None:
    core = program.parent / "core"
    gdb("-p", str(process), f"generate-core-file {core}")
    if not core.exists():
        pytest.skip("gdb cannot write a core here")
    [thread] = document("stack", str(core))["threads"]
    assert sources(thread) == WHOLE


@pytest.mark.parametrize("how", ["handled", "trapped"])
def test_frames_that_a_signal_interrupted(how: str, program: Path, document: Callable[..., Any]) -> None:
    with standing(program, how) as pid:
        [thread] = document("stack", str(pid))["threads"]
        peer = gdb_stack(gdb("-p", str(pid), "bt"), "lines.c")
    found = sources(thread)
    assert found[:3] == WHOLE[:3]
    assert found[3] == Source("handler", "lines.c", LINE["handler"])
    assert sum(frame.get("signal_frame", False) for frame in thread["frames"]) == 1
    assert plain(found) == peer
    if how == "trapped":
        assert found[4:] == [
            Source("trap", "lines.c", LINE["trap"], True),
            Source("fails", "lines.c", LINE["fails"]),
            Source("main", "lines.c", LINE["main, fails"]),
        ]
    else:
        # Its first instruction is its own, not the last one of what stands before it.
        frame = next(frame for frame in thread["frames"] if frame.get("function") == "at_once")
        assert frame["function_offset"] == "0x0"
        assert found[4:] == [Source("main", "lines.c", LINE["main, at once"])]


CPP = """#include <cstdio>
#include <unistd.h>
namespace tools {
template <class T> struct Box {
    T value;
    inline __attribute__((always_inline)) int open(T more) {
        auto wait = [&](int n) __attribute__((always_inline)) {
            pause(); // lambda
            return n + value;
        };
        return wait(more) + 1; // open
    }
    __attribute__((noinline)) int use(T more) {
        return open(more + value) * 2; // use
    }
};
}
int main(int argc, char **) {
    tools::Box<int> box{argc};
    puts("ready");
    fflush(stdout);
    return box.use(1) + 1; // main
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++", "clang++-14"])
def test_cplusplus(compiler: str, tmp_path: Path, document: Callable[..., Any]) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source, built = tmp_path / "box.cc", tmp_path / "box"
    source.write_text(CPP)
    subprocess.run([compiler, "-O2", "-g", "-o", built, source], check=True)
    marked = {
        match[1]: number for number, line in enumerate(CPP.splitlines(), 1) if (match := re.search(r"// (\w+)", line))
    }
    with standing(built) as pid:
        [thread] = document("stack", str(pid))["threads"]
        [raw] = document("stack", str(pid), "--raw-names")["threads"]
        peer = gdb_stack(gdb("-p", str(pid), "bt"), "box.cc")
    found = sources(thread, "box")
    assert [(each.line, each.inlined) for each in found] == [
        (marked["lambda"], True),
        (marked["open"], True),
        (marked["use"], False),
        (marked["main"], False),
    ]
    assert [each.function for each in found[2:]] == ["tools::Box<int>::use(int)", "main"]
    assert found[1].function.startswith(("tools::Box<int>::open", "open"))
    # Each program makes up its own name of a lambda; and gdb has the line where a statement began last.
    assert len(peer) == len(found)
    for (name, line), (other, other_line) in zip(plain(found)[1:], peer[1:], strict=True):
        assert (name.rpartition("::")[2], line) == (other.rpartition("::")[2], other_line)
    assert sources(raw, "box")[2].function == "_ZN5tools3BoxIiE3useEi"


def debug_directory(program: Path, folder: Path, of: Path) -> Path:
    """A directory with the debug file of a program, where that of another one is looked for."""
    with Image.open(of) as image:
        assert image.build_id is not None
        build_id = image.build_id.hex()
    place = folder / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, place], check=True)
    return folder


needs_objcopy = pytest.mark.skipif(shutil.which("objcopy") is None, reason="objcopy is not installed")


@needs_objcopy
def test_debug_files_and_wrong_ones(program: Path, tmp_path: Path, document: Callable[..., Any]) -> None:
    stripped = tmp_path / "lines"
    subprocess.run(["objcopy", "--strip-all", program, stripped], check=True)
    (tmp_path / "other").mkdir()
    other = compiled(tmp_path / "other", "-DOTHER", "-O1")
    right = debug_directory(program, tmp_path / "right", stripped)
    wrong = debug_directory(other, tmp_path / "wrong", stripped)
    with standing(stripped, "stands") as pid:
        [there] = document("stack", str(pid), "--debug-dir", str(right))["threads"]
        [none] = document("stack", str(pid), "--debug-dir", str(wrong))["threads"]
    assert sources(there) == WHOLE
    assert sources(none) == []
    assert "outer" not in [frame.get("function") for frame in none["frames"]]


def test_split_dwarf_that_is_not_there_is_told(tmp_path: Path, answer: Answer) -> None:
    program = compiled(tmp_path, "-gsplit-dwarf")
    with standing(program, "stands") as pid:
        code, out, error = answer("stack", str(pid), "--json")
        assert (code, error) == (0, "")
        assert sources(json.loads(out)["threads"][0]) == WHOLE
        for each in tmp_path.glob("*.dwo"):
            each.unlink()
        code, out, error = answer("stack", str(pid), "--json")
    # The stack is whole; only its lines are not known.
    found = json.loads(out)
    assert code == 0
    assert "outer" in [frame.get("function") for frame in found["threads"][0]["frames"]]
    assert "the split DWARF" in error
    assert [problem["lost"] for problem in found["problems"]] == [False]
