"""Test programs of the in-process library, and the library itself, compiled when a test needs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from clew.native.unwind import compile as unwind

PROGRAMS = Path(__file__).parent / "unwind"
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
_CROSS = "aarch64-linux-gnu-gcc"

_directory = TemporaryDirectory(prefix="clew-unwind-")
ROOM = Path(_directory.name)
"""Where everything is put; it goes with the process."""


def compiler(name: str = "") -> list[str]:
    """A C compiler, or the test is skipped."""
    if name:
        if not unwind.shutil.which(name):
            pytest.skip(f"{name} is not installed")
        return [name]
    cc = unwind.compiler()
    if cc is None:
        pytest.skip("there is no C compiler")
    if unwind.machine_of(cc) not in ("x86_64", "aarch64"):
        pytest.skip(f"the in-process library is not for {unwind.machine_of(cc)}")
    return cc


def made(command: Sequence[str | Path]) -> None:
    """Runs a compiler, which must have nothing to say."""
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stderr


_WARNINGS = ("-Wall", "-Wextra", "-Werror")


def _name(*parts: str) -> str:
    return "-".join(part.lstrip("-").replace("=", "-").replace(",", "-") for part in parts)


@cache
def objects(flags: tuple[str, ...] = (), cc: str = "") -> list[Path]:
    """The library's own objects, compiled without warnings."""
    directory = ROOM / _name("objects", cc, *flags)
    directory.mkdir()
    command = [*compiler(cc), "-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-c", *_WARNINGS, *flags]
    found = [(source, directory / f"{source.name}.o") for source in unwind.sources()]
    for source, out in found:
        made([*command, source, "-o", out])
    return [out for _, out in found]


@cache
def program(name: str, flags: tuple[str, ...] = (), cc: str = "") -> Path:
    """A test program with the library in it."""
    out = ROOM / _name(name, cc, *flags)
    command = [
        *compiler(cc),
        "-std=c11",
        "-D_GNU_SOURCE",
        "-O2",
        "-g",
        *_WARNINGS,
        "-rdynamic",
        *flags,
        "-I",
        unwind.HERE,
    ]
    made([*command, PROGRAMS / f"{name}.c", *objects(flags, cc), "-o", out, "-pthread"])
    return out


@cache
def libraries() -> Path:
    """A directory with the libraries in it."""
    unwind.build(ROOM / "lib", compiler())
    return ROOM / "lib"


@cache
def plugin(room: int, *flags: str) -> Path:
    """A library with one function, the frame of which has about so many bytes."""
    out = ROOM / f"plugin-{room}{''.join(flags).replace('-', '_')}.so"
    made([*compiler(), "-O2", f"-DROOM={room}", "-shared", "-fPIC", *flags, PROGRAMS / "plugin.c", "-o", out])
    return out


def run(command: Sequence[str | Path], timeout: float = 120, **environment: str) -> str:
    """What a program says, which must end well."""
    ended = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )
    assert ended.returncode == 0, f"{ended.returncode}\n{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


def emulated(name: str, *arguments: str | Path) -> str:
    """What a test program says that was compiled for AArch64 and is run by QEMU."""
    if not unwind.shutil.which("qemu-aarch64"):
        pytest.skip("qemu-aarch64 is not installed")
    return run(["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", program(name, cc=_CROSS), *arguments])
