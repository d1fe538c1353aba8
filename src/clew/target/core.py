"""ELF cores as targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import chain

from clew.arch import Machine, machine_for
from clew.errors import FormatError, Problem
from clew.image import Image
from clew.image.elf import ET_CORE
from clew.target.core_memory import CoreMemory
from clew.target.core_modules import core_modules
from clew.target.core_notes import CoreNotes, read_core_notes, thread_values
from clew.target.model import Modules, Target, Thread
from clew.target.module_files import ModuleFiles

Path = str | os.PathLike[str]

MAXIMUM_PROBLEMS = 1000
"""How many problems a target remembers."""


def reporter(problems: list[Problem]) -> Callable[[Problem], None]:
    """Adds problems to a list: each once, and not without end."""

    def report(problem: Problem) -> None:
        if len(problems) < MAXIMUM_PROBLEMS and problem not in problems:
            problems.append(problem)

    return report


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
    if image.type != ET_CORE:
        image.close()
        raise FormatError("this is an ELF file, but not a core", file=image.name, hint="name a core, or a process's id")
    machine = machine_for(image.e_machine, image.elf_class, image.byte_order)
    problems: list[Problem] = []
    report = reporter(problems)
    notes = read_core_notes(image, machine, report)
    dumped = CoreMemory(image, report)
    for problem in image.problems:
        report(problem)
    files = ModuleFiles(machine, report, exe=exe, sysroot=sysroot, debug_dirs=debug_dirs)
    modules = Modules(core_modules(notes, dumped, machine, files, report))
    memory = dumped.filled_from(modules)

    def close() -> None:
        memory.close()
        dumped.close()
        image.close()

    return Target(
        kind="core",
        machine=machine,
        threads=_threads(notes),
        memory=memory,
        modules=modules,
        code_mask=_code_mask(notes, machine, dumped),
        stack_limits=_stack_limits(notes, machine, dumped),
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
            thread_values(thread),
            thread.registers.pc,
            # The kernel writes the name of the first thread only, as the name of the process.
            notes.name if thread.id == notes.process_id else None,
            thread.registers.in_call if thread.in_call is None else thread.in_call,
        )
        for thread in notes.threads
    ]


def _stack_limits(notes: CoreNotes, machine: Machine, memory: CoreMemory) -> dict[int, tuple[int, int]]:
    limits = {}
    for thread in notes.threads:
        pointer = thread.registers.values.get(machine.stack_pointer)
        there = memory.mapping_at(pointer) if pointer is not None else None
        if there is not None:
            limits[thread.id] = there.start, there.end
    return limits


def _code_mask(notes: CoreNotes, machine: Machine, memory: CoreMemory) -> int:
    if machine.name != "aarch64" or machine.bits != 64:
        return 0
    if notes.code_mask is not None:
        return notes.code_mask
    return guessed_code_mask(chain((each.end for each in memory.mappings), (each.end for each in notes.files or ())))


def guessed_code_mask(ends: Iterable[int]) -> int:
    """The bits of a user's code pointer that hold an authentication code, where nothing says which they are (qemu's cores).

    They are those between the address and bit 55, which selects the half of the address space. An address has 48 bits
    unless a mapping is higher (Linux, "Pointer authentication in AArch64 Linux").
    """
    highest = max((end - 1 for end in ends if end <= 1 << 55), default=0)
    bits = max(48, highest.bit_length())
    return (1 << 55) - (1 << bits)
