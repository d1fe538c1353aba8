"""Symbol tables: columns, names, and which symbol an address is in."""

from __future__ import annotations

import bisect
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.image import Image, SymbolTable, elf
from clew.testing.elf import ElfBuilder

FUNC, OBJECT, NOTYPE = elf.STT_FUNC, elf.STT_OBJECT, elf.STT_NOTYPE
LOCAL, GLOBAL, WEAK = elf.STB_LOCAL, elf.STB_GLOBAL, elf.STB_WEAK


def table(builder: ElfBuilder) -> SymbolTable:
    return Image.from_bytes(builder.build()).symbols()


def name_at(symbols: SymbolTable, address: int) -> tuple[str, int] | None:
    found = symbols.at(address)
    return (symbols.name(found[0]), found[1]) if found else None


@pytest.mark.parametrize(("bits", "byte_order"), list(itertools.product((32, 64), ("little", "big"))))
@pytest.mark.parametrize("large", [False, True])
def test_columns(bits: int, byte_order: elf.ByteOrder, large: bool) -> None:
    builder = ElfBuilder(bits=bits, byte_order=byte_order, large_numbers=large)
    builder.section(".text", bytes(64), address=0x1000, executable=True)
    builder.symbol("local", 0x1000, size=4, section=".text", type=FUNC, binding=LOCAL)
    builder.symbol("main", 0x1010, size=0x20, section=".text", type=FUNC, other=3)
    builder.symbol("absolute", 0x77)
    builder.symbol("elsewhere", section=elf.SHN_UNDEF, type=FUNC, binding=WEAK)
    symbols = table(builder)
    assert len(symbols) == 5
    assert symbols.value.tolist() == [0, 0x1000, 0x1010, 0x77, 0]
    assert symbols.size.tolist() == [0, 4, 0x20, 0, 0]
    assert symbols.info.tolist() == [0, 0x02, 0x12, 0x10, 0x22]
    assert symbols.other.tolist() == [0, 0, 3, 0, 0]
    assert symbols.shndx.tolist() == [0, 1, 1, 0xFFFFFFF1, 0]
    assert symbols.type.tolist() == [0, 2, 2, 0, 2]
    assert symbols.binding.tolist() == [0, 0, 1, 1, 2]
    assert symbols.names(range(5)) == ["", "local", "main", "absolute", "elsewhere"]
    assert symbols.functions().tolist() == [1, 2]
    assert (symbols.value.dtype, symbols.size.dtype, symbols.info.dtype) == (np.uint64, np.uint64, np.uint8)
    assert (symbols.shndx.dtype, symbols.name_offset.dtype) == (np.uint32, np.uint32)
    assert name_at(symbols, 0x102F) == ("main", 0x1F)
    assert name_at(symbols, 0x1030) is None


def test_the_dynamic_symbols_where_there_are_no_others() -> None:
    builder = ElfBuilder()
    builder.section(".text", bytes(64), address=0x1000, executable=True)
    builder.symbol("dynamic", 0x1000, section=".text", dynamic=True)
    image = Image.from_bytes(builder.build())
    assert len(image.symbols("symtab")) == 0
    assert image.symbols().name(1) == "dynamic"
    builder.symbol("static", 0x1000, section=".text")
    image = Image.from_bytes(builder.build())
    assert image.symbols().name(1) == "static"
    assert image.symbols("dynsym").name(1) == "dynamic"
    assert image.symbols() is image.symbols("symtab")


def test_names_are_found_also_as_the_end_of_another() -> None:
    builder = ElfBuilder()
    for name in ("foobar", "bar", "foobar", "ar", "\udce9t\udce9"):
        builder.symbol(name, 1)
    image = Image.from_bytes(builder.build().replace(b"\0ar\0", b"\0zz\0"))
    symbols = image.symbols()
    # A linker stores "bar" as the end of "foobar": let the second symbol's name begin there.
    symbols.name_offset[2] = symbols.name_offset[1] + 3
    symbols.name_offset[4] = symbols.name_offset[1] + 4
    assert symbols.find("bar") == [2]
    assert symbols.find(b"ar") == [4]
    assert symbols.find("foobar") == [1, 3]
    assert symbols.find("") == [0]
    assert symbols.find("foo") == []
    assert symbols.find("a\0") == []
    assert symbols.find(b"\xe9t\xe9") == [5]
    assert symbols.name(5) == "\\xe9t\\xe9"
    assert symbols.find("\ud800") == []


