"""Bodies as machine code: what is done where a rule holds. All values are had from the old frame before any is written."""

from __future__ import annotations

from collections.abc import Iterable

from clew.table import AtCfa, AtExpression, CfaExpression, CfaPlus, Expression, InRegister, IsExpression, RegisterPlus
from clew.write.assembler.code import Code
from clew.write.assembler.convention import Convention
from clew.write.assembler.expression import LOAD
from clew.write.assembler.frames import REMEMBER, RESTORE, saved
from clew.write.assembler.labels import RETURN_UNREADABLE, ROOM, SAVED, done, end, failed, failed_with
from clew.write.assembler.operands import (
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    At,
    fits32,
    signed,
)
from clew.write.compiled.abi import Outcome
from clew.write.compiled.planning import Body, Term


class BodyWriter:
    """Writes bodies.

    Args:
        code: where to.
        convention: what is where.

    Attributes:
        expressions: the functions of expressions that the bodies call, by the expression and whether it begins with the CFA.
        kind: the kind of frame that there is; see :data:`SAVED`. Without frames it is that of all.
    """

    def __init__(self, code: Code, convention: Convention) -> None:
        self.code = code
        self.convention = convention
        self.abi = convention.abi
        self.expressions: dict[tuple[Expression, bool], str] = {}
        self.kind = ""
        self._labels = 0

    def write(self, body: Body) -> None:
        """The instructions of a body."""
        if body.outcome is not None:
            self.code.jump(self._failed(body.outcome))
            return
        in_place = self.convention.deref and isinstance(body.return_address, AtCfa) and not _reading(body)
        if not self.convention.own_frames:
            self._in_frame(body, in_place)
            return
        if in_place and isinstance(body.cfa, RegisterPlus):
            # Before anything is saved.
            bit = self.abi.bit(body.cfa.register)
            if bit is None:
                self.code.jump(self._failed(Outcome.UNKNOWN_REGISTER))
                return
            self.code.test_bit(At(RDI), bit)
            self.code.jump_if("e", self._failed(Outcome.UNKNOWN_REGISTER))
        self._open("_short" if in_place else "_long")
        self._in_frame(body, in_place)
        self.kind = ""
        self.code.undo(RESTORE)
        self.code.depth = 8

    def _open(self, kind: str) -> None:
        """Makes a frame of the body's own, and moves the parameters to where they outlive calls."""
        code, convention = self.code, self.convention
        self.kind = kind
        code.undo(REMEMBER)
        for register in SAVED[kind]:
            code.push(register)
            code.undo(saved(register, code.depth or 0))
        if kind == "_short":
            code.push_at(At(RDI, 8 + 8 * self.abi.registers.index(self.abi.pc)))
        else:
            code.immediate("sub", RSP, ROOM[kind])
        code.address(convention.frame, At(RDI, convention.bias))
        code.move(convention.function, RDX)
        code.move(convention.argument, RCX)

    def _failed(self, outcome: Outcome) -> str:
        return failed_with(outcome, self.kind)

    def _in_frame(self, body: Body, in_place: bool) -> None:
        if not self._cfa(body):
            return
        if in_place and isinstance(body.return_address, AtCfa):
            self._in_place(body, body.return_address)
            return
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
            self._write_back()
            self._answer(body.signal)
            self.code.ret()
        else:
            self.code.jump(done(self.kind, body.signal))

    def finish(self, signal: bool) -> None:
        """Where bodies with frames of a kind end when it went well, but for leaving the function."""
        if self.kind != "_short":
            self.code.label(done(self.kind, signal))
            self._write_back()
        self.code.label(end(self.kind, signal))
        self._answer(signal)

    def leave(self) -> None:
        """Leaves the function; what follows has its frame still."""
        code, kind = self.code, self.kind
        if not self.convention.deref or (self.convention.own_frames and not kind):
            code.ret()
            return
        depth = code.depth
        code.undo(REMEMBER)
        code.immediate("add", RSP, ROOM[kind])
        for register in reversed(SAVED[kind]):
            # Its copy on the stack stays true: signals leave the red zone alone.
            code.pop(register)
        code.ret()
        code.undo(RESTORE)
        code.depth = depth

    def _write_back(self) -> None:
        code, convention = self.code, self.convention
        code.store(convention.slot(self.abi.pc), convention.return_address)
        if convention.paper:
            code.store8(convention.flags, convention.known)
        else:
            code.store(convention.flags, convention.known)

    def _answer(self, signal: bool) -> None:
        if self.convention.paper:
            self.code.move(RAX, self.convention.frame)
        else:
            self.code.constant(RAX, Outcome.INTERRUPTED if signal else Outcome.CALLED)

    # Where no register depends on another one but the CFA's: nearly everywhere

    def _in_place(self, body: Body, return_address: AtCfa) -> None:
        """What is behind the CFA: memory is loaded into the frame at once. What is known is written before; a register that
        cannot be had is then taken away, out of line, so that what nearly always goes well costs a comparison.
        """
        code, convention = self.code, self.convention
        self._fetch(self.abi.pc, return_address.offset, RETURN_UNREADABLE)
        loaded = [number for number, term in body.terms if isinstance(term, AtCfa)]
        bits = self._bits([self.abi.pc, *(number for number, _ in body.terms)])
        kept = self._bits(body.keeps)
        if not kept:
            if convention.paper:
                code.store_byte(convention.flags, bits)
            else:
                code.store_constant(convention.flags, bits)
        elif convention.paper:
            code.load_small(RAX, convention.flags, 1)
            self._mask(RAX, kept, bits)
            code.store8(convention.flags, RAX)
        else:
            code.load32(RAX, convention.flags)
            self._mask(RAX, kept, bits)
            code.store(convention.flags, RAX)
        first = self._labels
        self._labels += len(loaded)
        for number, term in body.terms:
            if isinstance(term, AtCfa):
                place = first + loaded.index(number)
                self._fetch(number, term.offset, f"lost_{place}")
                if not convention.paper:
                    code.label(f"on_{place}")
            elif isinstance(term, CfaPlus):
                self._from_cfa(number, term.offset)
        if convention.paper or body.signal:
            code.jump(end(self.kind, body.signal))
        else:
            self._answer(False)
            self.leave()
        if convention.paper:
            return
        for place, number in enumerate(loaded, first):
            code.label(f"lost_{place}")
            code.clear_bit(convention.flags, self._bit(number))
            code.jump(f"on_{place}")

    def _fetch(self, number: int, offset: int, failed: str) -> None:
        """Loads a register of the frame from the CFA plus an offset."""
        code, slot = self.code, self.convention.slot(number)
        self._call_deref(offset, slot)
        if self.convention.paper:
            code.store(slot, RAX)
        else:
            code.test_al()
            code.jump_if("e", failed)

    # What comes first, and may fail

    def _known_or(self, register: int, outcome: Outcome) -> bool:
        """Goes on only where a register of the frame is known; False where it never is."""
        bit = self.abi.bit(register)
        if bit is None:
            self.code.jump(self._failed(outcome))
            return False
        self.code.test_bit(self.convention.flags, bit)
        self.code.jump_if("e", self._failed(outcome))
        return True

    def _cfa(self, body: Body) -> bool:
        """Computes the CFA; False where no code can follow."""
        code, cfa = self.code, self.convention.cfa
        match body.cfa:
            case RegisterPlus(register, offset):
                # Of a short frame it is known by now.
                if self.kind != "_short" and not self._known_or(register, Outcome.UNKNOWN_REGISTER):
                    return False
                code.load(cfa, self.convention.slot(register))
                code.add(cfa, offset, RAX)
            case CfaExpression(Expression() as expression):
                self._compute(expression, False)
                code.move(cfa, RAX)
        return True

    def _return_address(self, body: Body) -> bool:
        """Loads the return address; False where no code can follow."""
        code, result = self.code, self.convention.return_address
        match body.return_address:
            case None:
                code.jump(self._failed(Outcome.BAD_RULE))
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
                    code.jump_if("e", self._failed(Outcome.UNREADABLE))
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
            code.jump_if("e", self._failed(Outcome.UNREADABLE))
            code.load(result, At(RSP))

    def _compute(self, expression: Expression, with_cfa: bool) -> None:
        """Computes an expression into rax; fails with its reason."""
        self.code.call(self._function(expression, with_cfa))
        self.code.test32(RDX)
        self.code.jump_if("ne", failed(self.kind))

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
        bits, kept = self._bits(certain), self._bits(body.keeps)
        if not kept:
            code.constant(convention.known, bits)
            return
        if convention.paper:
            code.load_small(convention.known, convention.flags, 1)
        else:
            code.load32(convention.known, convention.flags)
        self._mask(convention.known, kept, bits)

    def _mask(self, register: int, kept: int, bits: int) -> None:
        """Keeps some bits, and sets others."""
        self.code.immediate("and", register, kept, wide=False)
        self.code.immediate("or", register, bits, wide=False)

    def _bits(self, registers: Iterable[int]) -> int:
        return sum(1 << self._bit(number) for number in registers)

    def _bit(self, register: int) -> int:
        bit = self.abi.bit(register)
        assert bit is not None
        return bit

    def _from_old_frame(self, body: Body) -> None:
        """The registers whose value depends on others: all are computed before one is written."""
        terms = _reading(body)
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


def _reading(body: Body) -> list[tuple[int, Term]]:
    """The terms that need other registers of the old frame."""
    return [(number, term) for number, term in body.terms if not isinstance(term, AtCfa | CfaPlus)]
