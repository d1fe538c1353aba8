"""The text of frame tables against GNU readelf itself, byte for byte.

bench/parity_readelf.py does the same for all files of a system.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clew.errors import Error
from clew.image import Image
from clew.testing import ByteOrder, Cfa, CfiBuilder, ElfBuilder, fixed, sleb, uleb
from clew.write.readelf import frames_text, readelf_fails

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "pyelftools"
ENVIRONMENT = {**os.environ, "LC_ALL": "C"}


def version() -> tuple[int, ...]:
    """Of the readelf at hand; (0,) if there is none."""
    if not shutil.which("readelf"):
        return (0,)
    line = subprocess.run(["readelf", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return tuple(map(int, re.findall(r"\d+", line)[:2]))


pytestmark = pytest.mark.skipif(version() != (2, 40), reason="readelf of binutils 2.40 is not installed")


def differences(path: Path) -> list[str]:
    """In which listings of a file clew and readelf differ, and the first lines that do; none is as it should be."""
    found = []
    for option, raw in (("frames-interp", False), ("frames", True)):
        readelf = subprocess.run(
            ["readelf", "-wN", f"--debug-dump={option}", path],
            capture_output=True,
            env=ENVIRONMENT,
            timeout=120,
            check=False,
        )
        try:
            with Image.open(path) as image:
                text = b"".join(frames_text(image, raw=raw))
        except Error:
            text = b""
        if text != readelf.stdout:
            pairs = zip(readelf.stdout.splitlines(), text.splitlines(), strict=False)
            found.append(f"{path.name} {option}: {next((pair for pair in pairs if pair[0] != pair[1]), 'length')}")
    return found


def own_libraries() -> list[Path]:
    """This process's program and libraries, as far as they are small."""
    maps = Path("/proc/self/maps")
    paths = {Path(sys.executable).resolve(), Path("/bin/true"), Path("/bin/sh")}
    if maps.exists():
        paths |= {Path(line.split(maxsplit=5)[5]) for line in maps.read_text().splitlines() if ".so" in line}
    return sorted(path for path in paths if path.is_file() and path.stat().st_size < 3_000_000)


@pytest.mark.parametrize("path", own_libraries(), ids=lambda path: path.name)
def test_programs_at_hand(path: Path) -> None:
    assert differences(path) == []


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not there")
def test_the_corpus() -> None:
    assert [line for path in sorted(CORPUS.iterdir()) for line in differences(path)] == []


