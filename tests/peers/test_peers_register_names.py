"""Register names against GNU readelf, and register numbers against LLVM's assembler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.arch import ALL, Machine, machine_for, machine_named

ENVIRONMENT = {**os.environ, "LC_ALL": "C"}

needs_readelf = pytest.mark.skipif(shutil.which("readelf") is None, reason="GNU readelf is not installed")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
needs_llvm = pytest.mark.skipif(shutil.which("llvm-mc") is None, reason="llvm-mc is not installed")


def readelf_frames(file: Path) -> str:
    return subprocess.run(
        ["readelf", "-wf", file], capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False
    ).stdout


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, bytes]:
    """By whether readelf knows the machine: an x86-64 library with one FDE that calls all those registers undefined.

    Where it has no table, readelf refuses an FDE that names a register beyond 1023.
    """
    return {known: _library(tmp_path_factory.mktemp("names"), 8200 if known else 1000) for known in (False, True)}


def _library(folder: Path, count: int) -> bytes:
    escapes = "".join(f".cfi_escape 0x07,{n & 0x7F | 0x80},{n >> 7}\n" for n in range(count))
    source = folder / "names.s"
    source.write_text(f".text\nf:\n.cfi_startproc\n{escapes}ret\n.cfi_endproc\n")
    subprocess.run(["gcc", "-nostdlib", "-shared", "-o", folder / "names.so", source], check=True, timeout=60)
    return (folder / "names.so").read_bytes()


@needs_readelf
@needs_gcc
@pytest.mark.parametrize("number", sorted({number for machine in ALL for number in machine.elf_machines} | {0xFEED}))
def test_names_that_readelf_prints(libraries: dict[bool, bytes], tmp_path: Path, number: int) -> None:
    # readelf takes its names from e_machine alone, whatever the rest of the file is.
    machine = machine_for(number, 64, "little")
    library = libraries[machine.readelf_names > 0]
    file = tmp_path / "other.so"
    file.write_bytes(library[:18] + number.to_bytes(2, "little") + library[20:])
    lines = re.findall(r"DW_CFA_undefined: (bad register: )?r(\d+)(?: \((.+)\))?$", readelf_frames(file), re.MULTILINE)
    printed = {int(register): name or None for bad, register, name in lines if not bad}
    refused = {int(register) for bad, register, _ in lines if bad}
    assert len(printed) == (machine.readelf_names + 1 if machine.readelf_names else 1000)
    assert printed == {register: machine.readelf_name(register) for register in printed}
    if machine.readelf_names:
        # It refuses what lies beyond its table, but for the first.
        assert min(refused) == machine.readelf_names + 1


def assembled(triple: str, names: list[str], attributes: str, folder: Path) -> list[int]:
    source = "f:\n.cfi_startproc\n" + "".join(f".cfi_undefined {name}\n" for name in names) + ".cfi_endproc\n"
    command: list[str | Path] = [
        "llvm-mc",
        f"-triple={triple}",
        "-filetype=obj",
        "-o",
        folder / "f.o",
        f"-mattr={attributes}",
    ]
    subprocess.run(command, input=source, text=True, check=True, timeout=60)
    found = re.findall(r"DW_CFA_undefined: (?:bad register: )?r(-?\d+)", readelf_frames(folder / "f.o"))
    return [int(number) for number in found]


@needs_readelf
@needs_llvm
@pytest.mark.parametrize(
    ("name", "triple", "attributes", "spelling", "known"),
    [
        ("x86-64", "x86_64-linux-gnu", "", "%{}".format, lambda n: n < 33 or 41 <= n < 49),
        ("i386", "i386-linux-gnu", "", "%{}".format, lambda n: n < 9 or 21 <= n < 37),
        ("aarch64", "aarch64-linux-gnu", "", str, lambda n: n < 32),
        ("arm", "armv7-linux-gnueabihf", "", str, lambda n: n < 16 or 256 <= n < 288),
        ("riscv64", "riscv64", "+d", str, lambda n: n < 64),
        ("powerpc64", "powerpc64le", "", str, lambda n: n < 64 or n in (65, 66) or 68 <= n < 76 or 77 <= n < 109),
        ("s390x", "s390x-linux-gnu", "+vector", lambda s: "%" + s.replace("cr", "c"), lambda n: n < 64 or 68 <= n < 84),
        ("mips64", "mips64-linux-gnu", "", "${}".format, lambda n: n < 32),
        ("mips", "mips-linux-gnu", "", "${}".format, lambda n: n < 32),
        ("sparc64", "sparcv9-linux-gnu", "", "%{}".format, lambda n: n < 64),
        ("sparc", "sparc-linux-gnu", "", "%{}".format, lambda n: n < 64),
    ],
)
def test_numbers_that_llvm_assembles(
    tmp_path: Path,
    name: str,
    triple: str,
    attributes: str,
    spelling: Callable[[str], str],
    known: Callable[[int], bool],
) -> None:
    machine: Machine = machine_named(name)
    numbers = [number for number in machine.names if known(number)]
    names = [spelling(machine.names[number]) for number in numbers]
    assert assembled(triple, names, attributes, tmp_path) == numbers
