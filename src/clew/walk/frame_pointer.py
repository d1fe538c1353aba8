"""Strategy: the chain of frame records, one word that points to the next record beside the return address.

The chain is bounded to the stack, only ever goes outward, and never says more than it can: the registers that a record does
not hold are unknown afterwards. Where a record stands in its frame is not laid down on every machine (AAPCS64 6.4.6:
gcc puts it at the bottom, clang mostly at the top), so that the stack pointer may be unknown as well.
"""

from __future__ import annotations

from clew.table import AtCfa, RegisterPlus, Rule
from clew.walk.arm_frames import unwound_by_index
from clew.walk.fields import aarch64_sets_frame_pointer
from clew.walk.frame_code import sets_record_up
from clew.walk.frame_records import BACK_CHAINS, RECORDS, Record
from clew.walk.model import End, ReturnAddress, Trust
from clew.walk.step import Caller, Here, Outcome, Stop


def frame_pointer(here: Here) -> Outcome:
    """The caller by the frame record, or by the back chain, where no table says better."""
    if here.row is not None or (here.module is not None and unwound_by_index(here.module)):
        return None
    name = here.around.machine.name
    if name in BACK_CHAINS:
        return _back_chain(here, BACK_CHAINS[name])
    first: Outcome = None
    for record in RECORDS.get(name, ()):
        found = _recorded(here, record)
        if isinstance(found, Caller):
            return found
        first = first or found
    return first


def _recorded(here: Here, record: Record) -> Outcome:
    machine, word, mask = here.around.machine, here.around.word, here.around.mask
    pointer = here.value(record.register)
    if pointer is None or pointer == 0:
        return None
    if not sets_record_up(here):
        name = machine.register_name(record.register)
        return Stop(
            End.NO_RULE, f"the function at {here.pc.lookup:#x} has no row, and does not set {name} up", soft=True
        )
    low = pointer + word * min(record.previous, record.return_address)
    name = machine.register_name(record.register)
    if pointer % word or not here.on_stack(low, 2 * word):
        return None
    previous = here.word(name, pointer + word * record.previous)
    place = pointer + word * record.return_address
    value = here.word("return address", place)
    if previous is None or value is None:
        return here.unreadable(f"the return address of the record at {name}", place, word, soft=True)
    target = here.around.return_target(value, signed=True)
    if target == 0:
        return Stop(End.NULL_RETURN_ADDRESS, f"the return address beside the frame record at {name} is 0", soft=True)
    # Code without frame pointers may have left anything there; then only a call before the return address is proof enough,
    # or that it is where a signal's handler returns to.
    onward = previous == 0 or previous > pointer
    if not (here.around.may_return_to(target) if onward else here.around.certainly_returns_to(target)):
        return None
    registers = {record.register: previous}
    sp = None
    if record.stack_pointer is not None:
        sp = registers[machine.stack_pointer] = (pointer + word * record.stack_pointer) & mask
    if machine.program_counter is not None:
        registers[machine.program_counter] = target
    floor = (pointer + word * record.reach) & mask
    return Caller(ReturnAddress(target), Trust.FRAME_POINTER, registers, cfa=sp, floor=floor if sp is None else sp)


def _back_chain(here: Here, slot: int) -> Outcome:
    machine, word = here.around.machine, here.around.word
    sp = here.value(machine.stack_pointer)
    if sp is None or sp % word or not here.on_stack(sp, word):
        return None
    caller = here.word("back chain", sp)
    if caller is None:
        return here.unreadable("the back chain", sp, word, soft=True)
    if caller == 0 and machine.name.startswith("powerpc"):
        # ELF V2 ABI 2.2.2: the first frame's back chain is null. On s390x the word need not be a back chain at all.
        return Stop(End.ENTRY, "the back chain ends", soft=here.interrupted)
    if caller <= sp or caller % word or not here.on_stack(caller, word * (slot + 1)):
        return None
    value = here.word("return address", caller + word * slot)
    if value is None:
        return here.unreadable("the return address", caller + word * slot, word, soft=True)
    target = here.around.return_target(value, signed=False)
    if not here.around.may_return_to(target):
        return None
    registers = {machine.stack_pointer: caller}
    if machine.program_counter is not None:
        registers[machine.program_counter] = target
    return Caller(ReturnAddress(target), Trust.FRAME_POINTER, registers, cfa=None, floor=caller)


def cfa_of_record(here: Here, rule: Rule) -> int | None:
    """The CFA of an AArch64 frame to which a chain led, so that its stack pointer is unknown, or None.

    If the function saves x29 and x30 side by side, at a place that the rule gives from the CFA, and then points x29 there,
    the record that x29 points to tells the CFA. That it does is seen in its code: others save the pair and leave x29 alone.
    """
    machine = here.around.machine
    pointer = here.value(29)
    if machine.name != "aarch64" or here.value(machine.stack_pointer) is not None or not pointer:
        return None
    saved, link = rule[29], rule[30]
    if not isinstance(saved, AtCfa) or link != AtCfa(saved.offset + 8):
        return None
    if not isinstance(rule.cfa, RegisterPlus) or rule.cfa.register != machine.stack_pointer:
        return None
    start = here.around.function_start(here.pc.lookup)
    if start is None:
        return None
    for address in range(start, min(here.pc.address, start + 256), 4):
        code = here.around.code(address, 4)
        if code is not None and aarch64_sets_frame_pointer(int.from_bytes(code, "little")):
            return (pointer - saved.offset) & here.around.mask
    return None
