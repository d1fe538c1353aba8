"""Where the file of a module is found, and whether it is the one that was loaded.

A file of another build has another unwind table, and a walk with it finds frames that never were. So a file whose build
id is not the one in memory is refused, but for one that the user names: that one is used, and the problem is told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from posixpath import basename, normpath

from clew.arch import Machine
from clew.errors import Error, NotFoundError, Problem
from clew.image import Image
from clew.image.elf import ET_DYN, ET_EXEC
from clew.memory import Memory
from clew.read.arm_exidx import exidx_section

Path = str | os.PathLike[str]

Check = Callable[[Image], str | None]
"""Says why a file cannot be the one that was loaded, or None."""

_MAXIMUM_LOADED = 1 << 26
"""How much of a module is read from memory where its file cannot be had."""

_MAXIMUM_LOADED_TOGETHER = 1 << 28
"""How much of all modules: in a made-up core, all may show the same memory."""


class MissingFileError(NotFoundError):
    """No file of a module fits.

    Attributes:
        tried: the paths that were tried, each with what is wrong there.
    """

    tried: tuple[tuple[str, str], ...] = ()


def opened(found: Image | Error) -> Image:
    """A file that was looked for before; raises the error where it was not found."""
    if isinstance(found, Error):
        raise found
    return found


@dataclass(frozen=True, slots=True)
class ModulePlaces:
    """Where the user says that files of modules are: the arguments of :class:`ModuleFiles`."""

    exe: Path | None
    sysroot: Path | None
    debug_dirs: Iterable[Path]

    def files(self, machine: Machine, report: Callable[[Problem], None]) -> ModuleFiles:
        """What finds them."""
        return ModuleFiles(machine, report, exe=self.exe, sysroot=self.sysroot, debug_dirs=self.debug_dirs)


class ModuleFiles:
    """Finds the files of modules. Modules of one file share its image.

    Args:
        machine: the target's; a file for another is refused.
        report: told about files that do not fit.
        exe: the program's file, whatever the target calls it.
        sysroot: what to put before the names that the target has for its files; names are then looked up nowhere else.
        debug_dirs: directories to look in as well: for the name under them, for its last part, and for the build id as
            ``.build-id/ab/cdef…`` and, where nothing better is found, the debug file ``.build-id/ab/cdef….debug``.
        root: how to reach the file system that a running process sees, ``/proc/PID/root``.
    """

    def __init__(
        self,
        machine: Machine,
        report: Callable[[Problem], None],
        *,
        exe: Path | None = None,
        sysroot: Path | None = None,
        debug_dirs: Iterable[Path] = (),
        root: str = "",
    ) -> None:
        self.machine = machine
        self.report = report
        self.exe = os.fsdecode(exe) if exe is not None else None
        self.sysroot = os.fsdecode(sysroot).rstrip("/") if sysroot is not None else None
        self.debug_dirs = [os.fsdecode(directory) for directory in debug_dirs]
        self.root = root
        self._loadable = _MAXIMUM_LOADED_TOGETHER
        # A made-up core may have one file loaded any number of times.
        self._opened: dict[str, Image] = {}

    def paths(self, name: str, build_id: bytes | None) -> list[str]:
        """Where the file of that name in the target may be, best first."""
        deleted = name.endswith(" (deleted)")
        name = name.removesuffix(" (deleted)")
        found: list[str] = []
        # What has the name of a file that was removed is another one, unless a build id says that it is not.
        if name and (build_id is not None or not deleted):
            absolute = normpath("/" + name.lstrip("/"))
            # A name out of a core is anybody's; these are not files.
            special = name.startswith("[") or absolute.startswith(("/proc/", "/sys/", "/dev/"))
            if not special:
                root = self.root if self.sysroot is None else self.sysroot
                found.append(f"{root}{absolute}" if root or name.startswith("/") else name)
                for directory in self.debug_dirs:
                    found += [f"{directory}{absolute}", f"{directory}/{basename(absolute)}"]
        if build_id is not None and len(build_id) > 1:
            text = build_id.hex()
            plain = [f"{directory}/.build-id/{text[:2]}/{text[2:]}" for directory in self.debug_dirs]
            found += plain + [f"{path}.debug" for path in plain]
        return list(dict.fromkeys(found))

    def open(
        self,
        name: str,
        build_id: bytes | None,
        *,
        main: bool = False,
        more: Sequence[str] = (),
        check: Check | None = None,
        loaded: tuple[Memory, int] | None = None,
    ) -> Image:
        """The file of a module.

        Args:
            name: what the target calls it.
            build_id: the build id in memory, if that is known.
            main: whether it is the program, for which a file may be named by the user.
            more: further places, tried last.
            check: what else tells whether a file fits.
            loaded: memory, and where in it the file's first byte is: where there is no file, that is read.

        Raises:
            MissingFileError: no file fits; the hint says which were tried.
        """
        named = self.exe if main else None
        tried: list[tuple[str, str]] = []
        refused: list[Problem] = []
        for path in [*([named] if named is not None else ()), *self.paths(name, build_id), *more]:
            image, trouble = self._try(path, build_id, check)
            if image is not None and (trouble is None or path == named):
                if trouble is not None:
                    self.report(Problem(f"{path}, which was named, {trouble}; it is used nevertheless"))
                self._opened[path] = image
                return image
            if image is None and path == named:
                self.report(Problem(f"{path}, which was named, cannot be used: {trouble}"))
            if image is not None:
                if path not in self._opened:
                    image.close()
                refused.append(Problem(f"{path} {trouble}; it is not used"))
            tried.append((path, trouble or "is not there"))
        image = self._from_memory(name, loaded)
        if image is not None:
            return image
        for problem in refused:
            self.report(problem)
        option = "--exe" if main else "--sysroot or --debug-dir"
        hint = f"tried {', '.join(f'{path} ({wrong})' for path, wrong in tried)}; " if tried else ""
        missing = MissingFileError("its file was not found", file=name or "the program", hint=f"{hint}see {option}")
        missing.tried = tuple(tried)
        raise missing

    def _try(self, path: str, build_id: bytes | None, check: Check | None) -> tuple[Image | None, str | None]:
        """The file at a path, and what is wrong with it; no file where it is not a possible one at all."""
        try:
            image = self._opened.get(path) or Image.open(path)
        except Error as error:
            return None, error.message
        machine = self.machine
        if image.type not in (ET_EXEC, ET_DYN) or image.e_machine not in machine.elf_machines:
            image.close()
            return None, f"is no program or library for {machine.name}"
        if (image.elf_class, image.byte_order) != (machine.bits, machine.byte_order):
            image.close()
            return None, f"is for another kind of {machine.name}"
        own = image.build_id
        if build_id is not None and own is not None and own != build_id:
            return image, f"has build id {own.hex()}, but what was loaded has {build_id.hex()}"
        wrong = check(image) if check is not None else None
        return image, wrong

    def _from_memory(self, name: str, loaded: tuple[Memory, int] | None) -> Image | None:
        """The module as it is in memory, where that holds its unwind table."""
        if loaded is None:
            return None
        try:
            image = Image.from_memory(*loaded, name, min(_MAXIMUM_LOADED, self._loadable))
        except Error:
            return None
        self._loadable -= image.source.size
        return image if image.eh_frame() is not None or exidx_section(image) is not None else None
