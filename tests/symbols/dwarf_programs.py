"""Files with DWARF for the tests, and what is asked of them."""

from __future__ import annotations

from clew.image import Image
from clew.symbols import SourceFrame, Symbolizer, SymbolMap
from clew.symbols.debug_file import DebugFiles
from clew.testing.dwarf import At, Attribute, Die, DwarfBuilder, Form, Tag, Unit

CODE = 0x1000
SIZE = 0x100

Frame = tuple[str | None, str | None, int]


def symbolizer(data: bytes, *, alternate: bytes | None = None) -> Symbolizer:
    """The symboliser of a file in memory, which looks nowhere else."""
    image = Image.from_bytes(data)
    other = None if alternate is None else Image.from_bytes(alternate)
    return Symbolizer(image, DebugFiles(image, image, other))


def built(dwarf: DwarfBuilder, *, size: int = SIZE) -> Symbolizer:
    """The same of what a builder built, with code from :data:`CODE` on."""
    machine = 62 if dwarf.address_size == 8 else 3
    return symbolizer(dwarf.elf(code=[(CODE, bytes(size))], machine=machine))


def frames(found: tuple[SourceFrame, ...]) -> list[Frame]:
    """Function, file and line of each frame."""
    return [(frame.function, frame.file, frame.line) for frame in found]


def asked(symbols: Symbolizer, address: int) -> list[Frame]:
    """What the units that claim an address say of it; all units together have to say the same."""
    found = symbols.lookup(address)
    assert (symbols._whole_lookup.frames(address) or symbols._symbol(address)) == found, hex(address)
    return frames(found)


def names(symbols: Symbolizer, address: int) -> list[str | None]:
    """The names of the functions at an address, the innermost first."""
    return [frame[0] for frame in asked(symbols, address)]


def at(symbols: Symbolizer, *places: int) -> list[list[str | None]]:
    """The names at some bytes of the code."""
    return [names(symbols, CODE + place) for place in places]


def functions(symbols: SymbolMap) -> list[tuple[int, int, str | None]]:
    """Address, size and name of each function."""
    known = symbols.functions
    return [
        (address, size, symbols.names[name] if name < len(symbols.names) else None)
        for address, size, name in zip(known.address.tolist(), known.size.tolist(), known.name.tolist(), strict=True)
    ]


def root(unit: Unit, *attributes: Attribute, low: int = CODE, size: int = SIZE) -> Die:
    """The root of a unit that claims some code."""
    high: Attribute = (At.HIGH_PC, Form.DATA4, size)
    if unit.version < 4:
        high = At.HIGH_PC, Form.ADDR, low + size
    return unit.die(Tag.COMPILE_UNIT, (At.NAME, Form.STRING, "a.c"), (At.LOW_PC, Form.ADDR, low), high, *attributes)


def function(parent: Die, low: int, size: int, *attributes: Attribute, name: str | None = None) -> Die:
    """A function of one piece."""
    high: Attribute = (At.HIGH_PC, Form.DATA4, size)
    if parent.unit.version < 4:
        high = At.HIGH_PC, Form.ADDR, low + size
    named: tuple[Attribute, ...] = () if name is None else ((At.NAME, Form.STRING, name),)
    return parent.child(Tag.SUBPROGRAM, *named, *attributes, (At.LOW_PC, Form.ADDR, low), high)


def inlined(parent: Die, origin: Die, low: int, size: int, line: int = 0, *attributes: Attribute) -> Die:
    """An inlined call of one piece."""
    high: Attribute = (At.HIGH_PC, Form.DATA4, size)
    if parent.unit.version < 4:
        high = At.HIGH_PC, Form.ADDR, low + size
    return parent.child(
        Tag.INLINED_SUBROUTINE,
        (At.ABSTRACT_ORIGIN, Form.REF4, origin),
        (At.LOW_PC, Form.ADDR, low),
        high,
        (At.CALL_LINE, Form.DATA1, line),
        *attributes,
    )
