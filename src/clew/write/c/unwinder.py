"""The C source of a compiled unwinder, in the form of the paper's figure 7: a binary search over the pc as a tree of ``if``
and ``else``, whose leaves go to labels behind which each different body stands once.

A table of very many rows becomes several such functions, by parts of the address space, and a tree over them: what compilers
do takes more than twice the time for a function of twice the size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from clew._version import __version__
from clew.write.c.bodies import Names, statements
from clew.write.c.dialect import Dialect, comment
from clew.write.c.expression import QUOTIENT, function
from clew.write.compiled.abi import MAGIC, VERSION, Information, Outcome
from clew.write.compiled.planning import Plan

PART = 1 << 15
"""Leaves that one function has at most. libc has 24 thousand."""


def source(
    plan: Plan, information: Information, *, name: str, deref: bool = False, switch: bool = False
) -> Iterator[str]:
    """The source, line by line, without ends of lines.

    Args:
        plan: what is compiled.
        information: what the object says of itself.
        name: the file that the table is of, for the comment on top.
        deref: load memory through a parameter, for other address spaces than the function's own.
        switch: a ``switch`` with a case for each row instead of the tree, every body in its place: what the tree saves.
    """
    dialect = Dialect(plan.abi, deref)
    names = Names()
    bodies = [list(statements(body, dialect, names)) for body in plan.bodies]
    text = "\n".join(line for body in bodies for line in body)
    functions = [
        line
        for (expression, with_cfa), called in names.items()
        for line in function(called, expression, with_cfa, dialect)
    ]
    yield from _head(plan, information, name)
    yield from _types(plan, dialect)
    yield from _information(information)
    yield from _helpers("\n".join(functions) + text, dialect)
    yield from functions
    starts, leaves = plan.start.tolist(), plan.body.tolist()
    if switch:
        yield from _function(plan, dialect, _switch(starts, leaves, bodies, plan, dialect), "")
    elif len(starts) <= PART:
        yield from _function(plan, dialect, _tree(starts, leaves, plan.base, bodies, plan, dialect), "")
    else:
        yield from _parts(starts, leaves, bodies, plan, dialect)


def _head(plan: Plan, information: Information, name: str) -> Iterator[str]:
    yield comment(f"A compiled unwinder: what the unwind table of {name} says, as one function.")
    told = information.build_id.hex() or "none"
    yield comment(f"Build id {told}. {len(plan.start)} leaves, {len(plan.bodies)} bodies. Made by clew {__version__}.")
    yield comment(
        "pc is the address of the file: subtract where it is loaded. Of a return address, pass the address before it."
    )
    yield "#include <stdbool.h>"
    yield "#include <stdint.h>"
    yield "#include <string.h>"
    yield ""


def _types(plan: Plan, dialect: Dialect) -> Iterator[str]:
    if dialect.paper:
        yield "typedef struct {"
        yield "    uint8_t flags; /* 1 rip, 2 rsp, 4 rbp, 8 rbx: the register is known; 128: error */"
        yield "    uintptr_t rip, rsp, rbp, rbx;"
        yield "} unwind_context_t;"
        if dialect.deref:
            yield "typedef uintptr_t (*deref_func_t)(uintptr_t);"
    else:
        abi = plan.abi
        yield comment("Registers by DWARF number. Bit i of known: r[i] is known.")
        yield f"struct clew_frame {{ uint64_t known; uint64_t r[{len(abi.registers)}]; }};"
        yield f"enum {{ {', '.join(f'{dialect.name(number)} = {number}' for number in abi.registers)} }};"
        yield "#define KNOWN(n) (frame->known >> (n) & 1)"
        if dialect.deref:
            yield comment("Loads the word at an address; false where it cannot.")
            yield "typedef bool clew_deref(void *argument, uintptr_t address, uintptr_t *value);"
    yield f"enum {{ {', '.join(f'CLEW_{outcome.name} = {outcome.value}' for outcome in Outcome)} }};"
    yield "typedef uintptr_t word __attribute__((aligned(1), may_alias));"
    if plan.abi.machine.name == "aarch64":
        yield comment("Bits of a signed return address that are not address; they are copies of bit 55 in a plain one.")
        yield "#ifndef CLEW_CODE_MASK"
        yield "#define CLEW_CODE_MASK 0x007f000000000000u"
        yield "#endif"
        yield "#define CLEW_STRIPPED(a) ((a) >> 55 & 1 ? (a) | CLEW_CODE_MASK : (a) & ~CLEW_CODE_MASK)"
    yield ""


def _information(information: Information) -> Iterator[str]:
    size = len(information.build_id)
    magic = ", ".join(f"{byte:#x}" for byte in MAGIC)
    yield "const struct clew_unwind_information {"
    yield "    char magic[8];"
    yield "    uint32_t version;"
    yield "    uint16_t machine;"
    yield "    uint8_t abi, deref;"
    yield "    uint64_t start, end;"
    yield "    uint32_t registers, build_id_size;"
    yield f"    uint8_t build_id[{max(size, 1)}];"
    yield "} clew_unwind_information = {"
    yield f"    {{{magic}}}, {VERSION}, {information.machine}, {information.abi}, {int(information.deref)},"
    yield f"    {information.start:#x}u, {information.end:#x}u, {information.registers}, {size},"
    yield f"    {{{', '.join(f'{byte:#x}' for byte in information.build_id) or '0'}}},"
    yield "};"
    yield ""


_PART = """\
static uint64_t part(uint64_t address, unsigned size)
{
    uint64_t value = 0;
    memcpy(&value, (const void *)address, size);
    return value;
}
"""

# Loads give whole words only: where the one that begins with the bytes cannot be read, that which ends with them may.
_PART_DEREF = """\
static bool part(clew_deref *deref, void *argument, uint64_t *value, unsigned size)
{
    uintptr_t address = *value, loaded = 0;
    if (deref(argument, address, &loaded))
        *value = size < 8 ? loaded & ((1ull << 8 * size) - 1) : loaded;
    else if (size < 8 && deref(argument, address - (8 - size), &loaded))
        *value = loaded >> 8 * (8 - size);
    else
        return false;
    return true;
}
"""


def _helpers(text: str, dialect: Dialect) -> Iterator[str]:
    """The helpers that are called: compilers warn of others."""
    if re.search(r"\bpart\(", text):
        yield _PART_DEREF if dialect.deref else _PART
    if "quotient(" in text:
        yield QUOTIENT


def _function(plan: Plan, dialect: Dialect, lines: Iterator[str], suffix: str) -> Iterator[str]:
    """The exported function, or one for a part of the addresses."""
    yield ""
    yield ("static " if suffix else "") + _signature(plan, dialect, suffix)
    yield "{"
    if dialect.paper:
        yield "    unwind_context_t out_ctx = ctx;"
        yield "    uintptr_t cfa, ra;"
        yield "    unsigned known;"
        yield "    (void)cfa, (void)ra, (void)known;"
    else:
        yield "    uint64_t *const r = frame->r;"
        yield "    uintptr_t cfa, ra;"
        yield "    uint64_t known;"
        yield "    int failure;"
        yield "    (void)r, (void)cfa, (void)ra, (void)known, (void)failure;"
    if dialect.deref:
        yield "    (void)deref;" if dialect.paper else "    (void)deref, (void)argument;"
    yield from lines
    yield "}"


def _signature(plan: Plan, dialect: Dialect, suffix: str = "") -> str:
    if dialect.paper:
        more = ", deref_func_t deref" if dialect.deref else ""
        return f"unwind_context_t {plan.abi.symbol}{suffix}(unwind_context_t ctx, uintptr_t pc{more})"
    more = ", clew_deref *deref, void *argument" if dialect.deref else ""
    return f"int {plan.abi.symbol}{suffix}(struct clew_frame *frame, uintptr_t pc{more})"


def _tree(
    starts: Sequence[int], leaves: Sequence[int], first: int, bodies: list[list[str]], plan: Plan, dialect: Dialect
) -> Iterator[str]:
    """The search over some leaves, and the bodies that they go to. Below ``first`` there is no row."""
    lines: list[str] = []

    def search(low: int, high: int, indent: str) -> None:
        if high - low == 1:
            if high < len(starts):
                lines.append(f"{indent}/* {starts[low]:#x} ... {starts[high] - 1:#x} */")
            lines.append(f"{indent}goto {_label(leaves[low])};")
            return
        middle = (low + high) // 2
        lines.append(f"{indent}if (pc < {starts[middle]:#x}u) {{")
        search(low, middle, indent + " ")
        lines.append(f"{indent}}} else {{")
        search(middle, high, indent + " ")
        lines.append(f"{indent}}}")

    if starts:
        if first:
            lines.append(f"    if (pc < {first:#x}u) goto _factor_default;")
        search(0, len(starts), "    ")
    else:
        lines += ["    (void)pc;", "    goto _factor_default;"]
    yield from lines
    yield ""
    for number in sorted({0, *leaves}):
        text, rows = plan.rules[number]
        yield comment(f"{text} -- {rows:,} row{'' if rows == 1 else 's'}" if number else "no row")
        yield f"{_label(number)}: {{"
        yield from (f"    {line}" for line in _body(number, bodies, dialect))
        yield "}"


def _label(body: int) -> str:
    return f"_factor_{body}" if body else "_factor_default"


def _body(number: int, bodies: list[list[str]], dialect: Dialect) -> list[str]:
    if dialect.paper and not number:
        # The paper's error: what its listing 3 answers without a row, and here whatever is wrong.
        return ["out_ctx.flags = 128u;", "return out_ctx;"]
    return bodies[number]


def _switch(
    starts: Sequence[int], leaves: Sequence[int], bodies: list[list[str]], plan: Plan, dialect: Dialect
) -> Iterator[str]:
    yield "    switch (pc) {"
    for place, (start, number) in enumerate(zip(starts, leaves, strict=True)):
        if not number or place + 1 == len(starts):
            continue
        yield comment(plan.rules[number][0], "    ")
        yield f"    case {start:#x}u ... {starts[place + 1] - 1:#x}u: {{"
        yield from (f"        {line}" for line in bodies[number])
        yield "    }"
    yield "    default:"
    if dialect.paper:
        yield "        goto _factor_default;"
        yield "    }"
        yield "_factor_default:"
        yield from (f"    {line}" for line in _body(0, bodies, dialect))
    else:
        yield from (f"        {line}" for line in _body(0, bodies, dialect))
        yield "    }"


def _parts(
    starts: list[int], leaves: list[int], bodies: list[list[str]], plan: Plan, dialect: Dialect
) -> Iterator[str]:
    count = -(-len(starts) // PART)
    cuts = [len(starts) * number // count for number in range(count + 1)]
    for number, (low, high) in enumerate(pairwise(cuts)):
        first = 0 if low else starts[0]
        part = _tree(starts[low:high], leaves[low:high], first, bodies, plan, dialect)
        yield from _function(plan, dialect, part, f"_{number}")
    yield ""
    yield _signature(plan, dialect)
    yield "{"
    arguments = "ctx, pc" if dialect.paper else "frame, pc"
    if dialect.deref:
        arguments += ", deref" if dialect.paper else ", deref, argument"
    lines: list[str] = []

    def search(low: int, high: int, indent: str) -> None:
        if high - low == 1:
            lines.append(f"{indent}return {plan.abi.symbol}_{low}({arguments});")
            return
        middle = (low + high) // 2
        lines.append(f"{indent}if (pc < {starts[cuts[middle]]:#x}u) {{")
        search(low, middle, indent + " ")
        lines.append(f"{indent}}} else {{")
        search(middle, high, indent + " ")
        lines.append(f"{indent}}}")

    search(0, count, "    ")
    yield from lines
    yield "}"
