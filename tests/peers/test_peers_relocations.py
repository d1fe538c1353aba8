"""Relocations against readelf, which prints a section with its relocations applied: ``--relocated-dump``."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.errors import Error
from clew.image import Image, Section, elf
from clew.image.relocation_types import _READELF
from clew.testing.elf import ElfBuilder

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "pyelftools"
READELF = shutil.which("readelf")
GCC = shutil.which("gcc")

pytestmark = pytest.mark.skipif(READELF is None, reason="readelf is not installed")


def dumped(path: Path, section: Section) -> bytes:
    """The bytes of a section as readelf dumps them, decompressed and relocated; empty where it refuses."""
    command = ["readelf", "--decompress", f"--relocated-dump={section.index}", str(path)]
    output = subprocess.run(command, capture_output=True, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    lines = re.findall(rb"^  0x[0-9a-f]{8,16} ((?:[0-9a-f ]{8} ){4})", output.stdout, re.MULTILINE)
    return b"".join(bytes.fromhex(line.decode()) for line in lines)


def compare(path: Path) -> int:
    """Compare every section that has relocations; how many there were."""
    count = 0
    with Image.open(path) as image:
        for section in image.sections:
            if section.has_data and section.size and section.index in image.relocation_sections:
                try:
                    data = bytes(section.data)
                except Error:
                    data = b""
                assert data == dumped(path, section), section
                count += 1
    return count


def object_files() -> list[Path]:
    """The object files of the corpus: ``e_type`` is 1, in either byte order."""
    found = []
    for path in sorted(CORPUS.iterdir()) if CORPUS.is_dir() else []:
        with path.open("rb") as file:
            start = file.read(18)
        if start.startswith(elf.MAGIC) and start[16:18] in (b"\1\0", b"\0\1"):
            found.append(path)
    return found


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not there")
@pytest.mark.parametrize("path", object_files(), ids=lambda path: path.name)
def test_object_files_of_many_machines(path: Path) -> None:
    compare(path)


@pytest.mark.skipif(GCC is None, reason="gcc is not installed")
@pytest.mark.parametrize(
    "options",
    [
        "-O2 -g",
        "-m32 -O1 -g",
        "-g -gz=zlib",
        "-g -ffunction-sections -fPIC",
        "-gdwarf-4 -fno-asynchronous-unwind-tables",
    ],
)
def test_what_the_compiler_makes(options: str, tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text(
        "extern int g(int); extern int table[];\n"
        "static int one(int a) { return g(a) + table[a]; }\n"
        "int two(int a) { int v[a + 1]; v[a] = one(a); return v[a] + g(a); }\n"
    )
    path = tmp_path / "a.o"
    subprocess.run(["gcc", "-c", *options.split(), "-o", str(path), str(source)], check=True)
    assert compare(path) > 2


MACHINES = sorted({machine for row in _READELF for machine in row.machines} | {0, 1000})


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("addends", [".rela", ".rel"])
def test_every_type_of_every_machine(machine: int, addends: str, tmp_path: Path) -> None:
    """One relocation of each number in random bytes, twice: the second finds what machines keep from the first."""
    chance = random.Random(machine)
    order: elf.ByteOrder = chance.choice(["little", "big"])
    for bits in (32, 64):
        builder = ElfBuilder(
            machine=machine,
            bits=bits,
            byte_order=order,
            type=elf.ET_REL,
            os_abi=chance.choice([0, elf.ELFOSABI_STANDALONE]),
            flags=chance.choice([0, 45]),
        )
        count = 256 if bits == 32 else 300
        builder.section(".debug_info", chance.randbytes(count * 32), alignment=8)
        for index in range(5):
            builder.symbol(f"s{index}", chance.randrange(1 << 30), section=".debug_info", type=index)
        numbers = list(range(count)) * 2
        chance.shuffle(numbers)
        for index, number in enumerate(numbers):
            # MIPS64 has three bytes for its types.
            number = number & 0xFF if machine == elf.EM_MIPS else number
            addend = chance.randrange(-(1 << 31), 1 << 31)
            builder.relocation(f"{addends}.debug_info", 16 * index, number, chance.randrange(6), addend)
        path = tmp_path / f"{bits}.o"
        path.write_bytes(builder.build())
        assert compare(path) == 1
