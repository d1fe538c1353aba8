"""What every target has, wherever it comes from: threads, memory, modules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from weakref import WeakKeyDictionary

from clew.arch import Machine
from clew.errors import Error, Problem
from clew.image import Image
from clew.image.elf import PF_W, PT_LOAD
from clew.memory import Memory
from clew.read.frames import unwind_tables
from clew.table import Table, merge


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread, as it stands.

    Attributes:
        id: the system's number of it.
        registers: DWARF number to value; one that is not here is unknown. The pc is :attr:`pc`.
        pc: where it stands.
        name: the thread's name, if known.
        interrupted_call: whether the kernel restarts or ends a system call here: the pc may then lie behind the instruction.
    """

    id: int
    registers: Mapping[int, int]
    pc: int
    name: str | None = None
    interrupted_call: bool = False


_tables: WeakKeyDictionary[Image, Table | Error] = WeakKeyDictionary()
"""The unwind tables of files: all modules of a file have the same."""


@dataclass(eq=False)
class Module:
    """A file, or a part of memory with code, that is loaded.

    Attributes:
        name: its path in the target, or a name such as ``[vdso]``.
        start, end: the addresses that it takes, from its first mapping to the end of its last.
        bias: what to add to an address of the file to get the one in memory. It is negative for a file that lies below
            the addresses it was linked for, such as the vdso of older kernels.
        build_id: as the target knows it, or None.
        open_image: opens the file; raises Error where there is none that fits.
        debug_id: its name and id in stores of Breakpad symbol files, where the target tells them.
    """

    name: str
    start: int
    end: int
    bias: int
    build_id: bytes | None = None
    open_image: Callable[[], Image] | None = field(default=None, repr=False)
    debug_id: tuple[str, str] | None = None

    @cached_property
    def _image(self) -> Image | Error:
        if self.open_image is None:
            return Error("its file was not found", file=self.name)
        try:
            return self.open_image()
        except Error as error:
            return error

    @property
    def image(self) -> Image | None:
        """The file, opened when first asked for; None where it cannot be had (:attr:`trouble` says why)."""
        return None if isinstance(self._image, Error) else self._image

    @property
    def trouble(self) -> Error | None:
        """Why the file or its table cannot be had, or None."""
        if isinstance(self._image, Error):
            return self._image
        return self._table if isinstance(self._table, Error) else None

    @cached_property
    def _table(self) -> Table | Error:
        image = self.image
        if image is None:
            return Error("its file was not found", file=self.name)
        table = _tables.get(image)
        if table is None:
            try:
                table = merge(unwind_tables(image))
            except Error as error:
                table = error
            _tables[image] = table
        return table

    @property
    def table(self) -> Table | None:
        """The unwind table, made when first asked for, in the file's own addresses; None where there is none."""
        return None if isinstance(self._table, Error) else self._table

    def constant(self, address: int, size: int) -> bytes | None:
        """Bytes in memory that are as they are in the file, since nobody can write to them, or None.

        Args:
            address: in memory.
        """
        image, linked = self.image, address - self.bias
        for segment in image.segments if image is not None else ():
            if segment.type == PT_LOAD and segment.address <= linked and linked + size <= segment.end:
                if segment.flags & PF_W or image is None:
                    return None
                try:
                    data = image.bytes_at(linked, size)
                except Error:
                    # It was closed.
                    return None
                return None if data is None else bytes(data)
        return None


class Modules(Sequence[Module]):
    """Modules by address. Where they overlap, the one that starts last counts."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = sorted(modules, key=lambda module: module.start)
        self._starts = [module.start for module in self._modules]

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._modules[index]

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules)

    def at(self, address: int) -> Module | None:
        """The module that an address is in, or None."""
        index = bisect_right(self._starts, address) - 1
        # Maps that lie around another are rare and few.
        for module in reversed(self._modules[max(0, index - 8) : index + 1]):
            if module.start <= address < module.end:
                return module
        return None


@dataclass
class Target:
    """A stopped machine.

    Attributes:
        kind: ``process``, ``core``, ``minidump`` or ``sample``.
        machine: whose registers the threads have.
        threads: its threads.
        memory: its memory.
        modules: what is loaded.
        code_mask: the bits of a code pointer that are pointer authentication, to be stripped (AArch64); 0 for none.
        stack_limits: addresses of a thread's stack (start, end) by thread id, where they are known.
        problems: what could not be read. It grows as files of modules are looked for.
        process_id: the process's number, if known.
        command: its command line, or its name, if known.
        signal: the number of the signal that stopped it for good, if one did.
        crashed: the id of the thread that it was dumped for, if known.
    """

    kind: str
    machine: Machine
    threads: list[Thread]
    memory: Memory
    modules: Modules
    code_mask: int = 0
    stack_limits: dict[int, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    on_close: Callable[[], None] | None = field(default=None, repr=False)
    process_id: int | None = None
    command: str | None = None
    signal: int | None = None
    crashed: int | None = None

    def close(self) -> None:
        """Lets go of the target: a process goes on, a dump is closed. Files of modules stay open while somebody has them."""
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            on_close()

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
