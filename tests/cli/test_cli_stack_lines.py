"""``clew stack``: source lines and inlined calls, of programs that are compiled here, beside gdb's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from stopped_programs import standing

from clew.image import Image
from clew.image.breakpad_id import debug_id, identifier
from clew.image.elf import PF_X, PT_LOAD, STT_FUNC
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.testing.breakpad import SymbolFileBuilder
from clew.testing.minidump import MinidumpBuilder
from clew.testing.perfdata import PerfDataBuilder

Answer = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the programs are for x86-64")

INLINE = "static inline __attribute__((always_inline))"
OUTLINE = "__attribute__((noinline, noclone))"

SOURCE = rf"""#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int here;

static void say(void) {{ puts("ready"); fflush(stdout); }}

{INLINE} int innermost(int n) {{
    pause(); /* innermost */
    return n + here;
}}

{INLINE} int middle(int n) {{
    here++;
    return innermost(n * 2) + 1; /* middle */
}}

{OUTLINE} static int outer(int n) {{
    here = n;
    return middle(n + 1) * 3; /* outer */
}}

/* What it calls does not return, so that nothing of it follows. */
{OUTLINE} __attribute__((noreturn)) static void last(int n) {{
    here = n;
    for (;;) outer(n); /* last */
}}

{OUTLINE} static void ends_with_a_call(int n) {{
    here = n;
    last(n + 1); /* the call */
}}

{INLINE} void trap(int n) {{
    here = n;
    __builtin_trap(); /* trap */
}}

{OUTLINE} static void fails(int n) {{
    trap(n + 1); /* fails */
}}

/* A function whose first instruction fails: the one before it ends right there. */
void at_once(void);
__asm__(".text\n.type before,@function\nbefore:\n nop\n ret\n.size before, .-before\n"
        ".type at_once,@function\nat_once:\n.cfi_startproc\n ud2\n.cfi_endproc\n.size at_once, .-at_once\n");

static void handler(int number) {{
    here = number;
    say();
    for (;;) outer(number); /* handler */
}}

int main(int argc, char **argv) {{
    if (!strcmp(argv[1], "crash")) fails(argc);
    if (!strcmp(argv[1], "handled")) {{
        signal(SIGILL, handler);
        at_once(); /* main, at once */
    }}
    if (!strcmp(argv[1], "trapped")) {{
        signal(SIGILL, handler);
        fails(argc); /* main, fails */
    }}
    say();
    ends_with_a_call(argc); /* main */
    return 0;
}}
"""

LINE = {
    match[1]: number
    for number, line in enumerate(SOURCE.splitlines(), 1)
    if (match := re.search(r"; /\* (.+) \*/$", line))
}


class Source(NamedTuple):
    """A function as a stack tells it."""

    function: str
    file: str
    line: int
    inlined: bool = False


#: The frames of the program where it stands.
WHOLE = [
    Source("innermost", "lines.c", LINE["innermost"], True),
    Source("middle", "lines.c", LINE["middle"], True),
    Source("outer", "lines.c", LINE["outer"]),
    Source("last", "lines.c", LINE["last"]),
    Source("ends_with_a_call", "lines.c", LINE["the call"]),
    Source("main", "lines.c", LINE["main"]),
]


def compiled(folder: Path, *options: str) -> Path:
    """The program with its debug information."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source, program = folder / "lines.c", folder / "lines"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-g", "-Wl,--build-id", *options, "-o", program, source], check=True, cwd=folder)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("lines"))


@pytest.fixture(scope="module")
def process(program: Path) -> Iterator[int]:
    with standing(program, "stands") as pid:
        yield pid


@pytest.fixture(scope="module")
def crash(program: Path) -> Path:
    """A core of the program, where an instruction in an inlined function failed."""
    core = program.parent / "crash"
    gdb(str(program), "run crash", f"generate-core-file {core}")
    if not core.exists():
        pytest.skip("gdb cannot write a core here")
    return core


