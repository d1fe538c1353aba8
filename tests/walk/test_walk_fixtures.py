"""Programs of other machines that died, each with a handler on top of what the signal interrupted; no emulator is needed.

``fixtures/make.py`` built them from ``fixtures/it.c``, whose calls are these, and qemu dumped the cores. They have no libraries.
"""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

from clew.target import Target, open_core
from clew.walk import End, FastWalker, Interrupted, Stack, Walker

FIXTURES = Path(__file__).parent / "fixtures"

CALLS = ["again", "handler", "?", "leaf", "bridge", "lay", "recurse", "recurse", "recurse", "outer", "start", "_start"]
"""From the innermost: the handler returns to the trampoline, which is in no file."""

NAMES = [
    "aarch64",
    "aarch64-pac-a",
    "aarch64-pac-b",
    "aarch64-shadow",
    "aarch64-bare",
    "i386",
    "s390x",
    "s390x-bare",
    "powerpc64",
    "powerpc64-bare",
    "riscv64",
    "riscv64-bare",
    "arm",
    "arm-thumb",
]


def opened(name: str, folder: Path) -> Target:
    for kind in ("exe", "core"):
        (folder / kind).write_bytes(lzma.decompress((FIXTURES / f"{name}.{kind}.xz").read_bytes()))
    return open_core(folder / "core", exe=folder / "exe")


def functions(stack: Stack) -> list[str]:
    names = []
    for frame in stack.frames:
        image = None if frame.module is None else frame.module.image
        if frame.module is None or image is None:
            names.append("?")
            continue
        found = image.symbols().at(frame.pc.lookup - frame.module.bias)
        names.append("?" if found is None else image.symbols().name(found[0]))
    return names


@pytest.mark.parametrize("name", NAMES)
def test_every_call_of_the_source(name: str, tmp_path: Path) -> None:
    with opened(name, tmp_path) as target:
        (thread,) = target.threads
        stack = Walker(target).walk(thread)
        assert functions(stack) == CALLS, stack.detail
        assert stack.end is End.ENTRY, stack.detail
        assert [index for index, frame in enumerate(stack.frames) if isinstance(frame.pc, Interrupted)] == [0, 3]
        assert target.problems == []
        fast = FastWalker(target).walk(thread)
        assert [frame.pc for frame in fast.frames] == [frame.pc for frame in stack.frames]


@pytest.mark.parametrize("name", ["aarch64-pac-a", "aarch64-pac-b"])
def test_return_addresses_were_signed(name: str, tmp_path: Path) -> None:
    with opened(name, tmp_path) as target:
        frames = Walker(target).walk(target.threads[0]).frames
        loaded = [word.value or 0 for frame in frames for word in frame.reads if word.register == "x30"]
    assert any(value >> 48 for value in loaded)
    assert not any(frame.pc.address >> 48 for frame in frames)


def test_the_shadow_call_stack_has_the_same_return_addresses(tmp_path: Path) -> None:
    """What x18 pointed to when the signal came: an entry for each function that has saved its return address."""
    with opened("aarch64-shadow", tmp_path) as target:
        frames = Walker(target).walk(target.threads[0]).frames
        interrupted = frames[3]
        top = interrupted.registers[18]
        words = [target.memory.read(top - 8 * (index + 1), 8) or b"" for index in range(7)]
        # The leaf and the outermost frame save nothing.
        assert [int.from_bytes(word, "little") for word in words] == [frame.pc.address for frame in frames[5:]]
        # Each rule takes its own entry off.
        assert frames[-2].registers[18] == top - 8 * 6


def test_nothing_of_the_machine_that_made_them_is_in_them() -> None:
    """No path and no variable of its environment: a core has the stack, which begins with them."""
    for path in sorted(FIXTURES.glob("*.xz")):
        data = lzma.decompress(path.read_bytes())
        assert not re.findall(rb"/[a-z]{3,}/[\w.-]{3,}|[A-Z]{3,}=", data), path.name
