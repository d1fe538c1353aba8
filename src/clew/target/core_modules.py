"""The modules of a core: from its list of mapped files, else from the loader's list in its memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from clew.arch import Machine
from clew.errors import Error, Problem
from clew.image import Image
from clew.image.elf import PT_DYNAMIC
from clew.memory import Mapping
from clew.target.core_memory import CoreMemory
from clew.target.core_notes import AT_BASE, AT_ENTRY, AT_EXECFN, AT_PHDR, AT_PHNUM, AT_SYSINFO_EHDR, CoreNotes
from clew.target.linkmap import LinkMapEntry, debug_address, read_link_map, read_string
from clew.target.loaded_file import PAGE, extent, read_loaded_file
from clew.target.mapped_modules import mapped_modules, vdso_module
from clew.target.model import Module
from clew.target.module_files import ModuleFiles, opened

_PT_INTERP = 3

Report = Callable[[Problem], None]


def core_modules(
    notes: CoreNotes, memory: CoreMemory, machine: Machine, files: ModuleFiles, report: Report
) -> list[Module]:
    """What was loaded. ``memory`` is what the core itself holds."""
    entry = notes.auxv.get(AT_ENTRY)
    modules = _from_mapped_files(notes, memory, files, entry)
    vdso = notes.auxv.get(AT_SYSINFO_EHDR)
    kernel = vdso_module(memory, vdso) if vdso else None
    if kernel is not None:
        modules.append(kernel)
    if entry is not None and not any(module.start <= entry < module.end for module in modules):
        others = _Loader(notes, memory, machine, files, report).modules(kernel.bias if kernel is not None else None)
        taken = {module.start for module in modules}
        modules += [module for module in others if module.start not in taken]
    return modules


def _from_mapped_files(notes: CoreNotes, memory: CoreMemory, files: ModuleFiles, entry: int | None) -> list[Module]:
    mappings = []
    for each in notes.files or ():
        there = memory.mapping_at(each.start)
        # The note does not say what is code; the program headers do.
        permissions = there.permissions if there is not None else "r-xp"
        mappings.append(Mapping(each.start, each.end, each.offset, permissions, each.path))
    return mapped_modules(mappings, memory, files, lambda start, end, path: entry is not None and start <= entry < end)


class _Loader:
    """Finds modules as a debugger does that has only the program's file: through the loader's list.

    qemu's cores need it: they have no list of mapped files, and not the pages where program headers are.
    """

    def __init__(
        self, notes: CoreNotes, memory: CoreMemory, machine: Machine, files: ModuleFiles, report: Report
    ) -> None:
        self.auxv = notes.auxv
        self.memory = memory
        self.machine = machine
        self.files = files
        self.report = report

    def modules(self, vdso_bias: int | None) -> list[Module]:
        """What the loader lists, but for the vdso."""
        program = self._program()
        if program is None:
            return []
        module, header = program
        found = [module]
        dynamic = next((each.address for each in header.segments if each.type == PT_DYNAMIC), None)
        interpreter = _interpreter(header)
        debug = None
        if dynamic is not None:
            debug = debug_address(self.memory, self.machine, dynamic + module.bias)
        entries = list(read_link_map(self.memory, self.machine, debug, self.report)) if debug is not None else []
        base = self.auxv.get(AT_BASE)
        if base and interpreter is not None and not any(each.bias == base for each in entries):
            # The loader has not got so far as to list itself.
            entries.append(LinkMapEntry(base, 0, interpreter))
        own = (module.bias, (dynamic or 0) + module.bias)
        for entry in entries:
            if (entry.bias, entry.dynamic) == own or entry.bias == vdso_bias:
                continue
            name = interpreter if entry.bias == base and interpreter is not None and not entry.name else entry.name
            library = self._library(replace(entry, name=name))
            if library is not None:
                found.append(library)
        return found

    def _program(self) -> tuple[Module, Image] | None:
        """The program, and an image that has at least its program headers."""
        entry = self.auxv[AT_ENTRY]
        where = self.auxv.get(AT_EXECFN)
        name = read_string(self.memory, where) if where else None
        in_core = self.auxv.get(AT_PHDR)
        if in_core is not None:
            # As linkers lay programs out, their headers are in the first page.
            base = in_core - in_core % PAGE
            loaded = read_loaded_file(self.memory, base)
            if loaded is not None and loaded.header.entry + loaded.bias == entry:
                opener = partial(
                    self.files.open,
                    name or "",
                    loaded.build_id,
                    main=True,
                    loaded=(self.memory, base),
                    check=self._misfit,
                )
                called = name or self.files.exe or "the program"
                return Module(called, loaded.start, loaded.end, loaded.bias, loaded.build_id, opener), loaded.header
        try:
            image = self.files.open(name or "", None, main=True, check=self._misfit)
        except Error as error:
            hint = f" ({error.hint})" if error.hint else ""
            self.report(Problem(f"no modules are known: {name or 'the program'}: {error.message}{hint}"))
            return None
        bias = entry - image.entry
        taken = extent(image, bias)
        if taken is None:
            self.report(Problem(f"no modules are known: {image.name} has no segment that is loaded"))
            return None
        return Module(name or image.name, *taken, bias, None, lambda: image), image

    def _misfit(self, image: Image) -> str | None:
        """Why a file is not the program whose entry and program headers the auxiliary vector tells, or None."""
        bias = self.auxv[AT_ENTRY] - image.entry
        count = self.auxv.get(AT_PHNUM)
        if bias % PAGE or count not in (None, image.header.segment_count):
            return "does not fit the entry and the program headers that the core tells"
        return None

    def _library(self, entry: LinkMapEntry) -> Module | None:
        """A file of the loader's list, whose headers are in memory or else in the file."""
        loaded = read_loaded_file(self.memory, entry.bias)
        name = entry.name or f"<unknown at {entry.bias:#x}>"
        if loaded is not None and loaded.bias == entry.bias:
            opener = partial(
                self.files.open,
                entry.name or "",
                loaded.build_id,
                loaded=(self.memory, entry.bias),
                check=partial(_other_dynamic, entry),
            )
            return Module(name, loaded.start, loaded.end, loaded.bias, loaded.build_id, opener)
        found: Image | Error
        try:
            found = self.files.open(entry.name or "", None, check=partial(_other_dynamic, entry))
        except Error as error:
            found = error
        taken = extent(found, entry.bias) if isinstance(found, Image) else self._guessed(entry)
        if taken is None:
            self.report(Problem(f"it is not known where {name} is"))
            return None
        return Module(name, *taken, entry.bias, None, partial(opened, found))

    def _guessed(self, entry: LinkMapEntry) -> tuple[int, int] | None:
        """Of a file that cannot be had: from where it was moved to, up to the end of what its dynamic section is in."""
        first, last = self.memory.mapping_at(entry.bias), self.memory.mapping_at(entry.dynamic)
        return (entry.bias, last.end) if first is not None and last is not None and entry.bias < last.end else None


def _other_dynamic(entry: LinkMapEntry, image: Image) -> str | None:
    """Why a file is not the one that the loader's list tells of, or None."""
    if not entry.dynamic:
        return None
    there = [each.address for each in image.segments if each.type == PT_DYNAMIC]
    if any(address + entry.bias == entry.dynamic for address in there):
        return None
    return "has its dynamic section elsewhere than what was loaded"


def _interpreter(image: Image) -> str | None:
    """The name of the dynamic loader that a program asks for."""
    for segment in image.segments:
        if segment.type == _PT_INTERP:
            name = bytes(segment.data[:4096]).split(b"\0", 1)[0]
            return name.decode("utf-8", "surrogateescape") or None
    return None
