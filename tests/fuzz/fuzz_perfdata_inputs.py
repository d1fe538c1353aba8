"""Small recordings that fuzzing begins with: of every form, with processes that fork, exec and map a program with a table."""

from __future__ import annotations

from random import Random
from struct import pack

from fuzz_elf_inputs import mutated as damaged
from fuzz_target_inputs import CODE, SIZE, STACK, machines, program

from clew.target.perfdata.registers import NAMES
from clew.testing.perfdata import PerfDataBuilder

_MACHINES = ("x86-64", "x86-64", "x86-64", "i386", "aarch64", "arm", "riscv64", "powerpc64", "s390x")
_RECORD = 8


def small_recording(random: Random) -> bytes:
    """A well-formed recording."""
    machine = machines(random, _MACHINES)
    builder = PerfDataBuilder(machine.name, byte_order=machine.byte_order, pipe=random.random() < 0.3)
    name, _ = program(machine)
    names = [each for each in NAMES[machine.name] if random.random() < 0.9]
    several = random.random() < 0.4
    for number in range(2 if several else 1):
        kind = random.choice((0b111, 0b11, random.getrandbits(12))) | 2 | (1 << 16 if several else 0)
        builder.event(
            f"event {number}" if random.random() < 0.5 else "",
            type=kind,
            read_format=random.getrandbits(5),
            branch=random.getrandbits(20),
            registers=names,
            stack=random.random() < 0.9,
            ids=(number + 1,),
            sample_id_all=random.random() < 0.9,
        )
    if random.random() < 0.5:
        builder.build_id(name, random.randbytes(20), sized=random.random() < 0.5)
    builder.release("6.1.0")
    times = sorted(random.randrange(100) for _ in range(12))
    for time in times:
        pid = random.randrange(1, 4)
        match random.randrange(9):
            case 0:
                builder.named(pid, "name", by_exec=random.random() < 0.5, time=time)
            case 1:
                builder.forked(pid, random.randrange(1, 4), time=time)
            case 2 | 3:
                base = CODE + 0x1000 * random.randrange(3)
                builder.mapped2(pid, random.choice((name, "/lib/other.so", "//anon", "[vdso]")), base, SIZE, time=time)
            case 4:
                builder.lost(3)
            case _:
                sample(random, builder, pid, time)
    if random.random() < 0.2:
        builder.add(71, 0, pack(builder.order + "Q", 16) + bytes(16))
        builder.records.append(bytes(16))
    if random.random() < 0.3:
        builder.compress(random.randrange(4), second=random.random() < 0.5)
    return builder.build()


def sample(random: Random, builder: PerfDataBuilder, pid: int, time: int) -> None:
    """A sample with a stack that leads back into the program."""
    machine = builder.machine
    values = {each: CODE + random.randrange(64) for each in builder.names}
    values.update({each: STACK for each in builder.names if machine.register_number(each) == machine.stack_pointer})
    words = [random.choice((STACK + 8 * n, CODE + random.randrange(64), 0)) for n in range(16)]
    stack = b"".join(word.to_bytes(machine.address_size, machine.byte_order) for word in words)
    builder.sample(
        pid=pid,
        tid=pid + random.randrange(2),
        time=time,
        event=random.randrange(len(builder.events)),
        misc=random.choice((1, 2, 2)),
        registers=None if random.random() < 0.1 else values,
        abi=random.choice((None, 1, 2)),
        stack=stack,
        filled=random.choice((None, 40)),
        chain=[(1 << 64) - 128, 5, (1 << 64) - 512, CODE],
        read=[random.getrandbits(2) for _ in range(random.randrange(6))],
        branches=[0] * 12,
    )


def mutated(random: Random, blob: bytes, other: bytes) -> bytes:
    """A damaged copy: as files of tables are damaged, or a field of a record replaced."""
    if random.random() < 0.5:
        return damaged(random, blob, other)
    data = bytearray(blob)
    for _ in range(random.choice((1, 2, 4))):
        at = random.randrange(104, max(len(data) - 8, 105)) & -_RECORD
        width = random.choice((2, 4, 8))
        number = random.choice((0, 1, 7, 8, 9, 10, 16, 64, 81, 0xFFFF, len(data), random.getrandbits(64)))
        data[at : at + width] = (number & ((1 << 8 * width) - 1)).to_bytes(width, random.choice(("little", "big")))
    return bytes(data)


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed recordings to begin with."""
    return [small_recording(random) for _ in range(count)]
