"""Strategy for the interrupted frame on 32-bit Arm: what the code around the pc says of the frame.

An entry of ``.ARM.exidx`` is for a whole function and true at its calls only (IHI 0038, 5.1: unwinding is for exceptions,
which calls throw). Interrupted in a prologue, the frame is not made yet, and in an epilogue it is taken down already. Two
things are tried:

- From the pc on, the code goes straight to a return: what it does to the stack and to the registers until then is what
  unwinding has to do. Whichever way a conditional branch goes, every way to a return must come to the same.
- From the pc on, or from a little before it, the code makes the frame that the entry tells of: then it is not made yet, or
  in part. Where the function begins is not known for certain: linkers make one entry of those of neighbours that are equal.

Otherwise, the entry is true.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from clew.errors import Error
from clew.read.arm_exidx.image import NAME as ARM_EXIDX
from clew.table import AtCfa, RegisterPlus, Rule
from clew.target.model import Module
from clew.walk.arm_code import LR, PC, SP, Effect, Kind, arm, thumb
from clew.walk.model import ReturnAddress, Trust
from clew.walk.step import Caller, Here, Outcome

INSTRUCTIONS = 64
"""How many instructions are followed to a return."""

_PROLOGUE = 256
"""How many are looked at for where a frame is made; some functions do something before they make one."""

_MAKING = 64
"""How many bytes before the pc a frame may have been begun."""

_D = 256


def arm_interrupted(here: Here) -> Outcome:
    """The caller by the code around the pc, where that proves it; where call frame information is, that is exact."""
    if not here.interrupted or here.around.machine.name != "arm":
        return None
    start = end = None
    rule = None
    if here.row is not None and here.module is not None and here.module.table is not None:
        function = here.module.table.range_at((here.pc.lookup - here.module.bias) & here.around.mask)
        if function is None or function.source != ARM_EXIDX:
            return None
        rule = here.row.rule
        start, end = function.start + here.module.bias, function.end + here.module.bias
    found = [_by_code(here, short, start, end, rule) for short in _sets(here, start, rule)]
    # Where it is not known which instructions these are, both readings must come to the same.
    first = found[0]
    same = all(
        first is not None and caller is not None and (caller.pc, caller.floor) == (first.pc, first.floor)
        for caller in found
    )
    return first if same else None


def unwound_by_index(module: Module) -> bool:
    """Whether a module has the unwinding entries of 32-bit Arm.

    Its functions then need no frame pointer: r11 is a register like others in Thumb code (AAPCS32 6.1.1), and zero from the
    program's start until somebody uses it. Where such a module says nothing of a function, r11 says nothing either.
    """
    table = module.table
    return table is not None and ARM_EXIDX in table.ranges.sources


def _sets(here: Here, start: int | None, rule: Rule | None) -> tuple[bool, ...]:
    """Which instruction sets the code may be of: T32 (True) or A32."""
    if here.pc.address & 2:
        return (True,)
    known = _by_symbol(here)
    if known is not None:
        return (known,)
    if start is not None and rule is not None and rule.registers:
        fitting = [short for short in (True, False) if _prologue(here, short, start, None, rule) is not None]
        if len(fitting) == 1:
            return (fitting[0],)
    return (True, False)


def _by_symbol(here: Here) -> bool | None:
    """Whether the function's symbol says that it is of the T32 set (ELF for the Arm Architecture, "Symbol Values")."""
    image = here.module.image if here.module is not None else None
    if here.module is None or image is None:
        return None
    try:
        symbols = image.symbols()
        found = symbols.at((here.pc.address - here.module.bias) & here.around.mask)
        return None if found is None or not symbols.is_code[found[0]] else bool(int(symbols.value[found[0]]) & 1)
    except Error:
        return None


def _by_code(here: Here, short: bool, start: int | None, end: int | None, rule: Rule | None) -> Caller | None:
    caller = _followed(here, short, start, end)
    if caller is not None or start is None or rule is None:
        return caller
    pc = here.pc.address
    for begin in range(pc, max(start, pc - _MAKING) - 1, -2 if short else -4):
        made = _prologue(here, short, begin, pc, rule)
        if made is not None and not made.complete:
            return _from_prologue(here, made)
    return None


def _instructions(here: Here, short: bool, address: int, count: int) -> Generator[tuple[int, Effect], int | None, None]:
    """Instructions in the order of addresses, or, for the one who sends an address, from there on."""
    conditional = 0
    for _ in range(count):
        address &= here.around.mask
        data = here.around.code(address, 4) or here.around.code(address, 2)
        if data is None or (len(data) < 4 and not short) or not here.work.spend(1):
            return
        if short:
            first, second = int.from_bytes(data[:2], "little"), int.from_bytes(data[2:4], "little")
            effect = thumb(first, second, address)
        else:
            effect = arm(int.from_bytes(data, "little"), address)
        if conditional:
            conditional -= 1
            if effect.kind is not Kind.CALL:
                skipped = Effect(size=effect.size)
                unclear = effect.kind is Kind.NEXT and effect.on_stack
                effect = Effect(Kind.UNKNOWN) if unclear else skipped if effect.kind is not Kind.NEXT else effect
        conditional = conditional or effect.then
        sent = yield address, effect
        address = address + effect.size if sent is None else sent


