"""What DWARF operators compute, said with the few that Breakpad's postfix language has.

That language has ``+ - * / % @ ^`` on unsigned numbers that wrap around, and no way to name a value twice. So every number
on DWARF's stack is a :class:`Term` here: the tokens that compute it, and the bounds between which it lies. Where the bounds
allow a short form it is taken; the long ones hold for all numbers. In what follows ``w`` is the width, ``H`` is
2^(w-1), and all arithmetic is modulo 2^w:

- the low ``k`` bits of x are ``x % 2^k``, all others ``x @ 2^k``; a mask with several runs of ones is a sum of these;
- ``x or c`` is ``(x and not c) + c``, ``x xor c`` is ``(x and not c) + (c - (x and c))``;
- ``shl`` is ``* 2^k``, ``shr`` is ``/ 2^k``, ``shra`` is ``(x + H) / 2^k - H / 2^k``;
- ``a >= b``, signed, of numbers from 0 to below a power of two M, is ``(a + (M - b)) / M``;
- ``a != b`` of such is ``((a + (M - b)) % M + (M - 1)) / M``;
- of others ``a >= b``, with ``x' = x + H`` (which turns signed order into unsigned), is
  ``(a'/2 - b'/2 + (a'%2 + 2 - b'%2)/2 + (H-1)) / H``: the halves' difference, less one where the lowest bits borrow, has
  ``w`` bits and a sign;
- ``x != 0`` is ``(x/2 + x%2 + (H-1)) / H``.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 256
"""Tokens in the longest expression that is made: each use of a value repeats what computes it."""


class Unsayable(Exception):
    """The language has no form for this."""


@dataclass(frozen=True, slots=True)
class Term:
    """A number: the tokens that compute it and where it lies.

    Attributes:
        tokens: in postfix order.
        low, high: it is never outside of these, 0 <= low <= high < 2^w.
        total: it neither loads nor divides by what may be zero, so it can always be computed.
    """

    tokens: tuple[str, ...]
    low: int
    high: int
    total: bool = True

    @property
    def number(self) -> int | None:
        """Its value, where that is known."""
        return self.low if self.low == self.high else None


class Arithmetic:
    """Makes terms of terms, for numbers of so many bits.

    Args:
        bits: the width of a register.
        big: whether memory is big-endian.

    All methods raise :class:`Unsayable` where a term would be longer than :data:`LONGEST`.
    """

    def __init__(self, bits: int, big: bool = False) -> None:
        self.bits = bits
        self.mask = (1 << bits) - 1
        self.half = 1 << (bits - 1)
        self.big = big

    def number(self, value: int) -> Term:
        """A literal. The upper half is written as negative numbers: readers take literals for signed 64-bit ones."""
        value &= self.mask
        return Term((str(value - self.mask - 1 if value >= self.half else value),), value, value)

    def register(self, name: str) -> Term:
        """A register, or the CFA."""
        return Term((name,), 0, self.mask)

    def _make(self, a: Term, b: Term, operator: str, low: int, high: int, total: bool = True) -> Term:
        total = total and a.total and b.total
        if not 0 <= low <= high <= self.mask:
            low, high = 0, self.mask
        elif low == high and total:
            return self.number(low)
        tokens = (*a.tokens, *b.tokens, operator)
        if len(tokens) > LONGEST:
            raise Unsayable
        return Term(tokens, low, high, total)

    def plus(self, a: Term, b: Term) -> Term:
        """a + b."""
        if a.number is not None and b.number is not None:
            return self.number(a.number + b.number)
        return self._make(a, b, "+", a.low + b.low, a.high + b.high)

    def minus(self, a: Term, b: Term) -> Term:
        """a - b."""
        if a.number is not None and b.number is not None:
            return self.number(a.number - b.number)
        return self._make(a, b, "-", a.low - b.high, a.high - b.low)

    def times(self, a: Term, b: Term) -> Term:
        """a * b."""
        if a.number is not None and b.number is not None:
            return self.number(a.number * b.number)
        return self._make(a, b, "*", a.low * b.low, a.high * b.high)

    def divide(self, a: Term, b: Term) -> Term:
        """a / b, unsigned."""
        if b.low:
            return self._make(a, b, "/", a.low // b.high, a.high // b.low)
        return self._make(a, b, "/", 0, a.high, b.low > 0)

    def modulo(self, a: Term, b: Term) -> Term:
        """a % b, unsigned."""
        if b.low and b.number is not None and a.high < b.number:
            return a
        return self._make(a, b, "%", 0, min(a.high, max(b.high - 1, 0)), b.low > 0)

    def low_bits(self, a: Term, count: int) -> Term:
        """The lowest bits of a."""
        if count >= self.bits:
            return a
        return self.modulo(a, self.number(1 << count))

    def align(self, a: Term, count: int) -> Term:
        """a with so many of its lowest bits cleared, fewer than all."""
        return self._make(a, self.number(1 << count), "@", a.low >> count << count, a.high >> count << count)

    def masked(self, a: Term, mask: int) -> Term:
        """The bits of a that a mask has, of at most four runs of ones."""
        if a.number is not None:
            return self.number(a.number & mask)
        parts: list[Term] = []
        at = 0
        while mask >> at:
            at += ((mask >> at) & -(mask >> at)).bit_length() - 1
            run = ((~(mask >> at)) & ((mask >> at) + 1)).bit_length() - 1
            part = self.low_bits(a, at + run)
            parts.append(self.align(part, at) if at else part)
            at += run
        if len(parts) > 4:
            raise Unsayable
        if not parts:
            return self.number(0)
        total = parts[0]
        for part in parts[1:]:
            total = self.plus(total, part)
        return total

    def bitwise(self, name: str, a: Term, b: Term) -> Term:
        """``and``, ``or``, ``xor``: with a constant, or of two that are 0 or 1."""
        if a.number is not None:
            a, b = b, a
        if b.number is not None:
            inside = self.masked(a, b.number)
            if name == "and":
                return inside
            outside = self.masked(a, self.mask & ~b.number)
            return self.plus(outside, b if name == "or" else self.minus(b, inside))
        if a.high > 1 or b.high > 1:
            raise Unsayable
        both = self.times(a, b)
        if name == "and":
            return both
        return self.minus(self.plus(a, b), both if name == "or" else self.times(self.number(2), both))

    def shift(self, name: str, a: Term, b: Term) -> Term:
        """``shl``, ``shr``, ``shra`` by a constant."""
        count = b.number
        if count is None:
            raise Unsayable
        if name == "shra" and a.high >= self.half:
            count = min(count, self.bits - 1)
            if not count:
                return a
            moved = self.divide(self.plus(a, self.number(self.half)), self.number(1 << count))
            return self.minus(moved, self.number(self.half >> count))
        if count >= self.bits:
            if not a.total:
                raise Unsayable
            return self.number(0)
        if not count:
            return a
        return (self.times if name == "shl" else self.divide)(a, self.number(1 << count))

    def at_least(self, a: Term, b: Term) -> Term:
        """1 where a >= b as signed numbers, else 0."""
        if a.high < self.half and b.high < self.half:
            bound = self.number(1 << max(a.high, b.high).bit_length())
            return self.divide(self.plus(a, self.minus(bound, b)), bound)
        one, two, half = self.number(1), self.number(2), self.number(self.half)
        a, b = self.plus(a, half), self.plus(b, half)
        halves = self.minus(self.divide(a, two), self.divide(b, two))
        carry = self.divide(self.minus(self.plus(self.modulo(a, two), two), self.modulo(b, two)), two)
        return self.divide(self.plus(self.plus(halves, carry), self.minus(half, one)), half)

    def nonzero(self, a: Term) -> Term:
        """1 where a is not 0."""
        if a.high < self.half:
            bound = self.number(1 << a.high.bit_length())
            return self.divide(self.plus(a, self.minus(bound, self.number(1))), bound)
        two, half = self.number(2), self.number(self.half)
        some = self.plus(self.divide(a, two), self.modulo(a, two))
        return self.divide(self.plus(some, self.number(self.half - 1)), half)

    def compare(self, name: str, a: Term, b: Term) -> Term:
        """``eq ne ge gt le lt``, signed: 1 or 0."""
        one = self.number(1)
        match name:
            case "ge":
                return self.at_least(a, b)
            case "le":
                return self.at_least(b, a)
            case "lt":
                return self.minus(one, self.at_least(a, b))
            case "gt":
                if b.number is not None and b.number != self.half - 1:
                    return self.at_least(a, self.number(b.number + 1))
                return self.minus(one, self.at_least(b, a))
            case "ne":
                return self.nonzero(self.difference(a, b))
            case _:
                return self.minus(one, self.nonzero(self.difference(a, b)))

    def difference(self, a: Term, b: Term) -> Term:
        """A number that is 0 where a and b are equal, as small as the bounds allow."""
        if a.high < self.half and b.high < self.half:
            bound = self.number(1 << max(a.high, b.high).bit_length())
            return self.modulo(self.plus(a, self.minus(bound, b)), bound)
        return self.minus(a, b)

    def sign(self, a: Term) -> Term:
        """1 - 2 * (1 where a is negative)."""
        negative = self.divide(a, self.number(self.half))
        return self.minus(self.number(1), self.times(self.number(2), negative))

    def absolute(self, a: Term) -> Term:
        """a without its sign; the most negative number is its own."""
        return a if a.high < self.half else self.times(a, self.sign(a))

    def signed_divide(self, a: Term, b: Term) -> Term:
        """a / b, rounded towards zero."""
        size = self.divide(self.absolute(a), self.absolute(b))
        for term in (a, b):
            if term.high >= self.half:
                size = self.times(size, self.sign(term))
        return size

    def load(self, a: Term, size: int) -> Term:
        """The number of so many bytes in memory at a, of a whole register's that are loaded."""
        if len(a.tokens) >= LONGEST:
            raise Unsayable
        whole = Term((*a.tokens, "^"), 0, self.mask, False)
        if 8 * size == self.bits:
            return whole
        if self.big:
            return self.divide(whole, self.number(1 << (self.bits - 8 * size)))
        return self.low_bits(whole, 8 * size)

    def binary(self, name: str, a: Term, b: Term) -> Term:
        """A DWARF operator of two numbers: ``a`` was second on the stack, ``b`` the top."""
        match name:
            case "plus":
                return self.plus(a, b)
            case "minus":
                return self.minus(a, b)
            case "mul":
                return self.times(a, b)
            case "div":
                return self.signed_divide(a, b)
            case "mod":
                return self.modulo(a, b)
            case "and" | "or" | "xor":
                return self.bitwise(name, a, b)
            case "shl" | "shr" | "shra":
                return self.shift(name, a, b)
            case _:
                return self.compare(name, a, b)

    def unary(self, name: str, a: Term) -> Term:
        """``abs``, ``neg``, ``not``."""
        if name == "abs":
            return self.absolute(a)
        return self.minus(self.number(0 if name == "neg" else -1), a)

    def choose(self, condition: Term, a: Term, b: Term) -> Term:
        """a where the condition is not 0, else b; both have to be computable, for both are computed."""
        if condition.number is not None:
            return a if condition.number else b
        if not (a.total and b.total):
            raise Unsayable
        some = self.nonzero(condition)
        return self.plus(self.times(some, a), self.times(self.minus(self.number(1), some), b))
