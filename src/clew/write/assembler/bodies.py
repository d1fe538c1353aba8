"""Bodies as machine code: what is done where a rule holds. All values are had from the old frame before any is written."""

from __future__ import annotations

from clew.table import AtCfa, AtExpression, CfaExpression, CfaPlus, Expression, InRegister, IsExpression, RegisterPlus
from clew.write.assembler.code import Code
from clew.write.assembler.convention import Convention
from clew.write.assembler.expression import LOAD
from clew.write.assembler.operands import RAX, RCX, RDI, RDX, RSI, RSP, At, fits32, signed
from clew.write.compiled.abi import Outcome
from clew.write.compiled.planning import Body, Term

DONE = "done"
DONE_SIGNAL = "done_signal"
"""Where bodies end that have the return address and the known bits ready; the second of a frame that a signal interrupted."""

FAILED = "failed"
"""Where it ends with the reason in edx."""


def failed_with(outcome: Outcome) -> str:
    """Where it ends for this reason."""
    return f"fails_{outcome.name.lower()}"


class BodyWriter:
    """Writes bodies.

    Args:
        code: where to.
        convention: what is where.

    Attributes:
        expressions: the functions of expressions that the bodies call, by the expression and whether it begins with the CFA.
    """

    def __init__(self, code: Code, convention: Convention) -> None:
        self.code = code
        self.convention = convention
        self.abi = convention.abi
        self.expressions: dict[tuple[Expression, bool], str] = {}
        self._labels = 0

    def write(self, body: Body) -> None:
        """The instructions of a body."""
        if body.outcome is not None:
            self.code.jump(failed_with(body.outcome))
            return
        self._cfa(body)
        if not self._return_address(body):
            return
        self._known(body)
        self._from_old_frame(body)
        for number, term in body.terms:
            if isinstance(term, AtCfa):
                self._saved(number, term.offset)
            elif isinstance(term, CfaPlus):
                self._from_cfa(number, term.offset)
        if not (self.convention.deref or self.convention.paper):
            self.finish(body.signal)
            self.code.ret()
        else:
            self.code.jump(DONE_SIGNAL if body.signal else DONE)

    def finish(self, signal: bool) -> None:
        """The end of a body that went well, but for leaving the function."""
        code, convention = self.code, self.convention
        code.store(convention.slot(self.abi.pc), convention.return_address)
        if convention.paper:
            code.store8(convention.flags, convention.known)
            code.move(RAX, convention.frame)
        else:
            code.store(convention.flags, convention.known)
            code.constant(RAX, Outcome.INTERRUPTED if signal else Outcome.CALLED)

    # What comes first, and may fail

    def _known_or(self, register: int, outcome: Outcome) -> bool:
        """Goes on only where a register of the frame is known; False where it never is."""
        bit = self.abi.bit(register)
        if bit is None:
            self.code.jump(failed_with(outcome))
            return False
        self.code.test_bit(self.convention.flags, bit)
        self.code.jump_if("e", failed_with(outcome))
        return True

    def _cfa(self, body: Body) -> None:
        code, cfa = self.code, self.convention.cfa
        match body.cfa:
            case RegisterPlus(register, offset):
                if self._known_or(register, Outcome.UNKNOWN_REGISTER):
                    code.load(cfa, self.convention.slot(register))
                    code.add(cfa, offset, RAX)
            case CfaExpression(Expression() as expression):
                self._compute(expression, False)
                code.move(cfa, RAX)

    def _return_address(self, body: Body) -> bool:
        """Loads the return address; False where no code can follow."""
        code, result = self.code, self.convention.return_address
        match body.return_address:
            case None:
                code.jump(failed_with(Outcome.BAD_RULE))
                return False
            case AtCfa(offset):
                self._load(offset)
                if not self.convention.deref:
                    return True
            case CfaPlus(offset):
                code.move(result, self.convention.cfa)
                code.add(result, offset, RAX)
            case InRegister(register):
                if not self._known_or(register, body.missing):
                    return False
                code.load(result, self.convention.slot(register))
            case AtExpression(Expression() as expression):
                self._compute(expression, True)
                if not self.convention.deref:
                    code.load(result, At(RAX))
                    return True
                code.move(RSI, RAX)
                code.call(LOAD)
                if not self.convention.paper:
                    code.jump_if("e", failed_with(Outcome.UNREADABLE))
                code.move(result, RCX)
            case IsExpression(Expression() as expression):
                self._compute(expression, True)
                code.move(result, RAX)
        return True

    def _load(self, offset: int) -> None:
        """Loads the word at the CFA plus an offset into where the return address is kept."""
        code, result = self.code, self.convention.return_address
        if not self.convention.deref:
            code.load(result, self._at(offset))
            return
        self._call_deref(offset, At(RSP))
        if self.convention.paper:
            code.move(result, RAX)
        else:
            code.test_al()
            code.jump_if("e", failed_with(Outcome.UNREADABLE))
            code.load(result, At(RSP))

    def _compute(self, expression: Expression, with_cfa: bool) -> None:
        """Computes an expression into rax; fails with its reason."""
        self.code.call(self._function(expression, with_cfa))
        self.code.test32(RDX)
        self.code.jump_if("ne", FAILED)

    def _function(self, expression: Expression, with_cfa: bool) -> str:
        key = expression, with_cfa
        return self.expressions.setdefault(key, f"expression_{len(self.expressions) + 1}")

    # Memory

    def _at(self, offset: int) -> At:
        """Memory at the CFA plus any offset."""
        offset = signed(offset)
        if fits32(offset):
            return At(self.convention.cfa, offset)
        self.code.constant(RAX, offset)
        self.code.arithmetic("add", RAX, self.convention.cfa)
        return At(RAX)

    def _call_deref(self, offset: int, target: At) -> None:
        """Calls the parameter for the word at the CFA plus an offset, with where it is to go to."""
        code, convention = self.code, self.convention
        if convention.paper:
            code.address(RDI, self._at(offset))
        else:
            code.move(RDI, convention.argument)
            code.address(RSI, self._at(offset))
            code.address(RDX, target)
        code.call_to(convention.function)

    # What becomes of the registers

    def _known(self, body: Body) -> None:
        """The bits of what is known in the caller, but for what is not certain yet."""
        code, convention = self.code, self.convention
        loads = convention.deref and not convention.paper
        certain = [self.abi.pc]
        certain += [n for n, t in body.terms if isinstance(t, CfaPlus) or (isinstance(t, AtCfa) and not loads)]
        bits = sum(1 << self._bit(number) for number in certain)
        kept = sum(1 << self._bit(number) for number in body.keeps)
        if not kept:
            code.constant(convention.known, bits)
            return
        if convention.paper:
            code.load_small(convention.known, convention.flags, 1)
        else:
            code.load32(convention.known, convention.flags)
        code.immediate("and", convention.known, kept, wide=False)
        code.immediate("or", convention.known, bits, wide=False)

    def _bit(self, register: int) -> int:
        bit = self.abi.bit(register)
        assert bit is not None
        return bit

    def _from_old_frame(self, body: Body) -> None:
        """The registers whose value depends on others: all are computed before one is written."""
        terms = [(number, term) for number, term in body.terms if not isinstance(term, AtCfa | CfaPlus)]
        for number, term in terms:
            self._push(number, term)
        for number, _ in reversed(terms):
            self.code.pop(RAX)
            self.code.store(self.convention.slot(number), RAX)

    def _push(self, number: int, term: Term) -> None:
        """Computes a term onto the stack, and sets the register's bit where there is a value."""
        code, convention = self.code, self.convention
        unknown = self._label()
        match term:
            case InRegister(register):
                code.load(RAX, convention.slot(register))
                code.test_bit(convention.flags, self._bit(register))
                code.hop_if("e", unknown)
            case AtExpression(Expression() as expression) | IsExpression(Expression() as expression):
                code.call(self._function(expression, True))
                code.test32(RDX)
                code.hop_if("ne", unknown)
                if isinstance(term, AtExpression) and not convention.deref:
                    code.load(RAX, At(RAX))
                elif isinstance(term, AtExpression):
                    code.move(RSI, RAX)
                    code.call(LOAD)
                    if not convention.paper:
                        code.hop_if("e", unknown)
                    code.move(RAX, RCX)
        code.immediate("or", convention.known, 1 << self._bit(number), wide=False)
        code.label(unknown)
        code.push(RAX)

    def _saved(self, number: int, offset: int) -> None:
        """A register that is in memory at the CFA plus an offset."""
        code, convention = self.code, self.convention
        slot = convention.slot(number)
        if not convention.deref:
            code.load(RAX, self._at(offset))
            code.store(slot, RAX)
            return
        self._call_deref(offset, slot)
        if convention.paper:
            code.store(slot, RAX)
        else:
            # A bool is 0 or 1 in al: so it becomes the register's bit.
            code.extend_al()
            code.shift("shl", RAX, self._bit(number), wide=False)
            code.arithmetic32("or", convention.known, RAX)

    def _from_cfa(self, number: int, offset: int) -> None:
        """A register that is the CFA plus an offset."""
        code, convention = self.code, self.convention
        source = convention.cfa
        if signed(offset):
            place = self._at(offset)
            source = RAX
            if place.base != RAX:
                code.address(RAX, place)
        code.store(convention.slot(number), source)

    def _label(self) -> str:
        self._labels += 1
        return f"unknown_{self._labels}"
