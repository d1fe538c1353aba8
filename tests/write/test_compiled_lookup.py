"""Which body an address finds, wherever rows begin: against the Table's own look-up."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from compiled_runs import boundaries, compiled, expected, frame_of, mismatches, run

from clew.arch import machine_named
from clew.table import AtCfa, RegisterPlus, Rule, Table, table_of
from clew.write.assembler import assemble
from clew.write.assembler.pages import pages_of
from clew.write.c import source
from clew.write.compiled import Information, Outcome, abi_of, plan

X86_64 = machine_named("x86-64")
FRAME = frame_of(X86_64)
BACKENDS = pytest.mark.parametrize("backend", ["asm", "c"])


def rule(number: int) -> Rule:
    return Rule(RegisterPlus(7, 8 * number + 8), ((16, AtCfa(-8)),), 16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lookup")


def agrees(table: Table, backend: str, folder: Path, extra: tuple[int, ...] = ()) -> None:
    """Every boundary, the addresses beside it, the ends of the address space, and some others."""
    chance = np.random.default_rng(1)
    ends = np.array([0, 1, (1 << 64) - 1, 1 << 63, (1 << 32) - 1, *extra], np.uint64)
    low, high = (int(table.start[0]), int(table.start[-1])) if len(table.start) else (0, 1 << 20)
    others = chance.integers(max(low - 5000, 0), min(high + 5000, (1 << 64) - 1), 2000, dtype=np.uint64)
    addresses = np.concatenate((boundaries(table), ends, others))
    data = compiled(table, backend, "full", False)
    assert mismatches(table, data, addresses, FRAME, folder, deref=False) == []


@BACKENDS
@pytest.mark.parametrize("seed", range(4))
def test_random_rows(backend: str, seed: int, folder: Path) -> None:
    """From a row at each byte, more than one vector in a page, to one in many pages."""
    chance = random.Random(seed)
    rows = []
    at = chance.randrange(1 << 20)
    for _ in range(1500):
        size = chance.choice([1, 1, 2, 3, 5, 17, 300, 5000]) if chance.random() < 0.98 else 1 << chance.randrange(30)
        if chance.random() < 0.9:
            rows.append((at, at + size, rule(chance.randrange(40))))
        at += size
    agrees(table_of(X86_64, rows), backend, folder)


@BACKENDS
def test_a_page_of_256_rows(backend: str, folder: Path) -> None:
    rows = [(0x1000 + at, 0x1001 + at, rule(at % 7)) for at in range(0x300)]
    agrees(table_of(X86_64, rows), backend, folder)


@pytest.mark.parametrize("count", range(14, 36))
def test_pages_about_as_full_as_a_vector(count: int, folder: Path) -> None:
    rows = [(0x1000 + 7 * at, 0x1007 + 7 * at, rule(at)) for at in range(count)]
    rows += [(0x1100 + at, 0x1101 + at, rule(at)) for at in range(5)]
    agrees(table_of(X86_64, rows), "asm", folder)


@BACKENDS
def test_addresses_far_from_each_other(backend: str, folder: Path) -> None:
    """A row that reaches over most of the address space, and functions of a kernel at its end."""
    top = (1 << 64) - 0x1000
    rows = [(0, 1, rule(0)), (0x10, 1 << 40, rule(1)), (1 << 40, (1 << 63) + 5, rule(2)), (top, top + 0x800, rule(3))]
    rows += [((1 << 64) - 0x100, (1 << 64) - 1, rule(4))]
    table = table_of(X86_64, rows)
    agrees(table, backend, folder, (top - 1, top, 1 << 40, (1 << 63) + 4))
    made = plan(table, abi_of(X86_64))
    assert pages_of(made).pages.nbytes < 1000


def test_the_index_stays_small_wherever_rows_are() -> None:
    """As many pages between rows as could be bridged would cost a thousand times the rows."""
    rows = [(at << 19, (at << 19) + 1, rule(at % 3)) for at in range(1, 20_000)]
    made = plan(table_of(X86_64, rows), abi_of(X86_64))
    assert pages_of(made).pages.nbytes < 4 * (16 * len(made.start) + (1 << 17))


@BACKENDS
@pytest.mark.parametrize("rows", [[], [(0x1000, 0x1000, rule(0))]], ids=["empty", "nothing long"])
def test_nothing_to_find(backend: str, rows: list[tuple[int, int, Rule]], folder: Path) -> None:
    table = table_of(X86_64, rows)
    for abi in ("full", "paper"):
        for deref in (False, True):
            data = compiled(table, backend, abi, deref)  # type: ignore[arg-type]
            found = run(data, abi_of(X86_64, abi), [0, 0x1000, (1 << 64) - 1], FRAME, folder, deref=deref)  # type: ignore[arg-type]
            outcome = 128 if abi == "paper" else Outcome.NO_ROW & (1 << 64) - 1
            assert [row[0] for row in found.tolist()] == [outcome] * 3


@BACKENDS
def test_many_rules(backend: str, folder: Path) -> None:
    """Bodies of more than 64 KiB, and of more than 1 MiB."""
    for count in (300,) if backend == "c" else (300, 1000, 8000):
        rules = [
            Rule(RegisterPlus(7, 8 * n), tuple((r, AtCfa(-8 * r - n % 5000)) for r in (3, 6, 12, 13, 16)), 16)
            for n in range(count)
        ]
        table = table_of(X86_64, [(0x1000 + n, 0x1001 + n, each) for n, each in enumerate(rules)])
        places = sorted({0, 1, count - 1, *range(0, count, count // 100)})
        addresses = [0x1000 + place for place in places]
        found = run(compiled(table, backend, "full", True), abi_of(X86_64), addresses, FRAME, folder, deref=True)
        for place, row in zip(places, found.tolist(), strict=True):
            assert row == expected(rules[place], abi_of(X86_64), FRAME)


def test_the_parts_of_a_large_table_are_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.write.c.unwinder.PART", 50)
    rows = [(0x1000 + 3 * at, 0x1003 + 3 * at, rule(at % 9)) for at in range(333) if at % 10]
    table = table_of(X86_64, rows)
    agrees(table, "c", folder)
    for deref in (False, True):
        made = compiled(table, "c", "paper", deref)
        assert mismatches(table, made, boundaries(table), FRAME, folder, abi="paper", deref=deref) == []


def test_equal_bodies_are_one() -> None:
    """Rules that differ in registers that a frame does not have do the same."""
    first = Rule(RegisterPlus(7, 16), ((16, AtCfa(-8)), (17, AtCfa(-64))), 16)
    second = Rule(RegisterPlus(7, 16), ((16, AtCfa(-8)),), 16)
    table = table_of(X86_64, [(0x10, 0x20, first), (0x20, 0x30, second), (0x40, 0x50, second)])
    made = plan(table, abi_of(X86_64))
    assert made.start.tolist() == [0x10, 0x30, 0x40, 0x50] or made.start.tolist() == [0x10, 0x50]
    assert len(made.bodies) == 2
    assert (made.base, made.end) == (0x10, 0x50)


def test_two_compilations_are_the_same() -> None:
    table = table_of(X86_64, [(0x10 * at, 0x10 * at + 9, rule(at % 3)) for at in range(50)])
    made = plan(table, abi_of(X86_64))
    about = Information.of(made.abi, 62, False, made.base, made.end, None)
    assert list(source(made, about, name="it")) == list(source(made, about, name="it"))
    assert assemble(made, about).data == assemble(made, about).data
