"""Unwinding entries of 32-bit Arm against GNU readelf, and walks by them against libgcc's, under qemu."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs.gdb_steps import steps
from programs.qemu_user import GUESTS, build, run
from programs.walks import function

from clew.image import Image
from clew.read.arm_exidx import ExidxSection, decode, exidx_section
from clew.target import open_core
from clew.walk import End, FastWalker, Trust, Walker

READELF = shutil.which("arm-linux-gnueabihf-readelf")
LIBRARIES = Path("/usr/arm-linux-gnueabihf/lib")
ARM = GUESTS["arm"]

# abort has no entry of its own in glibc, so that libgcc stops there, too: the program dies by a bad pointer instead.
DIE = "-DDIE=(signal(SIGSEGV,SIG_DFL),*nowhere=1)"

OWN = ("leaf", "compare", "sort", "lay", "recurse", "floats", "handler", "signalled", "mark", "main")
"""Functions of tree.c."""

BUILDS = {
    "thumb": "-O2 -funwind-tables",
    "arm": "-O2 -marm -funwind-tables",
    "frame-pointer": "-O1 -marm -fno-omit-frame-pointer -funwind-tables",
    "plain": "-O0 -funwind-tables",
    "small": "-Os -funwind-tables",
}


def read(path: Path) -> ExidxSection:
    section = exidx_section(Image.open(path))
    assert section is not None
    return section


def printed(path: Path) -> Iterator[tuple[int, list[tuple[str, str]], str]]:
    """Start, instructions (bytes and words) and everything else of each entry that readelf prints."""
    assert READELF is not None
    done = subprocess.run([READELF, "-W", "-u", str(path)], check=True, capture_output=True, text=True, timeout=60)
    for part in re.split(r"^(?=0x[0-9a-f]+[: ])", done.stdout, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        instructions = re.findall(r"^  ((?:0x[0-9a-f]{2} )+) *(.+?) *$", body + "\n", flags=re.M)
        yield int(re.split(r"[ :]", head, maxsplit=1)[0], 16), instructions, part


def words(text: str) -> str:
    """Readelf's words as ours."""
    text = re.sub(r"vsp = vsp ([+-]) (-?[0-9]+)", r"vsp = vsp \1 \2", text)
    return text.replace("[cantunwind]", "")


def compare(path: Path) -> tuple[int, int]:
    """How many entries there are, and how many instructions were compared."""
    section = read(path)
    count = compared = 0
    entries = {entry.start: entry for entry in section.entries()}
    for start, instructions, text in printed(path):
        entry = entries[start & ~1]
        count += 1
        assert ("[cantunwind]" in text) == (entry.data is None), text
        model = re.search(r"Compact model index: (\d)", text)
        assert entry.model == (int(model[1]) if model else None), text
        routine = re.search(r"Personality routine: 0x([0-9a-f]+)", text)
        assert (entry.personality is None) == (routine is None), text
        if routine is not None:
            assert entry.personality == int(routine[1], 16) & ~1
        if instructions and entry.data is not None:
            ours = [(" ".join(f"0x{byte:02x}" for byte in data), str(what)) for _, data, what in decode(entry.data)]
            assert ours == [(data.strip(), words(what)) for data, what in instructions], text
            compared += len(ours)
    assert count == len(section)
    return count, compared


@pytest.mark.skipif(READELF is None, reason="needs arm-linux-gnueabihf-readelf")
@pytest.mark.parametrize(
    ("name", "entries"),
    [("libc.so.6", 800), ("libstdc++.so.6", 2500), ("libgcc_s.so.1", 30), ("ld-linux-armhf.so.3", 20)],
)
def test_every_entry_of_a_library(name: str, entries: int) -> None:
    path = LIBRARIES / name
    if not path.exists():
        pytest.skip(f"needs {path}")
    count, compared = compare(path)
    assert count >= entries
    assert compared > count // 2
    # Nothing is left out, and every row has a CFA.
    table = read(path).table()
    assert (table.problems, table.lost) == ((), 0)
    assert all(row.rule.cfa is not None for row in table)


CLEANUP = """
#include <stdlib.h>
static volatile int sink;
static void tidy(int *number) { sink = *number; }
void deep(int n);
void (*volatile next)(int) = deep;
int *volatile nowhere;
void deep(int n) {
  int kept __attribute__((cleanup(tidy))) = n;
  volatile char room[600];
  room[n] = 1;
  if (n) next(n - 1); else *nowhere = room[1];
}
int main(void) { deep(4); return 0; }
"""


