"""Strategy: a rule, from the table or made from code. Applies it to registers and memory, all terms from the old frame."""

from __future__ import annotations

from clew.arch import Default
from clew.errors import EvaluationError
from clew.table import (
    Architectural,
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    InRegister,
    InvalidExpression,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Signing,
    Undefined,
    UnknownRegisterError,
    UnreadableMemoryError,
    evaluate,
)
from clew.table.evaluate import MAXIMUM_STEPS
from clew.table.resolver import stack_pointer_term
from clew.table.rule import AnyExpression
from clew.walk.model import End, Interrupted, ReturnAddress, Trust
from clew.walk.step import Caller, Here, Stop
from clew.walk.widths import register_width


def apply(here: Here, rule: Rule, trust: Trust, cfa: int | None = None) -> Caller | Stop:
    """The caller by a rule, or why the rule does not lead to one.

    A register whose value cannot be had is unknown in the caller; only the CFA and the return address are needed.

    Args:
        here: the frame.
        rule: how to undo it.
        trust: what to call the frame that is found.
        cfa: the CFA, when something else than the rule tells it.
    """
    machine, mask = here.around.machine, here.around.mask
    if not here.work.spend(len(rule.registers) + 4):
        return _too_much(rule)
    column = rule.return_address
    name = machine.register_name(column)
    if cfa is None:
        found = _cfa(here, rule)
        if isinstance(found, Stop):
            # The outermost frame is that without a CFA, too.
            return _outermost(name, None, rule) if isinstance(rule[column], Undefined) else found
        cfa = found
    registers: dict[int, int] = {}
    failed: dict[int, Stop] = {}
    named = dict(rule.registers)
    for number, term in rule.registers:
        value = _term(here, number, term, cfa)
        if isinstance(value, Stop):
            failed[number] = value
        else:
            registers[number] = value
    caller_sp = _stack_pointer(here, rule, cfa)
    for number in {*here.registers, machine.stack_pointer} - named.keys():
        kept = caller_sp if machine.default(number) is Default.CFA else here.registers.get(number)
        if machine.default(number) is not Default.UNKNOWN and kept is not None:
            registers[number] = kept
    if column in failed:
        reason = failed[column]
        return Stop(reason.end, reason.detail, cfa, rule)
    if column not in named and machine.default(column) is Default.UNKNOWN:
        if column in (machine.return_address, machine.program_counter) or column not in here.registers:
            return Stop(End.BAD_RULE, f"the rule does not say where the return address ({name}) is", cfa, rule)
        # Helpers of compilers are called with the return address in a register of their own choice, which the CIE names: t0
        # of RISC-V's __riscv_save_0, x15 of AArch64's out-of-line code. No rule says that it stays there.
        registers[column] = here.registers[column]
    if column not in registers:
        return Stop(End.UNKNOWN_REGISTER, f"the return address is in {name}, which is unknown", cfa, rule)
    value = registers[column]
    if rule.signal_frame:
        pc = here.around.strip(value) & machine.address_mask & mask
        address: Interrupted | ReturnAddress = Interrupted(pc)
    else:
        signed = rule.signing is not Signing.NONE
        pc = here.around.return_target(value, signed=signed)
        if not here.around.pointer(value, signed=signed):
            return _null(here, rule, cfa, name)
        same = isinstance(named.get(column, SameValue()), SameValue)
        if same and not here.interrupted and pc == here.pc.address:
            # It keeps its value only until the function calls another, and this one has.
            return Stop(End.NO_PROGRESS, f"{name} still has this frame's own address, {pc:#x}", cfa, rule)
        address = ReturnAddress(pc)
    if machine.program_counter is not None:
        registers[machine.program_counter] = pc
    sp = registers.get(machine.stack_pointer)
    return Caller(address, trust, registers, cfa, rule, sp if sp is not None else here.floor)


def _stack_pointer(here: Here, rule: Rule, cfa: int) -> int:
    """The caller's stack pointer, where it is the CFA unless the rule says otherwise."""
    term = stack_pointer_term(here.around.machine, rule)
    if isinstance(term, CfaPlus):
        return (cfa + term.offset) & here.around.mask
    sp = here.value(here.around.machine.stack_pointer)
    return cfa if sp is None else sp