def test_the_thumb_bit_is_no_part_of_the_address() -> None:
    builder = ElfBuilder(machine=elf.EM_ARM, bits=32)
    builder.section(".text", bytes(64), address=0x1000, executable=True)
    builder.symbol("$t", 0x1000, section=".text", binding=LOCAL)
    builder.symbol("thumb", 0x1001, size=8, section=".text", type=FUNC)
    builder.symbol("table", 0x1009, size=2, section=".text", type=OBJECT)
    symbols = table(builder)
    assert symbols.value.tolist()[2:] == [0x1001, 0x1009]
    assert symbols.address.tolist()[2:] == [0x1000, 0x1009]
    assert name_at(symbols, 0x1000) == ("thumb", 0)
    assert name_at(symbols, 0x1008) is None
    assert name_at(symbols, 0x1009) == ("table", 0)


def test_an_object_file_s_symbols_are_where_its_sections_are_laid_out() -> None:
    builder = ElfBuilder(type=elf.ET_REL)
    builder.section(".text.a", bytes(5), executable=True, alignment=16)
    builder.section(".text.b", bytes(5), executable=True, alignment=16)
    builder.symbol("a", 0, size=5, section=".text.a", type=FUNC)
    builder.symbol("b", 1, size=4, section=".text.b", type=FUNC)
    symbols = table(builder)
    assert symbols.address.tolist() == [0, 0, 0x11]
    assert name_at(symbols, 0x12) == ("b", 1)
    assert name_at(symbols, 3) == ("a", 3)


def at_one_place(*symbols: tuple[str, int, int, int, int]) -> SymbolTable:
    """A table of symbols: name, value, size, type, binding."""
    builder = ElfBuilder()
    builder.section(".text", bytes(64), address=0x1000, executable=True)
    for name, value, size, kind, binding in symbols:
        builder.symbol(name, value, size=size, section=".text", type=kind, binding=binding)
    return table(builder)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (("f", 0x1000, 8, FUNC, LOCAL), ("o", 0x1000, 8, OBJECT, GLOBAL)),
        (("s", 0x1000, 8, NOTYPE, LOCAL), ("z", 0x1000, 0, FUNC, GLOBAL)),
        (("g", 0x1000, 8, FUNC, GLOBAL), ("w", 0x1000, 8, FUNC, WEAK)),
        (("w", 0x1000, 8, FUNC, WEAK), ("l", 0x1000, 8, FUNC, LOCAL)),
        (("small", 0x1000, 6, FUNC, GLOBAL), ("large", 0x1000, 8, FUNC, GLOBAL)),
        (("inner", 0x1002, 6, FUNC, LOCAL), ("outer", 0x1000, 9, FUNC, GLOBAL)),
        (("sized", 0x1000, 9, FUNC, LOCAL), ("label", 0x1002, 0, NOTYPE, LOCAL)),
    ],
)
def test_the_better_of_two(better: tuple[str, int, int, int, int], worse: tuple[str, int, int, int, int]) -> None:
    offset = 0x1005 - better[1]
    if worse[0] == "label":
        # A label inside a function is a symbol that starts later, as GNU as makes them.
        assert name_at(at_one_place(better, worse), 0x1001) == ("sized", 1)
        return
    assert name_at(at_one_place(better, worse), 0x1005) == (better[0], offset)
    assert name_at(at_one_place(worse, better), 0x1005) == (better[0], offset)


def test_the_first_of_two_equals() -> None:
    symbols = at_one_place(("one", 0x1000, 8, FUNC, GLOBAL), ("two", 0x1000, 8, FUNC, GLOBAL))
    assert name_at(symbols, 0x1000) == ("one", 0)


def test_a_symbol_around_others_is_found_behind_them() -> None:
    inner = [(f"i{index}", 0x1010 + 4 * index, 2, FUNC, GLOBAL) for index in range(5000)]
    symbols = at_one_place(("outer", 0x1000, 0x10000, FUNC, GLOBAL), *inner)
    assert name_at(symbols, 0x1010 + 4 * 4999 + 3) == ("outer", 0x10 + 4 * 4999 + 3)
    assert name_at(symbols, 0x1012) == ("outer", 0x12)
    assert name_at(symbols, 0x1011) == ("i0", 1)


def test_a_symbol_without_a_size_reaches_to_the_next() -> None:
    symbols = at_one_place(
        ("first", 0x1000, 0, NOTYPE, GLOBAL), ("next", 0x1010, 4, FUNC, GLOBAL), ("last", 0x1020, 0, NOTYPE, GLOBAL)
    )
    assert name_at(symbols, 0x100F) == ("first", 15)
    assert name_at(symbols, 0x1013) == ("next", 3)
    assert name_at(symbols, 0x1014) is None
    assert name_at(symbols, 0x1030) == ("last", 16)
    assert name_at(symbols, 0xFFF) is None
    assert name_at(symbols, -1) is None