@pytest.mark.skipif(READELF is None, reason="needs arm-linux-gnueabihf-readelf")
def test_entries_with_a_personality_routine(tmp_path: Path) -> None:
    """Readelf knows GCC's for C by its name, in a static program, and prints the instructions behind it."""
    compiler = shutil.which("arm-linux-gnueabihf-gcc")
    if compiler is None or shutil.which(ARM.qemu[0]) is None:
        pytest.skip("needs arm-linux-gnueabihf-gcc and qemu-arm")
    source, program = tmp_path / "it.c", tmp_path / "it"
    source.write_text(CLEANUP)
    command = [
        compiler,
        "-w",
        "-O1",
        "-static",
        "-fexceptions",
        "-fnon-call-exceptions",
        "-o",
        str(program),
        str(source),
    ]
    subprocess.run(command, check=True, timeout=120)
    count, _ = compare(program)
    assert count > 100
    generic = {entry.start for entry in read(program).entries() if entry.personality is not None}
    named = {start & ~1 for start, instructions, text in printed(program) if "Personality" in text and instructions}
    assert len(named) > 4
    assert named == generic
    # And they are what leads out of such a function.
    _, core = run(ARM, program, folder=tmp_path / "run")
    assert core is not None
    with open_core(core, exe=program, sysroot=ARM.sysroot) as target:
        stack = Walker(target).walk(target.threads[0])
    assert [function(frame) for frame in stack.frames][:6] == ["deep"] * 5 + ["main"]
    assert stack.end is End.ENTRY, stack.detail


@pytest.mark.parametrize("options", BUILDS.values(), ids=BUILDS.keys())
@pytest.mark.parametrize("way", ["abort", "leaf", "siginfo"])
def test_walks_are_those_of_libgcc(options: str, way: str, tmp_path: Path) -> None:
    program = build(ARM, "stacks.c", f"{options} {DIE} -pthread", tmp_path / "program")
    output, core = run(ARM, program, way, folder=tmp_path / "run")
    assert core is not None
    theirs = [int(line.split()[1], 16) & ~1 for line in output.splitlines() if line.startswith("frame ")]
    assert len(theirs) > 12
    with open_core(core, exe=program, sysroot=ARM.sysroot) as target:
        assert target.problems == []
        for walker in (Walker(target), FastWalker(target)):
            [stack] = [walker.walk(thread) for thread in target.threads]
            ours = [frame.pc.address for frame in stack.frames]
            assert stack.end is End.ENTRY, stack.detail
            # libgcc begins in the function that asks, which has gone on since; in a leaf it has not been.
            skipped = 2 if way == "leaf" else 1
            assert ours[skipped:-1] == theirs[skipped:]
            # And it does not show the outermost, which nobody called.
            module = stack.frames[-1].module
            assert module is not None
            assert module.image is not None
            assert ours[-1] - module.bias - (module.image.entry & ~1) in range(0x40)
            trusts = {frame.trust for frame in stack.frames[1:]}
            assert trusts <= {Trust.CFI, Trust.SIGNAL, Trust.LINK_REGISTER}


def test_a_thread(tmp_path: Path) -> None:
    program = build(ARM, "stacks.c", f"-O2 -funwind-tables {DIE} -pthread", tmp_path / "program")
    output, core = run(ARM, program, "thread", folder=tmp_path / "run")
    assert core is not None
    theirs = [int(line.split()[1], 16) & ~1 for line in output.splitlines() if line.startswith("frame ")]
    with open_core(core, exe=program, sysroot=ARM.sysroot) as target:
        stacks = [Walker(target).walk(thread) for thread in target.threads]
    assert len(stacks) == 2
    found = [[frame.pc.address for frame in stack.frames] for stack in stacks]
    # glibc says of start_thread that it cannot be unwound, and so does libgcc's walk end before it.
    assert any(pcs[1 : len(theirs)] == theirs[1:] for pcs in found)


@pytest.mark.parametrize(
    "options",
    [
        BUILDS["thumb"],
        pytest.param(BUILDS["arm"], marks=pytest.mark.slow),
        pytest.param(BUILDS["frame-pointer"], marks=pytest.mark.slow),
        pytest.param(BUILDS["plain"], marks=pytest.mark.slow),
        pytest.param("-O2 -static -funwind-tables", marks=pytest.mark.slow),
    ],
)
def test_every_instruction(options: str, tmp_path: Path) -> None:
    """In the program's own functions every walk is right; in the library's, of which some have no entry, none is wrong."""
    program = build(ARM, "tree.c", options, tmp_path / "it")
    whole = short = 0
    for step in steps(ARM, program):
        found = [frame.pc.address for frame in step.stack.frames]
        if step.stack.end is End.ENTRY:
            assert found[: len(step.pcs)] == step.pcs
            whole += 1
        else:
            assert found == step.pcs[: len(found)]
            assert function(step.stack.frames[0]) not in OWN
            short += 1
    assert whole > 400
    assert short < 1000
