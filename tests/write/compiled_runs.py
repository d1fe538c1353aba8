"""Compiled unwinders, run and compared with what the walker makes of the same rules."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from clew.arch import Machine
from clew.table import Rule, Table
from clew.target import Modules, Target
from clew.walk import Interrupted, Trust
from clew.walk.apply import apply
from clew.walk.model import End
from clew.walk.step import Caller, Here, Work
from clew.walk.surroundings import Surroundings
from clew.write.assembler import assemble, shared_object
from clew.write.c import build, source
from clew.write.compiled import Abi, Outcome, Plan, abi_of, plan
from clew.write.compiled.abi import AbiName, Information

U8 = npt.NDArray[np.uint64]

BASE, SIZE = 0x100000000000, 64 << 20
"""The memory of the harness."""

MIDDLE = BASE + SIZE // 2
_M = (1 << 64) - 1


def mix(x: int) -> int:
    """The harness's numbers: splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & _M
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _M
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _M
    return x ^ x >> 31


class MadeUpMemory:
    """The harness's memory: every word is the address of a word; with holes, some blocks of 64 bytes cannot be read."""

    def __init__(self, holes: bool) -> None:
        self.holes = holes

    def _hole(self, address: int) -> bool:
        return self.holes and mix(~(address // 64) & _M) % 8 == 0

    def read(self, address: int, size: int) -> bytes | None:
        if not BASE <= address <= BASE + SIZE - size or self._hole(address) or self._hole(address + size - 1):
            return None
        first = (address - BASE) // 8
        words = (BASE + SIZE // 4 + (mix(first + n) % (SIZE // 2) & ~7) for n in range(3))
        data = b"".join(word.to_bytes(8, "little") for word in words)
        return data[(address - BASE) % 8 :][:size]


def frame_of(machine: Machine, unknown: Iterable[int] = ()) -> dict[int, int]:
    """Registers that all point into the memory, to different places."""
    abi = abi_of(machine)
    return {number: MIDDLE + 0x1000 * number + 8 * (number % 7) for number in abi.registers if number not in unknown}


@cache
def harness(compiler: str, folder: Path) -> Path:
    """The program, for the machine of a compiler."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    out = folder / f"harness-{compiler}"
    text = Path(__file__).with_name("compiled_harness.c")
    subprocess.run([compiler, "-O1", "-w", "-o", out, text, "-ldl"], check=True)
    return out


def information(made: Plan, deref: bool) -> Information:
    abi = made.abi
    machine = abi.machine.elf_machines[0]
    return Information(machine, int(abi.name == "paper"), deref, made.base, made.end, len(abi.registers), b"\xab\xcd")


def compiled(table: Table, backend: str, abi: AbiName, deref: bool, *, switch: bool = False) -> bytes:
    """The shared object of a table."""
    made = plan(table, abi_of(table.machine, abi))
    about = information(made, deref)
    if backend == "asm":
        return shared_object(assemble(made, about, deref=deref))
    return build(source(made, about, name="it", deref=deref, switch=switch), table.machine)


def run(
    data: bytes,
    abi: Abi,
    addresses: Sequence[int] | U8,
    registers: Mapping[int, int],
    folder: Path,
    *,
    deref: bool,
    holes: bool = False,
    brief: bool = False,
) -> U8:
    """What the harness writes: a row for each address, or with ``brief`` a number."""
    aarch64 = abi.machine.name == "aarch64"
    program = harness("aarch64-linux-gnu-gcc" if aarch64 else "gcc", folder)
    emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"] if aarch64 else []
    if aarch64 and shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64")
    known = sum(1 << bit for number, bit in zip(abi.registers, abi.known, strict=True) if number in registers)
    (folder / "object.so").write_bytes(data)
    frame = [known, *(registers.get(number, 0x5A5A) for number in abi.registers)]
    np.array(frame, np.uint64).tofile(folder / "frame")
    np.asarray(addresses, np.uint64).tofile(folder / "addresses")
    command = [*emulator, program, folder / "object.so", abi.name, str(int(deref)), str(len(abi.registers))]
    command += [str(int(holes)), str(int(brief)), folder / "frame", folder / "addresses", folder / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=os.environ)
    assert done.returncode == 0, (done.returncode, done.stderr[:2000])
    found = np.fromfile(folder / "out", np.uint64)
    return found if brief else found.reshape(-1, 2 + len(abi.registers))


_OUTCOMES = {
    End.ENTRY: Outcome.OUTERMOST,
    End.UNKNOWN_REGISTER: Outcome.UNKNOWN_REGISTER,
    End.UNREADABLE_MEMORY: Outcome.UNREADABLE,
    End.BAD_RULE: Outcome.BAD_RULE,
}


def expected(rule: Rule, abi: Abi, registers: Mapping[int, int], *, holes: bool = False) -> list[int]:
    """The row that the harness has to write where a rule holds: by the walker's own hand.

    Where the return address is 0, the walker says why it ends; a compiled unwinder gives 0. Of that row only the beginning
    is here.
    """
    kept = {number: value for number, value in registers.items() if number in abi.registers}
    found: Caller | Outcome
    if not rule.information:
        found = Outcome.NO_ROW
    else:
        around = Surroundings(Target("core", abi.machine, [], MadeUpMemory(holes), Modules([])))
        pc = Interrupted(kept[abi.pc])
        here = Here(around, pc, Trust.CFI, kept, None, None, None, None, Work())
        answer = apply(here, rule, Trust.CFI)
        if not isinstance(answer, Caller) and answer.end is End.NULL_RETURN_ADDRESS:
            return [int(rule.signal_frame and abi.name == "full")]
        found = answer if isinstance(answer, Caller) else _OUTCOMES[answer.end]
    if isinstance(found, Outcome):
        code = 128 if abi.name == "paper" else int(found) & _M
        return [code, 0, *(0 for _ in abi.registers)]
    values = [found.registers.get(number) for number in abi.registers]
    known = sum(1 << bit for bit, value in zip(abi.known, values, strict=True) if value is not None)
    interrupted = isinstance(found.pc, Interrupted) and abi.name == "full"
    return [int(interrupted), known, *(0 if value is None else value for value in values)]


def digest(row: Sequence[int]) -> int:
    """The number that the harness makes of a row."""
    return sum(value * (mix(place) | 1) for place, value in enumerate(row)) & _M


def mismatches(
    table: Table,
    data: bytes,
    addresses: U8,
    registers: Mapping[int, int],
    folder: Path,
    *,
    abi: AbiName = "full",
    deref: bool = True,
    holes: bool = False,
) -> list[int]:
    """The addresses at which a compiled unwinder does something else than the normalised table's rule."""
    interface = abi_of(table.machine, abi)
    normal = table.normalise()
    numbers = np.unique(normal.rule)
    digests = np.zeros(int(numbers[-1]) + 1 if len(numbers) else 1, np.uint64)
    nothing = digest(expected(normal.rules[0], interface, registers)) if len(normal.rules) else 0
    for number in numbers.tolist():
        digests[number] = digest(expected(normal.rules[number], interface, registers, holes=holes))
    place = np.searchsorted(normal.start, addresses, "right").astype(np.int64) - 1
    wanted = np.where(place >= 0, digests[normal.rule[np.maximum(place, 0)]], np.uint64(nothing))
    found = run(data, interface, addresses, registers, folder, deref=deref, holes=holes, brief=True)
    return addresses[found != wanted].tolist()


def boundaries(table: Table) -> U8:
    """Every start of a row, the address before it, and the one behind."""
    start = table.normalise().start
    return np.unique(np.concatenate((start - np.uint64(1), start, start + np.uint64(1))))
