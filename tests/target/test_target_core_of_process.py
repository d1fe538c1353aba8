"""Cores made here of a live process, as qemu writes them and as Linux does: they tell what the process itself told."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from struct import iter_unpack

import pytest
from live_processes import Start

from clew.memory import process_mappings
from clew.target import Target, open_process
from clew.target.register_layouts import LAYOUTS
from clew.testing.core import CoreBuilder

pytestmark = pytest.mark.skipif(platform.architecture()[0] != "64bit", reason="the machine has not 64 bits")


def words_of(target: Target) -> Iterator[tuple[int, dict[str, int]]]:
    for thread in target.threads:
        names = {target.machine.register_name(number): value for number, value in thread.registers.items()}
        yield thread.id, {**names, LAYOUTS[target.machine.name].pc: thread.pc}


def dumped(
    pid: int, target: Target, *, files: bool, headers: bool, all_code: bool = False, read_only: bool = True
) -> CoreBuilder:
    """A core of a process that is held.

    Args:
        files: with ``NT_FILE``, else without.
        headers: with the first page of each file, else without.
        all_code: with everything that is mapped.
        read_only: with what is neither code nor writable, except a file's first part: the loader may have written to it.
    """
    core = CoreBuilder(target.machine)
    for thread, words in words_of(target):
        core.thread(thread, words)
    for mapping in process_mappings(pid):
        if mapping.path in ("[vvar]", "[vvar_vclock]", "[vsyscall]") or mapping.permissions[0] != "r":
            continue
        size = mapping.end - mapping.start
        is_file = mapping.path.startswith("/")
        wanted = size if all_code or "w" in mapping.permissions or not is_file else 0
        relro = read_only and is_file and "x" not in mapping.permissions and mapping.offset
        flags = sum(bit for bit, letter in ((4, "r"), (2, "w"), (1, "x")) if letter in mapping.permissions)
        # Of a large stack only what is in use.
        low = mapping.end - 0x8000 if not is_file and size > 1 << 20 else mapping.start
        if low > mapping.start:
            core.memory(mapping.start, size=low - mapping.start, flags=flags)
        data = b""
        if wanted or relro:
            data = target.memory.read(low, mapping.end - low) or b""
        elif headers and mapping.offset == 0:
            data = target.memory.read(low, 0x1000) or b""
        core.memory(low, data, size=mapping.end - low, flags=flags)
        if files and is_file:
            core.file(mapping.path, mapping.start, mapping.end, mapping.offset)
    core.auxv(dict(iter_unpack("=QQ", Path(f"/proc/{pid}/auxv").read_bytes())))
    return core


def facts(target: Target) -> dict[int, tuple[str, int, bytes | None]]:
    return {
        module.start: (os.path.basename(module.name), module.bias, module.image.build_id if module.image else None)
        for module in target.modules
    }


@pytest.mark.parametrize("files", [True, False])
@pytest.mark.parametrize("headers", [True, False])
def test_modules_are_those_of_the_process(start: Start, tmp_path: Path, files: bool, headers: bool) -> None:
    process = start("threads")
    assert isinstance(process.args, list)
    path = tmp_path / "core"
    with open_process(process.pid) as live:
        expected = facts(live)
        assert len(expected) >= 4  # the program, the C library, the loader, the vdso
        core = dumped(process.pid, live, files=files, headers=headers)
        with core.write(path, exe=process.args[0]) as target:
            assert target.problems == []
            # The loader may have another name in its own list than where it is mapped from.
            found = facts(target)
            assert {start: each[1:] for start, each in found.items()} == {
                start: each[1:] for start, each in expected.items()
            }
            assert [module.end for module in target.modules if module.name == "[vdso]"]
            for thread in live.threads:
                other = next(each for each in target.threads if each.id == thread.id)
                assert (other.pc, dict(other.registers)) == (thread.pc, dict(thread.registers))
                # Code comes out of the files, and the stack out of the core.
                assert target.memory.read(thread.pc, 8) == live.memory.read(thread.pc, 8)
                pointer = thread.registers[live.machine.stack_pointer]
                assert target.memory.read(pointer, 64) == live.memory.read(pointer, 64)
            assert target.stack_limits.keys() == live.stack_limits.keys()
            assert target.threads[0].id in target.stack_limits


def test_a_module_without_its_file_is_read_from_a_whole_core(start: Start, tmp_path: Path) -> None:
    process = start("threads")
    empty = tmp_path / "empty"
    empty.mkdir()
    with open_process(process.pid) as live:
        core = dumped(process.pid, live, files=True, headers=True, all_code=True)
        tables = {module.start: len(module.table.start) for module in live.modules if module.table is not None}
    with core.write(tmp_path / "core", sysroot=empty) as target:
        assert {
            module.start: len(module.table.start) for module in target.modules if module.table is not None
        } == tables
        assert target.problems == []
    # With the code left out, there is nothing to find it in; the hint tells where was looked.
    with open_process(process.pid) as live:
        core = dumped(process.pid, live, files=True, headers=True, read_only=False)
    with core.write(tmp_path / "core", sysroot=empty) as target:
        for module in target.modules:
            if module.name != "[vdso]":
                assert module.table is None
                assert str(empty) in str(module.trouble.hint if module.trouble else "")
