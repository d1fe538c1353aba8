"""Every instruction of a part of a program under qemu's gdb stub, with the calls that have been made and have not returned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from programs.gdb_stub import Stub
from programs.qemu_user import Guest

from clew.image import Image
from clew.target import Thread
from clew.walk import Stack, Walker

_CODE_BITS = (1 << 48) - 1
"""An address in a program, without what signs it (AArch64 under qemu)."""

_LIMIT = 50_000


@dataclass(frozen=True)
class Step:
    """A place in the program.

    Attributes:
        pcs: where it stands, and where the calls return to: the frames that there are, innermost first.
        interrupted: the indices of those that a signal interrupted.
        stack: the walk.
    """

    pcs: list[int]
    interrupted: list[int]
    stack: Stack


@dataclass(frozen=True)
class _Call:
    back: int
    sp: int
    signal: bool = False


class _Shadow:
    """The calls, by what each step does to the pc, the link register or the stack, and the stack pointer."""

    def __init__(self, stub: Stub) -> None:
        self.stub, self.machine = stub, stub.machine
        self.calls: list[_Call] = []

    def state(self) -> tuple[int, int, int, dict[int, int]]:
        """pc, stack pointer, the return address if a call was just made, registers."""
        pc, registers = self.stub.registers()
        sp = registers[self.machine.stack_pointer]
        link = self.machine.link_register
        if link is None:
            back = int.from_bytes(self.stub.memory.read(sp, self.machine.address_size) or b"", self.machine.byte_order)
        else:
            back = registers[link] & self.machine.address_mask & _CODE_BITS
        return pc, sp, back, registers

    def start(self) -> None:
        """A call has been made."""
        _, sp, back, _ = self.state()
        self.calls.append(_Call(back, sp))

    def moved(self, before: int, sp_before: int) -> None:
        """What the step from there was."""
        pc, sp, back, _ = self.state()
        lengths = (2, 4, 6) if self.machine.link_register is not None else (2, 3, 5, 6, 7)
        if pc == before:
            return
        if self.machine.link_register is not None:
            called = back in [before + n for n in self._length(before, lengths)] and pc != back
        else:
            called = sp == sp_before - self.machine.address_size and back - before in lengths and pc != back
        if called:
            self.calls.append(_Call(back, sp))
        elif self.calls and pc == self.calls[-1].back and sp >= self.calls[-1].sp:
            self.calls.pop()

    def _length(self, address: int, lengths: tuple[int, ...]) -> tuple[int, ...]:
        data = self.stub.memory.read(address, 2) or b"\0\0"
        match self.machine.name:
            case "riscv64":
                return (4,) if data[0] & 3 == 3 else (2,)
            case "s390x":
                return (2,) if data[0] < 0x40 else (6,) if data[0] >= 0xC0 else (4,)
            case "arm":
                return (2, 4)
            case _:
                return (4,)

    def signalled(self, before: int, sp_before: int) -> None:
        """A signal was delivered where the program was: a handler has been called that returns to the trampoline."""
        _, sp, back, _ = self.state()
        self.calls += [_Call(before, sp_before, signal=True), _Call(back, sp)]

    def resumed(self, before: int, now: int) -> bool:
        """Whether the trampoline asked the kernel to go on, which may have stepped over the next instruction, too."""
        call = self.calls[-1]
        if not call.signal or 0 < now - before <= 8:
            return False
        self.calls.pop()
        self.moved(call.back, call.sp)
        return True


def steps(guest: Guest, program: Path, first: str = "mark") -> Iterator[Step]:
    """From a function's first instruction to its return, at each instruction in the program that can be stopped at;
    in libraries, where it has not been before."""
    with Image.open(program) as image:
        (index,) = image.symbols().find(first)
        address = int(image.symbols().address[index])
        (index,) = image.symbols().find("handler")
        handler = int(image.symbols().address[index])
        entry, moves = image.entry, image.type == 3
    with Stub(guest, program, "2", "3") as stub:
        bias = stub.auxv[9] - entry if moves else 0
        # Within a module, Power's functions are called behind what sets r2 up (ELF V2 ABI 2.3.2.1).
        address += 8 if guest.machine == "powerpc64" else 0
        address += bias
        stub.run_to(address)
        assert stub.registers()[0] == address
        target = stub.target()
        walker = Walker(target)
        shadow = _Shadow(stub)
        shadow.start()
        seen: dict[int, int] = {}
        for _ in range(_LIMIT):
            pc, sp, _, registers = shadow.state()
            depth = len(shadow.calls)
            seen[pc] = seen.get(pc, 0) + 1
            if seen[pc] <= (8 if abs(pc - address) < 0x800 else 1):
                interrupted = [depth - i for i, call in enumerate(shadow.calls) if call.signal]
                pcs = [pc, *(call.back for call in reversed(shadow.calls))]
                yield Step(pcs, interrupted, walker.walk(Thread(1, {**registers, **stub.floats()}, pc)))
            stub.step()
            if stub.signal is None:
                raise AssertionError("the program has ended")
            if stub.signal != 5:
                # It has stopped where the signal found it: now it is delivered, and the handler is entered.
                shadow.moved(pc, sp)
                where, sp, _, _ = shadow.state()
                stub.run_to(handler + bias)
                shadow.signalled(where, sp)
            elif not shadow.resumed(pc, stub.registers()[0]):
                shadow.moved(pc, sp)
            if not shadow.calls:
                return
        raise AssertionError("the program does not come back")
