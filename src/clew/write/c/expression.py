"""DWARF expressions as C functions: what :func:`clew.table.evaluate` says, step by step (DWARF 5, 2.5.1).

Without branches, how many numbers are on the stack is known at each step, and the stack is an array with constant indexes.
With branches, it is counted as the function runs, and so are its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from clew.table import Expression
from clew.table.evaluate import MAXIMUM_DEPTH, MAXIMUM_STEPS
from clew.table.expression import Step
from clew.write.c.dialect import Dialect, comment
from clew.write.compiled.steps import effect, jumps, needed

_BINARY = {
    "plus": "{a} + {b}",
    "minus": "{a} - {b}",
    "mul": "{a} * {b}",
    "and": "{a} & {b}",
    "or": "{a} | {b}",
    "xor": "{a} ^ {b}",
    "div": "quotient({a}, {b})",
    "mod": "{a} % {b}",
    "shl": "{b} < 64 ? {a} << {b} : 0",
    "shr": "{b} < 64 ? {a} >> {b} : 0",
    "shra": "(uint64_t)((int64_t){a} >> ({b} < 64 ? {b} : 63))",
    "eq": "{a} == {b}",
    "ne": "{a} != {b}",
    "ge": "(int64_t){a} >= (int64_t){b}",
    "gt": "(int64_t){a} > (int64_t){b}",
    "le": "(int64_t){a} <= (int64_t){b}",
    "lt": "(int64_t){a} < (int64_t){b}",
}

_UNARY = {"abs": "{a} >> 63 ? 0 - {a} : {a}", "neg": "0 - {a}", "not": "~{a}"}

#: Signed division without what C leaves undefined; the most negative number by -1 is itself.
QUOTIENT = """\
static uint64_t quotient(uint64_t a, uint64_t b)
{
    uint64_t q = (a >> 63 ? 0 - a : a) / (b >> 63 ? 0 - b : b);
    return (a ^ b) >> 63 ? 0 - q : q;
}
"""


def function(name: str, expression: Expression, with_cfa: bool, dialect: Dialect) -> Iterator[str]:
    """The lines of a function that computes an expression; it returns 0, or why it cannot.

    Args:
        with_cfa: whether the stack begins with the CFA.
    """
    initial = ("cfa",) if with_cfa else ()
    text = expression.dwarf(dialect.abi.machine)
    yield comment(text if len(text) < 2000 else expression.infix(dialect.abi.machine, initial)[:2000])
    yield f"static int {name}({dialect.expression_parameters}, uintptr_t *result)"
    yield "{"
    steps = expression.canonical
    if not dialect.paper:
        yield "    const uint64_t *const r = frame->r;"
    yield f"    {', '.join(f'(void){unused}' for unused in dialect.expression_unused)};"
    if jumps(steps):
        yield from _counted(steps, with_cfa, dialect)
    else:
        yield from _straight(steps, with_cfa, dialect)
    yield "}"


def _straight(steps: tuple[Step, ...], with_cfa: bool, dialect: Dialect) -> Iterator[str]:
    depth = int(with_cfa)
    lines: list[str] = ["s[0] = cfa;"] if with_cfa else []
    deepest = 1
    for number, step in enumerate(steps):
        if depth < needed(step):
            break
        lines += _step(step, partial(_numbered, depth), dialect)
        depth += effect(step)
        deepest = max(deepest, depth)
        if depth > MAXIMUM_DEPTH or number == MAXIMUM_STEPS:
            break
    else:
        if depth:
            lines += [f"*result = s[{depth - 1}];", "return 0;"]
            yield f"    uint64_t s[{deepest}];"
            yield from (f"    {line}" for line in lines)
            return
    yield f"    uint64_t s[{deepest}];"
    yield "    (void)s;"
    yield "    (void)result;"
    yield from (f"    {line}" for line in lines)
    yield "    return CLEW_BAD_RULE;"


def _numbered(depth: int, number: int) -> str:
    return f"s[{depth - number}]"


def _counted(steps: tuple[Step, ...], with_cfa: bool, dialect: Dialect) -> Iterator[str]:
    yield f"    uint64_t s[{MAXIMUM_DEPTH + 1}];"
    yield "    unsigned n = 0, taken = 0;"
    yield "    s[0] = 0;"
    if with_cfa:
        yield "    s[n++] = cfa;"
    going = jumps(steps)
    targets = set(going.values())
    for number, step in enumerate(steps):
        if number in targets:
            yield f"step_{number}:"
        if needed(step):
            yield f"    if (n < {needed(step)}) return CLEW_BAD_RULE;"
        # Every step counts, and so does the one at which there are too many.
        yield f"    if (++taken > {MAXIMUM_STEPS}) return CLEW_BAD_RULE;"
        if step[0] == "skip":
            yield f"    goto step_{going[number]};"
        elif step[0] == "bra":
            yield f"    if (s[--n]) goto step_{going[number]};"
        else:
            yield from (f"    {line}" for line in _step(step, lambda k: f"s[n - {k}]" if k else "s[n]", dialect))
            if effect(step) > 0:
                yield f"    if (++n > {MAXIMUM_DEPTH}) return CLEW_BAD_RULE;"
            elif effect(step):
                yield "    --n;"
    if len(steps) in targets:
        yield f"step_{len(steps)}:"
    yield "    if (!n) return CLEW_BAD_RULE;"
    yield "    *result = s[n - 1];"
    yield "    return 0;"


def _step(step: Step, at: Callable[[int], str], dialect: Dialect) -> list[str]:
    """The lines of a step. ``at(k)`` is the number ``k`` from the top, 1 being the top and 0 what is pushed."""
    match step:
        case ("push", value):
            return [f"{at(0)} = {value:#x}u;"]
        case ("register", number, offset):
            failed = f"if (!({dialect.known(number)})) return CLEW_UNKNOWN_REGISTER;"
            if dialect.abi.bit(number) is None:
                return ["return CLEW_UNKNOWN_REGISTER;", f"{at(0)} = 0;"]
            return [failed, f"{at(0)} = {plus(dialect.read(number), offset)};"]
        case ("pick", depth):
            return [f"{at(0)} = {at(depth + 1)};"]
        case ("deref", size):
            return dialect.load_part(at(1), size)
        case ("drop",):
            return []
        case ("swap",):
            return [f"{{ uint64_t t = {at(1)}; {at(1)} = {at(2)}; {at(2)} = t; }}"]
        case ("rot",):
            return [f"{{ uint64_t t = {at(1)}; {at(1)} = {at(2)}; {at(2)} = {at(3)}; {at(3)} = t; }}"]
        case (name,) if name in _UNARY:
            return [f"{at(1)} = {_UNARY[name].format(a=at(1))};"]
        case (name, *_):
            lines = [f"if (!{at(1)}) return CLEW_BAD_RULE;"] if name in ("div", "mod") else []
            return [*lines, f"{at(2)} = {_BINARY[str(name)].format(a=at(2), b=at(1))};"]


def plus(base: str, offset: int) -> str:
    """A sum modulo 2 to the power of 64, with an offset of any size.

    >>> plus("cfa", -8), plus("cfa", 0), plus("cfa", 1 << 70)
    ('cfa - 8', 'cfa', 'cfa')
    """
    offset = (offset + (1 << 63)) % (1 << 64) - (1 << 63)
    if not offset:
        return base
    number = f"{abs(offset)}" if abs(offset) < 1 << 31 else f"{abs(offset):#x}u"
    return f"{base} {'-' if offset < 0 else '+'} {number}"
