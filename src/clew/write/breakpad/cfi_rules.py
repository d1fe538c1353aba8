"""Rules of a Table as the rules of ``STACK CFI`` records: what each register's text is, and what has to be said.

A record says what differs: an ``INIT`` from what readers take for granted, a later record from the one before. By the
format's document, registers that calls preserve and that are not mentioned are unchanged, and a stack pointer that is not
mentioned is the CFA. So a register that calls do not preserve is mentioned where its value is known and, as ``.undef``,
where it no longer is; one that is back in place is ``$r: $r``.

The return address is ``.ra``, whichever register it is in. Where it is *undefined*, which ends the stack, the text is
``.ra: 16``. The document's ``.undef`` would say that the value is lost, and both processors take this for a failure: they
go on with frame pointers and by scanning, and print what they find above ``_start`` as callers. Both end a walk at a
return address below 4096, but Breakpad refuses 0 on x86-64 and goes on there as well, and subtracts 8 on MIPS.
"""

from __future__ import annotations

from clew.arch import Default, Machine
from clew.table import (
    Architectural,
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    Expression,
    InRegister,
    InvalidExpression,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Signing,
    Undefined,
)
from clew.table.postfix_registers import register_name

#: What ``.ra`` is where the stack ends.
END_OF_STACK = "16"

#: The keys of what a record says besides registers, which are numbers.
CFA, RA = -2, -1

# Why something is not said, in the words of a message.
NO_CFA = "the row has no CFA"
CFA_NOT_SAYABLE = "the CFA's expression has no form in postfix"
CFA_INVALID = "the CFA's expression cannot be read"
NO_RETURN_ADDRESS = "nothing is known of the return address"
RETURN_ADDRESS_NOT_SAYABLE = "the return address's expression has no form in postfix"
NOT_SAYABLE = "a register's expression has no form in postfix"
INVALID = "a register's expression cannot be read"
ARCHITECTURAL = "only the machine knows where the register is"
PROGRAM_COUNTER = "there is a rule for the program counter besides the return address"
SIGNING = "the return address is signed"
SIGNAL_FRAME = "the frame is a signal's: its caller's address is that of an instruction to come"


