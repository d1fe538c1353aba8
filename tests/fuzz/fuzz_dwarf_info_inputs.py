"""Small ELF files with DWARF that fuzzing begins with, and ways to damage them that know where its sections are."""

from __future__ import annotations

from random import Random
from struct import pack

from clew.testing.dwarf import At, Die, DwarfBuilder, Form, Rle, Tag, Unit
from clew.testing.elf import ElfBuilder

#: Where the code of the files is, and how much of it.
CODE_START, CODE_SIZE = 0x1000, 0x400
_NUMBERS = (0, 1, 2, 3, 5, 0x7F, 0x80, 0xFF, 0xFFFF, 0x1000, 0x1100, 0x7FFFFFFF, 0xFFFFFFF0, 0xFFFFFFFE, 0xFFFFFFFF)
_FORMS = tuple(int(form) for form in Form)
_CHUNK = 24


def small_file(random: Random) -> bytes:
    """A well-formed file: one to three units with functions, inlined calls, lines; of any version, class and byte order."""
    wide = random.random() < 0.7
    version = random.choice((2, 3, 4, 5, 5))
    dwarf = DwarfBuilder(
        version=version,
        byte_order=random.choice(("little", "little", "big")),
        address_size=8 if wide else 4,
        dwarf64=version > 2 and random.random() < 0.1,
    )
    width = CODE_SIZE // 4
    roots: list[Die] = []
    for number in range(random.randrange(1, 4)):
        unit = dwarf.unit()
        roots.append(_unit(random, dwarf, unit, CODE_START + number * width, width, roots))
    if version >= 5:
        for root in roots:
            root.add(At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base)
            root.add(At.STR_OFFSETS_BASE, Form.SEC_OFFSET, dwarf.str_offsets_base)
            root.add(At.ADDR_BASE, Form.SEC_OFFSET, dwarf.addr_base)
    elf = ElfBuilder(
        machine=62 if wide else 3,
        bits=8 * dwarf.address_size,
        byte_order=dwarf.byte_order,
        type=3,
        section_headers=True,
    )
    elf.section(".text", bytes(CODE_SIZE), address=CODE_START, executable=True)
    for number in range(random.randrange(4)):
        elf.symbol(f"by_hand_{number}", CODE_START + 0x80 * number, size=0x20, section=".text", type=2)
    dwarf.put_into(elf, compress="zlib" if random.random() < 0.1 else None)
    return elf.build()


