"""Where compiled unwinders are put, and how they are found again."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compiled_runs import compiled

from clew.arch import machine_named
from clew.errors import Error
from clew.table import AtCfa, RegisterPlus, Rule, table_of
from clew.testing import ElfBuilder
from clew.write.compiled import Information, find_compiled, read_information
from clew.write.compiled.files import index_place, place_of, put, put_link, suffix, writable

X86_64 = machine_named("x86-64")
TABLE = table_of(X86_64, [(0x10, 0x20, Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16))])
# That of compiled_runs.
BUILD_ID = b"\xab\xcd"


def test_a_directory_mirrors_the_file_system(tmp_path: Path) -> None:
    real = tmp_path / "lib" / "it.so.1"
    real.parent.mkdir()
    real.touch()
    (tmp_path / "it.so").symlink_to("lib/it.so.1")
    out = tmp_path / "out"
    assert place_of(tmp_path / "it.so", out, ".clew-asm.so") == Path(f"{out}{tmp_path}/lib/it.so.1.clew-asm.so")
    assert place_of(tmp_path / "it.so", None, ".clew-c.so") == tmp_path / "lib" / "it.so.1.clew-c.so"


def test_build_ids_that_name_no_file() -> None:
    assert index_place("d", b"\x12\x34\x56", ".so") == Path("d/.build-id/12/3456.so")
    assert index_place("d", b"\x12", ".so") is None
    assert index_place("d", bytes(65), ".so") is None
    assert index_place("d", None, ".so") is None


@pytest.mark.parametrize("backend", ["asm", "c"])
def test_an_object_is_found_by_its_build_id(backend: str, tmp_path: Path) -> None:
    data = compiled(TABLE, backend, "full", True)
    end = suffix(backend, "full", True)  # type: ignore[arg-type]
    path = tmp_path / "lib" / f"it.so{end}"
    put(data, path)
    assert read_information(path) == Information(62, 0, True, 0x10, 0x20, 17, BUILD_ID)
    link = index_place(tmp_path, BUILD_ID, end)
    assert link is not None
    put_link(link, path)
    assert not os.path.isabs(os.readlink(link))
    assert find_compiled(tmp_path, BUILD_ID, deref=True) == link
    assert link.resolve() == path.resolve()
    for absent in ({"deref": False}, {"deref": True, "abi": "paper"}, {"deref": True, "backends": ()}):
        assert find_compiled(tmp_path, BUILD_ID, **absent) is None  # type: ignore[arg-type]
    assert find_compiled(tmp_path, b"\xab\xce", deref=True) is None
    # The object that is there is another file's.
    other = index_place(tmp_path, b"\xab\xce", end)
    assert other is not None
    put_link(other, path)
    assert find_compiled(tmp_path, b"\xab\xce", deref=True) is None


def test_files_that_are_no_compiled_unwinders(tmp_path: Path) -> None:
    path = index_place(tmp_path, BUILD_ID, suffix("asm"))
    assert path is not None
    assert read_information(path) is None
    data = compiled(TABLE, "asm", "full", False)
    for content in (b"", b"\x7fELF", ElfBuilder().build(), data[:500], data.replace(b"clewcode", b"clewcodf")):
        put(content, path)
        assert read_information(path) is None
        assert find_compiled(tmp_path, BUILD_ID) is None
    put(data, path)
    assert find_compiled(tmp_path, BUILD_ID) == path


def test_information_that_is_cut_or_of_another_version() -> None:
    data = Information(62, 1, False, 1, 2, 4, b"abc").pack()
    assert Information.unpack(data) == Information(62, 1, False, 1, 2, 4, b"abc")
    assert all(Information.unpack(data[:size]) is None for size in range(len(data)))
    assert Information.unpack(data[:8] + b"\2" + data[9:]) is None


def test_of_many_writers_one_counts(tmp_path: Path) -> None:
    path, link = tmp_path / "a" / "b" / "it", tmp_path / "c" / "d" / "link"
    contents = [bytes([n]) * 100_000 for n in range(16)]

    def write(content: bytes) -> bool:
        put(content, path)
        put_link(link, path)
        return link.read_bytes() in contents

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, contents * 4))
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["a", "b", "c", "d", "it", "link"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "it", tmp_path / ("x" * 300)):
        with pytest.raises(Error, match="cannot be written"):
            put(b"", path)
    with pytest.raises(Error, match="cannot be written"):
        put_link(tmp_path / "file" / "it", tmp_path / "file")
    assert not writable(Path("/proc/version/x/y"))
    assert writable(tmp_path / "new" / "folder" / "it")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