def _followed(here: Here, short: bool, start: int | None, end: int | None) -> Caller | None:
    """Follows the code from the pc to a return, with the registers and the stack as they are."""
    registers = dict(here.registers)
    written: dict[int, int | None] = {}
    steps = _instructions(here, short, here.pc.address, INSTRUCTIONS)
    send: int | None = None
    while True:
        try:
            _, effect = steps.send(send) if send is not None else next(steps)
        except StopIteration:
            return None
        send = None
        # sigreturn and rt_sigreturn do not return here; of another call, only r0 is changed.
        if effect.kind is Kind.SYSTEM and registers.get(7, 119) in (119, 173):
            return None
        if effect.kind in (Kind.CALL, Kind.UNKNOWN) or not _apply(here, effect, registers, written):
            return None
        if effect.kind is Kind.JUMP:
            if start is None or end is None or start <= effect.target < end:
                send = effect.target
                continue
            # A tail call: the other function is entered as this one was.
            return _caller(here, registers, registers.get(LR))
        if effect.kind is Kind.RETURN:
            popped = any(register == PC for register, _ in effect.loaded)
            return _caller(here, registers, registers.get(PC if popped else LR))


def _apply(here: Here, effect: Effect, registers: dict[int, int], written: dict[int, int | None]) -> bool:
    """Does what an instruction does; False where that cannot be told."""
    mask = here.around.mask
    sp = registers.get(SP)
    if sp is None and effect.on_stack:
        return False
    values: dict[int, int | None] = {}
    if sp is not None:
        for register, offset in effect.saved:
            written[(sp + offset) & mask] = registers.get(register) if register < _D else None
        for register, offset in effect.loaded:
            place = (sp + offset) & mask
            size = 8 if register >= _D else 4
            name = here.around.machine.register_name(register)
            values[register] = written[place] if place in written else here.load(name, place, size)
        registers[SP] = (sp + effect.moved) & mask
        if effect.made is not None:
            values[effect.made[0]] = (sp + effect.made[1]) & mask
    if effect.taken is not None:
        base = registers.get(effect.taken[0])
        if base is None:
            return False
        registers[SP] = (base + effect.taken[1]) & mask
    if effect.changed is not None:
        register, amount = effect.changed
        value = registers.get(register)
        values[register] = None if value is None or amount is None else (value + amount) & mask
    for register, known in values.items():
        if known is None:
            registers.pop(register, None)
        else:
            registers[register] = known
    return True


def _caller(here: Here, registers: dict[int, int], back: int | None) -> Caller | None:
    """The frame that a return leads to, if that can be one."""
    machine, sp = here.around.machine, registers.get(SP)
    if back is None or sp is None or (here.floor is not None and sp < here.floor):
        return None
    target = here.around.return_target(back, signed=False)
    if not here.around.may_return_to(target):
        return None
    kept = {number: value for number, value in registers.items() if number in machine.callee_saved}
    kept |= {SP: sp, PC: target}
    return Caller(ReturnAddress(target), Trust.LINK_REGISTER, kept, sp, floor=sp)


@dataclass
class _Frame:
    """A frame in the making.

    Attributes:
        size: how far the stack pointer is below where it was.
        saved: registers by where they are, from there.
        made: registers that point into it, likewise.
        link: whether lr still has the return address.
        complete: whether it is as its entry says.
    """

    size: int = 0
    saved: dict[int, int] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)
    link: bool = True
    complete: bool = False

    def copy(self) -> _Frame:
        return _Frame(self.size, dict(self.saved), dict(self.made), self.link, self.complete)

    def fits(self, rule: Rule) -> bool:
        """Whether it is what a rule tells of."""
        if not isinstance(rule.cfa, RegisterPlus):
            return False
        register, offset = rule.cfa.register, rule.cfa.offset
        if (self.size if register == SP else -self.made.get(register, 1)) != offset:
            return False
        return all(isinstance(term, AtCfa) and self.saved.get(number) == term.offset for number, term in rule.registers)

    def change(self, effect: Effect) -> None:
        """Does what an instruction does."""
        self.saved.update(
            (register, offset - self.size) for register, offset in effect.saved if register not in self.saved
        )
        if effect.made is not None:
            self.made[effect.made[0]] = effect.made[1] - self.size
        if effect.changed is not None and effect.changed[0] == LR:
            self.link = False
        self.size -= effect.moved


def _prologue(here: Here, short: bool, start: int, pc: int | None, rule: Rule) -> _Frame | None:
    """The frame as it is at a pc, if from the start on the code makes what the rule tells of; without a pc, when it is made.

    None where it does not, or where the pc is not one of its instructions.
    """
    frame, there = _Frame(), None
    frame.complete = frame.fits(rule)
    for address, effect in _instructions(here, short, start, _PROLOGUE if start == pc else _MAKING):
        if frame.complete:
            break
        if address == pc:
            there = frame.copy()
        if effect.kind not in (Kind.NEXT, Kind.SYSTEM) or effect.taken is not None:
            return None
        frame.change(effect)
        frame.complete = frame.fits(rule)
    if not frame.complete:
        return None
    return frame if pc is None else there


def _from_prologue(here: Here, frame: _Frame) -> Caller | None:
    """The caller of a function whose frame is being made."""
    sp = here.registers.get(SP)
    if sp is None:
        return None
    cfa = (sp + frame.size) & here.around.mask
    registers = {number: value for number, value in here.registers.items() if number not in (PC, SP)}
    if not frame.link:
        registers.pop(LR, None)
    for register, offset in frame.saved.items():
        if register < _D:
            value = here.word(here.around.machine.register_name(register), cfa + offset)
            if value is None:
                return None
            registers[register] = value
    registers[SP] = cfa
    return _caller(here, registers, registers.get(LR))
