"""Symbol files that clew writes, read by others: they say what clew itself says of the same code, and what the judges say."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from symbols_builds import LONGEST, built, clew, folder
from symbols_judges import Chain, JudgedFrame, Unusable, load_base, path_of, symbolic
from symbols_sym_file import OMITTED, SymFile

from clew.image import Image
from clew.symbols import Symbolizer, demangle
from clew.testing.minidump import MinidumpBuilder
from clew.write.breakpad.dump import dump_symbols

BUILDS = [
    ("g++", "names.cc", "-O2 -g"),
    ("gcc", "names.c", "-O2 -g -gdwarf-4"),
    ("clang++", "names.cc", "-O2 -g"),
    ("clang", "names.c", "-O0 -g"),
    ("g++", "names.cc", "-O2 -g -flto"),
    ("g++", "names.cc", "-O2 -g -static"),
    ("gcc", "names.c", "-O2 -g -no-pie"),
    ("clang", "names.c", "-O2 -g -fbasic-block-sections=all -fuse-ld=lld"),
]


def written(path: Path) -> Path:
    """The symbol file of a program."""
    output = folder() / "program.sym"
    with Symbolizer.open(path) as symbols:
        output.write_bytes(b"".join(dump_symbols(symbols).text()))
    return output


def spoken(chain: Chain) -> Chain:
    """A chain with names as people write them."""
    return tuple(JudgedFrame(frame.function and demangle(frame.function), frame.file, frame.line) for frame in chain)


def sample(sym: SymFile) -> list[int]:
    """Addresses of functions that have lines: the format has none outside of them."""
    functions = [(each.address + sym.base, each.size) for each in sym.functions if each.lines]
    inside = [address for start, size in functions for address in range(start, start + size)]
    return inside[:: max(1, len(inside) // LONGEST)]


@pytest.mark.parametrize(("compiler", "source", "options"), BUILDS)
def test_a_symbol_file_says_what_was_read(compiler: str, source: str, options: str) -> None:
    path = built(compiler, options, source)
    sym = SymFile(written(path), load_base(path))
    addresses = sample(sym)
    assert len(addresses) > 100
    for address, mine, theirs in zip(addresses, clew(path, addresses), sym.answers(addresses), strict=True):
        assert theirs == spoken(mine), hex(address)


@pytest.mark.parametrize(("compiler", "source", "options"), BUILDS)
def test_symbolic_reads_it_alike(compiler: str, source: str, options: str) -> None:
    path = built(compiler, options, source)
    output = written(path)
    base = load_base(path)
    sym = SymFile(output, base)
    addresses = sample(sym)
    try:
        answers = symbolic(output, [address - base for address in addresses])
    except Unusable as reason:
        pytest.skip(str(reason))
    for address, theirs, mine in zip(addresses, answers, sym.answers(addresses), strict=True):
        if not mine[0].line:
            continue  # It leaves out the calls for which there is no line inside.
        expected = [(frame.function or OMITTED, frame.line) for frame in mine]
        assert [(frame.function, frame.line) for frame in theirs] == expected, hex(address)


TOOLS = Path(__file__).parents[2] / "bench" / "peers" / "target" / "tools" / "bin"
BASE = 0x5555_0000_0000
MANY = 300
"""At most so many threads."""


def test_rust_minidump_reads_it() -> None:
    """A dump whose threads stand all over the program; rust-minidump looks each of them up in the symbol file."""
    walker = TOOLS / "minidump-stackwalk"
    command = str(walker) if walker.exists() else shutil.which("minidump-stackwalk")
    if command is None:
        pytest.skip("minidump-stackwalk is not installed: cargo install --root bench/peers/target/tools")
    path = built("g++", "-O2 -g", "names.cc")
    output = written(path)
    sym = SymFile(output)
    module = output.read_text().split("\n", 1)[0].split(" ")
    store = folder()
    where = store / path.name / module[3]
    where.mkdir(parents=True)
    shutil.copy(output, where / f"{path.name}.sym")
    addresses = sample(sym)
    addresses = addresses[:: len(addresses) // MANY + 1]

    dump = MinidumpBuilder("x86-64")
    with Image.open(path) as image:
        dump.module(str(path), BASE, 0x10000, build_id=image.build_id)
    for number, address in enumerate(addresses):
        dump.thread(1000 + number, {"rip": BASE + address, "rsp": 0x7FFF_0000_0000, "rbp": 0})
    (store / "program.dmp").write_bytes(dump.build())
    done = subprocess.run(
        [command, "--json", str(store / "program.dmp"), str(store)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    threads = json.loads(done.stdout)["threads"]
    assert len(threads) == len(addresses)
    for thread, address, mine in zip(threads, addresses, sym.answers(addresses), strict=True):
        frame = thread["frames"][0]
        assert int(frame["module_offset"], 16) == address
        theirs = [*(frame["inlines"] or ()), frame]
        found = [(each["function"], path_of(each["file"]), each["line"] or 0) for each in theirs]
        assert found == [(each.function or OMITTED, each.file, each.line) for each in mine], hex(address)
