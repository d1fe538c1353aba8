"""Whole symbol files of binaries: of the builders' files, and of what compilers, dwz and compression make."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from clew.image import Image
from clew.image.breakpad_id import load_address
from clew.symbols import Symbolizer
from clew.symbols.debug_file import DebugFiles
from clew.testing.dwarf import At, DwarfBuilder, Form, Rle, Tag
from clew.testing.elf import ElfBuilder
from clew.write.breakpad.dump import Dump, dump_symbols

CODE = 0x2010
SOURCE = """
static inline __attribute__((always_inline)) int twice(int x) { return x * 2 + (x >> 3); }
namespace { struct S { int a; __attribute__((noinline)) int method(int n) { return twice(n) + a; } }; }
int work(int n) { S s{n}; auto f = [&](int k) { return s.method(k) + twice(k); }; return f(n) + f(n + 1); }
int main(int argc, char **) { return work(argc); }
"""
needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


def dwarf_of_all_kinds() -> DwarfBuilder:
    """A unit with a split function, a call inlined into it, lines, and code that nobody names."""
    dwarf = DwarfBuilder(version=5)
    lines = dwarf.line_program(directories=["/src"], files=["a.c", "a.c", "b.h"])
    lines.sequence([(CODE, 1), (CODE + 4, 2, 2), (CODE + 8, 3), (CODE + 0x20, 9), (CODE + 0x28, 30)], CODE + 0x40)
    top = dwarf.unit().die(
        Tag.COMPILE_UNIT,
        (At.NAME, Form.STRING, "a.c"),
        (At.COMP_DIR, Form.STRING, "/src"),
        (At.STMT_LIST, Form.SEC_OFFSET, dwarf.add_lines(lines)),
        (At.LOW_PC, Form.ADDR, CODE),
        (At.HIGH_PC, Form.DATA4, 0x40),
        (At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base),
    )
    callee = top.child(Tag.SUBPROGRAM, (At.LINKAGE_NAME, Form.STRING, "_Z6calleei"))
    pieces = dwarf.range_list([Rle.offset_pair(0, 0x10), Rle.offset_pair(0x20, 0x28)])
    split = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "split"), (At.RANGES, Form.RNGLISTX, pieces))
    split.child(
        Tag.INLINED_SUBROUTINE,
        (At.ABSTRACT_ORIGIN, Form.REF4, callee),
        (At.LOW_PC, Form.ADDR, CODE + 4),
        (At.HIGH_PC, Form.DATA4, 4),
        (At.CALL_FILE, Form.DATA1, 1),
        (At.CALL_LINE, Form.DATA1, 2),
    )
    return dwarf


def built() -> bytes:
    elf = ElfBuilder()
    elf.section(".text", bytes(0x80), address=CODE, executable=True)
    elf.symbol("by_hand", CODE + 0x30, size=0x10, section=".text", type=2)
    elf.symbol("outside", CODE + 0x50, size=8, section=".text", type=2)
    elf.symbol("also_outside", CODE + 0x50, size=8, section=".text", type=2)
    elf.build_id(bytes(range(20)))
    dwarf_of_all_kinds().put_into(elf)
    return elf.build()


def dumped(data: bytes, *, inlines: bool = True) -> Dump:
    image = Image.from_bytes(data)
    with Symbolizer(image, DebugFiles(image, image)) as symbols:
        return dump_symbols(symbols, inlines=inlines)


def test_a_whole_file_of_records() -> None:
    dump = dumped(built())
    base = load_address(Image.from_bytes(built()))
    text = b"".join(dump.text()).decode()
    at = {place: f"{CODE + place - base:x}" for place in range(0x80)}
    head, *records = text.splitlines()
    # Of the build id the first 16 bytes, three fields of them the other way round, and an age.
    assert head.startswith("MODULE Linux x86_64 030201000504070608090A0B0C0D0E0F0 ")
    assert records == [
        "INFO CODE_ID 000102030405060708090A0B0C0D0E0F10111213",
        "FILE 0 /src/a.c",
        "FILE 1 /src/b.h",
        "INLINE_ORIGIN 0 callee(int)",
        f"FUNC {at[0]} 10 0 split",
        f"INLINE 0 2 0 0 {at[4]} 4",
        f"{at[0]} 4 1 0",
        f"{at[4]} 4 2 1",
        f"{at[8]} 8 3 0",
        f"FUNC {at[0x10]} 10 0 <name omitted>",
        f"{at[0x10]} 10 3 0",
        f"FUNC {at[0x20]} 8 0 split",
        f"{at[0x20]} 8 9 0",
        f"FUNC {at[0x28]} 8 0 <name omitted>",
        f"{at[0x28]} 8 30 0",
        f"FUNC {at[0x30]} 10 0 by_hand",
        f"{at[0x30]} 10 30 0",
        f"PUBLIC m {at[0x50]} 0 outside",
    ]
    assert dump.problems == ()


def test_without_calls() -> None:
    text = b"".join(dumped(built(), inlines=False).text()).decode()
    assert "INLINE" not in text
    assert "FUNC" in text


def test_names_of_functions_are_written_as_the_caller_wants_them() -> None:
    text = b"".join(dumped(built()).text(lambda name: f"<{name}>")).decode()
    assert "INLINE_ORIGIN 0 <_Z6calleei>" in text
    assert " <split>" in text


def test_problems_are_told() -> None:
    dwarf = DwarfBuilder(version=4)
    top = dwarf.unit().die(Tag.COMPILE_UNIT, (At.LOW_PC, Form.ADDR, CODE), (At.HIGH_PC, Form.DATA4, 8))
    odd = top.child(Tag.SUBPROGRAM, (At.RANGES, Form.SEC_OFFSET, 0x1234))
    dump = dumped(dwarf.elf(code=[(CODE, bytes(64))]))
    assert [(problem.section, problem.offset) for problem in dump.problems] == [(".debug_info", odd.offset)]


# What compilers and tools make


def compiled(root: Path, *options: str) -> Path:
    """A program of the source above."""
    (root / "a.cc").write_text(SOURCE)
    result = subprocess.run(
        ["g++", "-O2", "-g", *options, "-o", "a.out", "a.cc"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if result.returncode:
        pytest.skip(f"g++ does not know {options}: {result.stderr.splitlines()[-1]}")
    return root / "a.out"


def records(path: Path) -> list[str]:
    """The records of a program's functions, which have no addresses of their own where it is the same program."""
    with Symbolizer.open(path) as symbols:
        dump = dump_symbols(symbols, cfi=False)
        assert dump.problems == ()
        return [line for line in b"".join(dump.text()).decode().splitlines() if not line.startswith(("MODULE", "INFO"))]


