"""Stacks of programs of other machines, frame for frame those that libgcc found in the program itself.

Each program prints what its own ``_Unwind_Backtrace`` sees and dies; qemu's user mode dumps a core of it, which is walked.
RISC-V's qemu dumps none: there, it is made of what its gdb stub tells. Where libgcc cannot tell, because it crashes, the names
of the functions can: they are known.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.qemu_user import GUESTS, build
from programs.walks import died, function, printed, same, stacks

from clew.walk import End, Stack

FAULTING = "-fasynchronous-unwind-tables -DDIE=(*nowhere=1)"

HANDLED = ("siginfo", "plain", "altstack", "raise")
"""Ways through a signal handler."""

OPTIONS = {
    "aarch64": (
        "-O2",
        "-O0",
        "-O1 -fno-omit-frame-pointer",
        "-O2 -fomit-frame-pointer",
        "-O2 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf",
        "-O2 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf+b-key",
        "-O0 -mbranch-protection=standard",
        "-O1 -fno-omit-frame-pointer -mbranch-protection=pac-ret+b-key",
        "-O2 -static",
        "-O2 -static-pie -mbranch-protection=standard",
    ),
    "i386": ("-O2", "-O0", "-O1 -fno-omit-frame-pointer", "-O2 -fomit-frame-pointer", "-O2 -static", "-O2 -static-pie"),
    "s390x": ("-O2", "-O0", "-O1 -fno-omit-frame-pointer", "-O2 -mbackchain", "-O2 -static"),
    "powerpc64": ("-O2", "-O0", "-O1 -fno-omit-frame-pointer", "-O2 -static"),
    "riscv64": (
        f"-O2 {FAULTING}",
        f"-O0 {FAULTING}",
        f"-O1 -fno-omit-frame-pointer {FAULTING}",
        f"-O2 -static {FAULTING}",
        f"-O2 -static-pie {FAULTING}",
    ),
}
WAYS = ("abort", "leaf", *HANDLED, "thread")

QUICK = {
    ("aarch64", "-O2 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf"),
    ("i386", "-O2"),
    ("s390x", "-O2"),
    ("powerpc64", "-O2"),
    ("riscv64", f"-O2 {FAULTING}"),
}


@pytest.mark.parametrize(
    ("machine", "options"),
    [
        pytest.param(machine, options, marks=() if (machine, options) in QUICK else (pytest.mark.slow,))
        for machine, several in OPTIONS.items()
        for options in several
    ],
)
def test_every_frame_is_libgccs(machine: str, options: str, tmp_path: Path) -> None:
    guest = GUESTS[machine]
    program = build(guest, "stacks.c", options, tmp_path / "it")
    stub = machine == "riscv64"
    for way in WAYS:
        # qemu stops whichever thread it is: the stub would have to be asked which. i386's often never ends.
        if way == "thread" and (stub or machine == "i386"):
            continue
        faults = (2 if way in ("siginfo", "plain", "altstack") else 1) if stub else 0
        text, target = died(guest, program, way, folder=tmp_path / way, faults=faults)
        assert target is not None, (way, "no core")
        theirs = printed(text)
        with target:
            found = stacks(target)
            # libgcc crashes in the signal frame of qemu 7.2; the handler and the trampoline are the last that it prints.
            if machine == "powerpc64" and way in HANDLED:
                _crosses_the_signal(way, [function(frame) for frame in found[0].frames])
            elif way == "leaf" and machine == "s390x" and found[0].end is End.UNKNOWN_REGISTER:
                # A leaf that has to save r11 keeps it in f0, which qemu leaves out of its cores.
                assert "r11" in found[0].detail
                assert [function(frame) for frame in found[0].frames] == ["leaf", "bridge"]
                continue
            elif way == "leaf":
                # It has printed, and gone on to the call of the leaf: its caller is the first that is still where it was.
                assert [function(frame) for frame in found[0].frames[:2]] == ["leaf", "bridge"]
                assert len(found[0].frames) == len(theirs), (way, same(found[0], theirs[2:]))
                assert not same(found[0], theirs[2:]), (way, same(found[0], theirs[2:]))
            else:
                assert not same(found[0], theirs[1:]), (way, same(found[0], theirs[1:]))
            assert found[0].end is End.ENTRY, (way, found[0].detail)
            if way == "thread":
                _main_waits(found[1:])


@pytest.mark.parametrize(
    "options",
    [
        "-O2",
        pytest.param("-O0", marks=pytest.mark.slow),
        pytest.param("-O2 -marm -fno-omit-frame-pointer", marks=pytest.mark.slow),
        pytest.param("-O0 -marm", marks=pytest.mark.slow),
        pytest.param("-O2 -static", marks=pytest.mark.slow),
    ],
)
def test_every_frame_on_arm(options: str, tmp_path: Path) -> None:
    """libgcc's tables there (.ARM.exidx) do not tell what was interrupted, and it leaves the frame out that has none.

    abort() has none either, so that the program dies of a bad address.
    """
    guest = GUESTS["arm"]
    program = build(guest, "stacks.c", f"{options} -g -funwind-tables {FAULTING}", tmp_path / "it")
    for way in WAYS:
        text, target = died(guest, program, way, folder=tmp_path / way)
        assert target is not None, (way, "no core")
        # It has printed, and its caller has called another.
        theirs = [frame.pc for frame in printed(text)[2 if way == "leaf" else 1 :]]
        with target:
            found = stacks(target)[0]
            ours = [frame.pc.address for frame in found.frames]
            names = [function(frame) for frame in found.frames]
            assert len(theirs) > 10
            assert ours[-len(theirs) - 1 : -1] == theirs, (way, names)
            assert len(ours) == len(theirs) + (3 if way == "leaf" else 2)
            if way != "thread":
                assert (names[-1], found.end) == ("_start", End.ENTRY), (way, found.detail)


def _crosses_the_signal(way: str, names: list[str]) -> None:
    handler = "without_context" if way == "plain" else "with_context"
    at = names.index(handler)
    assert names[at - 1] == "print"
    inner = names.index("bridge")
    assert names[inner - 1] == ("raise" if way == "raise" else "leaf")
    assert [name for name in names[inner:] if name in _CHAIN] == list(_CHAIN)
    assert at < inner <= at + 4


_CHAIN = ("bridge", "compare", "sort", "lay", *("recurse",) * 4, "floats", "begin", "main")


def _main_waits(others: list[Stack]) -> None:
    (main,) = others
    assert "main" in [function(frame) for frame in main.frames]
    assert main.end is End.ENTRY, main.detail


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("-O2", marks=pytest.mark.slow),
        pytest.param("-O0", marks=pytest.mark.slow),
        "-O2 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf+b-key",
        pytest.param("-O1 -fno-omit-frame-pointer -mbranch-protection=standard", marks=pytest.mark.slow),
        pytest.param("-O2 -static", marks=pytest.mark.slow),
    ],
)
def test_every_frame_of_cplusplus(options: str, tmp_path: Path) -> None:
    guest = GUESTS["aarch64"]
    program = build(guest, "stacks.cc", options, tmp_path / "it", compiler="g++")
    for way in ("callback", "cleanup", "caught", "terminate"):
        text, target = died(guest, program, way, folder=tmp_path / way)
        assert target is not None, (way, "no core")
        theirs = printed(text)
        assert len(theirs) > 5
        with target:
            (stack,) = stacks(target)
            assert not same(stack, theirs[1:]), (way, same(stack, theirs[1:]))
            assert stack.end is End.ENTRY, (way, stack.detail)


@pytest.mark.parametrize("way", ["abort", "leaf"])
def test_signed_return_addresses_were_there(way: str, tmp_path: Path) -> None:
    """qemu signs return addresses in earnest, so that the tests above do strip some. A signature may be 0, but not all."""
    guest = GUESTS["aarch64"]
    options = "-O2 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf"
    program = build(guest, "stacks.c", options, tmp_path / "it")
    _, target = died(guest, program, way, folder=tmp_path / way)
    assert target is not None
    with target:
        (stack,) = stacks(target)
    read = [word.value for frame in stack.frames for word in frame.reads if word.register == "x30"]
    assert any(value is not None and value >> 48 for value in read)


@pytest.mark.parametrize("options", ["-O2 -fomit-frame-pointer", "-O0", "-O1 -fno-omit-frame-pointer"])
def test_a_shadow_call_stack(options: str, tmp_path: Path) -> None:
    """libgcc crashes on it. The functions' names are known, and the shadow stack has their return addresses once more."""
    guest = GUESTS["aarch64"]
    shadow = "-fsanitize=shadow-call-stack -ffixed-x18 -fasynchronous-unwind-tables"
    program = build(guest, "shadow.c", f"{options} {shadow} --gcc-toolchain=/usr", tmp_path / "it", compiler="clang")
    _, target = died(guest, program, folder=tmp_path / "core")
    assert target is not None
    with target:
        (stack,) = stacks(target)
        names = [function(frame) for frame in stack.frames]
        expected = ["leaf", "third", "second", *("first",) * 5, "begin", "main"]
        assert names[: len(expected)] == expected
        assert stack.end is End.ENTRY, stack.detail
        # The leaf saves nothing; third and all up to begin have.
        for frame, after in zip(stack.frames[1:9], stack.frames[2:10], strict=True):
            top = frame.registers[18]
            word = target.memory.read(top - 8, 8) or b""
            assert int.from_bytes(word, "little") == after.pc.address
            assert after.registers[18] == top - 8