def _null(here: Here, rule: Rule, cfa: int, name: str) -> Stop:
    """A return address of zero.

    The 64-bit ELF V2 ABI for Power (2.2.2) ends the chain of frames with a null back chain; glibc's ``_start`` clears
    the link register and goes on to ``__libc_start_main`` with a branch, so that its frame is the last. Elsewhere, nothing
    says that a zero is not a damaged stack.
    """
    if here.around.machine.name.startswith("powerpc") and here.word("back chain", cfa) == 0:
        return Stop(End.ENTRY, f"{name} is 0 and the back chain ends", cfa, rule)
    return Stop(End.NULL_RETURN_ADDRESS, f"{name} is 0", cfa, rule)


def _outermost(name: str, cfa: int | None, rule: Rule | None) -> Stop:
    return Stop(End.ENTRY, f"{name} is undefined: this is the outermost frame", cfa, rule)


def _too_much(rule: Rule) -> Stop:
    return Stop(End.LIMIT, "the rules of this stack take too many steps", None, rule)


def _cfa(here: Here, rule: Rule) -> int | Stop:
    machine = here.around.machine
    match rule.cfa:
        case RegisterPlus(register, offset):
            value = here.value(register)
            if value is None:
                name = machine.register_name(register)
                return Stop(End.UNKNOWN_REGISTER, f"the CFA needs {name}, which is unknown", None, rule)
            return (value + offset) & here.around.mask
        case CfaExpression(expression):
            found = _evaluate(here, expression, (), "cfa")
            return Stop(found.end, found.detail, None, rule) if isinstance(found, Stop) else found & here.around.mask
        case _:
            return Stop(End.BAD_RULE, "the rule gives no CFA", None, rule)


def _term(here: Here, register: int, term: RegisterRule, cfa: int) -> int | Stop:
    """The caller's value of a register, or why it cannot be had."""
    machine = here.around.machine
    name = machine.register_name(register)
    width = register_width(machine, register)
    if width is None:
        return Stop(End.BAD_RULE, f"the width of {name} is not known")
    mask = (1 << 8 * width) - 1
    match term:
        case SameValue() | InRegister():
            source = term.register if isinstance(term, InRegister) else register
            value = here.value(source)
            if value is None:
                return Stop(End.UNKNOWN_REGISTER, f"{name} is in {machine.register_name(source)}, which is unknown")
            return value & mask
        case AtCfa(offset):
            return _load(here, name, cfa + offset, width)
        case CfaPlus(offset):
            return (cfa + offset) & here.around.mask & mask
        case AtExpression(expression) | IsExpression(expression):
            found = _evaluate(here, expression, (cfa,), name)
            if isinstance(found, Stop):
                return found
            return _load(here, name, found, width) if isinstance(term, AtExpression) else found & mask
        case Undefined():
            return _outermost(name, None, None)
        case Architectural():
            return Stop(End.BAD_RULE, f"{name} is for the machine to recover, which no machine that clew knows does")


def _load(here: Here, name: str, address: int, width: int) -> int | Stop:
    value = here.load(name, address, width)
    return here.unreadable(name, address, width) if value is None else value


class _Noted:
    """Memory that notes what an expression loads."""

    def __init__(self, here: Here, name: str) -> None:
        self.here = here
        self.name = name

    def read(self, address: int, size: int) -> bytes | None:
        value = self.here.load(self.name, address, size)
        return None if value is None else value.to_bytes(size, self.here.around.machine.byte_order)


def _evaluate(here: Here, expression: AnyExpression, initial: tuple[int, ...], name: str) -> int | Stop:
    if isinstance(expression, InvalidExpression):
        return Stop(End.BAD_RULE, f"the expression of {name} cannot be read: {expression.reason}")
    # What a branch may repeat is counted as if it did.
    loops = any(step[0] in ("bra", "skip") for step in expression.canonical)
    if not here.work.spend(MAXIMUM_STEPS if loops else len(expression.canonical)):
        return Stop(End.LIMIT, "the expressions of this stack's rules take too many steps")
    try:
        return evaluate(expression, registers=here.value, memory=_Noted(here, name), initial=initial)
    except UnknownRegisterError as error:
        source = here.around.machine.register_name(error.register)
        return Stop(End.UNKNOWN_REGISTER, f"{name} needs {source}, which is unknown")
    except UnreadableMemoryError as error:
        return here.unreadable(f"what {name} needs", error.address, error.size)
    except EvaluationError as error:
        return Stop(End.BAD_RULE, f"the expression of {name} cannot be evaluated: {error.message}")
