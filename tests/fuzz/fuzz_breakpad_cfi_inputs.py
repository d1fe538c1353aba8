"""``STACK CFI`` text that fuzzing begins with, and ways to damage it that know what it is made of."""

from __future__ import annotations

from random import Random

import fuzz_cfi_inputs

_NAMES = (
    "$rsp",
    "$rbp",
    "$rbx",
    "$rip",
    "$rax",
    "$r12",
    "sp",
    "x29",
    "x30",
    "lr",
    "r4",
    "$esp",
    "$eip",
    "$r15",
    "$sp",
    "f8",
)
_LITERALS = (
    "0",
    "1",
    "8",
    "-8",
    "16",
    "24",
    "-16",
    "4096",
    "4294967296",
    "-9223372036854775808",
    "18446744073709551615",
)
_PIECES = (
    *_NAMES,
    *_LITERALS,
    *(
        "+",
        "-",
        "*",
        "/",
        "%",
        "@",
        "^",
        "=",
        ".cfa",
        ".undef",
        ".ra",
        ".cfa:",
        ".ra:",
        "$rbx:",
        "x29:",
        "$rsp:",
        ":",
        "$",
    ),
    *(
        "STACK",
        "CFI",
        "INIT",
        "STACK CFI",
        "STACK CFI INIT",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "  ",
        "",
        "\0",
        "é",
        "99999999999999999999",
    ),
    *("1000", "1004", "ffffffffffffffff", "fffffffffffffff0", "10000000000000000", "0x10", "-1", "_1"),
)


def _expression(random: Random) -> str:
    match random.randrange(6):
        case 0:
            return f".cfa {random.choice(_LITERALS)} + ^"
        case 1:
            return random.choice(_NAMES)
        case 2:
            return ".undef"
        case 3:
            return f"{random.choice(_NAMES)} 16 % {random.randrange(17)} + 16 / 8 *"
        case _:
            tokens = [random.choice((*_NAMES, *_LITERALS, ".cfa"))]
            for _ in range(random.randrange(4)):
                tokens += [random.choice((*_NAMES, *_LITERALS)), random.choice("+-*/%@")]
                if random.random() < 0.3:
                    tokens.append("^")
            return " ".join(tokens)


def _rules(random: Random, first: bool) -> str:
    rules = [f"{random.choice(_NAMES)}: {_expression(random)}" for _ in range(random.randrange(3))]
    if first or random.random() < 0.5:
        rules.insert(0, f".cfa: {random.choice(_NAMES)} {random.choice(_LITERALS)} +")
    if first:
        rules.insert(1, f".ra: {random.choice(('.cfa -8 + ^', 'lr', 'x30', '16', '.cfa 8 - ^', '$rip'))}")
    return " ".join(rules)


def text(random: Random) -> bytes:
    """A few records behind the byte that chooses the machine."""
    lines: list[str] = []
    at = random.choice((0, 0x1000, 0xFFFFFFFFFFFFF000))
    for _ in range(random.randrange(1, 6)):
        size = random.randrange(1, 64)
        lines.append(f"STACK CFI INIT {at:x} {size:x} {_rules(random, True)}")
        inside = at
        for _ in range(random.randrange(4)):
            inside += random.randrange(1, 12)
            lines.append(f"STACK CFI {inside:x} {_rules(random, False)}")
        at += size + random.choice((0, 0, 0, 8, -4))
    return bytes((random.randrange(8),)) + random.choice(("\n", "\n", "\r\n")).join(lines).encode() + b"\n"


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed texts to begin with."""
    return [text(random) for _ in range(count)]


def mutated(random: Random, blob: bytes, other: bytes) -> bytes:
    """A damaged copy: words replaced, taken out, doubled; lines moved; bytes flipped."""
    head, data = blob[:1], blob[1:]
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        words = data.split(b" ")
        at = random.randrange(len(words))
        piece = random.choice(_PIECES).encode()
        match random.randrange(9):
            case 0 | 1:
                words[at] = piece
            case 2:
                words.insert(at, piece)
            case 3:
                del words[at]
            case 4:
                words[at:at] = words[at : at + random.randrange(6)]
            case 5:
                theirs = other[1:].split(b" ")
                begin = random.randrange(len(theirs))
                words[at : at + random.randrange(4)] = theirs[begin : begin + random.randrange(8)]
            case 6:
                lines = data.split(b"\n")
                random.shuffle(lines)
                words = b"\n".join(lines).split(b" ")
            case 7:
                words = data[: random.randrange(len(data) + 1)].split(b" ")
            case _:
                place = random.randrange(len(data) + 1)
                words = (data[:place] + bytes((random.randrange(256),)) + data[place + 1 :]).split(b" ")
        data = b" ".join(words)
    return head + data


def section_seeds(random: Random, count: int) -> list[bytes]:
    """Sections of call frame information, to be written as text."""
    return fuzz_cfi_inputs.seeds(random, count)


section_mutated = fuzz_cfi_inputs.mutated
