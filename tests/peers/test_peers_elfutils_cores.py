"""The cores of elfutils' own tests, of three machines: what clew reads of them is what readelf and elfutils say."""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.image import Image
from clew.target import open_target

CORES = Path(__file__).parents[3] / "shared/corpus/elfutils-cores"
NAMES = ["aarch64", "aarch64.fp", "i386", "x86_64", "x86_64.fp"]

pytestmark = pytest.mark.skipif(not CORES.is_dir(), reason="the corpus of cores is not here")


@pytest.fixture(scope="module", params=NAMES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A core, its program, and what eu-stack printed for it."""
    folder = tmp_path_factory.mktemp("cores")
    paths = []
    for kind in ("core", "exec"):
        path = folder / f"{request.param}.{kind}"
        path.write_bytes(lzma.decompress((CORES / f"backtrace.{request.param}.{kind}.xz").read_bytes()))
        paths.append(path)
    return paths[0], paths[1], (CORES / f"backtrace.{request.param}.eu-stack.txt").read_text()


def test_threads_and_modules(pair: tuple[Path, Path, str]) -> None:
    core, program, printed = pair
    with open_target(core, exe=program) as target, Image.open(program) as image:
        assert target.problems == []
        assert target.signal == 6  # SIGABRT: their test ends itself
        # eu-stack's first line of each thread is its pc.
        expected = {int(thread): int(pc, 16) for thread, pc in re.findall(r"TID (\d+):\n#0 +0x([0-9a-f]+)", printed)}
        assert {thread.id: thread.pc for thread in target.threads} == expected
        assert f"PID {target.process_id} - core" in printed
        main, vdso = sorted(target.modules, key=lambda module: module.name, reverse=False)
        # A program of a fixed address: not moved.
        assert (main.bias, main.build_id) == (0, image.build_id)
        assert main.image is not None
        assert main.image.name == str(program)
        assert vdso.name == "[vdso]"
        assert vdso.image is not None
        assert vdso.table is not None
        for thread in target.threads:
            module = target.modules.at(thread.pc)
            assert module in (main, vdso)
            start, end = target.stack_limits[thread.id]
            assert start <= thread.registers[target.machine.stack_pointer] < end


def test_without_the_program_the_code_is_unreadable(pair: tuple[Path, Path, str], tmp_path: Path) -> None:
    with open_target(pair[0], sysroot=tmp_path) as target:
        main = min(target.modules, key=lambda module: module.name)
        assert main.image is None
        # The page after the first is not in the core.
        assert target.memory.read(main.start + 0x1000, 4) is None
        assert target.memory.read(main.start, 4) == b"\x7fELF"


def test_another_program_is_told(pair: tuple[Path, Path, str], tmp_path: Path) -> None:
    """One byte of the build id changed."""
    data = bytearray(pair[1].read_bytes())
    with Image.open(pair[1]) as image:
        assert image.build_id is not None
        at = bytes(data).index(image.build_id)
    data[at] ^= 1
    other = tmp_path / "other"
    other.write_bytes(data)
    with open_target(pair[0], exe=other) as target:
        main = min(target.modules, key=lambda module: module.name)
        assert main.image is not None
        assert "build id" in target.problems[0].message


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_memory_is_what_objdump_shows(pair: tuple[Path, Path, str]) -> None:
    core, program, _ = pair
    with open_target(core, exe=program) as target:
        places = [(program, target.threads[0].pc), (program, target.threads[1].pc)]
        places += [(core, thread.registers[target.machine.stack_pointer]) for thread in target.threads]
        compared = 0
        for file, address in places:
            stop = address + 32
            command = ["objdump", "-s", f"--start-address={address:#x}", f"--stop-address={stop:#x}", str(file)]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            words = re.findall(r"^ [0-9a-f]+ ((?:[0-9a-f]+ ){1,5})", shown, re.MULTILINE)
            data = bytes.fromhex("".join(words).replace(" ", ""))
            if data:
                assert target.memory.read(address, len(data)) == data
                compared += 1
        assert compared >= 2