def gdb(*arguments: str) -> str:
    """What gdb prints for a program, a core or a process and some commands."""
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    # The program, perhaps with a core; then commands, which have spaces.
    files = [each for each in arguments if " " not in each and each != "bt"]
    commands = ["set width 0", "set print frame-arguments none", *(each for each in arguments if each not in files)]
    wanted = ["gdb", "-nx", "-batch", *(part for each in commands for part in ("-ex", each)), *files]
    environment = {key: value for key, value in os.environ.items() if key != "DEBUGINFOD_URLS"}
    done = subprocess.run(wanted, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return done.stdout


FRAME = re.compile(r"#\d+ +(0x[0-9a-f]+ in )?(\S.*?) \(.*\) at (\S+):(\d+)")


def gdb_stack(text: str, file: str) -> list[tuple[str, int]]:
    """The functions and lines of a source file in gdb's backtrace."""
    # Of a core, gdb shows the first frame before it is asked.
    lines = [line.strip() for line in text.splitlines() if line.startswith("#")]
    begin = max((number for number, line in enumerate(lines) if line.startswith("#0 ")), default=0)
    frames = [FRAME.fullmatch(line) for line in lines[begin:]]
    return [(each[2], int(each[4])) for each in frames if each is not None and os.path.basename(each[3]) == file]


def sources(thread: dict[str, Any], module: str = "lines") -> list[Source]:
    """The functions of a thread that are in a module, as far as they have lines."""
    return [
        Source(
            frame.get("function", ""), os.path.basename(frame.get("file", "")), frame.get("line", 0), frame["inlined"]
        )
        for frame in thread["frames"]
        if os.path.basename(frame.get("module", "")) == module and "line" in frame
    ]


def plain(found: list[Source]) -> list[tuple[str, int]]:
    """Functions as the source calls them, without their arguments, and lines, as gdb has them."""
    return [(each.function.partition("(")[0].removesuffix(".cold"), each.line) for each in found]


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


class Store(NamedTuple):
    """A stripped program, and the store with the symbol file of it."""

    program: Path
    folder: Path


def store(program: Path, folder: Path, *, id: str | None = None, cut: bool = False) -> Store:
    """A stripped copy of the program, and a store with a symbol file that is written by hand.

    Args:
        id: the one that the symbol file says it has, if another than the program's.
        cut: whether the symbol file is damaged.
    """
    stripped = folder / "lines"
    subprocess.run(["objcopy", "--strip-all", program, stripped], check=True)
    text = SymbolFileBuilder()
    with Image.open(program) as image:
        own = debug_id(identifier(image))
        text.module(id=id or own, name="lines")
        text.file(0, "/source/of/lines.c")
        text.origin(0, "inner(int)")
        symbols = image.symbols("symtab")
        for number, name in enumerate(("outer", "last", "ends_with_a_call")):
            [index] = symbols.find(name)
            start, size = int(symbols.address[index]), int(symbols.size[index])
            text.func(start, size, f"stored::{name}(int)")
            if not number:
                text.inline(0, 20, 0, 0, [(start, size)])
            text.line(start, size, 10 + number, 0)
    if cut:
        text.raw("FUNC zzz")
    place = folder / "store" / "lines" / own
    place.mkdir(parents=True)
    (place / "lines.sym").write_bytes(text.build())
    return Store(stripped, folder / "store")


STORED = [
    Source("inner(int)", "lines.c", 10, True),
    Source("stored::outer(int)", "lines.c", 20),
    Source("stored::last(int)", "lines.c", 11),
    Source("stored::ends_with_a_call(int)", "lines.c", 12),
]


@needs_objcopy
def test_a_store_of_symbol_files(program: Path, tmp_path: Path, document: Callable[..., Any], answer: Answer) -> None:
    stripped, folder = store(program, tmp_path)
    with standing(stripped, "stands") as pid:
        [found] = document("stack", str(pid), "--symbols", str(folder))["threads"]
        [names] = document("stack", str(pid), "--symbols", str(folder), "--no-lines")["threads"]
        modules = json.loads(answer("doctor", str(pid), "--symbols", str(folder), "--json")[1])["modules"]
    assert sources(found) == STORED
    outer = next(frame for frame in found["frames"] if frame.get("function") == "stored::outer(int)")
    assert outer["file"] == "/source/of/lines.c"
    with Image.open(program) as image:
        symbols = image.symbols("symtab")
        start = int(symbols.address[symbols.find("outer")[0]])
    assert int(outer["module_offset"], 16) == start + int(outer["function_offset"], 16)
    # What a symbol file names has a name for the doctor, too; main and _start have none.
    [module] = [each for each in modules if each["module"] == str(stripped)]
    assert module["symbol_file"]["found"]
    assert len(module["unnamed"]) == 2
    assert sources(names) == []
    assert "stored::outer(int)" in [frame.get("function") for frame in names["frames"]]


@needs_objcopy
def test_what_a_file_says_itself_counts_before_a_store(
    program: Path, process: int, tmp_path: Path, document: Callable[..., Any]
) -> None:
    _, folder = store(program, tmp_path)
    [thread] = document("stack", str(process), "--symbols", str(folder))["threads"]
    assert sources(thread) == WHOLE


@needs_objcopy
def test_a_symbol_file_of_another_program_is_not_used(
    program: Path, tmp_path: Path, document: Callable[..., Any]
) -> None:
    stripped, folder = store(program, tmp_path, id="0" * 32 + "1")
    with standing(stripped, "stands") as pid:
        [thread] = document("stack", str(pid), "--symbols", str(folder))["threads"]
    assert sources(thread) == []
    assert not any("stored" in frame.get("function", "") for frame in thread["frames"])


@needs_objcopy
def test_a_core_whose_program_is_not_here(crash: Path, program: Path, tmp_path: Path, answer: Answer) -> None:
    # Where it was loaded and its build id are in the core: for the first frame that is enough.
    _, folder = store(program, tmp_path)
    with Image.open(program) as image:
        symbols = image.symbols("symtab")
        start = int(symbols.address[symbols.find("fails")[0]])
        own = debug_id(identifier(image))
    text = SymbolFileBuilder()
    text.module(id=own, name="lines")
    text.file(0, "lines.c")
    text.func(start, 0x100, "fails")
    text.line(start, 0x100, 7, 0)
    (folder / "lines" / own / "lines.sym").write_bytes(text.build())
    (tmp_path / "root").mkdir()
    code, out, _ = answer("stack", str(crash), "--sysroot", str(tmp_path / "root"), "--symbols", str(folder), "--json")
    assert code == 1
    first = json.loads(out)["threads"][0]["frames"][0]
    assert (first["function"], first["file"], first["line"]) == ("fails", "lines.c", 7)


@needs_objcopy
def test_a_damaged_symbol_file(program: Path, tmp_path: Path, answer: Answer) -> None:
    stripped, folder = store(program, tmp_path, cut=True)
    with standing(stripped, "stands") as pid:
        code, out, error = answer("stack", str(pid), "--symbols", str(folder), "--json")
    assert code == 0
    assert sources(json.loads(out)["threads"][0]) == STORED
    assert "lines.sym" in error


def test_a_store_that_is_not_there(process: int, answer: Answer) -> None:
    code, out, error = answer("stack", str(process), "--symbols", "/nowhere/at/all")
    assert (code, out) == (3, "")
    assert "--symbols names no directory" in error


def recorded(folder: Path) -> tuple[str, str]:
    """A recording of three samples in two lines of a function, and a store that knows them."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    cfi.fde(cie, start=0x1000, size=0x20, instructions=[Cfa.undefined(16)])
    cfi.terminator()
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    elf.symbol("leaf", 0x1000, size=0x20, section=".text", type=STT_FUNC)
    elf.build_id(bytes(range(20)))
    file = folder / "it.so"
    file.write_bytes(elf.build())
    with Image.open(file) as image:
        segments = [each for each in image.segments if each.type == PT_LOAD]
        [code] = [each for each in segments if each.flags & PF_X]
        own, base = debug_id(identifier(image)), min(each.address for each in segments)
    data = PerfDataBuilder("x86-64")
    data.command("perf", "record", "work")
    data.event(registers=("rsp", "rip"), stack=True)
    data.named(7, "work")
    data.mapped2(7, str(file), 0x7F0000000000 + code.address, 0x1000, code.offset)
    for place in (0x1004, 0x1018, 0x1006):
        data.sample(pid=7, registers={"rip": 0x7F0000000000 + place, "rsp": 0x7FFF0000}, stack=bytes(16))
    recording = folder / "perf.data"
    recording.write_bytes(data.build())
    text = SymbolFileBuilder()
    text.module(id=own, name="it.so")
    text.file(0, "leaf.c")
    text.origin(0, "twig")
    text.func(0x1000 - base, 0x20, "leaf")
    text.inline(0, 5, 0, 0, [(0x1000 - base, 0x10)])
    text.line(0x1000 - base, 0x10, 7, 0)
    text.line(0x1010 - base, 0x10, 8, 0)
    place = folder / "store" / "it.so" / own
    place.mkdir(parents=True)
    (place / "it.so.sym").write_bytes(text.build())
    return str(recording), str(folder / "store")


def test_lines_of_a_recording_where_they_are_asked_for(tmp_path: Path, answer: Answer) -> None:
    recording, folder = recorded(tmp_path)
    code, out, error = answer("stack", recording, "--symbols", folder)
    assert (code, error) == (0, "")
    assert out.split("\n\n")[1] == "3  100.00 %\n#0  leaf  it.so\nend: entry"
    # Stacks are then told apart by their lines.
    code, out, error = answer("stack", recording, "--symbols", folder, "--lines")
    assert (code, error) == (0, "")
    blocks = out.split("\n\n")
    assert blocks[1] == (
        "2  66.67 %\n#0  twig (inlined)  it.so  at leaf.c:7\n    leaf            it.so  at leaf.c:5\nend: entry"
    )
    assert blocks[2] == "1  33.33 %\n#0  leaf  it.so  at leaf.c:8\nend: entry"
    found = json.loads(answer("stack", recording, "--symbols", folder, "--lines", "--json")[1])
    assert [stack["count"] for stack in found["stacks"]] == [2, 1]
    frames = found["stacks"][0]["frames"]
    assert [(each["function"], each["line"], each["inlined"]) for each in frames] == [
        ("twig", 7, True),
        ("leaf", 5, False),
    ]
    assert {each["trust"] for each in frames} == {"context"}
    # Without inlined calls the line is that of the call.
    out = answer("stack", recording, "--symbols", folder, "--lines", "--no-inlines")[1]
    assert "#0  leaf  it.so  at leaf.c:5\n" in out


GUID = bytes(range(1, 17))


@pytest.mark.parametrize(
    ("name", "module", "identity", "store", "id"),
    [
        ("/opt/app/libapp.so", "libapp.so", {"build_id": bytes(range(1, 21))}, "libapp.so/libapp.so.sym", "0"),
        ("/opt/app/libapp.so", "libapp.so", {"guid": GUID}, "libapp.so/libapp.so.sym", "0"),
        (
            "C:\\app\\app.dll",
            "C:\\app\\app.dll",
            {"guid": GUID, "age": 10, "debug_file": "app.pdb"},
            "app.pdb/app.sym",
            "a",
        ),
    ],
)
def test_a_minidump_whose_files_are_not_here(
    name: str, module: str, identity: dict[str, Any], store: str, id: str, tmp_path: Path, answer: Answer
) -> None:
    dump = MinidumpBuilder("x86-64")
    dump.thread(42, {"rip": 0x7F0000001004, "rsp": 0x7FFF0000}, stack=(0x7FFF0000, bytes(64)))
    dump.module(name, 0x7F0000000000, 0x8000, **identity)
    dump.write(tmp_path / "crash.dmp").close()
    folder, file = store.split("/")
    own = f"0403020106050807090A0B0C0D0E0F10{id}"
    text = SymbolFileBuilder()
    text.module(id=own, name=folder)
    text.file(0, "/build/app.cc")
    text.origin(0, "app::check(int)")
    text.func(0x1000, 0x20, "app::run()")
    text.inline(0, 31, 0, 0, [(0x1000, 0x10)])
    text.line(0x1000, 0x20, 30, 0)
    place = tmp_path / "store" / folder / own
    place.mkdir(parents=True)
    (place / file).write_bytes(text.build())
    code, out, _ = answer("stack", str(tmp_path / "crash.dmp"), "--symbols", str(tmp_path / "store"))
    # Names and lines come from the store; what leads on does not.
    assert code == 1
    assert (
        f"\n#0  0x00007f0000001004 app::check(int) (inlined)  {module}  at app.cc:30\n"
        f"                       app::run()+0x4             {module}  at app.cc:31\nend: "
    ) in out
