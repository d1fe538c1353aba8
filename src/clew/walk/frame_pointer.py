"""Strategy: the chain of frame records, one word that points to the next record beside the return address.

The chain is bounded to the stack, only ever goes outward, and never says more than it can: the registers that a record does
not hold are unknown afterwards. Where a record stands in its frame is not laid down on every machine (AAPCS64 6.4.6:
gcc puts it at the bottom, clang mostly at the top), so that the stack pointer may be unknown as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clew.table import AtCfa, RegisterPlus, Rule
from clew.walk.arm_frames import unwound_by_index
from clew.walk.frame_code import sets_record_up
from clew.walk.model import End, ReturnAddress, Trust
from clew.walk.step import Caller, Here, Outcome, Stop


@dataclass(frozen=True)
class Record:
    """Where a frame record has what, in words from the address in the frame pointer.

    Attributes:
        register: the frame pointer.
        previous, return_address: the caller's frame pointer, and where to return to.
        stack_pointer: the caller's stack pointer, or None where the record does not tell.
    """

    register: int
    previous: int
    return_address: int
    stack_pointer: int | None

    @property
    def reach(self) -> int:
        """Words from the frame pointer to behind the record."""
        return max(self.previous, self.return_address) + 1


RECORDS: Mapping[str, tuple[Record, ...]] = {
    # System V ABI, figure 3.3.
    "x86-64": (Record(6, 0, 1, 2),),
    "i386": (Record(5, 0, 1, 2),),
    # AAPCS64 6.4.6.
    "aarch64": (Record(29, 0, 1, None),),
    # AAPCS32 6.2.1.4, as clang does; what gcc makes of -fno-omit-frame-pointer, with fp at the saved lr.
    "arm": (Record(11, 0, 1, None), Record(11, -1, 0, 1)),
    # RISC-V psABI, "Frame pointer convention": the CFA is in s0, the record below it. LoongArch likewise.
    "riscv64": (Record(8, -2, -1, 0),),
    "riscv32": (Record(8, -2, -1, 0),),
    "loongarch64": (Record(22, -2, -1, 0),),
}

BACK_CHAINS: Mapping[str, int] = {
    # The stack pointer points to the caller's; which word of the caller's frame has the return address. ELF V2 ABI 2.2.2;
    # SVR4 PowerPC supplement; s390x ELF ABI, "Register save area" (r14's word in it): chained only with -mbackchain.
    "powerpc64": 2,
    "powerpc": 1,
    "s390x": 14,
    "s390": 14,
}


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
        # add x29, sp, #n
        if code is not None and int.from_bytes(code, "little") & 0xFF8003FF == 0x910003FD:
            return (pointer - saved.offset) & here.around.mask
    return None
