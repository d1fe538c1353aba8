"""Live processes as targets."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

from clew.arch import ByteOrder, Machine, machine_for, machine_named
from clew.errors import Error, Problem, UsageError
from clew.image import Image
from clew.memory import Mapping, ProcessMemory, parse_mappings, process_maps
from clew.target.mapped_modules import mapped_modules, vdso_module
from clew.target.model import Module, Modules, Target, Thread
from clew.target.module_files import ModuleFiles, Path
from clew.target.parts import guessed_code_mask, reporter, stack_limits
from clew.target.process_memory import StoppedMemory
from clew.target.ptrace import ENDED, thread_state, threads_of
from clew.target.register_layouts import read_registers
from clew.target.stopped import TIMEOUT, StoppedProcess
from clew.target.thread_notes import KINDS, ThreadNotes

_texts: WeakKeyDictionary[Modules, tuple[int, bytes, list[Mapping]]] = WeakKeyDictionary()
"""What modules were made from: a process, its ``/proc/PID/maps``, and what stands there."""


def open_process(
    pid: int,
    *,
    stop: bool = True,
    timeout: float = TIMEOUT,
    debug_dirs: Iterable[Path] = (),
    like: Target | None = None,
    names: bool = True,
) -> Target:
    """A process on this machine, held still until the target is closed.

    Every thread is seized and interrupted (ptrace(2)); signals and system calls are not lost, but a call that fails with
    ``EINTR`` when the process is stopped does so here too (signal(7)). The process goes on when the target is closed,
    given up, or this process ends in any way.

    Args:
        stop: whether to hold it. Without, memory changes while it is read, and only the stack pointer and the pc are
            known of the threads that wait in the kernel; those that run are left out.
        timeout: how many seconds to wait for threads to stop.
        debug_dirs: where else to look for the files of modules.
        like: an earlier target of the same process, also one that was closed: where the process has the same mapped as then,
            its modules are taken over, with the files and tables that were read.
        names: whether to ask what the threads are called.

    Raises:
        NotFoundError: there is no such process.
        Error: this user may not stop it, somebody else traces it, or it ends meanwhile.
    """
    if pid <= 0:
        raise UsageError(f"{pid} is not the number of a process")
    alive = _living_thread(pid)
    if not stop:
        return _target(pid, alive, None, ProcessMemory(alive), debug_dirs, like, names)
    # First of all: whoever may not read the memory need not stop the process.
    memory = StoppedMemory(alive)
    try:
        held = StoppedProcess(pid, KINDS.get(platform.machine(), ()), timeout)
        try:
            return _target(pid, alive, held, memory, debug_dirs, like, names)
        except BaseException:
            held.release()
            raise
    except BaseException:
        memory.close()
        raise


def _living_thread(pid: int) -> int:
    """A thread through which ``/proc`` shows the process: when the first one has ended, it shows nothing through that."""
    if thread_state(pid, pid) in ENDED:
        with suppress(OSError):
            for thread in threads_of(pid):
                if thread_state(pid, thread) not in (*ENDED, None):
                    return thread
        raise Error(f"process {pid} has ended, and nobody has asked yet how (it is a zombie)")
    return pid


def _target(
    pid: int,
    alive: int,
    held: StoppedProcess | None,
    memory: StoppedMemory | ProcessMemory,
    debug_dirs: Iterable[Path],
    like: Target | None,
    names: bool,
) -> Target:
    problems: list[Problem] = list(held.problems) if held is not None else []
    report = reporter(problems)
    text = process_maps(alive)
    known = _texts.get(like.modules) if like is not None else None
    if like is not None and known is not None and known[:2] == (pid, text):
        machine, modules, mappings = like.machine, like.modules, known[2]
    else:
        mappings = parse_mappings(text)
        machine = _machine(alive)
        modules = _modules(pid, alive, machine, memory, mappings, debug_dirs, report)
        _texts[modules] = pid, text, mappings
    threads, mask = _threads(pid, machine, held, names, report)

    def close() -> None:
        memory.close()
        if held is not None and not held.release():
            report(Problem(f"process {pid} ended while it was read"))

    return Target(
        kind="process",
        machine=machine,
        threads=threads,
        memory=memory,
        modules=modules,
        code_mask=_code_mask(machine, mask, mappings),
        stack_limits=stack_limits(threads, machine, mappings),
        problems=problems,
        on_close=close,
        process_id=pid,
        command=like.command if like is not None and modules is like.modules else _command(pid),
    )


def _modules(
    pid: int,
    alive: int,
    machine: Machine,
    memory: StoppedMemory | ProcessMemory,
    mappings: list[Mapping],
    debug_dirs: Iterable[Path],
    report: Callable[[Problem], None],
) -> Modules:
    if not mappings:
        ended = thread_state(pid, alive) in (*ENDED, None)
        raise Error(
            f"process {pid} ended before it could be read" if ended else f"process {pid} has no memory of its own"
        )
    exe = _link(f"/proc/{alive}/exe")
    files = ModuleFiles(machine, report, root=_root(alive), debug_dirs=debug_dirs)

    def more(members: Sequence[Mapping]) -> list[str]:
        # The file that is mapped, also when another has its name by now or none has; for some users only.
        first = members[0]
        own = [f"/proc/{alive}/exe"] if first.path == exe else []
        return [*own, f"/proc/{alive}/map_files/{first.start:x}-{first.end:x}"]

    modules = mapped_modules(mappings, memory, files, lambda start, end, path: path == exe, more)
    vdso = next((vdso_module(memory, each.start) for each in mappings if each.path == "[vdso]"), None)
    if vdso is not None:
        modules.append(vdso)
    return Modules([_named(module) for module in modules])


def _named(module: Module) -> Module:
    """The module, whose file's messages shall have the target's name for it and not the way there."""
    open_image = module.open_image
    if open_image is None:
        return module

    def opened() -> Image:
        image = open_image()
        if image.name.startswith("/proc/"):
            image.name = module.name
        return image

    module.open_image = opened
    return module


def _threads(
    pid: int, machine: Machine, held: StoppedProcess | None, names: bool, report: Callable[[Problem], None]
) -> tuple[list[Thread], int | None]:
    """The threads, and the mask of authentication codes, if a thread told it."""
    threads: list[Thread] = []
    mask: int | None = None
    for words in held.threads if held is not None else ():
        registers = read_registers(machine, words.registers)
        if registers is None:
            report(Problem(f"the registers of thread {words.id} are not those of {machine.name}"))
            continue
        notes = ThreadNotes()
        for kind, data in words.more.items():
            notes.read(machine, kind, data)
        mask = mask if notes.code_mask is None else notes.code_mask
        in_call = registers.in_call if notes.in_call is None else notes.in_call
        values = {**notes.registers, **registers.values} if notes.registers else registers.values
        name = _text(pid, words.id, "comm") if names else None
        threads.append(Thread(words.id, values, registers.pc, name, in_call))
    for thread in held.unstopped if held is not None else threads_of(pid):
        waiting = _waiting_thread(pid, thread, machine)
        if waiting is not None:
            threads.append(waiting)
        elif held is None:
            report(Problem(f"thread {thread} is running; its registers are not known"))
    return threads, mask


def _waiting_thread(pid: int, thread: int, machine: Machine) -> Thread | None:
    """A thread that waits in the kernel, as far as proc_pid_syscall(5) tells: its stack pointer and its pc."""
    words = (_text(pid, thread, "syscall") or "").split()
    if len(words) < 3:
        return None
    try:
        number, pointer, pc = int(words[0]), int(words[-2], 16), int(words[-1], 16)
    except ValueError:
        return None
    registers = {machine.stack_pointer: pointer}
    if machine.program_counter is not None:
        registers[machine.program_counter] = pc
    return Thread(thread, registers, pc, _text(pid, thread, "comm"), number >= 0)


def _text(pid: int, thread: int, name: str) -> str | None:
    try:
        descriptor = os.open(f"/proc/{pid}/task/{thread}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.fsdecode(os.read(descriptor, 4096).rstrip(b"\n")) or None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _code_mask(machine: Machine, mask: int | None, mappings: Sequence[Mapping]) -> int:
    if machine.name != "aarch64" or machine.bits != 64:
        return 0
    return mask if mask is not None else guessed_code_mask(each.end for each in mappings)


def _machine(pid: int) -> Machine:
    """The machine that the program is for: also on a kernel that runs those of another width."""
    with suppress(OSError), open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
        head = file.read(20)
        if len(head) == 20 and head[:4] == b"\x7fELF" and head[4] in (1, 2) and head[5] in (1, 2):
            order: ByteOrder = "little" if head[5] == 1 else "big"
            return machine_for(int.from_bytes(head[18:20], order), 32 * head[4], order)
    return machine_named(platform.machine())


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _root(pid: int) -> str:
    """How to reach the files that a process sees: nothing where it sees the same ones."""
    root = f"/proc/{pid}/root"
    same = _link(root) == _link("/proc/self/root") and _link(f"/proc/{pid}/ns/mnt") == _link("/proc/self/ns/mnt")
    return "" if same else root


def _command(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsdecode(file.read(4096).rstrip(b"\0").replace(b"\0", b" ")) or None
    except OSError:
        return None