class Chance:
    """Bad frame sections: well-formed in outline, arbitrary inside."""

    def __init__(self, seed: int, *, bits: int, big: bool) -> None:
        self.random = random.Random(seed)
        self.size = bits // 8
        self.order: ByteOrder = "big" if big else "little"

    def number(self) -> int:
        kind = self.random.random()
        if kind < 0.7:
            return self.random.randrange(40)
        if kind < 0.9:
            return self.random.choice((117, 118, 126, 127, 128, 1023, 1024, 8192, 8193, 1 << 31, (1 << 32) - 1))
        return self.random.getrandbits(self.random.randrange(1, 80))

    def noise(self, most: int) -> bytes:
        return self.random.randbytes(self.random.randrange(most + 1))

    def block(self, most: int) -> bytes:
        data = self.noise(most)
        return uleb(len(data) + self.random.choice((0, 0, 0, 0, 3))) + data

    def instruction(self) -> bytes:
        pick = self.random.choice
        register = uleb(self.random.randrange(20) if self.random.random() < 0.9 else self.number())
        unsigned, signed = uleb(self.number()), sleb(pick((-1, 1)) * self.number())
        return bytes(
            pick(
                (
                    bytes((0x40 | self.random.randrange(64),)),
                    bytes((0x80 | self.random.randrange(20),)) + unsigned,
                    bytes((0xC0 | self.random.randrange(20),)),
                    b"\x01" + self.random.randbytes(pick((2, 4, 8, self.size))),
                    *(
                        bytes((code,)) + self.random.randbytes(size)
                        for code, size in ((2, 1), (3, 2), (4, 4), (0x1D, 8))
                    ),
                    bytes((pick((0x05, 0x14, 0x09, 0x0C)),)) + register + unsigned,
                    bytes((pick((0x06, 0x07, 0x08, 0x0D)),)) + register,
                    bytes((pick((0x11, 0x12, 0x15, 0x2F)),)) + register + signed,
                    Cfa.remember_state,
                    Cfa.restore_state,
                    b"\x0e" + unsigned,
                    b"\x13" + signed,
                    b"\x2e" + unsigned,
                    b"\x0f" + self.block(12),
                    bytes((pick((0x10, 0x16)),)) + register + self.block(12),
                    bytes((self.random.randrange(64),)),
                )
            )
        )

    def program(self) -> bytes:
        return b"".join(self.instruction() for _ in range(self.random.randrange(12))) + bytes(self.random.randrange(4))

    def cie(self) -> bytes:
        pick = self.random.choice
        version = pick((1, 1, 3, 4))
        augmentation = pick((b"", b"zR", b"zR", b"zPLR", b"zRS", b"zX", b"eh"))
        data = bytes((version,)) + augmentation + b"\0"
        if augmentation == b"eh":
            data += bytes(self.size)
        if version == 4:
            data += bytes((pick((self.size, 4, 8, 2, 3)), pick((0, 0, 0, 2))))
        data += pick((uleb(1), uleb(self.number()))) + pick((sleb(-8), sleb(self.number()))) + b"\x10"
        if augmentation.startswith(b"z"):
            data += pick((b"\x01\x1b", b"\x02\x1b\x00", b"\x07\x9b\0\0\0\0\x1b\x1b", b"\x00", b"\x01\x0a", b"\x01\x1c"))
        return data + self.program()

    def section(self, eh: bool) -> bytes:
        data = b""
        cies: list[int] = []
        for _ in range(self.random.randrange(2, 9)):
            here = len(data) + 4
            if not cies or self.random.random() < 0.2:
                cies.append(len(data))
                body = (bytes(4) if eh else b"\xff\xff\xff\xff") + self.cie()
            else:
                cie = self.random.choice((*cies, self.random.randrange(400)))
                body = fixed((here - cie if eh else cie) & 0xFFFFFFFF, 4, self.order)
                body += self.random.randbytes(self.random.choice((4, 8, 16))) + b"\0" + self.program()
            data += fixed(len(body), 4, self.order) + body
        spoiled = bytearray(data + bytes(self.random.choice((0, 4, 6))))
        for _ in range(self.random.choice((0, 0, 0, 1, 3))):
            spoiled[self.random.randrange(len(spoiled))] = self.random.randrange(256)
        return bytes(spoiled)


@pytest.mark.parametrize("machine", [62, 3, 183, 243, 22, 40, 8, 0xFEED])
@pytest.mark.parametrize(("bits", "big"), [(64, False), (32, False), (64, True)])
def test_bad_sections(tmp_path: Path, machine: int, bits: int, big: bool) -> None:
    chance = Chance(machine * 10 + bits + big, bits=bits, big=big)
    elf = ElfBuilder(machine=machine, bits=bits, byte_order="big" if big else "little")
    for place in range(40):
        eh = chance.random.random() < 0.5
        elf.section(".eh_frame" if eh else ".debug_frame", chance.section(eh), address=place << 16)
    path = tmp_path / "bad"
    path.write_bytes(elf.build())
    assert differences(path) == []


def test_sections_that_are_not_listed_and_the_exit_code(tmp_path: Path) -> None:
    builder = CfiBuilder("debug_frame")
    builder.fde(builder.cie(), start=0x1000, size=1)
    sound = builder.build()
    files: list[dict[str, bytes | int]] = [
        {".debug_frame": sound, ".eh_frame": b""},
        {".debug_frame.dwo": sound},
        {".eh_frame.dwo": sound, ".debug_frames": b""},
        {".debug_frame": 16, ".eh_frame": bytes(4)},
        {".zdebug_frame": sound, ".zdebug_frame\x07\u00e9": sound},
        {".text": sound},
    ]
    for number, sections in enumerate(files):
        elf = ElfBuilder()
        for name, contents in sections.items():
            if isinstance(contents, int):
                elf.section(name, size=contents)
            else:
                elf.section(name, contents)
        path = tmp_path / str(number)
        path.write_bytes(elf.build())
        assert differences(path) == []
        code = subprocess.run(["readelf", "-wNf", path], capture_output=True, env=ENVIRONMENT, check=False).returncode
        assert readelf_fails(Image.open(path)) == bool(code)


@pytest.mark.parametrize("content", [b"", b"text\n", b"\x7fELF", b"\x7fELF" + bytes(60)])
def test_files_that_are_no_elf(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert differences(path) == []
