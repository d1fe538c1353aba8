"""Packed tables that fuzzing begins with, ways to damage them under a right checksum, and everything that clew reads of them."""

from __future__ import annotations

from random import Random

import fuzz_elf_inputs

from clew.arch import machine_named
from clew.read.packed import PackedTable, layout
from clew.read.packed.checksum import crc32
from clew.table import (
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    Expression,
    InRegister,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Undefined,
    compare,
    table_of,
)
from clew.write.packed import packed


def _expression(random: Random) -> Expression:
    steps: list[tuple[str, int] | tuple[str] | tuple[str, int, int]] = [
        ("register", random.randrange(17), random.randrange(-64, 64))
    ]
    for _ in range(random.randrange(5)):
        steps += random.choice(
            (
                [("push", random.choice((1, 15, 1 << 40)))],
                [("deref", 8)],
                [("pick", 0), ("bra", random.randrange(3))],
                [("push", 3), ("plus",)],
                [("skip", 0)],
            )
        )
    return Expression.from_canonical(steps, address_size=8, byte_order="little")


def _rule(random: Random, column: int) -> Rule:
    cfa = RegisterPlus(random.choice((6, 7, 29, 31)) % (17 if column == 16 else 33), 8 * random.randrange(1, 40))
    named: dict[int, RegisterRule] = {column: AtCfa(-8)}
    for _ in range(random.randrange(6)):
        number = random.choice((3, 6, 12, 13, 14, 15, 0, 7))
        some = (AtCfa(-8 * random.randrange(2, 300)), CfaPlus(-8), InRegister(2), SameValue(), Undefined())
        named[number] = random.choice(
            (*some, *some, AtExpression(_expression(random)), IsExpression(_expression(random)))
        )
    whole = CfaExpression(_expression(random)) if random.random() < 0.2 else cfa
    return Rule(whole, tuple(sorted(named.items())), column, random.random() < 0.1)


def small_table(random: Random) -> bytes:
    """A well-formed table of a few rows, of either machine."""
    machine = machine_named(random.choice(("x86-64", "x86-64", "aarch64")))
    rules = [_rule(random, machine.return_address) for _ in range(random.randrange(1, 6))]
    rows, at = [], random.choice((0, 0x1000, 0xFF80, (1 << 64) - 0x40000))
    for _ in range(random.randrange(1, 30)):
        size = random.choice((1, 4, 60, 300, 5000))
        rows.append((at, at + size, random.choice(rules)))
        at += size + random.choice((0, 0, 0, 5, 70_000))
        if at > (1 << 64) - 80_000:
            break
    return packed(table_of(machine, rows), build_id=bytes(random.randrange(33)))


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed tables to begin with."""
    return [small_table(random) for _ in range(count)]


def mutated(random: Random, blob: bytes, other: bytes) -> bytes:
    """A damaged copy, mostly with the checksum that it should have, so that the other checks are reached."""
    data = bytearray(fuzz_elf_inputs.mutated(random, blob, other))
    size = int.from_bytes(data[16:24], "little")
    if random.random() < 0.9 and layout.CHECKED_FROM <= size <= len(data):
        data[12:16] = crc32(bytes(data[layout.CHECKED_FROM : size])).to_bytes(4, "little")
    return bytes(data)


def read_everything(data: bytes) -> None:
    """What is accepted says one thing: by look-ups, by its Table, and when it is packed again."""
    opened = PackedTable(data)
    table = opened.table()
    assert (table.start[1:] > table.start[:-1]).all()
    for address in table.start[:50].tolist():
        for at in (address - 1, address, address + 1):
            row = table.lookup(at % (1 << 64))
            number = opened.find(at % (1 << 64))
            assert opened.rules[number] == (row.rule if row is not None else opened.rules[0]), hex(at)
    for row in table:
        row.rule.text(table.machine)
    # Rules that differ in bytes without a meaning become one.
    assert not list(compare(table, PackedTable(packed(table)).table()))