def test_what_contains_nothing() -> None:
    builder = ElfBuilder(machine=elf.EM_AARCH64)
    builder.section(".text", bytes(64), address=0x1000, executable=True)
    builder.symbol("", 0x1000, size=64, section=".text", type=elf.STT_SECTION, binding=LOCAL)
    builder.symbol("a.c", 0, size=0x2000, type=elf.STT_FILE, binding=LOCAL)
    builder.symbol("$x", 0x1000, section=".text", binding=LOCAL)
    builder.symbol("$x.1", 0x1004, section=".text", binding=LOCAL)
    builder.symbol("thread", 0x1000, size=64, section=".text", type=elf.STT_TLS)
    builder.symbol("undefined", 0x1000, size=64, section=elf.SHN_UNDEF, type=FUNC)
    builder.symbol("absolute", 0x1000, size=64)
    assert table(builder).at(0x1004) is None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.integers(0, 12),
            st.sampled_from([FUNC, OBJECT, NOTYPE]),
            st.sampled_from([LOCAL, GLOBAL, WEAK]),
        ),
        max_size=12,
    )
)
def test_at_follows_its_rule(drawn: list[tuple[int, int, int, int]]) -> None:
    # Local symbols come first in a symbol table; let the numbering be the table's.
    drawn = sorted(drawn, key=lambda each: each[3] != LOCAL)
    symbols = at_one_place(*((f"s{index}", *each) for index, each in enumerate(drawn)))
    starts = sorted({start for start, *_ in drawn})

    def end(start: int, size: int) -> int:
        following = starts[bisect.bisect_right(starts, start) :]
        return start + size if size else following[0] if following else 1 << 64

    def preference(index: int) -> tuple[object, ...]:
        start, size, kind, binding = drawn[index]
        return start, size != 0, kind == FUNC, {LOCAL: 0, WEAK: 1, GLOBAL: 2}[binding], -size, -index

    expected = []
    for address in range(50):
        inside = [i for i, (start, size, *_) in enumerate(drawn) if start <= address < end(start, size)]
        best = max(inside, key=preference) if inside else None
        expected.append(None if best is None else (best + 1, address - drawn[best][0]))
    assert [symbols.at(address) for address in range(50)] == expected
    found, offsets = symbols.lookup(np.arange(50, dtype=np.uint64))
    assert [None if i < 0 else (i, o) for i, o in zip(found.tolist(), offsets.tolist(), strict=True)] == expected


def test_tables_that_are_damaged() -> None:
    builder = ElfBuilder()
    builder.symbol("one", 1)
    data = bytearray(builder.build())
    image = Image.from_bytes(bytes(data))
    index = next(section.index for section in image.sections if section.type == elf.SHT_SYMTAB)
    record = image.header.section_offset + index * 64
    data[record + 40 : record + 44] = (99).to_bytes(4, "little")  # sh_link
    data[record + 56 : record + 64] = (7).to_bytes(8, "little")  # sh_entsize
    damaged = Image.from_bytes(bytes(data))
    assert damaged.symbols().name(1) == ""
    assert damaged.symbols().value.tolist() == [0, 1]
    assert sorted(str(problem) for problem in damaged.problems) == [
        ".symtab: an entry is said to have 7 bytes, but symbols have 24",
        ".symtab: the symbols have no names: there is no string table",
    ]


def test_section_indices_that_are_missing() -> None:
    builder = ElfBuilder(large_numbers=True)
    builder.section(".text", bytes(4), address=0x1000, executable=True)
    builder.symbol("f", 0x1000, section=".text", type=FUNC)
    data = builder.build()
    image = Image.from_bytes(data)
    section = image.section(".symtab_shndx")
    assert section is not None
    record = image.header.section_offset + section.index * 64
    cut = Image.from_bytes(data[: record + 32] + (4).to_bytes(8, "little") + data[record + 40 :])
    # What is not known is not section 1, nor any other.
    assert cut.symbols().shndx.tolist() == [0, 0xFFFFFFFF]
    assert "section indices are missing" in str(cut.problems[0])
    none = Image.from_bytes(data[: record + 4] + bytes(4) + data[record + 8 :])
    assert none.symbols().shndx.tolist() == [0, 0xFFFFFFFF]


def test_a_damaged_table_of_strings() -> None:
    builder = ElfBuilder()
    builder.section(".symtab", bytes(24), type=elf.SHT_SYMTAB, link=".strtab", entry_size=24)
    builder.section(".strtab", b"short", type=elf.SHT_STRTAB, flags=elf.SHF_COMPRESSED)
    image = Image.from_bytes(builder.build())
    assert image.symbols().name(0) == ""
    assert "compression header" in str(image.problems[0])


