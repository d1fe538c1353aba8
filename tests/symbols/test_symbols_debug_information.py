"""Symbols and DWARF, which may be in different files; the supplementary files of dwz; and why a place did not serve."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from debug_elves import BUILD_ID, OTHER_ID, by_build_id, elf, linked, supplement, write

from clew.errors import Error
from clew.image import Image
from clew.symbols import (
    DebugFiles,
    DebuginfodSettings,
    Places,
    alternate_link,
    find_alternate_file,
    find_debug_information,
)
from clew.testing import ElfBuilder


def places(*directories: Path, urls: tuple[str, ...] = (), cache: Path | None = None) -> Places:
    servers = DebuginfodSettings(urls, str(cache)) if urls else None
    return Places(tuple(map(str, directories)), debuginfod=servers)


def names(found: DebugFiles) -> tuple[str | None, str | None]:
    return (
        None if found.symbols is None else found.symbols.name,
        None if found.dwarf is None else found.dwarf.name,
    )


def test_the_default_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    assert Places.default() == Places(("/usr/lib/debug",))
    assert Places.default(["/a", "/usr/lib/debug", "/a"], ["/s"]) == Places(("/a", "/usr/lib/debug"), ("/s",))
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://one")
    asked = Places.default().debuginfod
    assert asked is not None
    assert asked.urls == ("http://one",)


def test_everything_is_in_the_file_itself(tmp_path: Path) -> None:
    with Image.from_bytes(elf(symbol="here", dwarf=True), "tool") as image:
        found = find_debug_information(image, places(tmp_path))
        assert found == DebugFiles(image, image)
        assert found.tried == ()


def test_symbols_do_not_end_the_search_for_dwarf(tmp_path: Path) -> None:
    """The first directory has symbols without DWARF, the second DWARF without symbols, the third both."""
    for number, data in enumerate((elf(symbol="a"), elf(dwarf=True), elf(symbol="a", dwarf=True))):
        write(by_build_id(tmp_path / str(number)), data)
    paths = [str(by_build_id(tmp_path / str(number))) for number in range(3)]
    directories = [tmp_path / str(number) for number in range(3)]
    image = Image.from_bytes(elf(), "tool")
    found = find_debug_information(image, places(*directories))
    assert names(found) == (paths[0], paths[1])
    missing = "and no .gnu_debuglink"
    assert found.symbols_tried == (("tool", f"has no symbols, {missing}"),)
    assert found.dwarf_tried == (("tool", f"has no DWARF, {missing}"), (paths[0], "has no DWARF"))
    assert found.tried == (("tool", f"has no symbols, {missing}, has no DWARF, {missing}"), (paths[0], "has no DWARF"))
    assert names(find_debug_information(image, places(*directories[1:]))) == (paths[2], paths[1])
    assert names(find_debug_information(image, places(*directories[::-1]))) == (paths[2], paths[2])
    assert names(find_debug_information(image, places(*directories), dwarf=False)) == (paths[0], None)
    assert names(find_debug_information(image, places(*directories), symbols=False)) == (None, paths[1])
    with_symbols = Image.from_bytes(elf(symbol="here"), "tool")
    assert names(find_debug_information(with_symbols, places(*directories))) == ("tool", paths[1])


@pytest.mark.parametrize("section", ["_debug__info", "_debug__line", "_zdebug__info"])
def test_what_counts_as_dwarf(section: str) -> None:
    image = Image.from_bytes(elf(**{section: b"\1" * 20}), "tool")
    assert names(find_debug_information(image, places(), symbols=False)) == (None, "tool")


@pytest.mark.parametrize("section", ["_debug__str", "_debug__frame", "_eh__frame", "_debug__info__dwo"])
def test_what_does_not(section: str) -> None:
    image = Image.from_bytes(elf(**{section: b"\1" * 20}), "tool")
    assert names(find_debug_information(image, places(), symbols=False)) == (None, None)
    empty = Image.from_bytes(elf(_debug__info=b""), "tool")
    assert names(find_debug_information(empty, places(), symbols=False)) == (None, None)


def test_stabs_are_named() -> None:
    image = Image.from_bytes(elf(_stab=b"\1" * 12), "tool")
    [(_, reason)] = find_debug_information(image, places(), symbols=False).dwarf_tried
    assert reason.startswith("has debugging information in STABS, which is not read")


WHOLE = elf(symbol="hidden", dwarf=True)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (elf(OTHER_ID, symbol="hidden", dwarf=True), f"has build id {OTHER_ID.hex()}, not {BUILD_ID.hex()}"),
        (elf(None, symbol="hidden", dwarf=True), "has no build id that says that it belongs to the file"),
        (WHOLE[:-64], "is cut: its section headers are missing"),
        (WHOLE[:100], "is cut: its section headers are missing"),
        (elf(), "has no symbols, has no DWARF"),
        (b"", "the file is empty"),
        (b"#!/bin/sh\n" * 10, "this is not an ELF file"),
    ],
)
def test_why_a_place_does_not_serve(data: bytes, reason: str, tmp_path: Path) -> None:
    place = write(by_build_id(tmp_path), data)
    found = find_debug_information(Image.from_bytes(elf(), "tool"), places(tmp_path))
    assert names(found) == (None, None)
    assert dict(found.tried)[place] == reason


def test_special_files_and_directories(tmp_path: Path) -> None:
    place = by_build_id(tmp_path)
    place.parent.mkdir(parents=True)
    image = Image.from_bytes(elf(), "tool")
    os.mkfifo(place)
    assert dict(find_debug_information(image, places(tmp_path)).tried)[str(place)] == "this is not a regular file"
    place.unlink()
    place.mkdir()
    assert dict(find_debug_information(image, places(tmp_path)).tried)[str(place)] == "this is a directory"
    place.rmdir()
    place.symlink_to(place)
    assert "cannot open the file" in dict(find_debug_information(image, places(tmp_path)).tried)[str(place)]


def test_a_link_with_the_wrong_checksum(tmp_path: Path) -> None:
    debug = elf(None, symbol="hidden", dwarf=True)
    image = Image.from_bytes(elf(None, _gnu__debuglink=linked(b"tool.debug", crc32(debug))), f"{tmp_path}/bin/tool")
    beside, below = tmp_path / "bin" / "tool.debug", tmp_path / "bin" / ".debug" / "tool.debug"
    write(beside, debug + b"\0")
    write(below, debug)
    found = find_debug_information(image, places())
    assert names(found) == (str(below), str(below))
    assert found.tried[1:] == ((str(beside), "has another checksum than .gnu_debuglink says"),)


@pytest.mark.parametrize("where", ["", ".debug/"])
def test_a_link_of_a_file_with_a_relative_path(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debug = elf(None, symbol="hidden", dwarf=True)
    write(tmp_path / "bin" / where / "tool.debug", debug)
    write(tmp_path / "bin" / "tool", elf(None, _gnu__debuglink=linked(b"tool.debug", crc32(debug))))
    monkeypatch.chdir(tmp_path / "bin")
    for path in ("tool", "./tool", "../bin/tool"):
        with Image.open(path) as image:
            found = find_debug_information(image, places())
            assert found.dwarf is not None
            assert os.path.samefile(found.dwarf.name, tmp_path / "bin" / where / "tool.debug")


def test_a_file_that_would_take_minutes_to_check(tmp_path: Path) -> None:
    debug = Path(write(tmp_path / "tool.debug", elf(None, symbol="hidden")))
    try:
        os.truncate(debug, (1 << 34) + 1)
        Image.open(debug).close()
    except (OSError, Error):
        pytest.skip("so large a file cannot be made or mapped here")
    image = Image.from_bytes(elf(None, _gnu__debuglink=linked(b"tool.debug", 0)), f"{tmp_path}/tool")
    found = find_debug_information(image, places())
    debug.unlink()
    assert dict(found.tried)[str(debug)] == "is too large for its checksum to be computed"


@pytest.mark.parametrize("name", [b"../../etc/passwd", b"", b"..", b"/etc/passwd", b"x" * 9000])
def test_hostile_links_open_nothing(name: bytes, tmp_path: Path) -> None:
    for data in (linked(name, 0), name):
        image = Image.from_bytes(elf(None, _gnu__debuglink=data), f"{tmp_path}/bin/tool")
        found = find_debug_information(image, places(tmp_path))
        assert [path for path, _ in found.tried] == [image.name]
        assert "no build id, and no .gnu_debuglink" in found.tried[0].reason


@pytest.mark.parametrize("build_id", [b"\1", bytes(65), bytes(100_000)])
def test_build_ids_that_make_no_file_name(build_id: bytes, tmp_path: Path) -> None:
    found = find_debug_information(Image.from_bytes(elf(build_id), "tool"), places(tmp_path))
    assert [path for path, _ in found.tried] == ["tool"]


def test_servers_come_last_and_for_what_is_missing_only(tmp_path: Path) -> None:
    store = tmp_path / "store" / "buildid" / BUILD_ID.hex() / "debuginfo"
    write(store, elf(symbol="served", dwarf=True))
    local = write(by_build_id(tmp_path), elf(symbol="local"))
    where = places(tmp_path, urls=(f"file://{tmp_path}/store",), cache=tmp_path / "cache")
    image = Image.from_bytes(elf(), "tool")
    found = find_debug_information(image, where)
    assert names(found) == (local, f"{tmp_path}/cache/{BUILD_ID.hex()}/debuginfo")
    shutil.rmtree(tmp_path / "cache")
    assert names(find_debug_information(image, where, dwarf=False)) == (local, None)
    assert not (tmp_path / "cache").exists()
    # For the names of functions there is no download, where .gnu_debugdata has them.
    os.unlink(local)
    small = Image.from_bytes(elf(_gnu__debugdata=lzma.compress(elf(symbol="small"))), "tool")
    assert names(find_debug_information(small, where, dwarf=False)) == (None, None)
    assert not (tmp_path / "cache").exists()
    cut = Image.from_bytes(elf(_gnu__debugdata=lzma.compress(elf(symbol="small"))[:-9]), "tool")
    assert find_debug_information(cut, where, dwarf=False).symbols is not None


def test_what_servers_say_is_told(tmp_path: Path) -> None:
    where = places(urls=(f"file://{tmp_path}/store",), cache=tmp_path / "cache")
    found = find_debug_information(Image.from_bytes(elf(), "tool"), where)
    url = f"file://{tmp_path}/store/buildid/{BUILD_ID.hex()}/debuginfo"
    assert found.dwarf_tried[1:] == ((url, "there is no such file"),)
    assert found.symbols_tried[1:] == ((url, "there is no such file"),)


# Supplementary files


def alternate(name: bytes, build_id: bytes = OTHER_ID) -> bytes:
    return name + b"\0" + build_id


@pytest.mark.parametrize("section", ["_gnu__debugaltlink", "_debug__sup"])
@pytest.mark.parametrize("where", ["beside", "above", "absolute", "build id", "dwz", "machine", "folder"])
def test_a_supplementary_file(where: str, section: str, tmp_path: Path) -> None:
    name, place = {
        "beside": ("common.debug", tmp_path / "debug" / "usr" / "bin" / "common.debug"),
        "above": ("../../.dwz/common.debug", tmp_path / "debug" / ".dwz" / "common.debug"),
        "absolute": (f"{tmp_path}/x/common.debug", tmp_path / "x" / "common.debug"),
        "build id": ("/nowhere/common.debug", by_build_id(tmp_path / "more", OTHER_ID)),
        "dwz": ("/nowhere/common.debug", tmp_path / "more" / ".dwz" / "common.debug"),
        "machine": ("/usr/lib/debug/.dwz/cpu/common.debug", tmp_path / "more" / ".dwz" / "cpu" / "common.debug"),
        "folder": ("/nowhere/common.debug", tmp_path / "debug" / "usr" / "bin" / ".dwz" / "common.debug"),
    }[where]
    link = supplement if section == "_debug__sup" else alternate
    contents = elf(dwarf=True, **{section: link(name.encode(), OTHER_ID)})
    debug = write(tmp_path / "debug" / "usr" / "bin" / "tool.debug", contents)
    if section == "_debug__sup":
        # It has the checksum, and no build id.
        write(place, elf(None, dwarf=True, _debug__sup=supplement(b"", OTHER_ID, itself=True)))
    else:
        write(place, elf(OTHER_ID, dwarf=True))
    # Debug files are found by symbolic links in .build-id; a relative name is meant from the file itself.
    by_id = by_build_id(tmp_path / "ids")
    by_id.parent.mkdir(parents=True)
    by_id.symlink_to(debug)
    image = Image.from_bytes(elf(), "tool")
    found = find_debug_information(image, places(tmp_path / "ids", tmp_path / "more"))
    assert found.alternate is not None
    assert found.alternate.name == str(place)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (elf(BUILD_ID, dwarf=True), f"has build id {BUILD_ID.hex()}, not {OTHER_ID.hex()}"),
        (elf(None, dwarf=True), "has no build id"),
        (elf(OTHER_ID), "has no DWARF"),
        (elf(OTHER_ID, dwarf=True)[:-64], "is cut"),
        (b"root:x:0:0:", "this is not an ELF file"),
    ],
)
def test_supplementary_files_that_are_not_taken(data: bytes, reason: str, tmp_path: Path) -> None:
    place = write(tmp_path / "common.debug", data)
    image = Image.from_bytes(elf(dwarf=True, _gnu__debugaltlink=alternate(place.encode())), "tool")
    found = find_debug_information(image, places(tmp_path))
    assert names(found) == (None, "tool")
    assert found.alternate is None
    assert reason in dict(found.alternate_tried)[place]
    assert dict(found.alternate_tried)[str(by_build_id(tmp_path, OTHER_ID))] == "there is no such file"


@pytest.mark.parametrize("data", [b"", b"\0", b"name", b"\0" + OTHER_ID, b"x" * 9000])
def test_links_to_no_supplementary_file(data: bytes) -> None:
    assert alternate_link(Image.from_bytes(elf(_gnu__debugaltlink=data))) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\5\0\0",
        b"\5\0\0name",
        b"\4\0\0name\0\1\7",
        b"\5\0\2name\0\1\7",
        b"\5\0\0\0\1\7",
        b"\5\0\0name\0",
        b"\5\0\0name\0\5\7",
        b"\5\0\0name\0\xff\xff\xff\xff\xff\x7f",
        supplement(b"", OTHER_ID, itself=True),
    ],
)
def test_supplements_that_make_no_sense(data: bytes) -> None:
    assert alternate_link(Image.from_bytes(elf(_debug__sup=data))) is None


def test_a_link_that_nothing_could_confirm(tmp_path: Path) -> None:
    place = write(tmp_path / "common.debug", elf(OTHER_ID, dwarf=True))
    image = Image.from_bytes(elf(dwarf=True, _gnu__debugaltlink=alternate(place.encode(), b"")), "tool")
    found = find_alternate_file(image, places(tmp_path))
    assert found.image is None
    assert found.tried == ((place, ".gnu_debugaltlink says no build id by which it could be told"),)


def test_a_supplementary_file_from_a_server(tmp_path: Path) -> None:
    write(tmp_path / "store" / "buildid" / OTHER_ID.hex() / "debuginfo", elf(OTHER_ID, dwarf=True))
    where = places(urls=(f"file://{tmp_path}/store",), cache=tmp_path / "cache")
    image = Image.from_bytes(elf(dwarf=True, _gnu__debugaltlink=alternate(b"common.debug")), "tool")
    found = find_debug_information(image, where)
    assert found.alternate is not None
    assert found.alternate.name == f"{tmp_path}/cache/{OTHER_ID.hex()}/debuginfo"


@pytest.mark.parametrize("options", [[], ["--dwarf-5"]])
def test_what_dwz_makes(options: list[str], tmp_path: Path) -> None:
    for tool in ("gcc", "dwz", "objcopy"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    # dwz shares only what is worth it: many types with long names.
    types = "".join(
        f"struct a_rather_long_name_{n} {{ int first_of_{n}; long second_of_{n}; }} v{n};\n" for n in range(99)
    )
    files = []
    for name in ("one", "two"):
        source, program = tmp_path / f"{name}.c", tmp_path / name
        source.write_text(f"{types}int {name}(void) {{ return 1; }}\nint main(void) {{ return {name}(); }}\n")
        subprocess.run(["gcc", "-g", "-Wl,--build-id", "-o", program, source], check=True)
        files.append(program)
    made = tmp_path / "debug" / ".dwz" / "both"
    made.parent.mkdir(parents=True)
    command = ["dwz", *options, "-m", made, "-M", "/usr/lib/debug/.dwz/both", *files]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode or not made.exists():
        pytest.skip(f"dwz made no common file: {done.stderr.decode()}")
    with Image.open(files[0]) as image:
        link = alternate_link(image)
        assert link is not None
        assert (link.section, link.name) == (
            ".debug_sup" if options else ".gnu_debugaltlink",
            "/usr/lib/debug/.dwz/both",
        )
        found = find_debug_information(image, places(tmp_path / "debug"))
        assert found.dwarf is image
        assert found.alternate is not None
        assert found.alternate.name == str(made)
        assert found.alternate_tried[0].path == "/usr/lib/debug/.dwz/both"


def test_stores_are_looked_into_for_a_module_with_an_id(tmp_path: Path) -> None:
    image = Image.from_bytes(elf(), "tool")
    where = Places((), (str(tmp_path),))
    assert find_debug_information(image, places()).symbol_file_tried == ()
    # The first fields of the GUID, of 4, 2 and 2 bytes, have their bytes swapped: ab12cd34 ef56 ab12 cd34ef56ab12cd34.
    own = f"{tmp_path}/tool/34CD12AB56EF12ABCD34EF56AB12CD340/tool.sym"
    assert find_debug_information(image, where).symbol_file_tried[0] == (own, "there is no such file")
    write(Path(own), b"MODULE Linux x86_64 34CD12AB56EF12ABCD34EF56AB12CD340 tool\n")
    assert find_debug_information(image, where).symbol_file == own
    nothing = Image.from_bytes(ElfBuilder().build(), "tool")
    assert "neither a build id nor code" in find_debug_information(nothing, where).symbol_file_tried[0].reason
    path = f"{tmp_path}/tool/AB0/tool.sym"
    found = find_debug_information(image, where, debug_id=("tool", "AB0"))
    assert found.symbol_file is None
    assert (path, "there is no such file") in found.symbol_file_tried
    write(Path(path), b"MODULE Linux x86_64 AB0 tool\n")
    assert find_debug_information(image, where, debug_id=("tool", "AB0")).symbol_file == path


def test_mutated_files_raise_nothing(tmp_path: Path) -> None:
    made = {
        "_gnu__debuglink": linked(b"tool.debug", 5),
        "_gnu__debugaltlink": alternate(b"common"),
        "_debug__sup": supplement(b"common", OTHER_ID),
        "_gnu__debugdata": lzma.compress(elf(symbol="small")),
    }
    seed = elf(symbol="here", dwarf=True, **made)
    stripped = elf(None, _gnu__debuglink=linked(b"tool.debug", 5))
    random = Random(4)
    for turn in range(400):
        for path in (by_build_id(tmp_path), tmp_path / "tool.debug", tmp_path / "common"):
            write(path, mutated(seed, random))
        try:
            image = Image.from_bytes(mutated(seed if turn % 2 else stripped, random), f"{tmp_path}/tool")
        except Error:
            continue
        found = find_debug_information(image, places(tmp_path))
        assert all(path and reason for path, reason in found.tried)


def mutated(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice([1, 3, 20])):
        place = random.randrange(len(changed))
        changed[place] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
    return bytes(changed[: random.randrange(1, len(changed))] if random.random() < 0.2 else changed)
