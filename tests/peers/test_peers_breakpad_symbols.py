"""Symbol files that others made, and what rust-minidump makes of those that clew writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew.image import Image
from clew.image.breakpad_id import architecture, code_id, debug_id, identifier
from clew.symbols.sym_file import SymbolFile
from clew.symbols.symbol_map import NO_NAME, SymbolMap
from clew.write.breakpad.symbols import write_symbols

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
FILES = sorted(CORPUS.rglob("*.sym")) + sorted((CORPUS / "breakpad").glob("module*.out"))
TOOLS = ROOT / "bench" / "peers" / "target" / "tools" / "bin"

needs_corpus = pytest.mark.skipif(not FILES, reason=f"the conformance corpus is not at {CORPUS}")


def tool(name: str) -> str:
    for place in (TOOLS / name, shutil.which(name)):
        if place and Path(place).exists():
            return str(place)
    pytest.skip(f"{name} is not installed (bench/peers has it)")


def counted(path: Path) -> Counter[str]:
    """How many lines begin with each keyword; "line" are those that begin with none."""
    words = (line.split(b" ", 1)[0].decode() for line in path.read_bytes().splitlines() if line)
    return Counter(word if word.isupper() and not word[0].isdigit() else "line" for word in words)


@needs_corpus
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name[:8]}-{path.name}")
def test_every_record_is_there(path: Path) -> None:
    count = counted(path)
    with SymbolFile.open(path) as file:
        records = file.records
        cfi = sum(bytes(text).count(b"\n") for text in records.cfi.texts())
        found = {
            "MODULE": int(records.module is not None),
            "INFO": len(records.info),
            "FILE": len(records.files.number),
            "INLINE_ORIGIN": len(records.origins.number),
            "FUNC": len(records.functions.address),
            "INLINE": len(records.inlines.depth),
            "line": len(records.lines.address),
            "PUBLIC": len(records.publics.address),
            "STACK": len(records.stack_win) + cfi,
        }
        told = {problem.line: problem.message for problem in file.problems}
    # What is not there was for no bytes of code, or is one of the records of Breakpad's own bad files.
    text = path.read_bytes().splitlines()
    empty = Counter("FUNC" if line.startswith(b"FUNC") else "line" for line in text if _is_empty(line))
    expected = {name: count[name] - empty[name] for name in found}
    match path.name:
        case "module1.out":  # a line of the function of size 0
            expected["line"] -= 1
            assert sorted(told) == [15, 16]
        case "module3_bad.out":  # a FUNC that is cut
            expected["FUNC"] -= 1
            assert sorted(told) == [3]
        case "module4_bad.out":  # lines without a FUNC
            expected["line"] -= 2
            assert sorted(told) == [4, 5]
    assert found == expected


def _is_empty(line: bytes) -> bool:
    fields = line.removeprefix(b"FUNC ").removeprefix(b"m ").split(b" ")
    return (
        len(fields) >= 4
        and fields[1] == b"0"
        and not line.startswith((b"STACK", b"FILE", b"INLINE", b"PUBLIC", b"MODULE"))
    )


def _frames(symbols: SymbolMap, address: int) -> list[tuple[str, int]]:
    """Names and lines of the inlined calls at an address, the outermost first."""
    functions, inlines = symbols.functions, symbols.inlines
    at = int(functions.address.searchsorted(address, "right")) - 1
    found = []
    for row in range(functions.first_inline[at], functions.end_inline[at]):
        ranges = slice(inlines.first_range[row], inlines.first_range[row + 1])
        begin, size = inlines.range_address[ranges], inlines.range_size[ranges]
        if ((begin <= address) & (address < begin + size)).any():
            assert inlines.depth[row] == len(found)
            assert inlines.name[row] != NO_NAME
            found.append((symbols.names[inlines.name[row]], int(inlines.call_line[row])))
    return found


@needs_corpus
def test_inlined_calls_of_mozillas_dump_syms() -> None:
    """Its records are in the order of addresses. Each address has the calls that a search of each depth finds."""
    path = next(path for path in FILES if path.name == "crash-client.sym")
    origins: dict[str, str] = {}
    functions: dict[int, tuple[int, list[tuple[int, int, str, list[tuple[int, int]]]]]] = {}
    records: list[tuple[int, int, str, list[tuple[int, int]]]] = []
    for line in path.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "INLINE_ORIGIN":
            number, _, name = rest.partition(" ")
            origins[number] = name
        elif kind == "FUNC":
            address, size, *_ = rest.removeprefix("m ").split(" ")
            records = []
            functions[int(address, 16)] = (int(size, 16), records)
        elif kind == "INLINE":
            depth, number, _, origin, *pieces = rest.split(" ")
            spans = [(int(a, 16), int(b, 16)) for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
            records.append((int(depth), int(number), origins[origin], spans))
    random = Random(3)
    compared = 0
    with SymbolFile.open(path) as file:
        symbols = file.symbols
        assert file.problems == []
        for start, (size, records) in random.sample(sorted(functions.items()), 400):
            edges = [edge for *_, spans in records for a, b in spans for edge in (a, a + b - 1, a + b)]
            for address in random.sample(edges, min(len(edges), 12)):
                if not start <= address < start + size:
                    continue
                expected = []
                while True:
                    here = [
                        (name, number)
                        for depth, number, name, spans in records
                        if depth == len(expected) and any(a <= address < a + b for a, b in spans)
                    ]
                    if not here:
                        break
                    assert len(here) == 1
                    expected += here
                assert _frames(symbols, address) == expected
                compared += len(expected) > 1
    assert compared > 500


@needs_corpus
def test_both_forms_of_inline_say_the_same() -> None:
    old, new = (
        SymbolFile.open(next(path for path in FILES if path.name == f"linux_inline.{form}.sym"))
        for form in ("old", "new")
    )
    for address in range(0x15B30, 0x161FF, 7):
        assert _frames(old.symbols, address) == _frames(new.symbols, address)
    assert _frames(new.symbols, 0x15B90) == [("foo()", 42), ("bar()", 39), ("func()", 32)]


def _walked(program: str, dump: Path, symbols: Path) -> Any:
    done = subprocess.run(
        [program, "--json", str(dump), str(symbols)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    answer.pop("pid", None)
    return answer


@needs_corpus
@pytest.mark.parametrize(
    ("dump", "symbols"),
    [
        ("rust-minidump/test.dmp", "rust-minidump/symbols"),
        ("rust-minidump/pipeline-inlines-macos-segv.dmp", "rust-minidump/symbols"),
        ("breakpad/minidump2.dmp", "breakpad/symbols"),
        ("breakpad/linux_overflow.dmp", "breakpad/symbols"),
        ("breakpad/linux_null_read_av.dmp", "breakpad/symbols"),
    ],
)
def test_rust_minidump_reads_what_is_written(dump: str, symbols: str, tmp_path: Path) -> None:
    """The same stacks, with names, lines and inlined calls, from the files as they are and as clew writes them."""
    program = tool("minidump-stackwalk")
    for path in (CORPUS / symbols).rglob("*.sym"):
        with SymbolFile.open(path) as file:
            assert file.module is not None
            copy = tmp_path / path.relative_to(CORPUS / symbols)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("wb") as stream:
                texts = map(bytes, file.cfi.texts())
                write_symbols(stream, file.module, file.info, file.symbols, stack_win=file.stack_win, cfi_chunks=texts)
    ours, theirs = _walked(program, CORPUS / dump, tmp_path), _walked(program, CORPUS / dump, CORPUS / symbols)
    frames = [frame for thread in theirs["threads"] for frame in thread["frames"]]
    assert any(frame["function"] for frame in frames)
    assert ours["threads"] == theirs["threads"]
    assert [module.get("corrupt_symbols") for module in ours["modules"]] == [
        module.get("corrupt_symbols") for module in theirs["modules"]
    ]
    if "inlines" in dump:
        assert any(frame["inlines"] for frame in frames)


@pytest.mark.parametrize("option", ["--build-id=sha1", "--build-id=md5", "--build-id=0x1234567890"])
def test_ids_are_those_of_mozillas_dump_syms(option: str, tmp_path: Path) -> None:
    program, compiler = tool("dump_syms"), tool("gcc")
    source, made = tmp_path / "demo.c", tmp_path / "demo"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run([compiler, "-g", f"-Wl,{option}", "-o", made, source], check=True, timeout=60)
    done = subprocess.run([program, made], capture_output=True, text=True, timeout=60, check=True)
    module, info = (line.split(" ") for line in done.stdout.splitlines()[:2])
    with Image.open(made) as image:
        found = identifier(image)
        assert module[1:] == ["Linux", architecture(image), debug_id(found), "demo"]
        assert info[2] == code_id(found)
