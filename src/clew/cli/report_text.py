"""Counted stacks as a table for people, in the form of ``perf report --stdio``."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename
from typing import TYPE_CHECKING, NamedTuple

from clew.cli.output import counted as number_of
from clew.cli.output import printable
from clew.cli.report_counts import Weight
from clew.cli.report_tree import callers, tree_lines
from clew.walk.model import End

if TYPE_CHECKING:
    from clew.cli.output import Palette
    from clew.cli.report_counts import Counted, Place, StackKey


class _Entry(NamedTuple):
    """What a line of the table is about."""

    comm: str
    place: Place


class _Line:
    """A line: what its function took itself, and together with what it called; and the stacks that it is in."""

    def __init__(self) -> None:
        self.own = Weight()
        self.all = Weight()
        self.stacks: list[tuple[StackKey, Weight, int]] = []


def report_lines(
    counted: Counted, name: str, colours: Palette, *, children: bool, graph: bool, limit: int | None, least: float
) -> Iterator[str]:
    """The report.

    Args:
        name: the recording's file.
        children: whether functions are sorted by what they took together with what they called.
        graph: whether the callers of each are printed.
        limit: how many lines each table has at most.
        least: the smallest share, in percent, that is printed.
    """
    data = counted.data
    yield f"# recording {printable(name)}, {data.machine.name}" + (
        f": {printable(data.command)}" if data.command else ""
    )
    for index, event in enumerate(data.events):
        total = Weight()
        for _, weight in counted.of_event(index):
            total.add(weight)
        if not total.samples and len(data.events) > 1:
            continue
        how = f"{event.period:,} times a second" if event.frequency else f"every {event.period:,} events"
        yield "#"
        yield f"# {number_of(total.samples, 'sample')} of {printable(event.name)!r}, taken {how}"
        yield f"# {total.period:,} events, as samples estimate them, and all shares"
        yield "#"
        yield from _table(counted, index, total, colours, children=children, graph=graph, limit=limit, least=least)
        yield ""
    for line in summary_lines(counted, colours):
        yield f"# {line}"


def _table(
    counted: Counted,
    event: int,
    total: Weight,
    colours: Palette,
    *,
    children: bool,
    graph: bool,
    limit: int | None,
    least: float,
) -> Iterator[str]:
    lines = _entries(counted, event, children=children)
    order = sorted(lines.items(), key=lambda item: _rank(*item, children=children))
    whole = total.period or 1
    shown = [
        (entry, line) for entry, line in order if 100 * (line.all if children else line.own).period / whole >= least
    ][:limit]
    rows = []
    for entry, line in shown:
        shares = [_percent(line.all, whole), _percent(line.own, whole)] if children else [_percent(line.own, whole)]
        samples = line.all if children else line.own
        module = basename(entry.place.module) or entry.place.module
        rows.append((*shares, f"{samples.samples:,}", printable(entry.comm), module, place_text(entry.place)))
    shares = ["Children", "Self"] if children else ["Overhead"]
    heads = (*shares, "Samples", "Command", "Shared Object", "Symbol")
    widths = [max(len(head), *(len(row[column]) for row in rows), 0) for column, head in enumerate(heads)]
    right = len(shares) + 1
    yield (
        "# "
        + "  ".join(
            _set(head, width, column < right) for column, (head, width) in enumerate(zip(heads, widths, strict=True))
        ).rstrip()
    )
    yield "# " + "  ".join("." * width for width in widths)
    yield "#"
    for row, (_, line) in zip(rows, shown, strict=True):
        cells = [
            _set(cell, width, column < right) for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        share = float(row[0][:-1])
        cells[0] = colours.red(cells[0]) if share >= 5 else colours.green(cells[0]) if share >= 0.5 else cells[0]
        yield "  " + "  ".join(cells).rstrip()
        if graph:
            root = callers(counted, line.stacks)
            yield from tree_lines(root, whole, place_text)
    if len(lines) > len(rows):
        yield colours.dim(f"# and {number_of(len(lines) - len(rows), 'more function')}")


def _entries(counted: Counted, event: int, *, children: bool) -> dict[_Entry, _Line]:
    """The functions, by the names of threads."""
    lines: dict[_Entry, _Line] = {}
    for key, weight in counted.of_event(event):
        frames = counted.frames(key)
        seen: set[Place] = set()
        for depth, place in enumerate(frames if children else frames[:1]):
            # A function that calls itself took its time once.
            if place in seen:
                continue
            seen.add(place)
            line = lines.setdefault(_Entry(key.comm, place), _Line())
            line.all.add(weight)
            if not depth:
                line.own.add(weight)
            line.stacks.append((key, weight, depth))
    return lines


def _rank(entry: _Entry, line: _Line, *, children: bool) -> tuple[int, str, str, str, int]:
    """Large ones first; equal ones by name."""
    place = entry.place
    weight = line.all if children else line.own
    return -weight.period, entry.comm, place.module, place.function or "", place.address or 0


def place_text(place: Place) -> str:
    """A frame's function, with ``[k]`` for the kernel's, as perf has it."""
    name = place.function if place.function is not None else f"{place.address or 0:#018x}"
    return f"[{'k' if place.kernel else '.'}] {name}"


def _percent(weight: Weight, whole: int) -> str:
    return f"{100 * weight.period / whole:.2f}%"


def _set(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def summary_lines(counted: Counted, colours: Palette) -> Iterator[str]:
    """How many samples there were, how their stacks ended, and what was lost."""
    walked = counted.walked
    lines = [("samples", f"{counted.samples:,}", "")]
    if walked:
        share = f"{100 * counted.ends[End.ENTRY] / walked:.2f} %"
        lines.append(("complete", share, "of the stacks that were walked reach the outermost frame"))
    if counted.tableless:
        lines.append(
            ("without_table", f"{counted.tableless:,}", "stacks have frames that were found without an unwind table")
        )
    if counted.chains:
        lines.append(("chains", f"{counted.chains:,}", "as the kernel took them: it does not say why they ended"))
    if counted.bare:
        lines.append(("bare", f"{counted.bare:,}", "without a stack: only where they were"))
    if counted.outside:
        lines.append(("outside", f"{counted.outside:,}", "not in a program, or without a copy of its stack"))
    if counted.data.lost:
        lines.append(("lost", f"{counted.data.lost:,}", "as far as the recording says"))
    lines += [(end.value, f"{count:,}", f"{100 * count / walked:.2f} %") for end, count in counted.ends.most_common()]
    width, digits = max(len(name) for name, _, _ in lines), max(len(value) for _, value, _ in lines)
    incomplete = {end.value for end in End if end is not End.ENTRY}
    for name, value, remark in lines:
        shown = colours.red(name.ljust(width)) if name in incomplete else name.ljust(width)
        yield f"{shown}  {colours.cyan(value.rjust(digits))}  {remark}".rstrip()