@needs_gcc
@pytest.mark.parametrize("compression", ["zlib", "zlib-gnu", "zstd"])
def test_compressed_debugging_information(compression: str, tmp_path: Path) -> None:
    plain = records(compiled(tmp_path, "-gz=none"))
    if compression == "zstd":
        pytest.importorskip("zstandard")
    # Not by the compiler, which may know fewer of them.
    result = subprocess.run(
        ["objcopy", f"--compress-debug-sections={compression}", "a.out", "compressed"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if result.returncode:
        pytest.skip(f"objcopy does not know {compression}: {result.stderr.strip()}")
    path = tmp_path / "compressed"
    with Image.open(path) as image:
        assert any(section.compressed for section in image.sections)
    assert records(path) == plain
    assert any(line.endswith("work(int)") for line in plain)
    assert any(line.startswith("INLINE ") for line in plain)


@needs_gcc
@pytest.mark.skipif(shutil.which("dwz") is None, reason="dwz is not installed")
@pytest.mark.parametrize("version", [4, 5])
def test_what_dwz_took_out_of_several_files(version: int, tmp_path: Path) -> None:
    plain = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        path = compiled(tmp_path / name, f"-gdwarf-{version}")
        plain.append(records(path))
        shutil.copy(path, tmp_path / f"{name}.out")
    result = subprocess.run(
        [
            "dwz",
            "-m",
            "common.dwz",
            "-M",
            str(tmp_path / "common.dwz"),
            "-5" if version == 5 else "-q",
            "one.out",
            "two.out",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if not (tmp_path / "common.dwz").exists():
        pytest.skip(f"this dwz does not do it: {result.stderr.strip()}")
    for name, before in zip(("one", "two"), plain, strict=True):
        with Image.open(tmp_path / f"{name}.out") as image:
            assert image.section(".debug_sup" if version == 5 else ".gnu_debugaltlink") is not None
        assert records(tmp_path / f"{name}.out") == before


@needs_gcc
@pytest.mark.parametrize(
    "options", [(), ("-fdebug-types-section",), ("-gdwarf-4",), ("-gdwarf-4", "-fdebug-types-section")]
)
def test_object_files(options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text(SOURCE)
    subprocess.run(["g++", "-O2", "-g", *options, "-c", "a.cc"], cwd=tmp_path, timeout=60, check=True)
    lines = records(tmp_path / "a.o")
    assert any(line.startswith("FUNC") and line.endswith(" work(int)") for line in lines)
    assert any(line.startswith("FUNC") and line.endswith(" main") for line in lines)
    assert any(line.startswith("INLINE ") for line in lines)
    assert any(line.endswith("a.cc") for line in lines if line.startswith("FILE"))
