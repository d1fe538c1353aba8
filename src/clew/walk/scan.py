"""Strategy of last resort, only where it is asked for: the next word on the stack that looks like a return address.

It may well be one that another call has left there. So it has to look it: a call stands before it, and where the machine's
calls push it, a table that knows its function must lead on from there.
"""

from __future__ import annotations

from clew.walk.apply import apply
from clew.walk.model import End, ReturnAddress, Trust
from clew.walk.step import Caller, Here, Outcome, Stop

WORDS = 1024
"""How many words are looked at."""


def scan(here: Here) -> Outcome:
    """The frame of the nearest return address on the stack: ``cfi_scan`` where its table row leads on from it."""
    machine, word = here.around.machine, here.around.word
    if here.floor is None:
        return None
    # On machines with a link register, a word that a callee saved there lies anywhere in the frame.
    exact = machine.link_register is None
    start = -(-here.floor // word) * word
    for place in range(start, start + WORDS * word, word):
        data = here.around.memory.read(place, word) if here.on_stack(place, word) else None
        if data is None:
            return None
        if not here.work.spend(1):
            return Stop(End.LIMIT, "too much of this stack would have to be looked at")
        target = here.around.return_target(int.from_bytes(data, machine.byte_order), signed=True)
        if not here.around.called(target) or here.around.modules.at(target - 1) is None:
            continue
        found = _tried(here, target, place + word, exact)
        if found is not None:
            here.reads.clear()
            here.word("return address", place)
            return found
    return None


def _tried(here: Here, target: int, top: int, exact: bool) -> Caller | None:
    machine = here.around.machine
    registers = {machine.stack_pointer: top & here.around.mask} if exact else {}
    if machine.program_counter is not None:
        registers[machine.program_counter] = target
    pc = ReturnAddress(target)
    module, row = here.around.row(pc.lookup)
    plain = Caller(pc, Trust.SCAN, registers, floor=top)
    if row is None or not exact:
        return plain
    next_here = Here(here.around, pc, Trust.SCAN, registers, top, module, row, here.limits, here.work)
    beyond = apply(next_here, row.rule, Trust.CFI)
    if isinstance(beyond, Stop):
        # A rule that needs a register which the scan could not recover is no proof against it.
        if beyond.end is End.UNKNOWN_REGISTER:
            return plain
        proven = beyond.end is End.ENTRY
    else:
        proven = here.around.may_return_to(beyond.pc.address)
    return Caller(pc, Trust.CFI_SCAN, registers, floor=top) if proven else None
