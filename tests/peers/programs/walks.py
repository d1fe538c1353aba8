"""What the tests of walks under qemu share: libgcc's stack as a program printed it, and functions' names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from programs.gdb_stub import Stub
from programs.qemu_user import Guest, run

from clew.target import Target, open_core
from clew.walk import FastWalker, Frame, Interrupted, Stack, Walker

FAULT = 11
"""GDB's number of the signal of a bad address; Linux's, too."""


@dataclass(frozen=True)
class Printed:
    """A frame that libgcc's ``_Unwind_Backtrace`` found.

    Attributes:
        pc: where it stands.
        interrupted: whether it was interrupted, rather than called from.
        function: where its function begins, as the tables have it.
    """

    pc: int
    interrupted: bool
    function: int


def printed(text: str) -> list[Printed]:
    """The frames that a program printed last, from that of the function that printed them; without a last one at 0."""
    frames: list[Printed] = []
    for line in text.splitlines():
        if line == "stack":
            frames = []
        elif line.startswith("frame "):
            pc, before, function = line.split()[1:]
            frames.append(Printed(int(pc, 16), before == "1", int(function, 16)))
    while frames and not frames[-1].pc:
        frames.pop()
    return frames


def died(guest: Guest, program: Path, *arguments: str, folder: Path, faults: int = 0) -> tuple[str, Target | None]:
    """What a program printed, and the machine when it died.

    Args:
        faults: 0 for qemu's own core; otherwise the core is made through its gdb stub, at the fault of that number.
    """
    if not faults:
        text, core = run(guest, program, *arguments, folder=folder)
    else:
        folder.mkdir()
        core = folder / "core"
        with Stub(guest, program, *arguments) as stub:
            while faults:
                stub.go()
                if stub.signal is None:
                    raise AssertionError("the program has ended")
                faults -= stub.signal == FAULT
            stub.core(core)
            text = stub.output()
    if core is None:
        return text, None
    return text, open_core(core, exe=program, sysroot=guest.sysroot)


def stacks(target: Target) -> list[Stack]:
    """The stacks of its threads; the first is that of the one that died. Both walkers must find them."""
    walker, fast = Walker(target), FastWalker(target)
    found = [walker.walk(thread) for thread in target.threads]
    for thread, stack in zip(target.threads, found, strict=True):
        other = fast.walk(thread)
        assert ([frame.pc for frame in other.frames], other.end) == ([frame.pc for frame in stack.frames], stack.end)
    return found


def function(frame: Frame) -> str:
    """The name of the function that a frame is in."""
    module = frame.module
    image = None if module is None else module.image
    if module is None or image is None:
        return "?"
    symbols = image.symbols()
    found = symbols.at(frame.pc.lookup - module.bias)
    return "?" if found is None else symbols.name(found[0])


def same(stack: Stack, frames: list[Printed]) -> str:
    """Why the outer frames of a stack are not these, or the empty string."""
    count = len(frames)
    ours = [(frame.pc.address, isinstance(frame.pc, Interrupted)) for frame in stack.frames[-count:]]
    theirs = [(frame.pc, frame.interrupted) for frame in frames]
    if count and ours == theirs:
        return ""
    names = [function(frame) for frame in stack.frames]
    hexed = [[f"{pc:#x}{'!' if before else ''}" for pc, before in each] for each in (ours, theirs)]
    return f"{names} {stack.end.value} {stack.detail}\nours   {hexed[0]}\ntheirs {hexed[1]}"
