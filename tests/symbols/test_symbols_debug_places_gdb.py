"""Where gdb finds a debug file, clew finds it; where gdb refuses one, clew does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.image import Image
from clew.symbols import Places, find_debug_information


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with programs with and without a build id, each stripped, and their debug files."""
    for tool in ("gcc", "gdb", "objcopy", "strip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("made")
    (folder / "a.c").write_text("int main(void) { return 0; }\n")
    for name, build_id in (("named", "sha1"), ("nameless", "none")):
        whole, stripped, debug = folder / "whole", folder / name, folder / f"{name}.debug"
        subprocess.run(["gcc", "-g", f"-Wl,--build-id={build_id}", "-o", whole, folder / "a.c"], check=True)
        subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
        subprocess.run(["strip", "-o", stripped, whole], check=True)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    return folder


def found_by_gdb(program: Path, directory: Path) -> str | None:
    settings = ["set debuginfod enabled off", f"set debug-file-directory {directory}"]
    options = [part for each in settings for part in ("-iex", each)]
    done = subprocess.run(
        ["gdb", "-nx", "-q", *options, "-ex", "quit", program],
        stdin=subprocess.DEVNULL,
        env=os.environ | {"HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = re.findall(r"Reading symbols from (.*)\.\.\.", done.stdout)
    if not said:
        pytest.skip("gdb does not say here what it reads")
    return os.path.normpath(said[1]) if len(said) > 1 else None


@pytest.mark.parametrize("change", ["none", "wrong"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("named", "debug/.build-id/{id}.debug"),
        ("named", "bin/named.debug"),
        ("nameless", "bin/nameless.debug"),
        ("nameless", "bin/.debug/nameless.debug"),
        ("nameless", "debug{bin}/nameless.debug"),
    ],
)
def test_as_gdb(name: str, place: str, change: str, made: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / name
    program.parent.mkdir()
    shutil.copy(made / name, program)
    image = Image.open(program)
    build_id = (image.build_id or bytes(20)).hex()
    debug = tmp_path / place.format(id=f"{build_id[:2]}/{build_id[2:]}", bin=program.parent)
    debug.parent.mkdir(parents=True, exist_ok=True)
    data = (made / f"{name}.debug").read_bytes()
    if change == "wrong":
        data = data.replace(bytes.fromhex(build_id), bytes(20)) if name == "named" else data + b"\0"
    debug.write_bytes(data)
    theirs = found_by_gdb(program, tmp_path / "debug")
    ours = find_debug_information(image, Places((str(tmp_path / "debug"),)))
    assert theirs == (str(debug) if change == "none" else None)
    assert (None if ours.dwarf is None else ours.dwarf.name) == theirs
    assert ours.symbols is ours.dwarf
