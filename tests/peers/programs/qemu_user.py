"""Programs of other machines under qemu's user mode: built, run until they die, and their cores."""

from __future__ import annotations

import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent

_TRIES = 3
"""qemu 7.2 sometimes hangs as it ends a program with threads."""

STACK = 65536
"""Bytes of stack that programs get: they all go into the core."""


@dataclass(frozen=True)
class Guest:
    """A machine that programs can be built for and run on.

    Attributes:
        machine: clew's name of it.
        triple: what the cross compiler and its files are named by.
        qemu: the emulator and its options.
    """

    machine: str
    triple: str
    qemu: tuple[str, ...]

    @property
    def sysroot(self) -> Path:
        return Path("/usr") / self.triple

    @property
    def emulator(self) -> list[str]:
        return [*self.qemu, "-s", str(STACK), "-L", str(self.sysroot)]


GUESTS = {
    guest.machine: guest
    for guest in (
        Guest("aarch64", "aarch64-linux-gnu", ("qemu-aarch64", "-cpu", "max")),
        Guest("i386", "i686-linux-gnu", ("qemu-i386",)),
        Guest("arm", "arm-linux-gnueabihf", ("qemu-arm",)),
        Guest("riscv64", "riscv64-linux-gnu", ("qemu-riscv64",)),
        Guest("powerpc64", "powerpc64le-linux-gnu", ("qemu-ppc64le",)),
        Guest("s390x", "s390x-linux-gnu", ("qemu-s390x",)),
    )
}


def build(guest: Guest, source: str, options: str, program: Path, *, compiler: str = "gcc") -> Path:
    """The program that one of the suite's sources makes. Skips where the machine's compiler or its emulator is not installed.

    Args:
        source: a file beside this one.
        compiler: ``gcc``, ``g++`` or ``clang``.
    """
    command = [f"{guest.triple}-{compiler}"]
    if compiler == "clang":
        found = shutil.which("clang") or shutil.which("clang-14")
        if found is None:
            pytest.skip("needs clang")
        command = [found, f"--target={guest.triple}"]
    for tool in (command[0], guest.qemu[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    run = [*command, "-w", *options.split(), "-o", str(program), str(PROGRAMS / source)]
    done = subprocess.run(run, check=False, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"{command[0]} cannot build {source} with {options}: {done.stderr[-300:]}")
    return program


def _dump_cores() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def run(guest: Guest, program: Path, *arguments: str, folder: Path) -> tuple[str, Path | None]:
    """Runs a program to its end: what it printed, and the core that qemu dumped of it, if it did.

    Args:
        folder: where the core goes; an empty directory.
    """
    folder.mkdir()
    command = [*guest.emulator, str(program), *arguments]
    for _ in range(_TRIES):
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=8, cwd=folder, preexec_fn=_dump_cores
            )
        except subprocess.TimeoutExpired:
            continue
        # The system may write another one, of qemu itself.
        for other in folder.glob("core*"):
            other.unlink()
        return done.stdout, next(folder.glob("qemu_*.core"), None)
    return "", None
