"""Who called a function: a tree of callers, as ``perf report -g`` draws it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clew.cli.report_counts import Weight
from clew.walk.model import End

if TYPE_CHECKING:
    from clew.cli.report_counts import Counted, Place, StackKey

LEAST = 0.5
"""The smallest share of all samples, in percent, that a branch has, as in perf."""


@dataclass(eq=False)
class Caller:
    """A frame on the way out.

    Attributes:
        place: None where the stack was lost.
        weight: of the stacks that go through it.
        outer: the frames around it.
    """

    place: Place | None
    weight: Weight = field(default_factory=Weight)
    outer: dict[Place | None, Caller] = field(default_factory=dict)


def callers(counted: Counted, stacks: Sequence[tuple[StackKey, Weight, int]]) -> Caller:
    """The tree of those who called a function.

    Args:
        stacks: that it is in, and where, from the innermost frame out.
    """
    root = Caller(None)
    for key, weight, depth in stacks:
        node = root
        node.weight.add(weight)
        path: list[Place | None] = list(counted.frames(key)[depth:])
        if key.end not in (None, End.ENTRY):
            path.append(None)
        for place in path:
            node = node.outer.setdefault(place, Caller(place))
            node.weight.add(weight)
    return root


def tree_lines(root: Caller, whole: int, text: Callable[[Place], str]) -> Iterator[str]:
    """The lines of a tree. Branches of less than :data:`LEAST` percent are left out.

    Args:
        whole: the period of all samples.
        text: of a place.
    """
    margin = " " * 12
    # Frames to print, the next one last: where they begin, and what stands before their first line.
    work: list[tuple[Caller, str, str]] = []
    yield f"{margin}|"
    for node in root.outer.values():
        work.append((node, margin, "---"))
    while work:
        node, before, mark = work.pop()
        first = f"{before}{mark}"
        rest = (
            before + " " * len(mark)
            if mark == "---" or mark.startswith(" --")
            else before + "|" + " " * (len(mark) - 1)
        )
        line = first
        while True:
            yield line + ("(the stack was lost)" if node.place is None else text(node.place)[4:])
            line = rest
            if len(node.outer) != 1:
                break
            (node,) = node.outer.values()
        branches = sorted(node.outer.values(), key=lambda each: each.weight.period)
        branches = [each for each in branches if 100 * each.weight.period / whole >= LEAST]
        if branches:
            yield f"{rest}|"
        for index, each in enumerate(branches):
            share = f"--{100 * each.weight.period / whole:.2f}%--"
            # The last one closes the branch.
            work.append((each, rest, (" " if index == 0 else "|") + share))
    yield ""
