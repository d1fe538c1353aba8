"""Lines and paths of what compilers make, against llvm-dwarfdump, binutils' readelf and addr2line."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from clew.image import Image
from clew.native.dwarf_lines import NO_FILE, LineReader, LineRows
from clew.symbols.dwarf.lines import LineHeader, LineSections
from clew.testing.dwarf import At, DwarfBuilder, Tag
from clew.testing.dwarf_forms import Form

DWARFDUMP = shutil.which("llvm-dwarfdump") or shutil.which("llvm-dwarfdump-14")

MAIN = """
#include "square.h"
static inline __attribute__((always_inline)) int twice(int x) { return square(x) + square(x + 1); }
__attribute__((noinline, cold)) void unlikely(void) { volatile int x = 0; x++; }
__attribute__((noinline)) int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) { sum += twice(i); if (sum < 0) unlikely(); }
    return sum;
}
int main(int argc, char **argv) { return work(argc) > 100 ? other(argc) : 0; }
"""
OTHER = """
#include "inc/square.h"
int unused(int n) { return n * 3; }
int other(int n) { switch (n) { case 1: return unused(n); case 2: return 5; default: return square(n); } }
"""
HEADER = """
#pragma once
#ifdef __cplusplus
extern "C" {
#endif
int other(int n);
#ifdef __cplusplus
}
#endif
static inline int square(int x) {
    int y = x * x;
    return y + 1;
}
"""
ASSEMBLER = """
.globl by_hand
by_hand:
    nop
    ret
.section .text.more,"ax"
more:
    nop
    nop
    ret
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints."""
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, timeout=60, check=True
    )
    return result.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sources")
    (root / "inc").mkdir()
    (root / "sub").mkdir()
    (root / "inc/square.h").write_text(HEADER)
    for suffix in ("c", "cc"):
        other = OTHER if suffix == "c" else OTHER.replace("int other", 'extern "C" int other')
        (root / f"main.{suffix}").write_text(MAIN)
        (root / f"sub/other.{suffix}").write_text(other)
    (root / "by_hand.s").write_text(ASSEMBLER)
    return root


def build(sources: Path, output: Path, compiler: str, *options: str, suffix: str = "c") -> Image:
    """Compiles and links two units and one of the assembler."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    inputs = [f"main.{suffix}", f"sub/other.{suffix}", "by_hand.s"]
    run(compiler, "-O2", *options, "-Iinc", "-I.", *inputs, "-o", output, cwd=sources)
    return Image.open(output)


def data_of(image: Image, name: str) -> bytes:
    section = image.section(name)
    return b"" if section is None else bytes(section.data)


def programs(image: Image) -> Iterator[tuple[int, LineRows]]:
    """All line programs of a file, by offset."""
    data = data_of(image, ".debug_line")
    ranges = image.code_ranges()
    reader = LineReader(
        data, image.byte_order == "big", [start for start, _ in ranges], [end for _, end in ranges], discriminators=True
    )
    offset = 0
    while offset < len(data):
        result = reader.read(offset, image.address_size)
        yield offset, result
        offset = result.end


_ROW = re.compile(r"0x([0-9a-f]{8,16})\s+(\d+)\s+\d+\s+(\d+)\s+\d+\s+(\d+)\s*(.*)")


def dumped(path: Path) -> dict[int, list[tuple[int, int, int, int]]]:
    """The rows that llvm-dwarfdump prints: of one address the last, gaps as rows; sequences of discarded code are at 0."""
    if DWARFDUMP is None:
        pytest.skip("llvm-dwarfdump is not installed")
    result: dict[int, dict[int, tuple[int, int, int, int]]] = {}
    rows: dict[int, tuple[int, int, int, int]] = {}
    sequence: list[tuple[int, int, int, int]] = []
    for line in run(DWARFDUMP, "--debug-line", path).splitlines():
        if match := re.match(r"debug_line\[(0x[0-9a-f]+)\]", line):
            rows = result.setdefault(int(match[1], 16), {})
        elif match := _ROW.match(line):
            address, number, file, discriminator = int(match[1], 16), int(match[2]), int(match[3]), int(match[4])
            if "end_sequence" not in match[5]:
                sequence.append((address, number, file, discriminator))
                continue
            if sequence and sequence[0][0] not in (0, address):
                rows.update({row[0]: row for row in sequence if row[0] < address})
                rows.setdefault(address, (address, 0, NO_FILE, 0))
            sequence = []
    return {offset: sorted(rows.values()) for offset, rows in result.items()}


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang-14", "clang++-14"])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "options", ["", "-ffunction-sections -Wl,--gc-sections", "-gdwarf64"], ids=["plain", "sections", "64"]
)
def test_rows_are_those_of_llvm_dwarfdump(
    sources: Path, tmp_path: Path, compiler: str, version: int, options: str
) -> None:
    if version < 3 and "64" in options:
        pytest.skip("DWARF 2 has no 64-bit format")
    suffix = "cc" if "++" in compiler else "c"
    with build(sources, tmp_path / "a", compiler, f"-gdwarf-{version}", *options.split(), suffix=suffix) as image:
        found = {}
        for offset, result in programs(image):
            assert result.problems == []
            assert result.discriminator is not None
            columns = (result.address, result.line, result.file, result.discriminator)
            found[offset] = list(zip(*(column.tolist() for column in columns), strict=True))
        assert found == dumped(tmp_path / "a")
        assert sum(map(len, found.values())) > 20


