"""Small Breakpad symbol files that fuzzing begins with, and ways to damage them that know records and fields."""

from __future__ import annotations

from random import Random

from fuzz_elf_inputs import mutated as damaged

from clew.testing.breakpad import SymbolFileBuilder

_NAMES = (
    "main",
    "operator()(int, char) const",
    "<name omitted>",
    "",
    " m 10",
    "f\tg",
    "é\udcff",
    "7 dwarfs",
    "x" * 300,
)
_NUMBERS = (
    b"0 1 7 8 9 a f 10 -1 -8 7f ff 400 401 ffff 10000 7fffffff 80000000 ffffffff 100000000 4294967295 4294967296 "
    b"7fffffffffffffff 8000000000000000 ffffffffffffffff 10000000000000000 99999999999999999999999999 0x10 g m + .cfa:"
).split()
_LINES = (
    b"MODULE Linux arm 0 again",
    b"FUNC m 0 ffffffffffffffff 0 everything",
    b"FUNC 1000 1000 0 around",
    b"INLINE 0 1 0 0 0 ffffffffffffffff",
    b"INLINE 1 1 0 0 1000 10 1008 10 1000 1",
    b"INLINE 1 1 0 1000 10",
    b"INLINE_ORIGIN 0 1 old",
    b"1000 1000 1 0",
    b"PUBLIC 1000 0 at",
    b"STACK",
    b"STACK CFI INIT 1000 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
    b"",
)


def small_file(random: Random) -> bytes:
    """A well-formed file with records of every kind, some of them overlapping."""
    builder = SymbolFileBuilder(random.choice(("\n", "\n", "\n", "\r\n")))
    builder.module(architecture=random.choice(("x86_64", "arm64", "x86")), name="demo")
    builder.info("CODE_ID", "ABCDEF")
    old = random.random() < 0.2
    for number in range(random.randrange(4)):
        builder.file(random.choice((number, number, 5, 0xFFFFFFFE)), random.choice(_NAMES))
    for number in range(random.randrange(4)):
        builder.origin(number, random.choice(_NAMES), file=random.randrange(4) if old else None)
    at = 0x1000
    for _ in range(random.randrange(7)):
        size = random.choice((4, 16, 64, 300))
        builder.func(
            at, size, random.choice(_NAMES), multiple=random.random() < 0.2, parameter_size=random.randrange(9)
        )
        function(random, builder, at, size, old)
        at += random.choice((size, size, size, size // 2, size + 16, 0))
    for _ in range(random.randrange(4)):
        builder.public(random.randrange(0x1000), random.choice(_NAMES), multiple=random.random() < 0.2)
    for _ in range(random.randrange(3)):
        builder.stack_win(random.choice((0, 4, 4, 3)), at, 16, program=random.choice((None, "$eip 4 + ^ =")))
    if random.random() < 0.7:
        builder.stack_cfi_init(0x1000, 64, ".cfa: $rsp 8 + .ra: .cfa -8 + ^")
        builder.stack_cfi(0x1004, ".cfa: $rsp 16 +")
    return builder.build(final_newline=random.random() < 0.9)


def function(random: Random, builder: SymbolFileBuilder, at: int, size: int, old: bool) -> None:
    """The inlined calls and lines of a function."""
    pieces = [[(at, size)]]
    for _ in range(random.randrange(8)):
        depth = random.randrange(len(pieces))
        ranges = []
        for begin, length in pieces[depth]:
            start = random.randrange(length)
            ranges.append((begin + start, random.randrange(1, length - start + 1)))
        del pieces[depth + 1 :]
        pieces.append(ranges)
        builder.inline(depth, random.randrange(99), None if old else random.randrange(4), random.randrange(4), ranges)
    line = at
    while line < at + size and random.random() < 0.9:
        length = random.randrange(1, 20)
        builder.line(line, length, random.randrange(99), random.randrange(4))
        line += random.choice((length, length, length, 0, 30))


def mutated(random: Random, blob: bytes, other: bytes) -> bytes:
    """A damaged copy: bytes as files of tables are damaged, or lines moved, or fields replaced."""
    if random.random() < 0.3:
        return damaged(random, blob, other)
    lines = blob.split(b"\n")
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        at = random.randrange(len(lines))
        match random.randrange(7):
            case 0:
                lines.insert(random.randrange(len(lines) + 1), lines[at])
            case 1 if len(lines) > 1:
                del lines[at]
            case 2:
                lines.insert(at, random.choice(_LINES))
            case 3:
                lines[at:at] = other.split(b"\n")[: random.randrange(20)]
            case 4:
                lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
            case _:
                fields = lines[at].split(b" ")
                fields[random.randrange(len(fields))] = random.choice(_NUMBERS)
                lines[at] = b" ".join(fields)
    return b"\n".join(lines)


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed files to begin with."""
    return [small_file(random) for _ in range(count)]
