"""A program that runs instruction by instruction, and the calls that it has made and not returned from."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clew.arch import machine_named
from clew.image import Image
from clew.memory import ProcessMemory, process_mappings
from clew.target import Module, Modules, Target, Thread
from clew.walk import CodeAddress, Interrupted, ReturnAddress, Walker

_PTRACE = ctypes.CDLL(None, use_errno=True).ptrace
_PTRACE.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_TRACEME, _POKE, _CONTINUE, _STEP, _GETREGS, _SETREGS = 0, 4, 7, 9, 12, 13

# struct user_regs_struct, in words: which has what DWARF register.
_ORDER = (15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5)


class Stepped:
    """A child process that is stopped before its first instruction, and goes one at a time."""

    def __init__(self, program: Path, *arguments: str) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            _PTRACE(_TRACEME, 0, None, None)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.execv(program, [str(program), *arguments])
        self.status = os.waitpid(self.pid, 0)[1]
        self.memory = ProcessMemory(self.pid)
        self._words = (ctypes.c_uint64 * 27)()

    @property
    def there(self) -> bool:
        """Whether it has not ended."""
        return os.WIFSTOPPED(self.status)

    def step(self, signal_number: int = 0) -> None:
        """One instruction; or, with a signal, into its handler. Signals that the program gets are handed on."""
        _PTRACE(_STEP, self.pid, None, signal_number)
        self.status = os.waitpid(self.pid, 0)[1]

    @property
    def pending(self) -> int:
        """The signal that it has stopped for, which is to be handed on; or 0."""
        number = os.WSTOPSIG(self.status)
        return 0 if number == signal.SIGTRAP else number

    def run_to(self, address: int) -> None:
        """Goes on until an instruction is reached: with a breakpoint, as start-up takes many."""
        word = int.from_bytes(self.memory.read(address, 8) or b"", "little")
        _PTRACE(_POKE, self.pid, address, word & ~0xFF | 0xCC)
        _PTRACE(_CONTINUE, self.pid, None, None)
        os.waitpid(self.pid, 0)
        _PTRACE(_POKE, self.pid, address, word)
        self.registers()
        assert self._words[16] == address + 1
        self._words[16] = address
        _PTRACE(_SETREGS, self.pid, None, ctypes.byref(self._words))

    def registers(self) -> dict[int, int]:
        """By DWARF number."""
        _PTRACE(_GETREGS, self.pid, None, ctypes.byref(self._words))
        return {**{n: self._words[i] for i, n in enumerate(_ORDER)}, 16: self._words[16], 7: self._words[19]}

    def word(self, address: int) -> int:
        """A word of its memory."""
        return int.from_bytes(self.memory.read(address, 8) or b"", "little")

    def target(self) -> Target:
        """All that is mapped now, as modules of files and the vdso."""
        bounds: dict[str, list[int]] = {}
        for mapping in process_mappings(self.pid):
            if mapping.path.startswith("/") or mapping.path == "[vdso]":
                bounds.setdefault(mapping.path, []).extend((mapping.start, mapping.end))
        modules = []
        for path, ends in bounds.items():
            start, end = min(ends), max(ends)
            try:
                image = Image.from_memory(self.memory, start, path) if path == "[vdso]" else Image.open(path)
            except Exception:
                # Data that is mapped: locales and caches.
                continue
            bias = start if image.type == 3 else 0  # ET_DYN; their first segment is at 0
            modules.append(Module(path, start, end, bias, open_image=lambda image=image: image))  # type: ignore[misc]
        return Target("process", machine_named("x86-64"), [], self.memory, Modules(modules))

    def close(self) -> None:
        """Ends it."""
        if self.there:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.memory.close()


@dataclass(frozen=True)
class Call:
    """What was left: where it goes on, and the stack's address below which it is over."""

    pc: CodeAddress
    slot: int


@dataclass
class Place:
    """A moment between two instructions.

    Attributes:
        thread: with its registers.
        calls: what goes on when the function here is done, innermost first.
        walker: of the target as it is mapped.
        made: the calls, with where their return addresses are.
    """

    thread: Thread
    calls: list[CodeAddress]
    walker: Walker
    made: list[Call]

    @property
    def overwritten(self) -> bool:
        """Whether the program has put something else in the place of a return address."""
        memory = self.walker.target.memory
        pushed = [call for call in self.made if isinstance(call.pc, ReturnAddress)]
        return any(memory.read(call.slot, 8) != call.pc.address.to_bytes(8, "little") for call in pushed)


