"""The in-process library's tables: those that it builds say what clew's own say, those of the cache are used, or refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import unwind_programs as programs

import clew
from clew.read.packed.checksum import crc32
from clew.read.packed.layout import CHECKED_FROM
from clew.read.packed.table import PackedTable
from clew.write.packed import packed


def _library(name: str) -> Path:
    for directory in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu"):
        if (Path(directory) / name).exists():
            return Path(directory) / name
    pytest.skip(f"{name} is not installed")


def _packed(path: Path) -> bytes:
    with clew.open_image(path) as image:
        return packed(clew.read_table(image), image)


def _built(path: Path) -> PackedTable:
    """The table that the library builds of a file when it is loaded."""
    out = programs.ROOM / "built"
    out.mkdir(exist_ok=True)
    assert programs.run([programs.program("rows"), out, path]) == "ok\n"
    return _opened(out / f"{path.name}.packed")


def _opened(path: Path) -> PackedTable:
    """A table that was built; it has no checksum, nor needs one."""
    data = bytearray(path.read_bytes())
    data[12:16] = crc32(memoryview(data)[CHECKED_FROM:]).to_bytes(4, "little")
    return PackedTable(bytes(data))


@pytest.mark.parametrize(
    "name",
    [
        "libc.so.6",
        "libz.so.1",
        "libgcc_s.so.1",
        "libstdc++.so.6",
        "libpython3.11.so.1.0",
        pytest.param("libcrypto.so.3", marks=pytest.mark.slow),
        pytest.param("libLLVM-14.so.1", marks=pytest.mark.slow),
    ],
)
def test_built_tables_say_the_same(name: str) -> None:
    path = _library(name)
    built, written = _built(path), PackedTable(_packed(path))
    assert not list(clew.compare(built.table(), written.table()))
    assert built.build_id == written.build_id
    for segment in written.parts["segments"]:
        start, size = int(segment["start"]), int(segment["size"])
        for address in random.Random(5).sample(range(start, start + size), 300):
            assert built.rules[built.find(address)] == written.rules[written.find(address)]


@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6", "libgcc_s.so.1"])
@pytest.mark.slow
def test_built_tables_say_the_same_on_aarch64(name: str, tmp_path: Path) -> None:
    path = Path("/usr/aarch64-linux-gnu/lib") / name
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    assert programs.emulated("rows", tmp_path, name) == "ok\n"
    built = _opened(tmp_path / f"{name}.packed")
    assert not list(clew.compare(built.table(), PackedTable(_packed(path)).table()))


def _cache(home: Path, path: Path, data: bytes) -> Path:
    with clew.open_image(path) as image:
        assert image.build_id is not None
        name = image.build_id.hex()
    file = home / "clew" / "tables" / name[:2] / f"{name[2:]}.packed"
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    return file


def test_cache_is_used(tmp_path: Path) -> None:
    file = _cache(tmp_path, _library("libc.so.6"), _packed(_library("libc.so.6")))
    assert str(file) in programs.run([programs.program("maps")], XDG_CACHE_HOME=str(tmp_path))


@pytest.mark.parametrize(
    "damage", ["a bit", "the end", "the machine", "everything", "another's", "of other sections", "writable"]
)
def test_damaged_cache_is_not(tmp_path: Path, damage: str) -> None:
    data = bytearray(_packed(_library("libc.so.6")))
    if damage == "a bit":
        data[len(data) // 2] ^= 4
    elif damage == "the end":
        del data[-100:]
    elif damage == "the machine":
        data[10] = 3 - data[10]
        data[12:16] = crc32(memoryview(data)[CHECKED_FROM:]).to_bytes(4, "little")
    elif damage == "everything":
        data = bytearray(random.Random(1).randbytes(5000))
    elif damage == "of other sections":
        data[120:124] = b"\1\2\3\4"
        data[12:16] = crc32(memoryview(data)[CHECKED_FROM:]).to_bytes(4, "little")
    elif damage == "another's":
        data = bytearray(_packed(_library("libz.so.1")))
    file = _cache(tmp_path, _library("libc.so.6"), bytes(data))
    if damage == "writable":
        file.chmod(0o666)
    assert str(file) not in programs.run([programs.program("maps")], XDG_CACHE_HOME=str(tmp_path))
    assert programs.run([programs.program("agree")], XDG_CACHE_HOME=str(tmp_path)) == "ok\n"


def _sections(path: Path) -> list[tuple[int, int]]:
    """Where .eh_frame_hdr and .eh_frame lie in a file: offset and size."""
    with clew.open_image(path) as image:
        found = [image.section(name) for name in (".eh_frame_hdr", ".eh_frame")]
        return [(section.offset, section.size) for section in found if section is not None]


def _mutants(count: int, directory: Path) -> list[Path]:
    """Copies of a library with something else in its call frame information."""
    path, rng = programs.plugin(200), random.Random(11)
    paths = []
    for number in range(count):
        data = bytearray(path.read_bytes())
        for _ in range(1 + number % 5):
            offset, size = rng.choice(_sections(path))
            at = offset + rng.randrange(size)
            if number % 3:
                data[at] = rng.choice((0, 0xFF, 0x7F, 0x80, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
            else:
                end = min(at + 4, offset + size)
                data[at:end] = rng.randbytes(end - at)
        paths.append(directory / f"mutant-{number}.so")
        paths[-1].write_bytes(data)
    return paths


def test_damaged_eh_frame(tmp_path: Path) -> None:
    assert programs.run([programs.program("broken"), *_mutants(150, tmp_path)]) == "ok\n"


@pytest.mark.slow
def test_damaged_eh_frame_sanitized(tmp_path: Path) -> None:
    assert (
        programs.run([programs.program("broken", programs.SANITIZED), *_mutants(600, tmp_path)], timeout=300) == "ok\n"
    )


def test_another_program(tmp_path: Path) -> None:
    binary = programs.program("remote")
    (tmp_path / "exe.packed").write_bytes(_packed(binary))
    (tmp_path / "libc.so.6.packed").write_bytes(_packed(_library("libc.so.6")))
    assert programs.run([binary, tmp_path]) == "ok\n"
