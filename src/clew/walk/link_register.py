"""Strategies: the return address is still where the call left it, in the link register or, on x86, on top of the stack.

So it is in a leaf function, in a prologue before the frame is set up, and in an epilogue after it was taken down. A frame
pointer is the *caller's* there, and following it would lose the caller without a word. Only the code around the pc tells,
and only the interrupted frame can be in such a place.
"""

from __future__ import annotations

from clew.arch import Default
from clew.walk.calls import call_target
from clew.walk.frame_code import may_have_changed_pointer
from clew.walk.frame_records import BACK_CHAINS
from clew.walk.leaf import DECODERS, untouched_by_code
from clew.walk.model import ReturnAddress, Trust
from clew.walk.step import Caller, Here, Outcome
from clew.walk.surroundings import ENDBR64

_PUSHING = ("x86-64", "i386")


def untouched(here: Here) -> Outcome:
    """The caller, where the code says that the return address is still where the call left it; no table needed."""
    if not here.interrupted or here.row is not None:
        return None
    machine = here.around.machine
    if here.around.code(here.pc.address, 1) is None:
        # In a module, the code is only not at hand.
        return None if here.module is not None else _called_nowhere(here)
    if machine.name in _PUSHING:
        return _x86(here)
    return _by_code(here)


def link_register(here: Here) -> Outcome:
    """The caller by the link register, where nothing else is known: in the interrupted frame, if a call stands before it."""
    if not here.interrupted or here.row is not None:
        return None
    if here.around.machine.name == "arm" and here.around.code(here.pc.address, 2) is not None:
        # What the code proves has been seen by arm_interrupted; behind a call, lr has the address of another one.
        return None
    target = _link(here)
    if target is None or not here.around.called(target):
        return None
    # What the function has done to the frame pointer is only known where its code is not.
    known = here.around.symbol_start(here.pc.address) is not None and here.around.machine.name in DECODERS
    return _caller(here, target, {} if known else here.keep(here.around.machine.frame_pointer), None)


def link_target(here: Here) -> int | None:
    """Where the link register says that the call returns to, or None where it cannot be that."""
    target = _link(here)
    return target if target is not None and here.around.may_return_to(target) else None


def _link(here: Here) -> int | None:
    register = here.around.machine.link_register
    value = None if register is None else here.value(register)
    target = None if value is None else here.around.return_target(value, signed=True)
    return None if target is None or _has_returned(here, target) else target


def _has_returned(here: Here, target: int) -> bool:
    """Whether the link register is left over from a call that this very function made: the call is in it, and to another."""
    start = here.around.symbol_start(here.pc.address)
    if start is None or here.around.symbol_start(target - 1) != start:
        return False
    callee = call_target(target, here.around.machine, here.around.code)
    # Power's functions have a second entry, behind what sets r2 up (ELF V2 ABI 3.4.1, "Symbol Values").
    entries = (0, 4, 8, 16, 32, 64) if here.around.machine.name == "powerpc64" else (0,)
    return callee is None or (callee - start) & here.around.mask not in entries


def _caller(
    here: Here, target: int, registers: dict[int, int], sp: int | None, trust: Trust = Trust.LINK_REGISTER
) -> Caller:
    machine = here.around.machine
    if machine.program_counter is not None:
        registers[machine.program_counter] = target
    if sp is not None:
        registers[machine.stack_pointer] = sp
    else:
        registers.pop(machine.stack_pointer, None)
    cfa = sp if machine.name in _PUSHING else None
    return Caller(ReturnAddress(target), trust, registers, cfa, floor=here.floor if sp is None else sp)


def _called_nowhere(here: Here) -> Outcome:
    """A call through a bad pointer: there is no code, so nothing has happened since."""
    machine = here.around.machine
    sp = here.value(machine.stack_pointer)
    if machine.name in _PUSHING:
        return _pushed(here, 0, here.keep(callee_saved=True))
    target = _link(here)
    if target is None or not here.around.called(target):
        return None
    return _caller(here, target, here.keep(callee_saved=True), sp)


def _pushed(here: Here, offset: int, registers: dict[int, int]) -> Outcome:
    """The return address that a call pushed, so many bytes above the stack pointer."""
    sp, word = here.value(here.around.machine.stack_pointer), here.around.word
    value = None if sp is None else here.word("return address", sp + offset)
    if sp is None or value is None:
        return None
    target = here.around.return_target(value, signed=False)
    if not here.around.may_return_to(target):
        return None
    return _caller(here, target, registers, (sp + offset + word) & here.around.mask)


