"""Strategy: where Go's runtime goes from one stack to another, and calls that nobody made.

A goroutine has a stack of its own on the heap. The runtime's own work, and C, run on the thread's stack ("g0"): the functions
that change over keep the frame pointer at the record that they made before, so that it leads back (runtime/asm_amd64.s).
"""

from __future__ import annotations

from dataclasses import replace

from clew.table import AtCfa, RegisterPlus, Rule, Undefined
from clew.walk.apply import apply
from clew.walk.go_files import go_functions, is_go
from clew.walk.model import End, Interrupted, ReturnAddress, Trust
from clew.walk.step import Caller, Here, Outcome, Stop

_RBP, _RSP = 6, 7

# Everything by the record that push %rbp; mov %rsp,%rbp made, whatever the stack pointer is.
_RECORD = Rule(
    RegisterPlus(_RBP, 16),
    (
        (3, Undefined()),
        (_RBP, AtCfa(-16)),
        *((register, Undefined()) for register in (12, 13, 14, 15)),
        (16, AtCfa(-8)),
    ),
    16,
)
_PROLOGUE = b"\x55\x48\x89\xe5"
_AFTER_RECORD = (b"\xc3", b"\xff\xe7")  # ret; jmp *%rdi, behind the pop of the frame pointer

_SWITCHES = frozenset({"runtime.systemstack", "runtime.asmcgocall", "runtime.cgocallback"})

# These call the vdso, on the thread's stack if they are on a goroutine's, or on their own, aligned (runtime/sys_linux_amd64.s).
_CLOCKS = frozenset(
    {"runtime.nanotime1", "runtime.walltime", "runtime.walltime1", "time.now", "runtime.asmcgocall_no_g"}
)

# runtime/traceback.go: their return addresses are where a signal interrupted the goroutine, written by its handler.
_INJECTED = frozenset({"runtime.sigpanic", "runtime.asyncPreempt", "runtime.debugCallV2"})

_MORESTACK = "runtime.morestack"

GO_STACKS = _SWITCHES | _CLOCKS | _INJECTED | {_MORESTACK}
"""The functions whose frames this module leaves."""


def go_stack(here: Here) -> Outcome:
    """The caller in a goroutine, from the thread's stack, or of a call that a signal's handler put there."""
    module = here.module
    if module is None or here.around.machine.name != "x86-64" or not is_go(module):
        return None
    start, name = go_functions(module, GO_STACKS).at((here.pc.lookup - module.bias) & here.around.mask) or (0, "")
    if name in _SWITCHES | _CLOCKS:
        return _switched(here, start + module.bias, name in _SWITCHES)
    if name == _MORESTACK and not here.interrupted:
        return Stop(End.NO_RULE, f"{name} has left the goroutine's stack, and only Go's runtime knows for which")
    if name in _INJECTED and (here.row is not None or not here.interrupted):
        rule, trust = (_RECORD, Trust.FRAME_POINTER) if here.row is None else (here.row.rule, Trust.CFI)
        outcome = apply(here, rule, trust)
        # What is there was interrupted, maybe at a function's first instruction.
        return replace(outcome, pc=Interrupted(outcome.pc.address)) if isinstance(outcome, Caller) else outcome
    return _chained(here) if here.row is None and not here.interrupted else None


def _switched(here: Here, start: int, always: bool) -> Outcome:
    code = here.around.code(here.pc.address, 2) or b""
    before = here.interrupted and (here.pc.address < start + len(_PROLOGUE) or code.startswith(_AFTER_RECORD))
    if before:
        return None
    if here.around.code(start, len(_PROLOGUE)) != _PROLOGUE:
        if not always:
            return None
        return Stop(End.NO_RULE, "this version of Go's runtime does not keep a frame record where it changes stacks")
    outcome = apply(here, _RECORD, Trust.FRAME_POINTER)
    if not isinstance(outcome, Caller):
        return outcome
    if not here.around.called(outcome.pc.address):
        return Stop(End.BAD_RULE, f"{outcome.pc.address:#x}, where the record leads on, is behind no call", outcome.cfa)
    return replace(outcome, rule=None, other_stack=True)


def _chained(here: Here) -> Outcome:
    """Without tables: a frame record that the frame-pointer strategy does not believe, but Go makes.

    It is on another stack, and only a call can have made it; or it is a goroutine's first, whose function returns behind the
    first instruction of ``runtime.goexit``, a ``nop`` that stands there for the call that it looks like.
    """
    pointer = here.value(_RBP)
    if not pointer or pointer % 8:
        return None
    previous, target = here.word("rbp", pointer), here.word("return address", pointer + 8)
    module = None if target is None else here.around.modules.at(target)
    if previous is None or target is None or module is None or not is_go(module):
        return None
    near = here.on_stack(pointer, 16)
    code = b"" if near and previous else here.around.code(target - 1, 7) or b""
    first = previous == 0 and code[:2] == b"\x90\xe8" and code[6:] == b"\x90"
    if not first and (near or not here.around.called(target)):
        return None
    sp = (pointer + 16) & here.around.mask
    registers = {_RBP: previous, _RSP: sp, 16: target}
    return Caller(ReturnAddress(target), Trust.FRAME_POINTER, registers, cfa=sp, floor=sp, other_stack=not near)
