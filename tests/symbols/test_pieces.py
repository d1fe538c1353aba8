"""Functions put together: what is cut, named and left out."""

from __future__ import annotations

import numpy as np
from dwarf_programs import CODE, function, functions, names, root, symbolizer

from clew.symbols import Symbolizer
from clew.symbols.pieces import own_calls, own_lines
from clew.testing.dwarf import At, DwarfBuilder, Form, Tag
from clew.testing.elf import ElfBuilder


def u64(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def u32(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array(values, np.uint32)


def test_lines_of_parts() -> None:
    address = u64(0, 4, 8, 12, 100, 104)
    # Two parts of the first four lines, the second from inside a line on; one of the others; one that is whole; one without.
    first, end = own_lines(
        u64(0, 6, 101, 100, 16),
        u64(5, 12, 102, 108, 20),
        np.array([0, 1, 2, 4]),
        u32(0, 0, 4, 4, 4),
        u32(4, 4, 6, 6, 4),
        address,
    )
    assert first.tolist() == [0, 1, 4, 4, 4]
    assert end.tolist() == [2, 3, 5, 6, 4]


def test_calls_of_parts() -> None:
    many = np.arange(1000)
    first = np.zeros(1000, np.uint32)
    end = np.full(1000, 20_000, np.uint32)
    kept, too_many = own_calls(many, first, end, 20_000)
    # Eight times what there is, and a million.
    assert too_many
    assert np.count_nonzero(kept) == (8 * 20_000 + (1 << 20)) // 20_000
    assert (end == 20_000).all()
    kept, too_many = own_calls(many[:10], first[:10], end[:10], 20_000)
    assert not too_many
    assert (kept == 20_000).all()


def linked(dwarf: DwarfBuilder, *symbols: tuple[str, int, int]) -> Symbolizer:
    """A file with symbols: name, place in the code, size."""
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=CODE, executable=True)
    for name, place, size in symbols:
        elf.symbol(name, CODE + place, size=size, section=".text", type=2)
    dwarf.put_into(elf)
    return symbolizer(elf.build())


def test_the_linkers_name_says_more_where_it_is_mangled() -> None:
    """Compilers give functions of anonymous namespaces no DW_AT_linkage_name."""
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit())
    function(top, CODE, 8, name="bare")
    function(top, CODE + 8, 8, name="plain")
    function(top, CODE + 16, 8, (At.LINKAGE_NAME, Form.STRING, "_ZN5otherEv"))
    function(top, CODE + 24, 8, name="moved")
    function(top, CODE + 32, 8)
    symbols = [
        ("_ZN12_GLOBAL__N_14bareEv", 0, 8),
        ("plain.part.0", 8, 8),
        ("_ZN4thisEv", 16, 8),
        # Not where the function begins.
        ("_Z5movedv", 25, 7),
        ("_RNvC1a1b", 32, 8),
    ]
    with linked(dwarf, *symbols) as found:
        assert [names(found, CODE + at) for at in (0, 8, 16, 24, 32)] == [
            ["_ZN12_GLOBAL__N_14bareEv"],
            ["plain"],
            ["_ZN5otherEv"],
            ["moved"],
            ["_RNvC1a1b"],
        ]


def test_symbols_that_no_function_covers_are_public() -> None:
    dwarf = DwarfBuilder(version=4)
    function(root(dwarf.unit(), size=0x10), CODE, 8, name="f")
    with linked(dwarf, ("f", 0, 8), ("outside", 0x20, 8), ("alias", 0x20, 8), ("later", 0x40, 0)) as found:
        publics = found.whole.publics
        assert publics.address.tolist() == [CODE + 0x20, CODE + 0x40]
        assert publics.multiple.tolist() == [1, 0]
        assert [found.whole.names[name] for name in publics.name.tolist()] == ["outside", "later"]
        assert names(found, CODE + 0x24) == ["outside"]


def test_lines_of_parts_of_functions() -> None:
    dwarf = DwarfBuilder(version=4)
    lines = dwarf.line_program(files=["a.c"])
    lines.sequence([(CODE + at, at + 1) for at in range(0, 0x40, 4)], CODE + 0x40)
    top = root(dwarf.unit(), (At.STMT_LIST, Form.SEC_OFFSET, dwarf.add_lines(lines)), size=0x40)
    function(top, CODE, 0x20, name="outer")
    function(top, CODE + 0x0A, 4, name="inner")
    top.child(Tag.VARIABLE)
    with linked(dwarf, ("by_hand", 0x28, 8)) as found:
        known = found.whole
        numbers = [
            known.lines.line[first:end].tolist()
            for first, end in zip(known.functions.first_line.tolist(), known.functions.end_line.tolist(), strict=True)
        ]
        # Those that are in a part, and none besides.
        assert list(zip(functions(known), numbers, strict=True)) == [
            ((CODE, 0x0A, "outer"), [1, 5, 9]),
            ((CODE + 0x0A, 4, "inner"), [9, 13]),
            ((CODE + 0x0E, 0x12, "outer"), [13, 17, 21, 25, 29]),
            ((CODE + 0x20, 8, None), [33, 37]),
            ((CODE + 0x28, 8, "by_hand"), [41, 45]),
            ((CODE + 0x30, 0x10, None), [49, 53, 57, 61]),
        ]
