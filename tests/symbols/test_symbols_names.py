"""Names by address, from each kind of symbols."""

import lzma
import os
from pathlib import Path

import pytest

from clew.image import Image
from clew.symbols import FileNames, PerfMap, demangle, minidebug_image
from clew.testing import ElfBuilder


def _file(*symbols: tuple[str, int, int]) -> ElfBuilder:
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000)
    for name, address, size in symbols:
        elf.symbol(name, address, size=size, section=".text")
    return elf


def test_the_symbol_that_holds_an_address_names_it() -> None:
    names = FileNames(Image.from_bytes(_file(("outer", 0x1000, 0x40), ("_ZN1a1bEv", 0x1040, 0x20)).build()))
    found = names.at(0x1044)
    assert found is not None
    assert (found.function, found.offset, found.demangled) == ("_ZN1a1bEv", 4, "a::b()")
    assert names.at(0x10F0) is None


def test_mini_debug_info_names_what_a_stripped_file_does_not() -> None:
    inner = _file(("hidden", 0x1010, 0x10)).build()
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000)
    elf.section(".gnu_debugdata", lzma.compress(inner))
    names = FileNames(Image.from_bytes(elf.build()))
    found = names.at(0x1018)
    assert found is not None
    assert (found.function, found.offset) == ("hidden", 8)


def test_damaged_mini_debug_info_is_a_problem_and_no_more() -> None:
    elf = ElfBuilder()
    elf.section(".gnu_debugdata", lzma.compress(bytes(1000))[:-20])
    image = Image.from_bytes(elf.build())
    assert minidebug_image(image) is None
    assert [problem.section for problem in image.problems] == [".gnu_debugdata"]


def test_what_is_not_mangled_stays_as_it_is() -> None:
    assert demangle("main") == "main"
    assert demangle("_Z") == "_Z"
    assert demangle("_RNvC6_123foo3bar") == "123foo::bar"
    # Of the documentation of undname: the at signs are the name's own.
    assert demangle("?func1@a@@AAEXH@Z") == "private: void __thiscall a::func1(int)"
    assert demangle("?func1@a@@") == "?func1@a@@"
    assert demangle("_Z" + "A" * 10_000) == "_Z" + "A" * 10_000


def test_later_lines_of_a_perf_map_count_more() -> None:
    names = PerfMap.parse(b"1000 100 old\n1010 10 new\nnonsense\n2000 0 empty\n3000 10 cut")
    assert len(names) == 2
    at = names.at(0x1018)
    assert at is not None
    assert (at.function, at.offset) == ("new", 8)
    at = names.at(0x1030)
    assert at is not None
    assert at.function == "old"
    assert names.at(0x3000) is None


def test_a_perf_map_of_somebody_else_is_none(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    path.write_bytes(b"1000 10 name\n")
    try:
        assert len(PerfMap.of_process(os.getpid()) or ()) == 1
        os.chown(path, 65534, 65534)
        assert PerfMap.of_process(os.getpid()) is None
        path.unlink()
        os.mkfifo(path)
        assert PerfMap.of_process(os.getpid()) is None
    finally:
        path.unlink()
