"""The modules of sampled processes: files of which code is mapped, each opened once for all processes that have it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from posixpath import normpath

from clew.arch import Machine
from clew.errors import Error, Problem
from clew.image import Image
from clew.target.loaded_file import bias_of
from clew.target.model import Module, Modules
from clew.target.module_files import ModuleFiles, Path, opened
from clew.target.perfdata.records import Mapped, same_file
from clew.target.perfdata.vdso import own_vdso

VDSO = "[vdso]"


def is_file(mapping: Mapped) -> bool:
    """Whether a mapping is of a file with code, not of memory or a device that has a name."""
    path = mapping.path
    if not path.startswith("/") or path.startswith("//"):
        return False
    return not normpath(path).startswith(("/dev/", "/SYSV", "/proc/", "/sys/"))


class SharedFile:
    """A file, whose image is had once for all processes that map it.

    Attributes:
        name: its path, as the recording has it.
        build_id: as recorded, or None.
        image: the file, or why it cannot be had.
    """

    def __init__(self, name: str, build_id: bytes | None, open_image: Callable[[], Image]) -> None:
        self.name = name
        self.build_id = build_id
        self.image: Image | Error
        self._modules: dict[tuple[int, int, int], Module] = {}
        try:
            self.image = open_image()
        except Error as error:
            self.image = error

    def _bias(self, mapping: Mapped) -> int | None:
        """How far the file was moved, given which part of it is where; None where it has no such part."""
        if isinstance(self.image, Error):
            return None
        return bias_of(self.image, mapping.start, mapping.offset, code=True)

    def module(self, mapping: Mapped, end: int) -> Module:
        """The module of which a mapping is the first; the same for all that lie alike."""
        key = mapping.start, end, mapping.offset
        found = self._modules.get(key)
        if found is None:
            found = self._modules[key] = self._made(mapping, end)
        return found

    def _made(self, mapping: Mapped, end: int) -> Module:
        bias, found = self._bias(mapping), self.image
        if bias is None and isinstance(found, Image):
            found = Error("the file has no segment where one was mapped", file=self.name)
        bias = mapping.start - mapping.offset if bias is None else bias
        return Module(self.name, mapping.start, end, bias, self.build_id, partial(opened, found))


class Files:
    """Finds the files of modules of one machine.

    Args:
        machine: of the processes.
        report: told about files that do not fit.
        build_ids: as recorded, by path.
        release: of the kernel that was running, if it is known.
        exe: stands in for files of the same name, the last part of their path.
        sysroot, debug_dirs: as in :class:`clew.target.module_files.ModuleFiles`.
    """

    def __init__(
        self,
        machine: Machine,
        report: Callable[[Problem], None],
        build_ids: Mapping[str, bytes],
        release: str | None,
        exe: Path | None,
        sysroot: Path | None,
        debug_dirs: Iterable[Path],
    ) -> None:
        self._files = ModuleFiles(machine, report, exe=exe, sysroot=sysroot, debug_dirs=debug_dirs)
        self._machine = machine
        self._build_ids = build_ids
        self._release = release
        self._shared: dict[tuple[str, bytes | None], SharedFile] = {}

    def file_of(self, mapping: Mapped) -> SharedFile | None:
        """The file behind a mapping; None where it is none, such as code that was made at run time."""
        path = mapping.path
        if path != VDSO and not is_file(mapping):
            return None
        build_id = mapping.build_id or self._build_ids.get(path)
        key = path, build_id
        if key not in self._shared:
            if path == VDSO:
                opener = partial(own_vdso, self._machine, build_id, self._release)
            else:
                named = self._files.exe
                main = (
                    named is not None and named.rpartition("/")[2] == path.removesuffix(" (deleted)").rpartition("/")[2]
                )
                opener = partial(self._files.open, path, build_id, main=main)
            self._shared[key] = SharedFile(path, build_id, opener)
        return self._shared[key]

    def close(self) -> None:
        """Close all files."""
        for file in self._shared.values():
            if isinstance(file.image, Image):
                file.image.close()
        self._shared.clear()


class MappedModules(Modules):
    """The modules of a process, each made when something is looked up in it.

    A module's addresses are those of its code: where its data is, perf does not tell.

    Args:
        mappings: of code, sorted and without overlaps.
        files: finds what is behind them.
    """

    def __init__(self, mappings: list[Mapped], files: Files) -> None:
        super().__init__(())
        self._files = files
        self._first: list[Mapped] = []
        self._ends: list[int] = []
        for mapping in mappings:
            # Pieces of one file, which a change of protections has cut.
            if self._first and same_file(self._first[-1], mapping):
                self._ends[-1] = mapping.end
            else:
                self._first.append(mapping)
                self._ends.append(mapping.end)
        self._begins = [mapping.start for mapping in self._first]
        self._made: dict[int, Module | None] = {}

    def _module(self, index: int) -> Module | None:
        if index not in self._made:
            file = self._files.file_of(self._first[index])
            self._made[index] = file.module(self._first[index], self._ends[index]) if file is not None else None
        return self._made[index]

    def at(self, address: int) -> Module | None:
        """The module whose code an address is in, or None."""
        index = bisect_right(self._begins, address) - 1
        return self._module(index) if index >= 0 and address < self._ends[index] else None

    def read(self, address: int, size: int) -> bytes | None:
        """Code, as it is in a module's file, or None."""
        module = self.at(address)
        return None if module is None or address + size > module.end else module.constant(address, size)

    @cached_property
    def _all(self) -> list[Module]:
        found = (self._module(index) for index in range(len(self._first)))
        return [module for module in found if module is not None]

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._all[index]

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all)
