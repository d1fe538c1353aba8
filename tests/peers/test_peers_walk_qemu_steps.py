"""Programs of other machines, instruction by instruction: at each, the walk equals the calls that have not returned.

It goes through prologues and epilogues, between the instruction that signs a return address and the one that saves it,
leafs, the PLT and the dynamic linker's lazy binding, callbacks of the library, a signal's delivery and the trampoline behind
it; of programs with tables, and of some without, where the frame pointer and the code have to do.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from programs.gdb_steps import Step, steps
from programs.qemu_user import GUESTS, build
from programs.walks import function

from clew.walk import End, Interrupted

BARE = "-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions -fno-omit-frame-pointer"
TABLES = "-fasynchronous-unwind-tables"

slow = pytest.mark.slow

CASES = [
    pytest.param("aarch64", "-O2", marks=slow),
    ("aarch64", "-O2 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf"),
    pytest.param("aarch64", "-O1 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf+b-key", marks=slow),
    pytest.param("aarch64", "-O0 -mbranch-protection=standard", marks=slow),
    pytest.param("aarch64", "-O1 -fno-omit-frame-pointer", marks=slow),
    pytest.param("aarch64", "-O2 -static", marks=slow),
    pytest.param("aarch64", "-O2 -static-pie -mbranch-protection=pac-ret+leaf", marks=slow),
    pytest.param("aarch64", f"-O2 {BARE} -mbranch-protection=pac-ret+leaf", marks=slow),
    pytest.param("aarch64", f"-O0 {BARE}", marks=slow),
    ("i386", "-O2 -static"),
    pytest.param("i386", "-O2", marks=slow),
    pytest.param("i386", "-O0", marks=slow),
    ("s390x", "-O2"),
    pytest.param("s390x", "-O0", marks=slow),
    pytest.param("s390x", "-O2 -static -mbackchain", marks=slow),
    ("powerpc64", "-O2 -static"),
    pytest.param("powerpc64", "-O2", marks=slow),
    pytest.param("powerpc64", "-O0", marks=slow),
    ("riscv64", f"-O2 -static {TABLES}"),
    pytest.param("riscv64", f"-O0 -static {TABLES}", marks=slow),
    pytest.param("riscv64", f"-O1 -static -fno-omit-frame-pointer {TABLES}", marks=slow),
]


@pytest.mark.parametrize(("machine", "options"), CASES)
def test_every_instruction(machine: str, options: str, tmp_path: Path) -> None:
    program = build(GUESTS[machine], "tree.c", options, tmp_path / "it")
    count, signals = 0, 0
    wrong: Counter[str] = Counter()
    for step in steps(GUESTS[machine], program):
        count += 1
        signals += bool(step.interrupted)
        reason = differs(step)
        if reason and not _tables_lie(machine, step):
            wrong[reason] += 1
    assert not wrong, wrong.most_common(5)
    assert count > 400
    assert signals > 3


def differs(step: Step) -> str:
    """Why a walk is not what it should be, or the empty string."""
    frames = step.stack.frames
    found = [frame.pc.address for frame in frames]
    interrupted = [index for index, frame in enumerate(frames) if index and isinstance(frame.pc, Interrupted)]
    whole = step.stack.end is End.ENTRY
    if found[: len(step.pcs)] == step.pcs and whole and interrupted == step.interrupted:
        return ""
    names = [function(frame) for frame in frames]
    return (
        f"{[hex(pc) for pc in step.pcs]} but {[hex(pc) for pc in found]} {names} {step.stack.end} {step.stack.detail}"
    )


def _tables_lie(machine: str, step: Step) -> bool:
    """The C libraries' own rows that are wrong, or missing: then a walk may be short, but must not claim to be whole.

    i386: memcpy pushes eax, and its row still has the return address on top (glibc 2.36, sysdeps/i386/memcpy.S). Power: the
    last instruction of the loader's resolver, behind the one that takes the frame down (sysdeps/powerpc/powerpc64). RISC-V:
    most of Debian's libc has no rows; there, no caller may be wrong.
    """
    if step.stack.end is End.ENTRY:
        return False
    frames = step.stack.frames
    if machine == "i386":
        return len(frames) == 2 and frames[1].module is None
    if machine == "powerpc64":
        return len(frames) == 2 and frames[0].module is not None and frames[0].module.name.endswith("/ld64.so.2")
    if machine == "riscv64":
        return [frame.pc.address for frame in frames] == step.pcs[: len(frames)]
    return False


@pytest.mark.parametrize(
    ("machine", "options"),
    [
        ("riscv64", "-O0 -static"),
        pytest.param("riscv64", "-O2 -static -fno-omit-frame-pointer", marks=slow),
        pytest.param("aarch64", f"-O1 {BARE.replace('-fno-omit', '-fomit')}", marks=slow),
        pytest.param("powerpc64", f"-O0 -static {BARE}", marks=slow),
        pytest.param("powerpc64", f"-O2 -static {BARE.replace('-fno-omit', '-fomit')}", marks=slow),
        pytest.param("s390x", f"-O1 -static -mbackchain {BARE}", marks=slow),
        pytest.param("s390x", f"-O2 -static {BARE.replace('-fno-omit', '-fomit')}", marks=slow),
    ],
)
def test_without_tables_a_stack_is_short_rather_than_wrong(machine: str, options: str, tmp_path: Path) -> None:
    """Where neither a row nor a frame record tells the caller, the walk ends: it must not leave frames out.

    But for one place that the code cannot tell from another: in a function that has called itself, behind the call.
    """
    program = build(GUESTS[machine], "tree.c", options, tmp_path / "it")
    wrong = Counter(
        function(step.stack.frames[0])
        for step in steps(GUESTS[machine], program)
        for found in [[frame.pc.address for frame in step.stack.frames]]
        if found[: len(step.pcs)] != step.pcs[: len(found)] or (step.stack.end is End.ENTRY and differs(step))
    )
    assert wrong.pop("recurse", 0) <= 3
    assert not wrong
