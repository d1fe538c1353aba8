"""Small cores and minidumps that fuzzing begins with: a program with an unwind table, and stacks that lead through it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from clew.arch import ByteOrder, Machine, machine_named
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.testing.core import CoreBuilder
from clew.testing.minidump import MinidumpBuilder

NAMES = ("x86-64", "x86-64", "i386", "aarch64", "arm", "riscv64", "riscv32", "powerpc64", "powerpc")
ONLY_DUMPED = ("mips", "mips64", "sparc")

CODE = 0x10000
STACK = 0x7F0000
SIZE = 0x200
_ID = b"\xfe\xed\xfa\xce"


@cache
def folder() -> Path:
    """Where the programs are, which cores and dumps name, and the input of the moment."""
    path = Path(tempfile.mkdtemp(prefix="clew-fuzz-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def machines(random: Random, names: tuple[str, ...]) -> Machine:
    """One of these, in either byte order."""
    order: ByteOrder = random.choice(("little", "little", "big"))
    return machine_named(random.choice(names), order)


@cache
def program(machine: Machine) -> tuple[str, bytes]:
    """A program of four functions: without a frame, with one, with a frame pointer, and one that is outermost."""
    word, sp = machine.address_size, machine.stack_pointer
    order = machine.byte_order
    elf = ElfBuilder(machine=machine.elf_machines[0], bits=machine.bits, byte_order=order)
    at = CODE + (64 + 56 * 2 if machine.bits == 64 else 52 + 32 * 2)
    at += -at % 16
    elf.section(".text", bytes(range(64)), address=at, executable=True)
    cfi = CfiBuilder(byte_order=order, address_size=word, address=at + 64)
    ra = machine.return_address
    pushed = word if machine.link_register is None else 0
    start = [Cfa.def_cfa(sp, pushed), *([Cfa.offset_extended(ra, 1)] if pushed else [])]
    cie = cfi.cie(instructions=start, return_address=ra, data_alignment=-word)
    cfi.fde(cie, start=at, size=16, instructions=[])
    frame = [
        Cfa.advance(4),
        Cfa.def_cfa_offset(4 * word),
        Cfa.offset_extended(ra, 1),
        Cfa.offset_extended(machine.frame_pointer or 30, 2),
    ]
    cfi.fde(cie, start=at + 16, size=16, instructions=frame)
    cfi.fde(cie, start=at + 32, size=16, instructions=[*frame, Cfa.def_cfa_register(machine.frame_pointer or 30)])
    cfi.fde(cie, start=at + 48, size=16, instructions=[Cfa.undefined(ra)])
    elf.section(".eh_frame", cfi.build(), address=at + 64)
    elf.segment(1, [".text", ".eh_frame"], flags=5)
    elf.build_id(_ID)
    data = elf.build()
    name = f"/bin/{machine.name}-{order}"
    path = Path(f"{folder()}{name}")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return name, data


def stack(random: Random, machine: Machine, bias: int) -> bytes:
    """Words that point into the stack and into the code, and some that do not."""
    words = b""
    while len(words) < SIZE:
        kind = random.randrange(6)
        value = (
            STACK + random.randrange(0, SIZE, machine.address_size)
            if kind < 2
            else CODE + bias + random.randrange(0xA0, 0x100)
            if kind < 5
            else random.choice((0, 1, (1 << machine.bits) - 8, random.randrange(1 << machine.bits)))
        )
        words += value.to_bytes(machine.address_size, machine.byte_order)
    return words


def registers(random: Random, machine: Machine, bias: int, pc: str) -> dict[str, int]:
    """A pc in the code, a stack pointer, and a few others."""
    values = {pc: CODE + bias + random.randrange(0xA0, 0x100)}
    for number in (machine.frame_pointer, machine.link_register, machine.stack_pointer):
        if number is not None:
            values[machine.register_name(number)] = STACK + random.randrange(0, SIZE // 2, machine.address_size)
    if machine.link_register is not None:
        values[machine.register_name(machine.link_register)] = CODE + bias + random.randrange(0xA0, 0x100)
    return values


def small_core(random: Random) -> bytes:
    """A well-formed core: of Linux, with its list of mapped files, or of qemu, without."""
    machine = machines(random, (*NAMES, "s390x", "loongarch64"))
    name, data = program(machine)
    bias = random.choice((0, 0x4000_0000))
    core = CoreBuilder(machine)
    pc = core.program_counter
    for number in range(1, random.randrange(2, 5)):
        core.thread(number, registers(random, machine, bias, pc), signal=11 if number == 1 else 0)
    core.process(1, "prog")
    core.load(data, bias, path=name if random.random() < 0.7 else None, whole=random.random() < 0.3)
    core.memory(STACK, stack(random, machine, bias))
    core.auxv({9: CODE + bias, 3: CODE + bias + 0x40, 33: STACK})
    return core.build()


def small_minidump(random: Random) -> bytes:
    """A well-formed minidump of Linux or Windows."""
    machine = machines(random, (*NAMES, *ONLY_DUMPED))
    name, data = program(machine)
    bias = random.choice((0, 0x4000_0000))
    dump = MinidumpBuilder(machine, platform=random.choice((2, 0x8201, 0x8201)))
    old = random.random() < 0.3
    for number in range(1, random.randrange(2, 5)):
        memory = (STACK, stack(random, machine, bias)) if random.random() < 0.7 else (0, b"")
        values = registers(random, machine, bias, "pc")
        dump.thread(number, values, name=random.choice((None, "thread")), stack=memory, old=old)
    if random.random() < 0.5:
        dump.exception(1, 11, 0, registers(random, machine, bias, "pc"))
    if random.random() < 0.6:
        dump.module(name, CODE + bias, 0x1000, build_id=_ID)
    else:
        dump.module(name, CODE + bias, 0x1000, guid=_ID.ljust(16, b"\0"))
    dump.module("/lib/gone.so", CODE + bias + 0x4000, 0x1000)
    dump.memory(STACK, stack(random, machine, bias), wide=random.random() < 0.5)
    if random.random() < 0.3:
        dump.memory(CODE + bias, data.ljust(0x1000, b"\0")[:0x1000])
    if random.random() < 0.3:
        dump.region(STACK, 0x1000)
    if random.random() < 0.5:
        dump.maps(b"%x-%x rw-p 00000000 00:00 0 [stack]\n" % (STACK, STACK + 0x1000))
    dump.process(1)
    return dump.build(padded=random.random() < 0.2)


def core_seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed cores to begin with."""
    return [small_core(random) for _ in range(count)]


def minidump_seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed minidumps to begin with."""
    return [small_minidump(random) for _ in range(count)]