class CfiRules:
    """Says the rules of one machine's tables.

    Args:
        machine: whose registers the rules name.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.bits = machine.bits
        self._names: dict[int, str] = {CFA: ".cfa", RA: ".ra"}
        self._assumed: dict[int, str] = {CFA: "", RA: ""}

    def name(self, key: int) -> str:
        """What stands before the colon."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = register_name(self.machine, key)
        return name

    def assumed(self, key: int) -> str:
        """The text that readers take for granted of a register that no record mentions."""
        text = self._assumed.get(key)
        if text is None:
            if key == self.machine.stack_pointer:
                text = ".cfa"
            else:
                text = self.name(key) if self.machine.default(key) is Default.SAME_VALUE else ".undef"
            self._assumed[key] = text
        return text

    def cells(self, rule: Rule) -> tuple[dict[int, str] | None, tuple[str, ...]]:
        """What a rule has to say, by key, without what is taken for granted; and why other things are not said.

        None where processors could not walk by it: without CFA or return address a record is ignored, so there is none.
        """
        reasons: list[str] = []
        if rule.signing is not Signing.NONE:
            reasons.append(SIGNING)
        if rule.signal_frame:
            reasons.append(SIGNAL_FRAME)
        cfa = self._cfa(rule, reasons)
        ra = self._return_address(rule, reasons)
        if cfa is None or ra is None:
            return None, tuple(dict.fromkeys(reasons))
        out = {CFA: cfa, RA: ra}
        registers = dict(rule.registers)
        sp = self.machine.stack_pointer
        if sp not in registers and self.machine.sp_default is Default.SAME_VALUE:
            registers[sp] = SameValue()
        for register, term in registers.items():
            if register == rule.return_address:
                continue
            if register == self.machine.program_counter:
                # Under its name it would be taken for the return address.
                reasons.append(PROGRAM_COUNTER)
                continue
            text = self._term(term, register, reasons)
            if text is None:
                # Nothing is known, which is better than what an earlier record said.
                text = ".undef"
            if text != self.assumed(register):
                out[register] = text
        return out, tuple(dict.fromkeys(reasons))

    def initial(self, cells: dict[int, str]) -> str:
        """The rules of an ``INIT``."""
        return self._listing(cells)

    def change(self, before: dict[int, str], after: dict[int, str]) -> str:
        """The rules of a record behind one of other rules; empty where nothing changes."""
        changed = {key: text for key, text in after.items() if before.get(key) != text}
        for key in before:
            if key not in after:
                changed[key] = self.assumed(key)
        return self._listing(changed)

    def _listing(self, cells: dict[int, str]) -> str:
        return " ".join(f"{self.name(key)}: {cells[key]}" for key in sorted(cells))

    def _cfa(self, rule: Rule, reasons: list[str]) -> str | None:
        match rule.cfa:
            case RegisterPlus(register, offset):
                # Also where it is 0, as Breakpad's dumper does: some readers look for this form.
                return f"{self.name(register)} {self._wrapped(offset)} +"
            case CfaExpression(Expression() as expression):
                text = _postfix(expression, self.machine, cfa=False)
                if text is None:
                    reasons.append(CFA_NOT_SAYABLE)
                return text
            case CfaExpression():
                reasons.append(CFA_INVALID)
            case _:
                reasons.append(NO_CFA)
        return None

    def _return_address(self, rule: Rule, reasons: list[str]) -> str | None:
        column = rule.return_address
        term = rule[column]
        if isinstance(term, Undefined):
            return END_OF_STACK
        if term is None:
            # In another register than usual (RISC-V's millicode is called by way of t0) it is until a rule says otherwise:
            # so Breakpad's dumper and libgcc take it. A program counter that nothing saves tells nothing.
            linked = self.machine.link_register is not None and column != self.machine.program_counter
            default = self.machine.default(column)
            if default is Default.UNKNOWN and not linked:
                reasons.append(NO_RETURN_ADDRESS)
                return None
            term = CfaPlus(0) if default is Default.CFA else SameValue()
        found: list[str] = []
        text = self._term(term, column, found)
        if text is None:
            reasons.append(RETURN_ADDRESS_NOT_SAYABLE if found == [NOT_SAYABLE] else NO_RETURN_ADDRESS)
        return text

    def _term(self, term: RegisterRule, register: int, reasons: list[str]) -> str | None:
        match term:
            case Undefined():
                return ".undef"
            case SameValue():
                return self.name(register)
            case AtCfa(offset):
                return f".cfa {self._wrapped(offset)} + ^"
            case CfaPlus(offset):
                return f".cfa {self._wrapped(offset)} +" if offset else ".cfa"
            case InRegister(other):
                return self.name(other)
            case AtExpression(Expression() as expression):
                text = _postfix(expression, self.machine, cfa=True)
                if text is not None:
                    return f"{text} ^"
                reasons.append(NOT_SAYABLE)
            case IsExpression(Expression() as expression):
                text = _postfix(expression, self.machine, cfa=True)
                if text is not None:
                    return text
                reasons.append(NOT_SAYABLE)
            case AtExpression(InvalidExpression()) | IsExpression(InvalidExpression()):
                reasons.append(INVALID)
            case Architectural():
                reasons.append(ARCHITECTURAL)
        return None

    def _wrapped(self, offset: int) -> int:
        """An offset as a number of the machine's width with a sign, which every reader takes."""
        offset &= (1 << self.bits) - 1
        return offset - (offset >> (self.bits - 1) << self.bits)


def _postfix(expression: Expression, machine: Machine, *, cfa: bool) -> str | None:
    """:func:`clew.table.postfix.to_postfix`, loaded with the first expression: most tables have few, many none."""
    from clew.table.postfix import to_postfix

    return to_postfix(expression, machine, cfa=cfa)
