"""Damaged tables: what is compiled does what the walker does with them, or an error says why there is nothing to compile."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from compiled_runs import boundaries, compiled, expected, frame_of, information, mismatches, run
from test_compiled_terms import expression, table, value

from clew.arch import machine_named
from clew.errors import Error
from clew.image import Image
from clew.read.frames import read_table
from clew.table import AtCfa, RegisterPlus, Rule, Table, table_of
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.write.assembler import assemble, shared_object
from clew.write.c import source
from clew.write.compiled import abi_of, plan

X86_64 = machine_named("x86-64")


def frames() -> bytes:
    """Functions of every shape, with expressions, remembered states and restored registers."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    loop = expression(("push", 3), ("push", 1), ("minus",), ("pick", 0), ("bra", 1), ("register", 7, 8), ("plus",))
    for number in range(40):
        instructions = [Cfa.advance(1), Cfa.def_cfa_offset(16 + 8 * number), Cfa.offset(6, 2), Cfa.remember_state]
        instructions += [Cfa.advance(5 + number), Cfa.def_cfa_register(6), Cfa.offset(number % 16, 3)]
        if number % 5 == 0:
            instructions += [Cfa.advance(2), Cfa.def_cfa_expression(loop.data)]
        if number % 7 == 0:
            instructions += [Cfa.advance(2), Cfa.val_expression(3, loop.data), Cfa.expression(12, loop.data)]
        instructions += [Cfa.advance(60), Cfa.restore_state, Cfa.restore(6)]
        cfi.fde(cie, start=0x1000 + 0x100 * number, size=0x100, instructions=instructions)
    cfi.terminator()
    return cfi.build()


def table_in(data: bytes) -> Table | None:
    elf = ElfBuilder()
    elf.section(".text", bytes(0x2800), address=0x1000, executable=True)
    elf.section(".eh_frame", data, address=0x4000)
    try:
        return read_table(Image.from_bytes(elf.build()))
    except Error:
        return None


def mutated(seed: int) -> Table | None:
    chance = random.Random(seed)
    data = bytearray(frames())
    for _ in range(chance.randrange(1, 40)):
        data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    return table_in(bytes(data))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.mark.parametrize("seed", range(300))
def test_mutated_frames_compile(seed: int) -> None:
    what = mutated(seed)
    if what is None:
        return
    for abi in ("full", "paper"):
        made = plan(what, abi_of(X86_64, abi))  # type: ignore[arg-type]
        for deref in (False, True):
            data = shared_object(assemble(made, information(made, deref), deref=deref))
            # No more than a few times what there is to say.
            assert len(data) < 1 << 20
            assert all(line.isascii() for line in source(made, information(made, deref), name="it", deref=deref))


@pytest.mark.parametrize("seed", range(15))
def test_mutated_frames_are_undone_as_the_walker_does(seed: int, folder: Path) -> None:
    what = mutated(1000 + seed)
    if what is None or not len(what.start):
        return
    frame = frame_of(X86_64)
    odd = [
        n for n in np.unique(what.normalise().rule).tolist() if len(expected(what.rules[n], abi_of(X86_64), frame)) == 1
    ]
    if odd:
        # A return address of 0, which the walker has another word for.
        return
    data = compiled(what, "asm", "full", True)
    assert mismatches(what, data, boundaries(what), frame, folder) == []


@pytest.mark.parametrize("backend", ["asm", "c"])
def test_offsets_of_any_size(backend: str, folder: Path) -> None:
    sizes = [1 << n for n in (7, 15, 31, 32, 40, 62, 63, 64, 70)]
    numbers = [sign * size + more for size in sizes for sign in (1, -1) for more in (-1, 0, 1)]
    rules = [Rule(RegisterPlus(6, n), ((3, AtCfa(n)), (16, AtCfa(8 - n))), 16) for n in numbers]
    rules += [value(("register", 6, (n + (1 << 63)) % (1 << 64) - (1 << 63))) for n in numbers]
    rules += [value(("push", n % (1 << 64)), ("plus",)) for n in numbers]
    data = compiled(table(rules), backend, "full", True)
    addresses = [16 * turn for turn in range(0x100, 0x100 + len(rules))]
    frame = frame_of(X86_64)
    found = run(data, abi_of(X86_64), addresses, frame, folder, deref=True).tolist()
    assert found == [expected(each, abi_of(X86_64), frame) for each in rules]


def test_too_many_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.write.compiled.planning.MAXIMUM_RULES", 10)
    rules = [Rule(RegisterPlus(7, 8 * n), ((16, AtCfa(-8)),), 16) for n in range(20)]
    with pytest.raises(Error, match="different rules"):
        plan(table(rules), abi_of(X86_64))


def test_expressions_as_long_as_they_are_read() -> None:
    """16,384 bytes: as much code as steps, and no deeper recursion."""
    long = value(*[("push", 1), ("drop",)] * 8000)
    made = plan(table_of(X86_64, [(0, 16, long)]), abi_of(X86_64))
    assert len(assemble(made, information(made, True), deref=True).code.data) < 1 << 18
    assert sum(map(len, source(made, information(made, True), name="it", deref=True))) < 1 << 20
