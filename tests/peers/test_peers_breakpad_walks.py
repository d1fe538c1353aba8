"""Breakpad's and rust-minidump's walkers with clew's ``STACK CFI``: the frames that clew finds, and an end at ``_start``.

A live process is written to a minidump, and its files' records to a symbol store. The walkers are minidump_stackwalk (Breakpad)
and minidump-stackwalk (rust-minidump), on the path or where bench/peers builds them.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from clew.image import Image
from clew.read.frames import read_table
from clew.target import Target, open_process
from clew.testing.minidump import MinidumpBuilder
from clew.walk import End, Stack, Walker
from clew.write.breakpad.cfi import stack_cfi

TOOLS = Path(__file__).parents[2] / "bench" / "peers" / "target" / "tools" / "bin"
PT_LOAD = 1

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the walk is of a program for x86-64")


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(TOOLS))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def identifier(build_id: bytes) -> str:
    """Breakpad's: the first 16 bytes as a GUID, and an age of 0."""
    guid = build_id[:16].ljust(16, b"\0")
    return (guid[3::-1] + guid[5:3:-1] + guid[7:5:-1] + guid[8:]).hex().upper() + "0"


def symbols(path: Path, ident: str) -> bytes:
    """A symbol file of one public symbol at the beginning, and all records."""
    with Image.open(path) as image:
        base = min(segment.address for segment in image.segments if segment.type == PT_LOAD) & -0x1000
        records = b"".join(stack_cfi(read_table(image, ".eh_frame"), base=base))
    return f"MODULE Linux x86_64 {ident} {path.name}\nPUBLIC 0 0 first\n".encode() + records


def dumped(live: Target) -> bytes:
    """The process as a minidump."""
    dump = MinidumpBuilder(live.machine)
    general = {number: live.machine.register_name(number) for number in range(16)}
    for thread in live.threads:
        pointer = thread.registers[live.machine.stack_pointer]
        size = min(live.stack_limits[thread.id][1] - pointer, 1 << 16)
        values = {name: thread.registers[number] for number, name in general.items()}
        dump.thread(thread.id, {**values, "pc": thread.pc}, stack=(pointer, live.memory.read(pointer, size) or b""))
    for module in live.modules:
        dump.module(module.name, module.start, module.end - module.start, build_id=module.build_id)
    return dump.build()


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Stack]:
    """A folder with a dump and a store, and clew's walk of the same process."""
    folder = tmp_path_factory.mktemp("walks")
    program = shutil.which("sleep")
    if program is None:
        pytest.skip("there is no program to walk")
    child = subprocess.Popen([program, "100"])
    try:
        for _ in range(50):
            with open_process(child.pid) as live:
                stack = Walker(live).walk(live.threads[0])
                if len(stack.frames) > 3 and stack.end is End.ENTRY:
                    break
            time.sleep(0.1)
        with open_process(child.pid) as live:
            stack = Walker(live).walk(live.threads[0])
            (folder / "dump").write_bytes(dumped(live))
            for module in live.modules:
                path = Path(module.name)
                if module.build_id is None or not path.is_file():
                    continue
                ident = identifier(module.build_id)
                place = folder / "store" / path.name / ident / f"{path.name}.sym"
                place.parent.mkdir(parents=True)
                place.write_bytes(symbols(path, ident))
    finally:
        child.kill()
        child.wait()
    if len(stack.frames) <= 3 or stack.end is not End.ENTRY:
        pytest.skip("clew's own walk is not whole here")
    return folder, stack


def modules(stack: Stack) -> list[str]:
    return [Path(frame.module.name).name if frame.module is not None else "" for frame in stack.frames]


def test_breakpads_walker_ends_where_clew_does(walked: tuple[Path, Stack]) -> None:
    folder, stack = walked
    command = [tool("minidump_stackwalk"), "-m", str(folder / "dump"), str(folder / "store")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    frames = [line.split("|") for line in run.stdout.splitlines() if line.startswith("0|")]
    assert [frame[2] for frame in frames] == modules(stack)


def test_rust_minidumps_walker_ends_where_clew_does(walked: tuple[Path, Stack]) -> None:
    folder, stack = walked
    command = [tool("minidump-stackwalk"), "--json", str(folder / "dump"), str(folder / "store")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    frames = json.loads(run.stdout)["threads"][0]["frames"]
    assert [frame["module"] for frame in frames] == modules(stack)
    assert {frame["trust"] for frame in frames} == {"context", "cfi"}