def _unit(random: Random, dwarf: DwarfBuilder, unit: Unit, at: int, size: int, others: list[Die]) -> Die:
    """A unit that claims the code from ``at`` on."""
    new = dwarf.version >= 5
    lines = dwarf.line_program(directories=["/src"], files=["a.c", "b.h"])
    lines.sequence(
        [(at + 8 * row, random.randrange(1, 200), random.choice((1, 1, 0 if new else 2))) for row in range(size // 8)],
        at + size,
    )
    root = unit.die(
        Tag.COMPILE_UNIT,
        (At.NAME, Form.STRING, "a.c"),
        (At.COMP_DIR, random.choice((Form.STRP, Form.STRING)), "/src"),
        (
            At.STMT_LIST,
            Form.DATA4
            if dwarf.version < 4 and not dwarf.dwarf64
            else Form.SEC_OFFSET
            if dwarf.version >= 4
            else Form.DATA8,
            dwarf.add_lines(lines),
        ),
        (At.LOW_PC, Form.ADDR, at),
    )
    if random.random() < 0.8:
        root.add(At.HIGH_PC, *_size(dwarf, at, size))
    declared = root.child(Tag.STRUCTURE_TYPE, (At.NAME, Form.STRING, "s")).child(
        Tag.SUBPROGRAM,
        (At.NAME, Form.STRP, "method"),
        (At.LINKAGE_NAME, Form.STRP, "_ZN1s6methodEv"),
        (At.DECLARATION, Form.FLAG, 1),
    )
    abstract = root.child(
        Tag.SUBPROGRAM, (At.NAME, Form.STRX if new else Form.STRP, "inlined"), (At.INLINE, Form.DATA1, 1)
    )
    known = [declared, abstract]
    place = at
    while place + 16 <= at + size:
        length = random.choice((8, 16, 32, 64))
        length = min(length, at + size - place)
        function = root.child(Tag.SUBPROGRAM)
        match random.randrange(4):
            case 0:
                function.add(At.NAME, Form.STRING, f"f{place:x}")
            case 1:
                function.add(At.SPECIFICATION, Form.REF4, declared)
            case 2 if others and dwarf.version > 2:
                function.add(At.ABSTRACT_ORIGIN, Form.REF_ADDR, random.choice(others[0].children))
            case _:
                function.add(At.ABSTRACT_ORIGIN, Form.REF_UDATA, abstract)
        _extent(random, dwarf, function, at, place, length)
        _calls(random, dwarf, function, known, at, place, length, 0)
        place += length + random.choice((0, 0, 8))
    return root


def _calls(
    random: Random, dwarf: DwarfBuilder, around: Die, known: list[Die], base: int, at: int, size: int, depth: int
) -> None:
    if depth > 3 or size < 8:
        return
    if random.random() < 0.2:
        around = around.child(Tag.LEXICAL_BLOCK)
    if random.random() < 0.1 and depth:
        inner = around.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "nested"))
        _extent(random, dwarf, inner, base, at + 2, 2)
        return
    for part in range(random.randrange(3)):
        call = around.child(
            Tag.INLINED_SUBROUTINE,
            (At.ABSTRACT_ORIGIN, Form.REF4, random.choice(known)),
            (At.CALL_FILE, Form.DATA1, random.randrange(3)),
            (At.CALL_LINE, Form.UDATA, random.randrange(300)),
        )
        _extent(random, dwarf, call, base, at + part * size // 2, size // 2)
        _calls(random, dwarf, call, known, base, at + part * size // 2, size // 2, depth + 1)


def _size(dwarf: DwarfBuilder, at: int, size: int) -> tuple[int, int]:
    return (Form.UDATA, size) if dwarf.version >= 4 else (Form.ADDR, at + size)


def _extent(random: Random, dwarf: DwarfBuilder, die: Die, base: int, at: int, size: int) -> None:
    """Says where an entry's code is, in one of the ways."""
    match random.randrange(4):
        case 0 if dwarf.version >= 5:
            half = size // 2
            entries = [Rle.start_length(at, half), Rle.offset_pair(at + half - base, at + size - base)]
            die.add(At.RANGES, Form.RNGLISTX, dwarf.range_list(entries))
        case 1 if dwarf.version in (3, 4):
            form = Form.SEC_OFFSET if dwarf.version == 4 else Form.DATA8 if dwarf.dwarf64 else Form.DATA4
            die.add(At.RANGES, form, dwarf.ranges([(at - base, at + size - base)]))
        case 2 if dwarf.version >= 5:
            die.add(At.LOW_PC, Form.ADDRX, at)
            die.add(At.HIGH_PC, Form.DATA1, size & 0xFF)
        case _:
            die.add(At.LOW_PC, Form.ADDR, at)
            die.add(At.HIGH_PC, *_size(dwarf, at, size))


def mutated(random: Random, blob: bytes, other: bytes) -> bytes:
    """A damaged copy. What is not code is DWARF mostly, and most damage leaves the headers of the file alone."""
    data = bytearray(blob)
    first = 64
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        size = len(data)
        low = first + CODE_SIZE if random.random() < 0.97 else 0
        at = min(random.randrange(low, size), size - 1) if low < size else random.randrange(size)
        match random.randrange(9):
            case 0:
                data[at] ^= 1 << random.randrange(8)
            case 1:
                data[at] = random.randrange(256)
            case 2:
                data[at] = random.choice(_FORMS) & 0xFF
            case 3 | 4:
                width = random.choice((1, 2, 4, 8))
                number = random.choice((*_NUMBERS, size, random.randrange(size))) & ((1 << 8 * width) - 1)
                form = {1: "B", 2: "H", 4: "I", 8: "Q"}[width]
                data[at : at + width] = pack(random.choice("<>") + form, number)[: size - at]
            case 5:
                begin = random.randrange(len(other))
                piece = other[begin : begin + random.randrange(1, _CHUNK)][: size - at]
                data[at : at + len(piece)] = piece
            case 6:
                begin = random.randrange(size)
                piece = bytes(data[begin : begin + random.randrange(1, 2 * _CHUNK)])[: size - at]
                data[at : at + len(piece)] = piece
            case 7:
                length = min(random.randrange(1, _CHUNK), size - at)
                data[at : at + length] = bytes((random.choice((0, 0x7F, 0x80, 0xFF)),)) * length
            case _:
                # The lengths in between stay right.
                other_at = min(at + random.randrange(1, 64), size - 1)
                data[at], data[other_at] = data[other_at], data[at]
    return bytes(data)


def seeds(random: Random, count: int) -> list[bytes]:
    """Well-formed files to begin with."""
    return [small_file(random) for _ in range(count)]
