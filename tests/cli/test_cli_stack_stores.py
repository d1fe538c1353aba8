"""``clew stack --symbols``: names, lines and inlined calls from stores of Breakpad symbol files; and of recordings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lined_program import WHOLE, Source, compiled, crashed, sources
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
needs_objcopy = pytest.mark.skipif(shutil.which("objcopy") is None, reason="objcopy is not installed")


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
