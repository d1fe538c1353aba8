"""DWARF expressions as machine code: what :func:`clew.table.evaluate` says, step by step, on the machine's own stack.

A function for each: its value in rax, and in edx 0 or why there is none. With branches, the depth of the stack and the number of
steps are counted as it runs; without, they are known here.
"""

from __future__ import annotations

from clew.table import Expression
from clew.table.evaluate import MAXIMUM_DEPTH, MAXIMUM_STEPS
from clew.table.expression import Step
from clew.write.assembler.code import Code
from clew.write.assembler.convention import Convention
from clew.write.assembler.frames import REMEMBER, RESTORE, def_cfa, same_value, saved
from clew.write.assembler.operands import RAX, RCX, RDX, RSI, RSP, At, fits32, signed
from clew.write.compiled.abi import Outcome
from clew.write.compiled.steps import UNARY, effect, jumps, needed

LOAD = "load_word"
"""The function that loads the word at rsi into rcx, through the parameter; with the full interface, ``e`` where it cannot."""

_COMPARISONS = {"eq": "e", "ne": "ne", "ge": "ge", "gt": "g", "le": "le", "lt": "l"}
_SIMPLE = {"plus": "add", "minus": "sub", "and": "and", "or": "or", "xor": "xor"}


class ExpressionWriter:
    """Writes the functions of expressions.

    Args:
        code: where to.
        convention: what is where.
    """

    def __init__(self, code: Code, convention: Convention) -> None:
        self.code = code
        self.convention = convention
        self._labels = 0

    def write(self, name: str, expression: Expression, with_cfa: bool) -> None:
        """The function of an expression; the stack begins with the CFA if so told."""
        code, stack = self.code, self.convention.stack
        steps = expression.canonical
        counted = bool(jumps(steps))
        code.label(name)
        code.undo(def_cfa(RSP, 8) + same_value(stack))
        code.depth = None
        above = 8
        if self.convention.deref:
            above += 8
            code.push(stack)
            code.undo(def_cfa(RSP, above) + saved(stack, above))
        code.move(stack, RSP)
        code.undo(def_cfa(stack, above))
        if counted:
            code.push_constant(MAXIMUM_STEPS)
        if with_cfa:
            code.push(self.convention.cfa)
        whole = self._counted(name, steps) if counted else self._straight(steps, int(with_cfa))
        if whole:
            code.pop(RAX)
            code.constant(RDX, 0)
            self._leave()
        else:
            code.jump(_failure(Outcome.BAD_RULE))

    def write_failures(self) -> None:
        """What all of them share: the ways out with a reason."""
        for outcome in (Outcome.UNKNOWN_REGISTER, Outcome.UNREADABLE, Outcome.BAD_RULE):
            self.code.label(_failure(outcome))
            self.code.constant(RDX, outcome)
            self.code.constant(RAX, 0)
            self._leave()

    def _leave(self) -> None:
        code, stack = self.code, self.convention.stack
        code.move(RSP, stack)
        if self.convention.deref:
            code.undo(REMEMBER)
            code.pop(stack)
            code.undo(def_cfa(RSP, 8) + same_value(stack))
            code.ret()
            code.undo(RESTORE)
        else:
            code.ret()

    def _straight(self, steps: tuple[Step, ...], depth: int) -> bool:
        """The steps without branches; whether they lead to the end."""
        for number, step in enumerate(steps):
            if depth < needed(step):
                return False
            self._step(step)
            depth += effect(step)
            if depth > MAXIMUM_DEPTH or number == MAXIMUM_STEPS:
                return False
        return depth > 0

    def _counted(self, name: str, steps: tuple[Step, ...]) -> bool:
        code, stack = self.code, self.convention.stack
        going = jumps(steps)
        targets = set(going.values())
        bad = _failure(Outcome.BAD_RULE)

        def need(count: int) -> None:
            # Below the counter of steps, which is the word below `stack`.
            code.address(RAX, At(RSP, 8 * count + 8))
            code.arithmetic("cmp", RAX, stack)
            code.jump_if("a", bad)

        for number, step in enumerate(steps):
            if number in targets:
                code.label(f"{name}_{number}")
            if needed(step):
                need(needed(step))
            code.decrement(At(stack, -8))
            code.jump_if("s", bad)
            if step[0] == "skip":
                code.jump(f"{name}_{going[number]}")
            elif step[0] == "bra":
                code.pop(RAX)
                code.test(RAX)
                code.jump_if("ne", f"{name}_{going[number]}")
            else:
                self._step(step)
            if effect(step) > 0:
                code.address(RAX, At(RSP, 8 * MAXIMUM_DEPTH + 8))
                code.arithmetic("cmp", RAX, stack)
                code.jump_if("b", bad)
        if len(steps) in targets:
            code.label(f"{name}_{len(steps)}")
        need(1)
        return True

    def _step(self, step: Step) -> None:
        code = self.code
        match step:
            case ("push", value):
                value = signed(value)
                if fits32(value):
                    code.push_constant(value)
                else:
                    code.constant(RAX, value)
                    code.push(RAX)
            case ("register", number, offset):
                bit = self.convention.abi.bit(number)
                if bit is None:
                    code.jump(_failure(Outcome.UNKNOWN_REGISTER))
                    return
                code.test_bit(self.convention.flags, bit)
                code.jump_if("e", _failure(Outcome.UNKNOWN_REGISTER))
                code.load(RAX, self.convention.slot(number))
                code.add(RAX, offset, RCX)
                code.push(RAX)
            case ("pick", depth):
                code.push_at(At(RSP, 8 * depth))
            case ("deref", size):
                self._deref(size)
            case ("drop",):
                code.immediate("add", RSP, 8)
            case ("swap",):
                code.pop(RAX)
                code.pop(RCX)
                code.push(RAX)
                code.push(RCX)
            case ("rot",):
                # The top becomes the third, the second the top, the third the second.
                code.pop(RAX)
                code.pop(RCX)
                code.pop(RDX)
                code.push(RAX)
                code.push(RDX)
                code.push(RCX)
            case (name, *_) if name in UNARY:
                code.pop(RAX)
                if name == "abs":
                    code.move(RCX, RAX)
                    code.unary("neg", RCX)
                    # The most negative number stays itself.
                    code.move_if("ns", RAX, RCX)
                else:
                    code.unary(str(name), RAX)
                code.push(RAX)
            case (name, *_):
                code.pop(RCX)
                code.pop(RAX)
                self._binary(str(name))
                code.push(RAX)

    def _binary(self, name: str) -> None:
        """rax and rcx become one number in rax."""
        code = self.code
        if name in _SIMPLE:
            code.arithmetic(_SIMPLE[name], RAX, RCX)
        elif name in _COMPARISONS:
            code.arithmetic("cmp", RAX, RCX)
            code.set_al(_COMPARISONS[name])
            code.extend_al()
        elif name == "mul":
            code.multiply(RAX, RCX)
        elif name in ("shl", "shr"):
            enough = self._label()
            code.shift(name, RAX)
            code.immediate("cmp", RCX, 64)
            code.hop_if("b", enough)
            code.constant(RAX, 0)
            code.label(enough)
        elif name == "shra":
            enough = self._label()
            code.immediate("cmp", RCX, 63)
            code.hop_if("be", enough)
            code.constant(RCX, 63)
            code.label(enough)
            code.shift("sar", RAX)
        else:
            self._divide(name)

    def _divide(self, name: str) -> None:
        code = self.code
        code.test(RCX)
        code.jump_if("e", _failure(Outcome.BAD_RULE))
        if name == "mod":
            code.constant(RDX, 0)
            code.unary("div", RCX)
            code.move(RAX, RDX)
            return
        # By -1, the most negative number has no quotient, and the machine would fault.
        usual, done = self._label(), self._label()
        code.immediate("cmp", RCX, -1)
        code.hop_if("ne", usual)
        code.unary("neg", RAX)
        code.hop(done)
        code.label(usual)
        code.extend_sign()
        code.unary("idiv", RCX)
        code.label(done)

    def _deref(self, size: int) -> None:
        """The address on the stack becomes the ``size`` bytes there."""
        code = self.code
        if not self.convention.deref:
            code.pop(RCX)
            if size == 8:
                code.load(RAX, At(RCX))
            elif size == 4:
                code.load32(RAX, At(RCX))
            elif size in (1, 2):
                code.load_small(RAX, At(RCX), size)
            else:
                code.load_small(RAX, At(RCX, size - 1), 1)
                for place in range(size - 2, -1, -1):
                    code.shift("shl", RAX, 8)
                    code.load_small(RDX, At(RCX, place), 1)
                    code.arithmetic("or", RAX, RDX)
            code.push(RAX)
            return
        code.pop(RSI)
        if size < 8 and not self.convention.paper:
            # Where the word that begins with the bytes cannot be read, that which ends with them may.
            cut, done = self._label(), self._label()
            code.push(RSI)
            code.call(LOAD)
            code.pop(RSI)
            code.hop_if("ne", cut)
            code.immediate("sub", RSI, 8 - size)
            code.call(LOAD)
            code.jump_if("e", _failure(Outcome.UNREADABLE))
            code.shift("shr", RCX, 8 * (8 - size))
            code.hop(done)
            code.label(cut)
            self._cut(size)
            code.label(done)
        else:
            code.call(LOAD)
            if not self.convention.paper:
                code.jump_if("e", _failure(Outcome.UNREADABLE))
            self._cut(size)
        code.push(RCX)

    def _cut(self, size: int) -> None:
        """The low bytes of rcx."""
        if size < 8:
            self.code.shift("shl", RCX, 64 - 8 * size)
            self.code.shift("shr", RCX, 64 - 8 * size)

    def _label(self) -> str:
        self._labels += 1
        return f"in_expression_{self._labels}"


def _failure(outcome: Outcome) -> str:
    return f"expression_fails_{outcome.name.lower()}"