def _x86(here: Here) -> Outcome:
    """The places in a function's life that its bytes give away (Intel SDM 2; System V ABI 3.2.2 for the prologue).

    ::

        endbr64                  f3 0f 1e fa
        push %rbp                55             the return address is on top: (%rsp)
        mov  %rsp,%rbp           48 89 e5       8(%rsp)
        …                                       8(%rbp)
        pop  %rbp / leave        5d / c9        8(%rbp)
        ret                      c3             (%rsp)
    """
    machine, address, word = here.around.machine, here.pc.address, here.around.word
    frame_pointer = machine.frame_pointer
    code = here.around.code(address, 16) or here.around.code(address, 1) or b""
    moves = (b"\x48\x89\xe5", b"\x48\x8b\xec") if word == 8 else (b"\x89\xe5", b"\x8b\xec")
    body = _behind_mark(code)
    intact = here.keep(callee_saved=True)
    pushing = body[:1] == b"\x55" and body[1:].startswith(moves)
    returning = body[:1] in (b"\xc3", b"\xc2") or body[:2] in (b"\xf3\xc3", b"\xf2\xc3")
    if pushing or returning or _is_stub(body):
        return _pushed(here, 0, intact)
    before = here.around.code(address - 1, 1)
    if body.startswith(moves) and before == b"\x55" and frame_pointer is not None:
        sp = here.value(machine.stack_pointer)
        saved = None if sp is None else here.word(machine.register_name(frame_pointer), sp)
        intact.pop(frame_pointer, None)
        return _pushed(here, word, intact if saved is None else {**intact, frame_pointer: saved})
    if body[:1] == b"\xe9" and here.around.code(address - 5, 1) == b"\x68":
        # In a lazy PLT entry, behind the push of the symbol's number.
        return _pushed(here, word, intact)
    return _x86_leaf(here, moves)


def _x86_leaf(here: Here, moves: tuple[bytes, ...]) -> Outcome:
    """A leaf without a frame, as compilers make them even where functions shall have one: the word on top of the stack is
    a return address, and the call before it is to the very function that the pc is in."""
    sp = here.value(here.around.machine.stack_pointer)
    start = here.around.symbol_start(here.pc.address)
    word = None if sp is None or start is None else here.word("return address", sp)
    if word is None or start is None:
        return None
    call = here.around.code(word - 5, 5)
    if (
        call is None
        or call[0] != 0xE8
        or (word + int.from_bytes(call[1:], "little", signed=True) - start) & here.around.mask
    ):
        return None
    prologue = _behind_mark(here.around.code(start, 9) or b"")
    if prologue[:1] == b"\x55" and prologue[1:].startswith(moves):
        return None
    return _pushed(here, 0, here.keep(here.around.machine.frame_pointer))


def _behind_mark(code: bytes) -> bytes:
    """Code without the ``endbr64`` or ``endbr32`` that it may begin with."""
    return code.removeprefix(ENDBR64).removeprefix(b"\xf3\x0f\x1e\xfb")


def _is_stub(code: bytes) -> bool:
    """An entry of a PLT: a jump through the GOT, or the push of a number and a jump to the PLT's head."""
    jump = code[1:] if code[:1] == b"\xf2" else code
    return jump[:2] in (b"\xff\x25", b"\xff\xa3") or (code[:1] == b"\x68" and code[5:6] in (b"\xe9", b"\xf2"))


def _by_code(here: Here) -> Outcome:
    """The caller, where the code proves that the link register has the return address, or where on the stack it is."""
    found = untouched_by_code(here)
    if found is None:
        return None
    machine = here.around.machine
    sp = here.value(machine.stack_pointer)
    if found.link is None and found.copied is None:
        target = link_target(here)
    else:
        value = None if found.copied is None else here.value(found.copied)
        if found.link is not None:
            value = None if sp is None else here.word("return address", sp + found.link)
        target = None if value is None else here.around.return_target(value, signed=True)
        target = target if target is not None and here.around.may_return_to(target) else None
    if target is None:
        return None
    kept = machine.frame_pointer
    if not found.whole and (machine.name in BACK_CHAINS or may_have_changed_pointer(here)):
        # With a back chain, the next frame does without it.
        kept = None
    registers = here.keep(kept, callee_saved=found.whole)
    for number, offset in found.saved.items():
        registers.pop(number, None)
        if sp is not None and offset is not None and machine.default(number) is Default.SAME_VALUE:
            value = here.word(machine.register_name(number), sp + offset)
            if value is not None:
                registers[number] = value
    top = None if sp is None or found.moved is None else (sp + found.moved) & here.around.mask
    if top is None and machine.stack_pointer in found.saved:
        top = registers.get(machine.stack_pointer)
    trust = Trust.LINK_REGISTER if found.link is None and found.copied is None else Trust.SYNTHESISED
    return _caller(here, target, registers, top, trust)
