"""Small machines for the walker's tests: memory in pieces, one module, rows as objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from clew.arch import Machine, machine_named
from clew.memory import BytesMemory
from clew.table import Rule, Table, table_of
from clew.target import Module, Modules, Target, Thread
from clew.walk import FastWalker, Stack, Strategy, Walker

CODE = 0x10000
"""Where the module of every test begins; it has 64 KiB."""

STACK = 0x7F0000
"""Where most stacks begin."""


class Pieces:
    """Memory of several runs of bytes; counts its reads."""

    def __init__(self, pieces: Mapping[int, bytes]) -> None:
        self.pieces = [BytesMemory(data, base) for base, data in pieces.items()]
        self.count = 0

    def read(self, address: int, size: int) -> bytes | None:
        self.count += 1
        for piece in self.pieces:
            data = piece.read(address, size)
            if data is not None:
                return data
        return None


class Copy(Pieces):
    """The memory of a sample: a copy of the stack's first bytes."""

    def __init__(self, pieces: Mapping[int, bytes], stack_end: int) -> None:
        super().__init__(pieces)
        self.stack_end = stack_end


def words(machine: str | Machine, *values: int) -> bytes:
    """Numbers of the size of an address, in the machine's byte order."""
    machine = machine_named(machine) if isinstance(machine, str) else machine
    mask = (1 << machine.bits) - 1
    return b"".join((value & mask).to_bytes(machine.address_size, machine.byte_order) for value in values)


def numbers(machine: Machine, values: Mapping[str, int]) -> dict[int, int]:
    """Registers by name to registers by number."""
    found = {machine.register_number(name): value for name, value in values.items()}
    assert None not in found
    return {number: value for number, value in found.items() if number is not None}


def target(
    machine: str | Machine,
    pieces: Mapping[int, bytes] | Pieces,
    rows: Iterable[tuple[int, int, Rule]] | Table | None = (),
    *,
    bias: int = 0,
    modules: Iterable[Module] = (),
    code_mask: int = 0,
    limits: tuple[int, int] | None = None,
) -> Target:
    """A target with one module at CODE, whose table has these rows (None: no table)."""
    machine = machine_named(machine) if isinstance(machine, str) else machine
    module = Module("/lib/it.so", CODE, CODE + 0x10000, bias)
    if rows is not None:
        # The table is a cached property: this is what it would have been read from a file.
        module.__dict__["_table"] = rows if isinstance(rows, Table) else table_of(machine, rows)
    memory = pieces if isinstance(pieces, Pieces) else Pieces(pieces)
    known = Modules([module, *modules])
    return Target("core", machine, [], memory, known, code_mask, {} if limits is None else {1: limits})


def walk(
    it: Target,
    pc: int,
    registers: Mapping[str, int],
    *,
    strategies: Iterable[Strategy] | None = None,
    limit: int = 10_000,
    scan: bool = False,
    synthesise: Callable[[Module, int], Rule | None] | None = None,
    interrupted_call: bool = False,
) -> Stack:
    """The stack of a thread that stands at pc."""
    thread = Thread(1, numbers(it.machine, registers), pc, interrupted_call=interrupted_call)
    if strategies is None:
        walker = Walker(it, limit=limit, scan=scan, synthesise=synthesise)
    else:
        walker = Walker(it, tuple(strategies), limit=limit, scan=scan, synthesise=synthesise)
    stack = walker.walk(thread)
    assert list(walker.frames(thread)) == list(stack.frames)
    if strategies is None:
        fast = FastWalker(it, limit=limit, scan=scan, synthesise=synthesise)
        assert without_reads(fast.walk(thread)) == without_reads(stack)
    return stack


def without_reads(stack: Stack) -> Stack:
    """The stack as the fast walker has it, which notes no reads."""
    return Stack(tuple(replace(frame, reads=()) for frame in stack.frames), stack.end, stack.detail)


def pcs(stack: Stack) -> list[int]:
    return [frame.pc.address for frame in stack.frames]


def trusts(stack: Stack) -> list[str]:
    return [frame.trust.value for frame in stack.frames]
