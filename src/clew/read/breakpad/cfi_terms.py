"""The rules in a ``STACK CFI`` record: names and postfix expressions into the terms of the table's algebra.

What a record says of one register never keeps the rest from being read: an expression that means nothing makes that
register's value unknown, and says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from clew.arch import Default, Machine
from clew.errors import FormatError
from clew.table import (
    NO_INFORMATION,
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
    Undefined,
)
from clew.table.postfix import from_postfix, literal
from clew.table.postfix_registers import register_number

CfaTerm: TypeAlias = RegisterPlus | CfaExpression
AnyTerm: TypeAlias = RegisterRule | CfaTerm
#: What is in force, by key: registers by number, and these two.
Cells: TypeAlias = dict[int, AnyTerm]
CFA, RA = -2, -1

#: Tokens in the longest expression that is read, and of all expressions together but for the usual ones: those take no
#: memory to speak of, and the others do only in hostile input.
_LONGEST = 2048
_MOST_TOKENS = 1 << 19

#: A return address below this is where walkers end (Breakpad's TerminateWalk, and rust-minidump's).
_LOWEST_CODE = 4096


class CfiTerms:
    """Reads the rules of one machine's records; each different expression once.

    Args:
        machine: whose registers they name.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._allowance = _MOST_TOKENS
        self._known: dict[tuple[int, str], tuple[AnyTerm, str | None]] = {}
        self._keys: dict[str, int | None] = {".cfa": CFA, ".ra": RA}

    def changes(self, text: bytes) -> tuple[list[tuple[int, AnyTerm]], list[tuple[str, bool]]]:
        """What the rules of a record say, by key, and what is wrong with them: sentences, and whether something is lost."""
        out: list[tuple[int, AnyTerm]] = []
        flaws: list[tuple[str, bool]] = []
        seen: set[int] = set()
        for name, expression in _pairs(text.decode("ascii", "backslashreplace")):
            if name is None:
                flaws.append((f"{expression[:40]} stands before any register's name", True))
                continue
            key = self._key(name)
            if key is None:
                flaws.append((f"there is no register {name[:40]}", True))
                continue
            if key in seen:
                flaws.append((f"{name[:40]} has two rules; the last one counts", False))
            seen.add(key)
            term, flaw = self._term(key, expression)
            if flaw is not None:
                flaws.append((f"the rule of {name[:40]} is unknown: {flaw}", True))
            elif ".undef" in expression and expression != ".undef":
                flaws.append((f"the rule of {name[:40]} has .undef among other tokens", False))
            elif expression == ".ra":
                # Breakpad's dumper writes the column's name for a return address that is back in its register.
                flaws.append(("the rule of .ra is itself; it is taken to be in its register", False))
            out.append((key, term))
        if not out and not flaws:
            flaws.append(("the record has no rules", False))
        return out, flaws

    def rule(self, cells: Cells) -> tuple[Rule, tuple[str, bool] | None]:
        """The rule that these cells are, and what is odd about it as a whole: a sentence, and whether something is lost.

        Without a rule for the CFA or the return address processors ignore what else there is; so it is *no information*.
        """
        machine = self.machine
        cfa, ra = cells.get(CFA), cells.get(RA)
        column, counter = machine.return_address, machine.program_counter
        oddity: tuple[str, bool] | None = None
        named = {key for key in (counter, column) if key in cells}
        if ra is None and named:
            oddity = "the return address is under a register's name, not .ra", False
            ra = cells[counter if counter is not None and counter in named else column]
        elif counter in named or (named and counter is None):
            oddity = "there is a rule for the return address's register besides .ra; it is left out", True
        elif named and counter is not None:
            # The link register has a value of its own in the caller: then .ra is the program counter's.
            ra = InRegister(column) if isinstance(ra, SameValue) else ra
            ra = SameValue() if ra == InRegister(counter) else ra
            column = counter
            named = set()
        if not isinstance(cfa, RegisterPlus | CfaExpression):
            return NO_INFORMATION, ("there is no rule for .cfa, so that the others are of no use", True)
        if ra is None or isinstance(ra, RegisterPlus | CfaExpression):
            return NO_INFORMATION, ("there is no rule for .ra, so that the others are of no use", True)
        registers: dict[int, RegisterRule] = {
            key: term
            for key, term in cells.items()
            if key >= 0 and key not in named and not isinstance(term, RegisterPlus | CfaExpression)
        }
        registers[column] = ra
        sp = machine.stack_pointer
        if sp not in registers and machine.sp_default is Default.SAME_VALUE:
            # The document: "If no rule is provided for the stack pointer, the value of .cfa is the caller's".
            registers[sp] = CfaPlus(0)
        return Rule(cfa, tuple(sorted(registers.items())), column), oddity

    def _key(self, name: str) -> int | None:
        if name not in self._keys:
            if len(self._keys) > 1 << 14:
                return register_number(self.machine, name)
            self._keys[name] = register_number(self.machine, name)
        return self._keys[name]

    def _term(self, key: int, text: str) -> tuple[AnyTerm, str | None]:
        known = self._known.get((key, text))
        if known is None:
            tokens = text.split(" ", _LONGEST)
            known = (self._cfa(tokens), None) if key == CFA else (self._register(key, tokens), None)
            invalid = getattr(known[0], "expression", None)
            if isinstance(invalid, InvalidExpression):
                known = known[0], invalid.reason
            if len(self._known) < 1 << 16:
                self._known[key, text] = known
        return known

    def _cfa(self, tokens: list[str]) -> CfaTerm:
        if tokens == [".undef"]:
            return CfaExpression(InvalidExpression(b".undef", "the CFA cannot be recovered"))
        if len(tokens) in (1, 3) and (register := register_number(self.machine, tokens[0])) is not None:
            offset = 0 if len(tokens) == 1 else self._offset(tokens[1:])
            if offset is not None:
                return RegisterPlus(register, offset)
        return CfaExpression(self._expression(tokens, cfa=False))

    def _register(self, key: int, tokens: list[str]) -> RegisterRule:
        if ".undef" in tokens:
            return Undefined()
        if key == RA and tokens == [".ra"]:
            return SameValue()
        head = tokens[0]
        if head == ".cfa" and len(tokens) <= 4:
            load = tokens[-1] == "^"
            middle = tokens[1 : len(tokens) - load]
            offset = 0 if not middle else self._offset(middle)
            if offset is not None:
                return AtCfa(offset) if load else CfaPlus(offset)
        if len(tokens) == 1:
            own = self.machine.return_address if key == RA else key
            register = register_number(self.machine, head)
            if register is not None:
                return SameValue() if register == own else InRegister(register)
            number = literal(head, self.machine.bits)
            if key == RA and number is not None and number < _LOWEST_CODE:
                return Undefined()
        if tokens[-1] == "^":
            return AtExpression(self._expression(tokens[:-1], cfa=True))
        return IsExpression(self._expression(tokens, cfa=True))

    def _offset(self, tokens: list[str]) -> int | None:
        """The number that ``n +`` or ``n -`` adds, with its sign; None where it is something else."""
        if len(tokens) != 2 or tokens[1] not in ("+", "-"):
            return None
        bits = self.machine.bits
        number = literal(tokens[0], bits)
        if number is None:
            return None
        if tokens[1] == "-":
            number = -number & ((1 << bits) - 1)
        return number - (number >> (bits - 1) << bits)

    def _expression(self, tokens: list[str], cfa: bool) -> Expression | InvalidExpression:
        data = " ".join(tokens[:64])[:200].encode()
        if not tokens or tokens == [""]:
            return InvalidExpression(b"", "there is no expression")
        self._allowance -= len(tokens)
        if len(tokens) > _LONGEST or self._allowance < 0:
            return InvalidExpression(data, "it is longer than any that clew reads")
        try:
            return from_postfix(tokens, self.machine, cfa=cfa)
        except FormatError as error:
            return InvalidExpression(data, error.message)


def _pairs(text: str) -> Iterator[tuple[str | None, str]]:
    """Names with their expressions, single spaces between tokens; None for what stands before the first name."""
    name: str | None = None
    tokens: list[str] = []
    for token in text.split():
        if token.endswith(":"):
            if name is not None or tokens:
                yield name, " ".join(tokens)
            name, tokens = token[:-1], []
        else:
            tokens.append(token)
    if name is not None or tokens:
        yield name, " ".join(tokens)
