"""Rows of unwind tables as GNU readelf prints them, evaluated: nothing here is clew's.

``--debug-dump=frames-interp`` has the rows, but says only ``exp`` of an expression; ``--debug-dump=frames`` has those, and
which instruction sets them where.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ENVIRONMENT = {**os.environ, "LC_ALL": "C"}
_ENTRY = re.compile(r"([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ (?:CIE|FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+))")
_INSTRUCTION = re.compile(r"  (DW_CFA_\w+)(?:: (?:r(\d+)(?: \(\w+\))?)?)?")
_OPERATION = re.compile(r"DW_OP_(\w+?)(\d*)(?: \(\w+\))?(?:: (.*))?")

Expressions = dict[str, str]


@dataclass(frozen=True)
class Row:
    """One row: what each column says, as text; expressions as the text of their operators."""

    start: int
    end: int
    cfa: str
    columns: tuple[tuple[str, str], ...]


def readelf(path: Path, option: str) -> Iterator[str]:
    """The lines of a listing."""
    command = ["readelf", "-wN", f"--debug-dump={option}", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT
    ) as child:
        assert child.stdout is not None
        yield from child.stdout


def rows(path: Path) -> Iterator[Row]:
    """The rows of all FDEs, in the order of the file. Of one that changes nothing readelf prints no row: it is its CIE's."""
    expressions = _expressions(path)
    entry, parent, start, end = "", "", 0, 0
    headings: list[str] = []
    initial: dict[str, Row] = {}
    before: Row | None = None

    def close() -> Iterator[Row]:
        if not parent:
            if before is not None:
                initial[entry] = before
        elif before is None:
            yield replace(initial[parent], start=start, end=end)
        elif before.start < end:
            yield replace(before, end=end)

    for line in readelf(path, "frames-interp"):
        if match := _ENTRY.match(line):
            yield from close() if entry else ()
            before, headings = None, []
            entry, parent = match[1], match[2] or ""
            start, end = (int(match[3], 16), int(match[4], 16)) if parent else (0, 0)
        elif line.startswith("   LOC"):
            headings = line.split()[2:]
        elif headings and re.match("[0-9a-f]{16} ", line):
            address, cfa, *cells = _cells(line)
            location = int(address, 16)
            if parent and before is not None and before.start < location:
                yield replace(before, end=location)
            known = expressions.get((entry, location), {})
            columns = tuple(
                (name, f"{cell} {known[name]}" if cell in ("exp", "vexp") else cell)
                for name, cell in zip(headings, cells, strict=True)
            )
            before = Row(location, end, f"exp {known['cfa']}" if cfa == "exp" else cfa, columns)
    yield from close() if entry else ()


def _cells(line: str) -> list[str]:
    """The words of a row; that of a register is ``r5 (rdi)``."""
    words: list[str] = []
    for word in line.split():
        if word.startswith("("):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def _expressions(path: Path) -> dict[tuple[str, int], Expressions]:
    """The expressions in force, by entry and location, from the listing of instructions."""
    out: dict[tuple[str, int], Expressions] = {}
    first: dict[str, Expressions] = {}
    force: Expressions = {}
    kept: list[Expressions] = []
    entry, location, initial = "", 0, {}
    for line in readelf(path, "frames"):
        if match := _ENTRY.match(line):
            entry, kept = match[1], []
            initial = first.get(match[2] or "", {})
            force = dict(initial)
            location = int(match[3], 16) if match[3] else 0
            if match[2] is None:
                first[entry] = force
        elif match := _INSTRUCTION.match(line):
            name, number = match[1], match[2]
            column = "ra" if number == "16" else re.sub(r".*\((\w+)\).*", r"\1", line.split("(DW_OP")[0]).strip()
            if "advance" in name or "set_loc" in name:
                location = int(line.split(" to ")[1], 16)
            elif name == "DW_CFA_def_cfa_expression":
                force["cfa"] = line[line.index("(") + 1 : line.rindex(")")]
            elif name in ("DW_CFA_expression", "DW_CFA_val_expression"):
                force[column] = line[line.index("(DW_OP") + 1 : line.rindex(")")]
            elif name in ("DW_CFA_def_cfa", "DW_CFA_def_cfa_sf"):
                force.pop("cfa", None)
            elif name == "DW_CFA_remember_state":
                kept.append(dict(force))
            elif name == "DW_CFA_restore_state":
                force = kept.pop()
                if match[2] is None and entry in first:
                    first[entry] = force
            elif number is not None and "cfa" not in name:
                force.pop(column, None)
                if "restore" in name and column in initial:
                    force[column] = initial[column]
            if force:
                out[entry, location] = dict(force)
            else:
                out.pop((entry, location), None)
    return out


def machine(text: str, registers: Mapping[int, int], load: Callable[[int], int], *stack: int, bits: int = 64) -> int:
    """What a DWARF expression computes, from the operators that readelf prints (DWARF 5, 2.5.1)."""
    mask = (1 << bits) - 1

    def signed(value: int) -> int:
        return value - (value >> (bits - 1) << bits)

    have = list(stack)
    for operation in text.split("; "):
        match = _OPERATION.fullmatch(operation)
        assert match is not None, operation
        name, number, operand = match.groups()
        if name == "breg":
            have.append(registers[int(number)] + int(operand))
        elif name == "lit":
            have.append(int(number))
        elif name.startswith("const"):
            have.append(int(operand.split()[0], 0))
        elif name == "plus_uconst":
            have.append(have.pop() + int(operand))
        elif name == "deref":
            have.append(load(have.pop() & mask))
        elif name in ("neg", "not"):
            have.append(-have.pop() if name == "neg" else ~have.pop())
        elif name == "dup":
            have.append(have[-1])
        elif name == "drop":
            have.pop()
            continue
        else:
            right, left = have.pop(), have.pop()
            have.append(
                {
                    "plus": left + right,
                    "minus": left - right,
                    "mul": left * right,
                    "and": left & right,
                    "or": left | right,
                    "xor": left ^ right,
                    "shl": left << min(right, bits),
                    "shr": left >> min(right, bits),
                    "ge": int(signed(left) >= signed(right)),
                    "gt": int(signed(left) > signed(right)),
                    "le": int(signed(left) <= signed(right)),
                    "lt": int(signed(left) < signed(right)),
                    "eq": int(left == right),
                    "ne": int(left != right),
                }[name]
            )
        have[-1] &= mask
    return have[-1]
