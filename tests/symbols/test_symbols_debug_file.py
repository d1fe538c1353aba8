"""Where the debug file of a stripped one is found, and which file is none."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from clew.image import Image
from clew.symbols import FileNames, debug_link, find_debug_file
from clew.testing import ElfBuilder

BUILD_ID = bytes.fromhex("ab12cd34ef56ab12cd34ef56ab12cd34ef56ab12")


def note(build_id: bytes) -> bytes:
    """An ``NT_GNU_BUILD_ID`` note: sizes of name and contents, type 3, the name."""
    return b"\4\0\0\0" + len(build_id).to_bytes(4, "little") + b"\3\0\0\0GNU\0" + build_id


def elf(*, build_id: bytes | None = None, symbol: str | None = None, link: bytes | None = None) -> bytes:
    file = ElfBuilder()
    file.section(".text", bytes(0x100), address=0x1000, executable=True)
    if build_id is not None:
        file.section(".note.gnu.build-id", note(build_id), type=7)
    if symbol is not None:
        file.symbol(symbol, 0x1000, size=0x40, section=".text")
    if link is not None:
        file.section(".gnu_debuglink", link)
    return file.build()


def linked(name: bytes, checksum: int) -> bytes:
    """The contents of ``.gnu_debuglink``: the name, zeros up to a multiple of four, the checksum."""
    name += b"\0" * (4 - len(name) % 4)
    return name + checksum.to_bytes(4, "little")


def write(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def test_by_build_id(tmp_path: Path) -> None:
    stripped = write(tmp_path / "bin" / "tool", elf(build_id=BUILD_ID))
    place = tmp_path / "debug" / ".build-id" / "ab" / f"{BUILD_ID.hex()[2:]}.debug"
    image = Image.open(stripped)
    directories = [str(tmp_path / "empty"), str(tmp_path / "debug")]
    missing = find_debug_file(image, directories)
    assert missing.image is None
    assert [reason for _, reason in missing.tried] == ["there is no such file"] * 2
    assert missing.tried[1][0] == str(place)
    write(place, elf(build_id=BUILD_ID, symbol="hidden"))
    found = find_debug_file(image, directories)
    assert found.image is not None
    assert found.image.name == str(place)
    names = FileNames(image, found.image)
    name = names.at(0x1010)
    assert name is not None
    assert (name.function, name.offset) == ("hidden", 0x10)
    assert [(source.file, source.section) for source in names.sources] == [(str(place), ".symtab")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (elf(build_id=bytes(20), symbol="hidden"), f"has build id {bytes(20).hex()}, not {BUILD_ID.hex()}"),
        (elf(build_id=BUILD_ID), "has no symbols"),
        (elf(symbol="hidden"), "has no build id that says that it belongs to the file"),
        (b"no ELF file", "ELF"),
        (b"", "the file is empty"),
    ],
)
def test_files_that_are_not_taken(data: bytes, reason: str, tmp_path: Path) -> None:
    place = write(tmp_path / ".build-id" / "ab" / f"{BUILD_ID.hex()[2:]}.debug", data)
    image = Image.from_bytes(elf(build_id=BUILD_ID), "tool")
    found = find_debug_file(image, [str(tmp_path)])
    assert found.image is None
    [(path, why)] = found.tried
    assert path == place
    assert reason in why


@pytest.mark.parametrize(
    "place", ["bin/tool.debug", "bin/.debug/tool.debug", "debug/usr/bin/tool.debug", "debug/tool.debug"]
)
def test_by_its_name_and_checksum(place: str, tmp_path: Path) -> None:
    debug = elf(symbol="hidden")
    stripped = write(tmp_path / "bin" / "tool", elf(link=linked(b"tool.debug", crc32(debug))))
    write(tmp_path / place, debug)
    # It is not where it was when it ran.
    found = find_debug_file(Image.open(stripped), [str(tmp_path / "debug")], path="/usr/bin/tool")
    assert found.image is not None
    assert found.image.name == str(tmp_path / place)
    write(tmp_path / place, debug + b"\0")
    found = find_debug_file(Image.open(stripped), [str(tmp_path / "debug")], path="/usr/bin/tool")
    assert found.image is None
    assert (str(tmp_path / place), "has another checksum than .gnu_debuglink says") in found.tried


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"tool",
        b"\0\0\0\0\1\2\3\4",
        b"tool.debug\0\0\1\2",
        b"../../etc/x\0\1\2\3\4",
        b"/dev/zero\0\0\0\1\2\3\4",
        b"..\0\0\1\2\3\4",
    ],
)
def test_links_that_lead_nowhere(data: bytes) -> None:
    assert debug_link(Image.from_bytes(elf(link=data))) is None


def test_a_link() -> None:
    image = Image.from_bytes(elf(link=linked(b"a.debug", 0x12345678)))
    assert debug_link(image) == ("a.debug", 0x12345678)
    assert debug_link(Image.from_bytes(elf())) is None
