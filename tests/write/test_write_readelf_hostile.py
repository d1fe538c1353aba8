"""Bad input to the text of GNU readelf: it ends, in bounded memory, and the same whether the core is compiled or not."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys

from clew.errors import Problem
from clew.image import Image
from clew.testing import Cfa, CfiBuilder, ElfBuilder, Op, sleb, uleb
from clew.write.readelf import frames_text

ARM = 40
RISCV = 243


def image_of(data: bytes, *, name: str = ".debug_frame", machine: int = 62, bits: int = 64, big: bool = False) -> Image:
    """A shared library with one frame section."""
    elf = ElfBuilder(machine=machine, bits=bits, byte_order="big" if big else "little")
    elf.section(name, data, address=0x1234)
    return Image.from_bytes(elf.build())


def text_of(image: Image, *, raw: bool = False, problems: list[Problem] | None = None) -> str:
    return b"".join(frames_text(image, raw=raw, problems=problems)).decode("latin-1")


def section(*instructions: bytes) -> bytes:
    """A CIE and an FDE in .debug_frame."""
    builder = CfiBuilder("debug_frame")
    cie = builder.cie(version=3, instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)], padding=0)
    builder.fde(cie, start=0x1000, size=16, instructions=instructions, padding=0)
    return builder.build()


def test_problems_name_the_entry() -> None:
    problems: list[Problem] = []
    text_of(image_of(section(b"\x17")), problems=problems)
    assert [(problem.section, problem.offset) for problem in problems] == [(".debug_frame", 0x12)]
    assert "0x17" in problems[0].message


def test_a_cut_section_still_lists() -> None:
    data = section(Cfa.advance_loc(1), Cfa.def_cfa_expression(Op.breg(7, 8)), Cfa.offset(3, 200))
    for end in range(len(data)):
        for in_raw in (False, True):
            text = text_of(image_of(data[:end]), raw=in_raw)
            assert text.startswith(("Contents", "\nSection"))


def remembering(count: int) -> bytes:
    """An FDE that remembers rows of some columns and never restores them, and one that restores one."""
    builder = CfiBuilder("debug_frame")
    start = [Cfa.undefined(register) for register in (100, 2000, 8190)]
    cie = builder.cie(version=3, return_address=1, instructions=start, padding=0)
    builder.fde(cie, start=0, size=1, instructions=[Cfa.remember_state * count, Cfa.advance_loc(1)], padding=0)
    builder.fde(cie, start=0, size=1, instructions=[Cfa.restore_extended(100), Cfa.restore_state], padding=0)
    return builder.build()


def test_remembered_rows_are_kept_within_the_size_of_the_section() -> None:
    problems: list[Problem] = []
    listed = text_of(image_of(remembering(1000), machine=RISCV), problems=problems)
    assert listed.count("FDE") == 2
    assert problems == []
    listed = text_of(image_of(remembering(50_000), machine=RISCV), problems=problems)
    assert listed.count("FDE") == 1
    assert "kept for later" in problems[-1].message


def test_long_text_comes_in_pieces() -> None:
    data = section(Cfa.advance_loc(1) * 70_000, Cfa.def_cfa_expression(b"\x9c" * 100_000 + b"\x9e\x80\x80\x10"))
    for in_raw in (False, True):
        pieces = list(frames_text(image_of(data), raw=in_raw))
        assert len(pieces) > 4
        assert max(map(len, pieces)) < 3 << 20


def noise(seed: int) -> bytes:
    """Sections that begin well and get worse."""
    chance = random.Random(seed)
    builder = CfiBuilder(chance.choice(("eh_frame", "debug_frame")))
    for _ in range(4):
        cie = builder.cie(return_address=chance.randrange(20), instructions=[chance.randbytes(6)])
        for _ in range(3):
            program = b"".join(bytes((chance.choice((0x41, 0x83, 0xC3, 0x0A, 0x0B, chance.randrange(256))),)) + uleb(
                chance.getrandbits(chance.choice((3, 5, 9, 40)))) + sleb(-chance.randrange(90)) for _ in range(9))  # fmt: skip
            builder.fde(cie, start=chance.getrandbits(24), size=64, instructions=[program])
    data = bytearray(builder.build())
    for _ in range(chance.randrange(6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def digest() -> str:
    """Of the text of many bad sections on machines of all kinds."""
    total = hashlib.sha256()
    for seed in range(60):
        machine, bits, big = ((62, 64, False), (3, 32, False), (RISCV, 64, False), (ARM, 32, True))[seed % 4]
        for name in (".eh_frame", ".debug_frame"):
            image = image_of(noise(seed), name=name, machine=machine, bits=bits, big=big)
            for in_raw in (False, True):
                total.update(text_of(image, raw=in_raw).encode("latin-1"))
    return total.hexdigest()


def test_the_uncompiled_core_prints_the_same() -> None:
    script = "import runpy, sys; print(runpy.run_path(sys.argv[1])['digest']())"
    found = subprocess.run(
        [sys.executable, "-c", script, __file__],
        env={**os.environ, "CLEW_PURE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert found.stdout.strip() == digest()
