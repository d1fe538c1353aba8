"""What readelf says about the files that the ELF builder makes, and what Image says about those that others made."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.image import Image, elf
from clew.testing.elf import ElfBuilder

READELF = shutil.which("readelf")
CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "pyelftools"

pytestmark = pytest.mark.skipif(READELF is None, reason="readelf is not installed")


def readelf(path: Path, *options: str) -> tuple[str, str]:
    """What readelf prints, and what it complains about."""
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["readelf", *options, str(path)], capture_output=True, check=False, env=environment)
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


@pytest.mark.parametrize(("bits", "byte_order"), list(itertools.product((32, 64), ("little", "big"))))
@pytest.mark.parametrize("large", [False, True])
def test_readelf_reads_what_is_built(bits: int, byte_order: elf.ByteOrder, large: bool, tmp_path: Path) -> None:
    builder = ElfBuilder(machine=8, bits=bits, byte_order=byte_order, large_numbers=large, type=elf.ET_EXEC)
    builder.section(".text", bytes(64), address=0x10000, executable=True, alignment=16)
    builder.section(".data", bytes(8), address=0x20000, flags=elf.SHF_WRITE)
    builder.section(".debug_info", bytes(1000), compress="zlib")
    builder.symbol("main", 0x10000, size=8, section=".text", type=elf.STT_FUNC)
    builder.symbol("dynamic", 0x20000, section=".data", type=elf.STT_OBJECT, dynamic=True)
    builder.relocation(".rela.text", 4, 2, "main", 1)
    builder.build_id(bytes.fromhex("feedface"))
    path = tmp_path / "a.out"
    path.write_bytes(builder.build())
    output, complaints = readelf(path, "-aW")
    # readelf 2.40 does not expect what the gABI says about the number of segments.
    assert [line for line in complaints.splitlines() if "Unexpected value (2) in info" not in line] == []
    assert re.search(r"\[ 1\] \.text +PROGBITS +0*10000 \w+ 000040 00 +AX +0 +0 16", output)
    assert re.search(r"\[ 3\] \.debug_info +PROGBITS .* C +0 +0 +1", output)
    assert re.search(r"LOAD .*0x0*10000 0x0*10000 0x0*40 0x0*40 R E", output)
    assert re.search(r"1: 0*10000 +8 FUNC +GLOBAL DEFAULT +1 main", output)
    assert re.search(r"1: 0*20000 +0 OBJECT +GLOBAL DEFAULT +2 dynamic", output)
    assert "Build ID: feedface" in output
    assert "R_MIPS_32" in output


SECTION = re.compile(
    r"^  \[ *(\d+)\] (.{17}|\S+) +\S+ +([0-9a-f]+) ([0-9a-f]{6,}) ([0-9a-f]{6,}) ([0-9a-f]{2,}) ", re.MULTILINE
)
SEGMENT = re.compile(r"^  \S+ +0x([0-9a-f]+) 0x([0-9a-f]+) 0x([0-9a-f]+) 0x([0-9a-f]+) 0x([0-9a-f]+) ", re.MULTILINE)


def elf_files() -> list[Path]:
    files = sorted(CORPUS.iterdir()) if CORPUS.is_dir() else []
    return [path for path in files if path.read_bytes()[:4] == elf.MAGIC]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not there")
@pytest.mark.parametrize("path", elf_files(), ids=lambda path: path.name)
def test_sections_segments_and_symbols_of_many_machines(path: Path) -> None:
    output, complaints = readelf(path, "-SlW")
    if "corrupt ELF" in complaints or "past end of file" in complaints:
        pytest.skip(f"readelf gives up: {complaints.splitlines()[0]}")
    with Image.open(path) as image:
        expected = [
            (int(index), *(int(number, 16) for number in numbers)) for index, _, *numbers in SECTION.findall(output)
        ]
        found = [(each.index, each.address, each.offset, each.size, each.entry_size) for each in image.sections]
        assert found == expected
        numbers = [tuple(int(number, 16) for number in match) for match in SEGMENT.findall(output)]
        assert [
            (each.offset, each.address, each.physical_address, each.file_size, each.memory_size)
            for each in image.segments
        ] == numbers
        ids = re.findall(r"Build ID: ([0-9a-f]+)", readelf(path, "-nW")[0])
        assert (image.build_id.hex() if image.build_id else None) == (ids[0] if ids else None)

        output, complaints = readelf(path, "-sW" if image.sections else "-DsW")
        if "Symbol table" not in output and complaints:
            pytest.skip(f"readelf shows no symbols: {complaints.splitlines()[0]}")
        output = re.sub("Symbol table for image.*", "table '.dynsym'", output)
        for which in ("symtab", "dynsym"):
            symbols = image.symbols(which)
            block = output.partition(f"table '.{which}'")[2].partition("\n\n")[0]
            rows = re.findall(r"^ *\d+: ([0-9a-f]+) +(0x[0-9a-f]+|\d+) ", block, re.MULTILINE)
            assert list(zip(symbols.value.tolist(), symbols.size.tolist(), strict=True)) == [
                (int(value, 16), int(size, 0)) for value, size in rows
            ]
