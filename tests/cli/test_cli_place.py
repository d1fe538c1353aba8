"""Where a command is pointed: functions, addresses, files, modules of a process."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import pytest

from clew.cli.place import find_functions, find_place, not_covered, parse_address, place_name
from clew.cli.target import Target, module_at, open_target
from clew.errors import NotFoundError, UsageError
from clew.image import Image
from clew.image.elf import ET_REL, STT_FUNC
from clew.read.frames import frame_sections
from clew.testing import ElfBuilder


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0x1000", 0x1000),
        ("0XAbC", 0xABC),
        ("1000", 0x1000),
        ("0000000000001000", 0x1000),
        ("7fff12ab", 0x7FFF12AB),
        ("a1b30", 0xA1B30),
        ("ffffffffffffffff", None),
        ("0xffffffffffffffff", (1 << 64) - 1),
        ("0x10000000000000000", None),
        ("face", None),
        ("0xface", 0xFACE),
        ("main", None),
        ("0x", None),
        ("", None),
        ("-1", None),
        ("1_0", None),
        ("١", None),
    ],
)
def test_addresses(text: str, address: int | None) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("enter", 0x1000),
        ("enter+4", 0x1004),
        ("enter+10", 0x100A),
        ("enter+0x10", 0x1010),
        ("0x1000", 0x1000),
        ("1000", 0x1000),
        ("0x1000+0x10", 0x1010),
        # A function may be called like a number, or have a plus in its name.
        ("add", 0x1050),
        ("0xadd", 0xADD),
        ("operator+", 0x1040),
        ("operator++2", 0x1042),
    ],
)
def test_places(library: str, text: str, address: int) -> None:
    assert find_place(open_target(library), text) == address


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("entre", NotFoundError, "did you mean enter?"),
        ("ent", NotFoundError, "did you mean enter"),
        ("entre+4", NotFoundError, "did you mean enter?"),
        ("enter+x", NotFoundError, "did you mean enter?"),
        ("enter+", NotFoundError, "did you mean enter?"),
        ("something_else", NotFoundError, "nm -C"),
        ("imported", NotFoundError, "name the library"),
        ("face", NotFoundError, "write 0xface"),
        ("+4", NotFoundError, "nm -C"),
        ("", UsageError, "a function's name"),
        ("init", UsageError, "0x1020, 0x1030"),
        ("init+4", UsageError, "0x1020, 0x1030"),
        ("0x10000000000000000", UsageError, "16 hexadecimal digits"),
        ("12monkeys", UsageError, "16 hexadecimal digits"),
        ("enter+0xffffffffffffffff", NotFoundError, ""),
    ],
)
def test_what_is_no_place(library: str, text: str, error: type[Exception], hint: str) -> None:
    with pytest.raises(error) as caught:
        find_place(open_target(library), text)
    assert isinstance(caught.value, NotFoundError | UsageError)
    assert hint in str(caught.value.hint)


def test_all_functions_of_a_name(library: str) -> None:
    image = Image.open(library)
    assert find_functions(image, "init") == [(0x1020, 0x10), (0x1030, 0x10)]
    assert find_functions(image, "enter") == [(0x1000, 0x20)]


def test_what_is_not_declared_a_function_may_be_one() -> None:
    elf = ElfBuilder()
    elf.section(".text", bytes(16), address=0x1000)
    elf.symbol("_start", 0x1004, section=".text")
    elf.symbol("both", 0x1008, section=".text")
    elf.symbol("both", 0x1000, section=".text", size=4, type=STT_FUNC)
    image = Image.from_bytes(elf.build())
    assert find_functions(image, "_start") == [(0x1004, 0)]
    assert find_functions(image, "both") == [(0x1000, 4)]


def test_a_file_without_symbols() -> None:
    with pytest.raises(NotFoundError) as caught:
        find_functions(Image.from_bytes(ElfBuilder().build()), "main")
    assert caught.value.hint == "it has no function symbols; give an address instead"


def test_functions_of_an_object_file_are_where_its_sections_are_laid_out() -> None:
    elf = ElfBuilder(type=ET_REL)
    for name in ("one", "two"):
        elf.section(f".text.{name}", bytes(0x18), executable=True, alignment=16)
        elf.symbol(name, 4, section=f".text.{name}", size=8, type=STT_FUNC)
    image = Image.from_bytes(elf.build())
    assert find_functions(image, "one") == [(0x4, 8)]
    assert find_functions(image, "two") == [(0x24, 8)]
    assert place_name(Target(image, "x.o"), 0x25) == "two+0x1"
    assert place_name(Target(image, "x.o"), 0x30) is None


def test_addresses_of_a_process_are_its_own(library: str) -> None:
    target = Target(Image.open(library), "library.so", bias=0x7F0000000000)
    assert find_place(target, "0x7f0000001004") == 0x1004
    assert find_place(target, "enter+4") == 0x1004
    with pytest.raises(NotFoundError, match="loaded from 0x7f0000000000 on"):
        find_place(target, "0x1004")
    with pytest.raises(UsageError) as caught:
        find_place(target, "init")
    assert caught.value.hint == "give one's address: 0x7f0000001020, 0x7f0000001030"
    error = not_covered(target, frame_sections(target.image), 0x1068)
    assert "covers 0x7f0000001068, which is 0x1068 in the file" in error.message
    assert error.hint is not None
    assert "0x7f0000001050..0x7f0000001060" in error.hint or "0x7f0000001070..0x7f0000001080" in error.hint


def test_the_nearest_function_is_named(library: str) -> None:
    target = open_target(library)
    error = not_covered(target, frame_sections(target.image), 0x1063)
    assert (error.file, error.message) == (library, "no unwind table covers 0x1063")
    assert error.hint == "the nearest function that has a table is add, 0x1050..0x1060"


def test_a_typing_error_in_a_file_name(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(library).parent
    wrong = str(folder / "libary.so")
    with pytest.raises(NotFoundError) as caught:
        open_target(wrong)
    assert (caught.value.file, caught.value.hint) == (wrong, f"did you mean {library}?")
    monkeypatch.chdir(folder)
    with pytest.raises(NotFoundError) as caught:
        open_target("libary.so")
    assert caught.value.hint == "did you mean library.so?"
    for name in ("libary.so/x", "no/such/folder", "nul\0l"):
        with pytest.raises(NotFoundError) as caught:
            open_target(name)
        assert caught.value.hint == "check the path"


# This very process, whose C library calls getpid.

PID = os.getpid()


def address_of(function: str) -> int:
    address = ctypes.cast(getattr(ctypes.CDLL(None), function), ctypes.c_void_p).value
    assert address is not None
    return address


def test_the_module_at_an_address() -> None:
    address = address_of("getpid")
    target = module_at(PID, address)
    symbols = target.image.symbols()
    names = symbols.names(range(len(symbols)))
    assert address - target.bias in {int(symbols.address[i]) for i, name in enumerate(names) if name.endswith("getpid")}


def test_a_module_by_its_name() -> None:
    at = module_at(PID, address_of("getpid"))
    for name in (at.name, os.path.basename(at.name)):
        assert (open_target(name, PID).name, open_target(name, PID).bias) == (at.name, at.bias)


def test_a_removed_module_is_read_from_memory(tmp_path: Path) -> None:
    # What then is at its path may be another version.
    original = Path(module_at(PID, address_of("deflate" if hasattr(ctypes.CDLL(None), "deflate") else "getpid")).name)
    copy = tmp_path / "copied.so"
    copy.write_bytes(original.read_bytes())
    ctypes.CDLL(str(copy))
    copy.unlink()
    copy.write_text("another file")
    target = open_target("copied.so", PID)
    assert target.name == f"{copy} (deleted)"
    table, expected = (frame_sections(image)[0] for image in (target.image, Image.open(original)))
    assert [(fde.start, fde.stop) for fde in table.fdes()] == [(fde.start, fde.stop) for fde in expected.fdes()]


def test_no_module() -> None:
    with pytest.raises(NotFoundError, match="has no module 'no such thing'") as caught:
        open_target("no such thing", PID)
    assert re.match("it has .*, ", str(caught.value.hint))
    with pytest.raises(UsageError, match="several modules 'lib'"):
        open_target("lib", PID)
    with pytest.raises(NotFoundError, match="0x10 is not mapped"):
        module_at(PID, 0x10)
    anonymous = ctypes.create_string_buffer(1 << 22)
    with pytest.raises(NotFoundError, match="not in a module"):
        module_at(PID, ctypes.addressof(anonymous) + (1 << 21))
