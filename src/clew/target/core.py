"""ELF cores as targets."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from clew.arch import Machine, machine_for
from clew.errors import FormatError, Problem
from clew.image import Image
from clew.image.elf import ET_CORE
from clew.target.core_memory import CoreMemory
from clew.target.core_modules import core_modules
from clew.target.core_notes import CoreNotes, read_core_notes
from clew.target.model import Modules, Target, Thread
from clew.target.module_files import ModulePlaces, Path
from clew.target.parts import guessed_code_mask, reporter, stack_limits


def open_core(
    path: Path, *, exe: Path | None = None, sysroot: Path | None = None, debug_dirs: Iterable[Path] = ()
) -> Target:
    """The machine that an ELF core tells of.

    The core is mapped, not read: do not cut it short while the target is open. Files of modules are opened when they are
    asked for; one whose build id is not that in the core is not used, unless it is ``exe``.

    Args:
        exe: the program's file, whatever the core calls it. Cores that do not list what was mapped, such as qemu's, need
            it: the program leads to everything else.
        sysroot: the directory under which the core's files are; without it, they are taken where the core has them.
        debug_dirs: further directories to look for them in, see :class:`clew.target.module_files.ModuleFiles`.

    Raises:
        NotFoundError: there is no such file.
        FormatError: it is no ELF core.
        Error: it may not be read.
    """
    image = Image.open(path)
    try:
        return _target(image, ModulePlaces(exe, sysroot, debug_dirs))
    except BaseException:
        image.close()
        raise


def _target(image: Image, places: ModulePlaces) -> Target:
    if image.type != ET_CORE:
        raise FormatError("this is an ELF file, but not a core", file=image.name, hint="name a core, or a process's id")
    machine = machine_for(image.e_machine, image.elf_class, image.byte_order)
    problems: list[Problem] = []
    report = reporter(problems)
    notes = read_core_notes(image, machine, report)
    dumped = CoreMemory(image, report)
    for problem in image.problems:
        report(problem)
    files = places.files(machine, report)
    modules = Modules(core_modules(notes, dumped, machine, files, report))
    memory = dumped.filled_from(modules)
    threads = _threads(notes)

    def close() -> None:
        memory.close()
        dumped.close()
        image.close()

    return Target(
        kind="core",
        machine=machine,
        threads=threads,
        memory=memory,
        modules=modules,
        code_mask=_code_mask(notes, machine, dumped),
        stack_limits=stack_limits(threads, machine, dumped.mappings),
        problems=problems,
        on_close=close,
        process_id=notes.process_id,
        command=notes.arguments or notes.name,
        signal=notes.signal[0] if notes.signal else notes.threads[0].signal or None if notes.threads else None,
        crashed=notes.threads[0].id if notes.threads else None,
    )


def _threads(notes: CoreNotes) -> list[Thread]:
    return [
        Thread(
            thread.id,
            {**thread.more.registers, **thread.registers.values},
            thread.registers.pc,
            # The kernel writes the name of the first thread only, as the name of the process.
            notes.name if thread.id == notes.process_id else None,
            thread.registers.in_call if thread.more.in_call is None else thread.more.in_call,
        )
        for thread in notes.threads
    ]


def _code_mask(notes: CoreNotes, machine: Machine, memory: CoreMemory) -> int:
    if machine.name != "aarch64" or machine.bits != 64:
        return 0
    if notes.code_mask is not None:
        return notes.code_mask
    return guessed_code_mask(chain((each.end for each in memory.mappings), (each.end for each in notes.files or ())))
