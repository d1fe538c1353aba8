"""A minidump as a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from clew.arch import Machine
from clew.errors import FormatError, Problem
from clew.memory import Mapping
from clew.target.dumped_memory import DumpedMemory
from clew.target.minidump.contexts import machine_of, read_context
from clew.target.minidump.file import MinidumpFile
from clew.target.minidump.modules import minidump_modules
from clew.target.minidump.records import (
    ExceptionRecord,
    MemoryRange,
    MemoryRegion,
    ThreadRecord,
    read_exception,
    read_mappings,
    read_memory,
    read_modules,
    read_process_id,
    read_regions,
    read_system_info,
    read_threads,
)
from clew.target.model import Modules, Target, Thread
from clew.target.module_files import ModulePlaces, Path
from clew.target.parts import guessed_code_mask, reporter, stack_limits
from clew.target.register_layouts import Registers


def open_minidump(
    path: Path, *, exe: Path | None = None, sysroot: Path | None = None, debug_dirs: Iterable[Path] = ()
) -> Target:
    """The machine that a minidump tells of.

    The dump is mapped, not read: do not cut it short while the target is open. A file of a module whose build id, or
    the identity that older writers made of it, is not that in the dump is not used, unless it is ``exe``. The thread
    that crashed has the registers that it had then, not those in which it wrote the dump.

    Args:
        exe: the program's file, whatever the dump calls it.
        sysroot: the directory under which the dump's files are; without it, they are taken where the dump has them.
        debug_dirs: further directories to look for them in, see :class:`clew.target.module_files.ModuleFiles`.

    Raises:
        NotFoundError: there is no such file.
        FormatError: it is no minidump, or does not say for which processor it is, or for one that clew does not know.
        Error: it may not be read.
    """
    problems: list[Problem] = []
    report = reporter(problems)
    file = MinidumpFile.open(path, report)
    try:
        return _target(file, ModulePlaces(exe, sysroot, debug_dirs), report, problems)
    except BaseException:
        file.close()
        raise


def _target(
    file: MinidumpFile, places: ModulePlaces, report: Callable[[Problem], None], problems: list[Problem]
) -> Target:
    system = read_system_info(file)
    if system is None:
        why = f": {problems[0]}" if problems else ""
        raise FormatError(f"the minidump does not say which processor it is from{why}", file=file.name)
    machine = machine_of(system.processor, file.byte_order)
    if machine is None:
        raise FormatError(f"the minidump is from a processor that is not known: {system.processor:#x}", file=file.name)
    records = read_threads(file)
    exception = read_exception(file)
    mappings = read_mappings(file)
    dumped = _memory(file, records, 1 << machine.bits, report)
    files = places.files(machine, report)
    modules = Modules(minidump_modules(read_modules(file), mappings, dumped, machine, files, report))
    memory = dumped.filled_from(modules)
    threads = _threads(file, records, exception, machine, report)
    if not threads:
        report(Problem("the minidump has no thread"))

    def close() -> None:
        memory.close()
        dumped.close()
        file.close()

    code_mask = 0
    if machine.name == "aarch64":
        code_mask = guessed_code_mask([each.end for each in mappings] or [module.end for module in modules])
    return Target(
        kind="minidump",
        machine=machine,
        threads=threads,
        memory=memory,
        modules=modules,
        code_mask=code_mask,
        # The dump itself may hold a part of a stack only.
        stack_limits=stack_limits(threads, machine, mappings or _joined(read_regions(file))),
        problems=problems,
        on_close=close,
        process_id=read_process_id(file),
        command=modules[0].name if len(modules) else None,
        signal=exception.signal(system.platform) if exception is not None else None,
        crashed=exception.thread_id if exception is not None else None,
    )


def _memory(
    file: MinidumpFile, threads: Sequence[ThreadRecord], limit: int, report: Callable[[Problem], None]
) -> DumpedMemory:
    """What the lists hold, and the stacks that the threads themselves name, which are mostly the same."""
    ranges = read_memory(file)
    ranges += [
        MemoryRange(thread.stack_start, thread.stack.size, thread.stack.rva)
        for thread in threads
        if thread.stack.size and thread.stack.rva
    ]
    whole = file.whole
    # Named twice is no contradiction.
    runs = dict.fromkeys((each.start, each.size, each.rva) for each in ranges if each.start < limit)
    memory = DumpedMemory(whole, runs, limit)
    if memory.cut:
        report(Problem(f"the minidump is cut short: memory of {memory.cut} ranges is missing"))
    if memory.overlapping:
        report(Problem(f"{memory.overlapping} ranges of memory contradict others; what comes first counts"))
    return memory


def _threads(
    file: MinidumpFile,
    records: Sequence[ThreadRecord],
    exception: ExceptionRecord | None,
    machine: Machine,
    report: Callable[[Problem], None],
) -> list[Thread]:
    threads = []
    at_crash = read_context(machine, file.data(exception.context)) if exception is not None else ""
    if exception is not None and exception.context.size and isinstance(at_crash, str):
        report(Problem(f"the registers at the crash cannot be read: {at_crash}"))
    if exception is not None and exception.thread_id not in {record.id for record in records}:
        report(Problem(f"the thread that crashed, {exception.thread_id}, is not among the threads"))
    for record in records:
        crashed = exception is not None and record.id == exception.thread_id
        found: Registers | str = at_crash if crashed else ""
        if isinstance(found, str):
            found = read_context(machine, file.data(record.context))
        if isinstance(found, str):
            report(Problem(f"the registers of thread {record.id} cannot be read: {found}"))
        else:
            threads.append(Thread(record.id, found.values, found.pc, record.name))
    return threads


def _joined(regions: Sequence[MemoryRegion]) -> list[Mapping]:
    """Regions as mappings: those of one allocation together, as Windows splits stacks into parts."""
    joined: list[Mapping] = []
    last = None
    for region in regions:
        end = region.start + region.size
        if joined and last == region.allocation_start and joined[-1].end == region.start:
            joined[-1] = Mapping(joined[-1].start, end, 0, "rw-p", "")
        else:
            joined.append(Mapping(region.start, end, 0, "rw-p", ""))
        last = region.allocation_start
    return joined
