"""Packages and files of split units, and Breakpad's stores."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from debug_elves import elf, write

from clew.image import Image
from clew.symbols import find_split_file, find_split_package, find_symbol_file

UNIT = elf(None, _debug__info_dwo=b"\1" * 20)
PACKAGE = elf(None, _debug__info_dwo=b"\1" * 20, _debug__cu__index=b"\1" * 20)


@pytest.mark.parametrize(
    "place", ["bin/tool.dwp", "debug/tool.debug.dwp", "debug/tool.dwp", "more/usr/bin/tool.dwp", "more/tool.dwp"]
)
def test_a_package(place: str, tmp_path: Path) -> None:
    program = Image.open(write(tmp_path / "bin" / "tool", elf()))
    debug = Image.open(write(tmp_path / "debug" / "tool.debug", elf()))
    more = [str(tmp_path / "more")]
    missing = find_split_package([program, debug], more, path="/usr/bin/tool")
    assert missing.image is None
    assert {reason for _, reason in missing.tried} == {"there is no such file"}
    assert str(tmp_path / place) in [path for path, _ in missing.tried]
    write(tmp_path / place, PACKAGE)
    found = find_split_package([program, debug], more, path="/usr/bin/tool")
    assert found.image is not None
    assert found.image.name == str(tmp_path / place)


def test_packages_that_are_none(tmp_path: Path) -> None:
    program = Image.open(write(tmp_path / "tool", elf()))
    for data, reason in ((UNIT, "is no package: it has no index of units"), (PACKAGE[:-64], "is cut"), (b"", "empty")):
        write(tmp_path / "tool.dwp", data)
        found = find_split_package([program])
        assert found.image is None
        assert reason in found.tried[0].reason
    assert find_split_package([]).tried == ()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("obj/a.dwo", "build/obj/a.dwo"),
        ("obj/a.dwo", "bin/obj/a.dwo"),
        ("obj/a.dwo", "bin/a.dwo"),
        ("obj/a.dwo", "more/a.dwo"),
        ("obj/a.dwo", "more{build}/obj/a.dwo"),
        ("../a.dwo", "a.dwo"),
        ("{build}/a.dwo", "build/a.dwo"),
        ("{build}/a.dwo", "bin/a.dwo"),
    ],
)
def test_a_file(name: str, place: str, tmp_path: Path) -> None:
    program = Image.open(write(tmp_path / "bin" / "tool", elf()))
    build = str(tmp_path / "build")
    place = str(tmp_path / place.format(build=build))
    write(Path(place), UNIT)
    found = find_split_file(name.format(build=build), build, [program], [str(tmp_path / "more")])
    assert found.image is not None
    assert found.image.name == place


def test_a_file_of_another_unit_is_passed_by(tmp_path: Path) -> None:
    program = Image.open(write(tmp_path / "bin" / "tool", elf()))
    first = write(tmp_path / "build" / "a.dwo", UNIT)
    second = write(tmp_path / "bin" / "a.dwo", UNIT)

    def accept(image: Image) -> str | None:
        return "has another id" if image.name == first else None

    found = find_split_file("a.dwo", str(tmp_path / "build"), [program], accept=accept)
    assert found.image is not None
    assert found.image.name == second
    assert found.tried == ((first, "has another id"),)


@pytest.mark.parametrize(
    "name", ["", "/", "..", "a/..", "\0", "x" * 9000, "/dev/zero", "/proc/self/mem", "../" * 99 + "etc/passwd"]
)
@pytest.mark.parametrize("directory", [None, "", "relative", "/\0", "/nowhere"])
def test_hostile_names(name: str, directory: str | None, tmp_path: Path) -> None:
    program = Image.open(write(tmp_path / "bin" / "tool", elf()))
    found = find_split_file(name, directory, [program], [str(tmp_path)])
    assert found.image is None
    assert all(reason for _, reason in found.tried)


@pytest.mark.parametrize("version", ["4", "5"])
def test_what_gcc_makes(version: str, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source = tmp_path / "a.c"
    source.write_text("int main(void) { return 0; }\n")
    flags = ["-g", f"-gdwarf-{version}", "-gsplit-dwarf"]
    subprocess.run(["gcc", *flags, "-c", "-o", "a.o", source], check=True, cwd=tmp_path)
    subprocess.run(["gcc", "-o", "a", "a.o"], check=True, cwd=tmp_path)
    with Image.open(tmp_path / "a") as program:
        found = find_split_file("a.dwo", str(tmp_path), [program])
        assert found.image is not None
        assert found.image.name == f"{tmp_path}/a.dwo"
        # The dwp of binutils 2.40 dies of DWARF 5.
        tool = "dwp" if version == "4" else "llvm-dwp"
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
        subprocess.run([tool, "-e", "a", "-o", "a.dwp"], check=True, cwd=tmp_path, capture_output=True)
        package = find_split_package([program])
        assert package.image is not None, package.tried


ID = "5A4B3C2D5A4B3C2D5A4B3C2D5A4B3C2D0"


def record(identifier: str, name: str = "libc.so.6") -> bytes:
    return f"MODULE Linux x86_64 {identifier} {name}\nPUBLIC 1000 0 main\n".encode()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("libc.so.6", f"libc.so.6/{ID}/libc.so.6.sym"),
        ("/lib/x86_64-linux-gnu/libc.so.6", f"libc.so.6/{ID}/libc.so.6.sym"),
        ("c:\\build\\app.pdb", f"app.pdb/{ID}/app.sym"),
        ("APP.PDB", f"APP.PDB/{ID}/APP.sym"),
        ("libc.so.6", f"libc.so.6/{ID.lower()}/libc.so.6.sym"),
    ],
)
def test_a_symbol_file(name: str, place: str, tmp_path: Path) -> None:
    stores = [str(tmp_path / "empty"), str(tmp_path / "full")]
    write(tmp_path / "full" / place, record(ID))
    found = find_symbol_file(stores, name, ID)
    assert found.path == str(tmp_path / "full" / place)
    assert (f"{tmp_path}/empty/{place.replace(ID.lower(), ID)}", "there is no such file") in found.tried


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (record("0" * 33), f"has the id {'0' * 33}, not {ID}"),
        (b"\x7fELF", "does not begin with a MODULE record"),
        (b"MODULE Linux\n", "does not begin with a MODULE record"),
    ],
)
def test_symbol_files_that_are_not_taken(data: bytes, reason: str, tmp_path: Path) -> None:
    write(tmp_path / "a" / ID / "a.sym", data)
    found = find_symbol_file([str(tmp_path)], "a", ID)
    assert found.path is None
    assert found.tried[0].reason == reason


@pytest.mark.parametrize(
    ("name", "identifier"),
    [("", ID), ("..", ID), ("a/..", ID), ("a\0", ID), ("a", ""), ("a", "../../etc"), ("a", "x" * 33), ("a", "0" * 99)],
)
def test_names_and_ids_that_are_none(name: str, identifier: str, tmp_path: Path) -> None:
    found = find_symbol_file([str(tmp_path)], name, identifier)
    assert (found.path, found.tried) == (None, ())
