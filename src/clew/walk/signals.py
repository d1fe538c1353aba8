"""Strategy: a signal trampoline, recognised by its bytes (see :mod:`clew.walk.sigframes`)."""

from __future__ import annotations

from clew.walk.model import End, Interrupted, ReturnAddress, Trust
from clew.walk.sigframes import Trampoline
from clew.walk.step import Caller, Here, Outcome, Stop


def trampoline(here: Here) -> Outcome:
    """The registers that the kernel saved, all of them.

    The bytes count more than an ordinary row: the byte before a trampoline may belong to another function, and Go's
    tables describe its own trampoline as a function like any other. They also count more than a signal frame's rule that
    leaves out the stack pointer: Linux's vdso for AArch64 once had one that gave the interrupted link register as the pc.
    """
    machine = here.around.machine
    if here.row is not None and here.row.rule.signal_frame and here.row.rule[machine.stack_pointer] is not None:
        return None
    found = here.around.trampoline(here.pc.address)
    return None if found is None else _interrupted(here, *found)


def _interrupted(here: Here, found: Trampoline, index: int) -> Outcome:
    machine, mask, word = here.around.machine, here.around.mask, here.around.word
    sp = here.value(machine.stack_pointer)
    if sp is None:
        sp = _by_record(here)
    if sp is None:
        name = machine.register_name(machine.stack_pointer)
        return Stop(End.UNKNOWN_REGISTER, f"a signal frame needs {name}, which is unknown")
    block = sp + found.places[index]
    if found.pointer is not None:
        pointer = here.word("ucontext", block)
        if pointer is None:
            return here.unreadable("the signal frame's pointer", block, word)
        block = pointer + found.pointer
    pc = here.word("pc", block + found.pc)
    if pc is None:
        return here.unreadable("the interrupted pc", block + found.pc, word)
    registers: dict[int, int] = {}
    for number, offset in found.slots.items():
        value = here.word(machine.register_name(number), block + offset)
        if value is not None:
            registers[number] = value
    # The kernel's own value: not signed, and what it points at has not been called but interrupted.
    pc = here.around.strip(pc & mask) & machine.address_mask & mask
    if machine.program_counter is not None:
        registers[machine.program_counter] = pc
    sp = registers.get(machine.stack_pointer)
    return Caller(Interrupted(pc), Trust.SIGNAL, registers, cfa=sp, floor=sp)


_FRAME_AND_LINK = 128 + 176 + 8 + 8 * 29
_LARGEST = 1 << 16
_SEARCH = 100


def _by_record(here: Here) -> int | None:
    """The stack pointer at AArch64's trampoline where a chain of frame records led there, or None.

    The kernel puts a record above its frame, which x29 points to: it is the interrupted x29 and x30, as they are in the
    frame, too (arch/arm64/kernel/signal.c, setup_sigframe). How far below depends on the vector registers; not all of it need
    be in the memory at hand.
    """
    pointer = here.value(29)
    if here.around.machine.name != "aarch64" or not pointer or pointer % 16:
        return None
    record = here.around.memory.read(pointer, 16)
    low = pointer if here.floor is None else max(here.floor, pointer - _LARGEST)
    # The frame lies behind the frame of the handler, from which the chain came.
    data = here.around.memory.read(low, pointer - low) if record is not None and low < pointer else None
    if record is None or data is None or not here.work.spend(10 * _SEARCH):
        return None
    found: list[int] = []
    at = data.find(record, _FRAME_AND_LINK)
    while at >= 0 and len(found) < 2 and here.work.spend(_SEARCH):
        sp = low + at - _FRAME_AND_LINK
        found += [] if sp % 16 else [sp]
        at = data.find(record, at + 1)
    return found[0] if len(found) == 1 else None


def behind_handler(here: Here, cfa: int | None) -> Caller | None:
    """The trampoline that a frame returns to although its rule says that it is the last, or None.

    Go marks its signal handler so (``runtime.sigtramp``), as to its own unwinder the stack ends there.
    """
    machine = here.around.machine
    sp = here.value(machine.stack_pointer)
    if cfa is None or sp is None:
        return None
    if machine.name == "x86-64":
        place = cfa - 8  # where the kernel put it, as a call would have done
    elif machine.name == "aarch64":
        place = sp  # where Go's prologue puts the link register
    else:
        return None
    read = len(here.reads)
    value = here.word("pc", place)
    if value is not None:
        target = here.around.return_target(value, signed=True)
        if here.around.trampoline(target) is not None:
            registers = {machine.stack_pointer: cfa}
            if machine.program_counter is not None:
                registers[machine.program_counter] = target
            return Caller(ReturnAddress(target), Trust.SIGNAL, registers, cfa=cfa, floor=cfa)
    del here.reads[read:]
    return None
