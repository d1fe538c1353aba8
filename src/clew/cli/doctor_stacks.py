"""What ``doctor`` notes of each stack: how it ended and where, and what its frames say of their modules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from clew.walk.model import End

if TYPE_CHECKING:
    from clew.cli.stack_names import FrameName, FrameNames
    from clew.image import Image
    from clew.target import Module
    from clew.walk import Stack

_MOST = 10_000

FileKey: TypeAlias = "Image | tuple[str, bytes | None]"
"""A file: as it was opened, or, where there is none, by its name and build id."""


@dataclass(slots=True)
class ModuleUse:
    """What frames say of the module that they are in.

    Attributes:
        module: it, or one of several that are loaded from the same file.
        frames: how many there were.
        guessed: how many of them have no row, and were left by something else than a rule.
        unnamed: addresses, the file's own, of those that no symbol names.
    """

    module: Module
    frames: int = 0
    guessed: int = 0
    unnamed: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Broken:
    """Stacks that ended at one place for one reason.

    Attributes:
        end, detail: the reason; the words are those of the first such stack.
        name: where.
        pc: the address in memory, of the first such stack.
        module: what that is in, if anything.
        innermost: whether it was the stack's only frame.
        count: how many such stacks there are.
        threads: whose they are, each once.
    """

    end: End
    detail: str
    name: FrameName
    pc: int
    module: Module | None
    innermost: bool
    count: int = 0
    threads: dict[int, None] = field(default_factory=dict)


@dataclass
class Observed:
    """All stacks, as far as the doctor wants to know.

    Attributes:
        names: of their frames.
        stacks: how many there were.
        ends: how many ended how.
        threads: whose they are, by end.
        uses: the modules, by their files.
        broken: those that are not whole.
    """

    names: FrameNames
    stacks: int = 0
    ends: Counter[End] = field(default_factory=Counter)
    threads: dict[End, dict[int, None]] = field(default_factory=dict)
    uses: dict[FileKey, ModuleUse] = field(default_factory=dict)
    broken: dict[tuple[End, FileKey | None, str | int | None], Broken] = field(default_factory=dict)

    def add(self, thread: int, stack: Stack, *, in_call: bool = False) -> None:
        """Note a stack.

        Args:
            thread: the number of its thread.
            in_call: whether the thread is in a system call.
        """
        self.stacks += 1
        self.ends[stack.end] += 1
        _note(self.threads.setdefault(stack.end, {}), thread)
        frames = stack.frames
        name: FrameName | None = None
        for index, frame in enumerate(frames):
            name = self.names.of_frame(frames, index, in_call=in_call)
            if frame.module is None:
                continue
            key = file_key(frame.module)
            use = self.uses.get(key)
            if use is None:
                use = self.uses[key] = ModuleUse(frame.module)
            use.frames += 1
            use.guessed += frame.rule is None and index + 1 < len(frames)
            if name.function is None and name.address is not None and len(use.unnamed) < _MOST:
                use.unnamed.add(name.address)
        if stack.end is End.ENTRY or name is None:
            return
        last = frames[-1]
        # A function has many addresses; what has no name is told by its address.
        place = name.function or (last.pc.address if name.address is None else name.address)
        there = (stack.end, None if last.module is None else file_key(last.module), place)
        broken = self.broken.get(there)
        if broken is None:
            if len(self.broken) >= _MOST:
                return
            made = Broken(stack.end, stack.detail, name, last.pc.address, last.module, len(frames) == 1)
            broken = self.broken[there] = made
        broken.count += 1
        _note(broken.threads, thread)


def file_key(module: Module) -> FileKey:
    """What modules of one file have in common."""
    return (module.name, module.build_id) if module.image is None else module.image


def _note(threads: dict[int, None], thread: int) -> None:
    if len(threads) < _MOST:
        threads[thread] = None
