"""What ``STACK CFI`` records say at an address, by the format's document alone: nothing here is clew's.

Breakpad's docs/symbol_files.md, "STACK CFI records"; the operators as its postfix evaluator has them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Load = Callable[[int], int]


class Failure(Exception):
    """The expression has no value."""


@dataclass
class Records:
    """The records of a text: for each ``INIT`` its range, and (address, rules) of it and of what follows it."""

    blocks: list[tuple[int, int, list[tuple[int, dict[str, str]]]]] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Records:
        records = cls()
        for line in text.splitlines():
            words = line.split(" ")
            assert words[:2] == ["STACK", "CFI"], line
            if words[2] == "INIT":
                start, size = int(words[3], 16), int(words[4], 16)
                assert size > 0
                if records.blocks:
                    assert records.blocks[-1][1] <= start, line
                records.blocks.append((start, start + size, [(start, _rules(words[5:]))]))
            else:
                begin, end, rows = records.blocks[-1]
                address = int(words[2], 16)
                assert begin < address < end, line
                assert rows[-1][0] < address, line
                rows.append((address, _rules(words[3:])))
        records._starts = [start for start, _, _ in records.blocks]
        return records

    def rows(self) -> list[tuple[int, int, dict[str, str]]]:
        """(start, end, all rules in force) triples, in order."""
        out: list[tuple[int, int, dict[str, str]]] = []
        for _, end, rows in self.blocks:
            force: dict[str, str] = {}
            ends = [address for address, _ in rows[1:]] + [end]
            for (address, rules), stop in zip(rows, ends, strict=True):
                force = {**force, **rules}
                out.append((address, stop, force))
        return out

    def at(self, address: int) -> dict[str, str] | None:
        """All rules in force at an address, or None where no ``INIT`` is around it."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self.blocks[index][1]:
            return None
        force: dict[str, str] = {}
        for start, rules in self.blocks[index][2]:
            if start <= address:
                force |= rules
        return force


def _rules(words: list[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    name = ""
    for word in words:
        assert word, "two spaces"
        if word.endswith(":"):
            assert not name or out[name], "a name without expression"
            name = word[:-1]
            assert name not in out
            out[name] = ""
        else:
            out[name] += (" " if out[name] else "") + word
    assert all(out.values())
    return out


def evaluate(expression: str, values: Mapping[str, int], load: Load, bits: int = 64) -> int:
    """The value of a postfix expression. ``values`` has the callee's registers and, but for the CFA's own, ``.cfa``."""
    mask = (1 << bits) - 1
    stack: list[int] = []
    for token in expression.split(" "):
        if token in ("+", "-", "*", "/", "%", "@"):
            if len(stack) < 2:
                raise Failure(expression)
            right, left = stack.pop(), stack.pop()
            if token in "/%" and not right:
                raise Failure(expression)
            if token == "@" and (not right or right & (right - 1)):
                raise Failure(expression)
            stack.append(
                {
                    "+": lambda a, b: a + b,
                    "-": lambda a, b: a - b,
                    "*": lambda a, b: a * b,
                    "/": lambda a, b: a // b,
                    "%": lambda a, b: a % b,
                    "@": lambda a, b: a & ~(b - 1),
                }[token](left, right)
                & mask
            )
        elif token == "^":
            if not stack:
                raise Failure(expression)
            stack.append(load(stack.pop()) & mask)
        elif token.lstrip("-").isdigit():
            # rust-minidump reads literals as signed 64-bit numbers.
            assert -(1 << 63) <= int(token) < 1 << 63
            stack.append(int(token) & mask)
        elif token in values:
            stack.append(values[token])
        else:
            raise Failure(expression)
    if len(stack) != 1:
        raise Failure(expression)
    return stack[0]


def caller(
    rules: Mapping[str, str],
    registers: Mapping[str, int],
    load: Load,
    *,
    preserved: frozenset[str],
    stack_pointer: str,
    bits: int = 64,
) -> dict[str, int | None]:
    """The caller's registers, ``.cfa`` and ``.ra``; None for what is lost. Without ``.cfa`` or ``.ra`` it is all lost."""
    if ".cfa" not in rules or ".ra" not in rules:
        return {}
    cfa = evaluate(rules[".cfa"], registers, load, bits)
    values = {**registers, ".cfa": cfa}
    out: dict[str, int | None] = {".cfa": cfa}
    for name in [".ra", *registers]:
        expression = rules.get(name)
        if expression is None:
            expression = ".cfa" if name == stack_pointer else name if name in preserved else ".undef"
        try:
            out[name] = None if expression == ".undef" else evaluate(expression, values, load, bits)
        except Failure:
            out[name] = None
    return out