def dynamic_image(tags: list[tuple[int, int]], *, bits: int = 64, machine: int = 62, **hashes: bytes) -> Image:
    """A file without section headers: symbols at 0x400, their names at 0x500, a hash table at 0x600."""
    builder = ElfBuilder(bits=bits, machine=machine, section_headers=False)
    made = ElfBuilder(bits=bits)
    for name in ("one", "two"):
        made.symbol(name, 0x1234, section=1)
    source = Image.from_bytes(made.build())
    symbols, strings = source.section(".symtab"), source.section(".strtab")
    assert symbols is not None
    assert strings is not None
    builder.section(".dynsym", bytes(symbols.data), address=0x400)
    builder.section(".dynstr", bytes(strings.data), address=0x500)
    builder.section(".hash", hashes["hash"], address=0x600)
    record = builder.layout.dynamic
    builder.section(".dynamic", b"".join(record.pack(*each) for each in tags), address=0x800)
    for name in (".dynsym", ".dynstr", ".hash", ".dynamic"):
        builder.segment(elf.PT_LOAD, [name])
    builder.segment(elf.PT_DYNAMIC, [".dynamic"])
    return Image.from_bytes(builder.build())


def words(size: int, *values: int) -> bytes:
    return b"".join(value.to_bytes(size, "little") for value in values)


TAGS = [(elf.DT_SYMTAB, 0x400), (elf.DT_STRTAB, 0x500), (elf.DT_STRSZ, 9)]


@pytest.mark.parametrize(
    ("tag", "contents", "bits", "machine"),
    [
        (elf.DT_HASH, words(4, 1, 3), 64, 62),
        (elf.DT_HASH, words(4, 1, 3), 32, 40),
        (elf.DT_HASH, words(8, 1, 3), 64, elf.EM_S390),
        # One bucket, first symbol 1, one bloom word; the bucket starts at symbol 1, and the chain ends at symbol 2.
        (elf.DT_GNU_HASH, words(4, 1, 1, 1, 0) + bytes(8) + words(4, 1, 0x10, 0x11), 64, 62),
        (elf.DT_GNU_HASH, words(4, 1, 1, 1, 0) + bytes(4) + words(4, 1, 0x10, 0x11), 32, 40),
        # Nothing is hashed: there are only the symbols before the first.
        (elf.DT_GNU_HASH, words(4, 1, 3, 1, 0) + bytes(8) + words(4, 0), 64, 62),
    ],
)
def test_dynamic_symbols_without_section_headers(tag: int, contents: bytes, bits: int, machine: int) -> None:
    image = dynamic_image([*TAGS, (tag, 0x600), (0, 0)], bits=bits, machine=machine, hash=contents)
    symbols = image.symbols()
    assert symbols.names(range(len(symbols))) == ["", "one", "two"]
    assert symbols.value.tolist() == [0, 0x1234, 0x1234]
    assert image.problems == []


@pytest.mark.parametrize(
    ("tag", "contents", "count", "message"),
    [
        (elf.DT_HASH, words(4, 1, 1000), 3, "3 of its 1000 dynamic symbols"),
        (elf.DT_HASH, b"", 0, None),
        (elf.DT_GNU_HASH, words(4, 1, 1), 0, None),
        (elf.DT_GNU_HASH, words(4, 1000, 1, 1, 0), 0, "cut short"),
        (elf.DT_GNU_HASH, words(4, 1, 1, 0, 0) + words(4, 1, 0x10), 0, "cut short"),
        (elf.DT_GNU_HASH, words(4, 1, 1, 0xFFFFFFFF, 0) + words(4, 1, 0x11), 0, "cut short"),
    ],
)
def test_hash_tables_that_are_damaged(tag: int, contents: bytes, count: int, message: str | None) -> None:
    image = dynamic_image([*TAGS, (tag, 0x600), (0, 0)], hash=contents)
    assert len(image.symbols()) == count
    assert [message in str(problem) for problem in image.problems if message] == [True] * (message is not None)


def test_an_image_without_symbols() -> None:
    image = Image.from_bytes(ElfBuilder().build())
    symbols = image.symbols()
    assert (len(symbols), symbols.at(0), symbols.find("main"), symbols.functions().tolist()) == (0, None, [], [])
    assert symbols.lookup(np.array([1, 2], np.uint64))[0].tolist() == [-1, -1]
    assert repr(symbols) == "SymbolTable(0 symbols)"
