"""The stacks of elfutils' cores, whose programs and call sequences are known.

``tests/backtrace-child.c`` of elfutils: main starts a thread and joins it; the thread goes from start through backtracegen
and stdarg to sigusr2, which raises a signal. eu-stack's output, beside the cores, repeats frames on AArch64.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from clew.target import open_core
from clew.walk import End, Stack, Walker

CORES = Path(__file__).parents[3] / "shared" / "corpus" / "elfutils-cores"

pytestmark = pytest.mark.skipif(not CORES.is_dir(), reason=f"the conformance corpus is not at {CORES}")

NAMES = ["aarch64", "aarch64.fp", "i386", "x86_64", "x86_64.fp"]
THREAD = ["raise", "sigusr2", "stdarg", "backtracegen", "start", "start_thread", "__clone"]
MAIN = ["pthread_join", "main", "__libc_start_main", "_start"]


def functions(stack: Stack) -> list[str]:
    """The names of the functions, frame by frame."""
    names = []
    for frame in stack.frames:
        image = None if frame.module is None else frame.module.image
        found = None
        if frame.module is not None and image is not None:
            found = image.symbols().at(frame.pc.lookup - frame.module.bias)
        names.append("?" if found is None or image is None else image.symbols().name(found[0]))
    return names


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_and_a_reason(name: str, tmp_path: Path) -> None:
    files = {}
    for kind in ("core", "exec"):
        files[kind] = tmp_path / kind
        files[kind].write_bytes(lzma.decompress((CORES / f"backtrace.{name}.{kind}.xz").read_bytes()))
    with open_core(files["core"], exe=files["exec"]) as target:
        walker = Walker(target)
        stacks = [walker.walk(thread) for thread in target.threads]
    with_vsyscall = ["__kernel_vsyscall"] if name == "i386" else []
    assert sorted(functions(stack) for stack in stacks) == sorted([with_vsyscall + MAIN, with_vsyscall + THREAD])
    for stack in stacks:
        assert stack.end is End.ENTRY, stack.detail
        assert len({frame.pc for frame in stack.frames}) == len(stack.frames)


@pytest.mark.parametrize("name", NAMES)
def test_what_eu_stack_finds_is_found(name: str, tmp_path: Path) -> None:
    """Every pc of eu-stack's text, but for the frames that it repeats."""
    files = {}
    for kind in ("core", "exec"):
        files[kind] = tmp_path / kind
        files[kind].write_bytes(lzma.decompress((CORES / f"backtrace.{name}.{kind}.xz").read_bytes()))
    theirs: list[list[int]] = []
    for line in (CORES / f"backtrace.{name}.eu-stack.txt").read_text().splitlines():
        if line.startswith("TID"):
            theirs.append([])
        elif line.startswith("#"):
            theirs[-1].append(int(line.split()[1], 16))
    with open_core(files["core"], exe=files["exec"]) as target:
        ours = [[frame.pc.address for frame in Walker(target).walk(thread).frames] for thread in target.threads]
    for stack in theirs:
        once = list(dict.fromkeys(stack))
        assert any(found[: len(once)] == once for found in ours)