class Trace:
    """A run from the first instruction of main to its return; or of the function begun, if there is one.

    Args:
        program: what runs.
        arguments: its arguments.
        every: after how many instructions it gets the next of ``signals``; 0 for never.
        signals: their numbers.

    Attributes:
        steps: how many instructions have run.
        delivered: how many signals it got.
        base: where the program begins.
        finished: whether it came to its end.
    """

    def __init__(self, program: Path, *arguments: str, every: int = 0, signals: tuple[int, ...] = ()) -> None:
        self.program, self.arguments = program, arguments
        self.every, self.signals = every, signals
        self.steps = self.delivered = self.base = 0
        self.finished = False

    def places(self, wanted: Callable[[int, int], bool], limit: int = 400_000) -> Iterator[Place]:
        """The places that are wanted, by their pc and the number of calls."""
        with Image.open(self.program) as image:
            symbols = image.symbols()
            index = (symbols.find("begun") or symbols.find("main"))[0]
            begin = int(symbols.address[index])
            moved = image.type == 3
        child = Stepped(self.program, *self.arguments)
        try:
            if not child.there:
                pytest.skip("this system does not let a process be traced")
            self.base = min(each.start for each in process_mappings(child.pid) if each.path == str(self.program))
            child.run_to(begin + (self.base if moved else 0))
            yield from self._run(child, wanted, limit)
        finally:
            child.close()

    def _run(self, child: Stepped, wanted: Callable[[int, int], bool], limit: int) -> Iterator[Place]:
        walker, known = Walker(child.target()), set(_loaded(child.pid))
        calls: list[Call] = []
        registers = child.registers()
        outermost = registers[7]
        waiting = 0
        while child.there and self.steps < limit:
            pc, sp = registers[16], registers[7]
            if wanted(pc, len(calls)):
                if walker.target.modules.at(pc) is None and (loaded := set(_loaded(child.pid))) != known:
                    walker, known = Walker(child.target()), loaded
                pcs = [call.pc for call in reversed(calls)]
                if child.memory.read(pc, 1) == b"\xc3" and (not calls or calls[-1].slot != sp):
                    # To where no call has pushed: the handler of an exception, a function bound late.
                    pcs.insert(0, ReturnAddress(child.word(sp)))
                yield Place(Thread(child.pid, registers, pc), pcs, walker, list(calls))
            self.steps += 1
            number = child.pending
            # A signal that comes while another's handler runs would make the run endless.
            if not _in_handler(calls):
                waiting += 1
                if not number and 0 < self.every < waiting:
                    number = self.signals[self.delivered % len(self.signals)]
            if number:
                waiting = 0
                self.delivered += 1
            child.step(number)
            if not child.there:
                return
            if child.pending:
                # The instruction was not run, or the signal is to be handed on before the next.
                registers = child.registers()
                _shadow(child, calls, pc, sp, registers)
                continue
            registers = child.registers()
            if number and registers[7] != sp and child.word(registers[7]) != 0:
                calls.append(Call(Interrupted(pc), registers[7] + 8))
                calls.append(Call(ReturnAddress(child.word(registers[7])), registers[7]))
            else:
                _shadow(child, calls, pc, sp, registers)
            if registers[7] > outermost:
                self.finished = True
                return


def _in_handler(calls: list[Call]) -> bool:
    return any(isinstance(call.pc, Interrupted) for call in calls)


def _shadow(child: Stepped, calls: list[Call], pc: int, sp: int, registers: dict[int, int]) -> None:
    """What an instruction did to the calls: it made one, or let the stack pointer go above some."""
    now = registers[7]
    while calls and now > calls[-1].slot:
        calls.pop()
    if now == sp - 8 and not pc <= registers[16] < pc + 8 and pc + 2 <= (back := child.word(now)) <= pc + 7:
        calls.append(Call(ReturnAddress(back), now))


def _loaded(pid: int) -> Iterator[str]:
    return (each.path for each in process_mappings(pid) if each.executable)