_DECODED = re.compile(r"(\S+)\s+(\d+|-)\s+(0x[0-9a-f]+|0)\b")


@pytest.mark.parametrize("compiler", ["gcc", "clang-14"])
@pytest.mark.parametrize("version", [2, 4, 5])
def test_addresses_and_lines_are_those_of_readelf(sources: Path, tmp_path: Path, compiler: str, version: int) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    with build(sources, tmp_path / "a", compiler, f"-gdwarf-{version}") as image:
        ours = {
            (address, line)
            for _, result in programs(image)
            for address, line, file in zip(
                result.address.tolist(), result.line.tolist(), result.file.tolist(), strict=True
            )
            if file != NO_FILE
        }
    theirs: dict[int, int] = {}
    for line in run("readelf", "--debug-dump=decodedline", "--wide", tmp_path / "a").splitlines():
        if match := _DECODED.match(line):
            if match[2] == "-":  # an end, which takes away a row of no length
                theirs.pop(int(match[3], 16), None)
            else:
                theirs[int(match[3], 16)] = int(match[2])
    assert ours == set(theirs.items())


@pytest.mark.parametrize("compiler", ["gcc", "clang-14"])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("absolute", [False, True])
def test_paths_are_those_of_addr2line(
    sources: Path, tmp_path: Path, compiler: str, version: int, absolute: bool
) -> None:
    """The units of a program that is linked in this order have their line programs in that order too."""
    if shutil.which("addr2line") is None:
        pytest.skip("addr2line is not installed")
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    names = ["main.c", "sub/other.c"]
    if absolute:
        names = [str(sources / name) for name in names]
    options = ["-O2", f"-gdwarf-{version}", f"-I{sources}/inc" if absolute else "-Iinc", "-I."]
    run(compiler, *options, *names, "-o", tmp_path / "a", cwd=sources)
    with Image.open(tmp_path / "a") as image:
        sections = LineSections(
            data_of(image, ".debug_line"), data_of(image, ".debug_line_str"), data_of(image, ".debug_str")
        )
        checked = set()
        for (offset, result), name in zip(programs(image), names, strict=True):
            header = LineHeader(sections, offset, comp_dir=str(sources), name=name)
            assert header.problems == []
            code = [
                (address, line, file)
                for address, line, file in zip(
                    result.address.tolist(), result.line.tolist(), result.file.tolist(), strict=True
                )
                if file != NO_FILE and line
            ]
            printed = run("addr2line", "-e", tmp_path / "a", *(hex(address) for address, _, _ in code)).splitlines()
            expected = [re.sub(r" \(discriminator \d+\)$", "", text) for text in printed]
            assert [f"{header.file_path(file)}:{line}" for _, line, file in code] == expected
            checked |= {header.file_path(file) for _, _, file in code}
        assert len(checked) >= 3


@pytest.mark.parametrize(
    "sequences",
    [
        [([(0x1000, 1), (0x1004, 2)], 0x1010), ([(0x1008, 3), (0x100C, 4), (0x1018, 5)], 0x1020)],
        [([(0x1008, 3), (0x100C, 4), (0x1018, 5)], 0x1020), ([(0x1000, 1), (0x1004, 2)], 0x1010)],
        [([(0x1000, 1), (0x1004, 2)], 0x1020), ([(0x1008, 3), (0x100C, 4)], 0x1010)],
        [([(0x1000, 1), (0x1004, 2)], 0x1010), ([(0x1000, 3), (0x100C, 4)], 0x1020)],
        [([(0x1010, 1), (0x1010, 2), (0x1014, 3)], 0x1018), ([(0x1000, 4), (0x1010, 5)], 0x1010)],
        [([(0, 1), (0x1004, 2)], 0x1010), ([(0x1008, 3)], 0x1009)],
    ],
)
def test_overlaps_are_settled_as_in_addr2line(
    tmp_path: Path, sequences: list[tuple[list[tuple[int, int]], int]]
) -> None:
    if shutil.which("addr2line") is None:
        pytest.skip("addr2line is not installed")
    dwarf = DwarfBuilder(version=4)
    program = dwarf.line_program(files=["a.c"])
    for rows, end in sequences:
        program.sequence(rows, end)
    dwarf.unit().die(
        Tag.COMPILE_UNIT,
        (At.NAME, Form.STRING, "a.c"),
        (At.STMT_LIST, Form.SEC_OFFSET, dwarf.add_lines(program)),
        (At.LOW_PC, Form.ADDR, 0x1000),
        (At.HIGH_PC, Form.DATA4, 0x30),
    )
    path = tmp_path / "a"
    path.write_bytes(dwarf.elf(code=[(0x1000, bytes(0x30))]))
    result = LineReader(program.build(), code_start=[0x1000], code_end=[0x1030]).read(0)
    found = []
    for address in range(0x1000, 0x1030):
        row = int(np.searchsorted(result.address, np.uint64(address), "right")) - 1
        found.append(int(result.line[row]) if row >= 0 else 0)
    printed = run("addr2line", "-e", path, *(hex(address) for address in range(0x1000, 0x1030))).splitlines()
    # A sequence at address 0 is code that was discarded; binutils believes it where nothing else is.
    if sequences[0][0][0][0]:
        assert found == [int(text.rpartition(":")[2].replace("?", "0")) for text in printed]
    else:
        assert found == [0] * 8 + [3] + [0] * 39
