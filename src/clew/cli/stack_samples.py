"""``clew stack`` of a recording: equal stacks are counted, the most frequent are printed, and the ends of all."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clew.cli.output import Palette, palette, print_json, printable, problems_json, report
from clew.cli.stack_json import function_json
from clew.cli.stack_names import names_of
from clew.cli.stack_text import PLAIN, FunctionRow, Row, aligned, end_line, inlined_row, left_out, source_text
from clew.cli.walking import open_recording
from clew.errors import NotFoundError, UsageError
from clew.walk.model import End, Interrupted, ReturnAddress, Trust
from clew.walk.samples import ENDS, NO_STACK, SampleWalker

if TYPE_CHECKING:
    from clew.arch import Machine
    from clew.cli.stack_names import FrameNames, InlinedCall
    from clew.errors import Problem
    from clew.target import Module, Target
    from clew.target.perfdata import PerfData
    from clew.walk import CodeAddress, SampleStacks, Stack

_SHOWN = 20
_MOST_STACKS = 1 << 18


class Place(NamedTuple):
    """Where a frame is, as far as stacks are told apart by it: a function, or an address where no symbol is known.

    Attributes:
        trust: how it was found; ``context`` and ``cfi`` are one.
        file, line: where in the source it is, if that was asked for.
        inlined: the calls inlined into the function, the innermost first, likewise.
    """

    function: str | None
    module: str | None
    address: int | None
    build_id: bytes | None
    trust: Trust | None
    file: str | None = None
    line: int = 0
    inlined: tuple[InlinedCall, ...] = ()


@dataclass
class Folded:
    """Stacks, counted.

    Attributes:
        samples: how many there were.
        outside: how many of them were not in a program, and have no stack of one.
        ends: why the stacks ended.
        counts: places of each different stack from the innermost out, with its end.
        places: what the numbers in ``counts`` mean.
        rare: different stacks that were seen once and put aside, for there are too many.
        problems: what was wrong with the debugging information that names were looked up in.
    """

    samples: int = 0
    outside: int = 0
    ends: Counter[End] = field(default_factory=Counter)
    counts: Counter[tuple[tuple[int, ...], End]] = field(default_factory=Counter)
    places: list[Place] = field(default_factory=list)
    rare: int = 0
    problems: list[Problem] = field(default_factory=list)
    _numbers: dict[Place, int] = field(default_factory=dict)
    _known: dict[tuple[Module | None, int, int, Trust | None], int] = field(default_factory=dict)

    def add(self, stack: Stack, names: FrameNames, *, in_call: bool = False) -> None:
        """Count a stack.

        Args:
            in_call: whether the thread is in a system call.
        """
        numbers = tuple(
            self._number(frame.pc, frame.module, frame.trust, names, in_call=in_call and index == 0)
            for index, frame in enumerate(stack.frames)
        )
        self.count(numbers, stack.end, 1)

    def add_pcs(
        self,
        pcs: Sequence[int],
        modules: Sequence[Module | None],
        end: End,
        count: int,
        names: FrameNames,
        in_call: bool,
    ) -> None:
        """Count a stack that was found by tables alone, so many times."""
        numbers = [
            self._number(ReturnAddress(pc), module, Trust.CFI, names, in_call=False)
            for pc, module in zip(pcs[1:], modules[1:], strict=True)
        ]
        first = self._number(Interrupted(pcs[0]), modules[0], Trust.CONTEXT, names, in_call=in_call)
        self.count((first, *numbers), end, count)

    def count(self, numbers: tuple[int, ...], end: End, count: int) -> None:
        """Count a stack by the numbers of its places."""
        self.ends[end] += count
        self.counts[numbers, end] += count
        if len(self.counts) > _MOST_STACKS:
            self._put_aside()

    def _put_aside(self) -> None:
        """Forget the stacks that were seen once, and the places that no other has. Numbers of places mean others then."""
        before, places = self.counts, self.places
        self.counts, self.places = Counter(), []
        self._numbers.clear()
        self._known.clear()
        for (numbers, end), count in before.items():
            if count > 1:
                self.counts[tuple(self.place(places[number]) for number in numbers), end] = count
        self.rare += len(before) - len(self.counts)

    def place(self, place: Place) -> int:
        """The number of a place, until stacks are counted."""
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self.places)
            self.places.append(place)
        return number

    def _number(self, pc: CodeAddress, module: Module | None, trust: Trust, names: FrameNames, *, in_call: bool) -> int:
        """The number of a frame's place."""
        # What is only true of an interrupted call is not remembered.
        shown = None if trust in PLAIN else trust
        key = (module, pc.address, pc.lookup, shown)
        number = None if in_call else self._known.get(key)
        if number is None:
            name = names.of(pc, module, in_call=in_call)
            address = name.address if name.module is not None else pc.address
            unnamed = None if name.function else address
            source = (name.file, name.line, name.inlined)
            number = self.place(Place(name.function, name.module, unnamed, name.build_id, shown, *source))
            if not in_call:
                if len(self._known) >= _MOST_STACKS:
                    self._known.clear()
                self._known[key] = number
        return number

    @property
    def different(self) -> int:
        """How many different stacks there are, at most."""
        return len(self.counts) + self.rare


def run(options: argparse.Namespace) -> int:
    """Runs the command for a recording."""
    if options.why or options.registers:
        raise UsageError("--why and --registers are for processes, cores and dumps, not for many stacks at once")
    with open_recording(options) as data:
        folded = fold(options, data)
        if options.thread and not folded.samples:
            raise NotFoundError(f"there is no sample of thread {options.thread[0]}", file=options.target)
        limit = options.limit if options.limit is not None else _SHOWN
        if options.json:
            print_json(_json(options, data, folded, limit))
        else:
            for line in _text(options, data, folded, limit, palette()):
                print(line)
        code = report(options.target, [*data.problems, *folded.problems])
    return 1 if any(end is not End.ENTRY for end in folded.ends) else code


def fold(options: argparse.Namespace, data: PerfData) -> Folded:
    """The stacks of a recording, counted."""
    folding = _Folding(data, SampleWalker(data, scan=options.scan), Folded())
    for batch in data.batches():
        stacks = folding.walker.walk(batch)
        chosen = np.isin(batch.tid, options.thread) if options.thread else np.ones(len(batch), bool)
        for index in np.flatnonzero(chosen).tolist():
            target = data.state(int(batch.state[index])).target
            if target.machine not in folding.names:
                folding.names[target.machine] = names_of(options, target, lines=bool(options.lines))
            folding.add(stacks, index, target)
        folding.flush()
    folding.folded.problems = [each for names in folding.names.values() for each in names.problems]
    return folding.folded


@dataclass
class _Folding:
    """Stacks on the way to be counted: equal ones of a batch are named once."""

    data: PerfData
    walker: SampleWalker
    folded: Folded
    names: dict[Machine, FrameNames] = field(default_factory=dict)
    _equal: dict[tuple[int, bool, int, bytes], list[Any]] = field(default_factory=dict)

    def add(self, stacks: SampleStacks, index: int, target: Target) -> None:
        """Takes a sample's stack."""
        self.folded.samples += 1
        end = int(stacks.end[index])
        if end == NO_STACK:
            self.folded.outside += 1
            return
        in_call = bool(stacks.in_call[index])
        other = stacks.others.get(index)
        if other is not None:
            # Each for itself, in its turn: what is equally frequent is shown in the order in which it came.
            self._equal[-1 - index, in_call, end, b""] = [other, target.machine]
            return
        pcs = stacks.pcs(index)
        key = (int(stacks.batch.state[index]), in_call, end, pcs.tobytes())
        known = self._equal.get(key)
        if known is None:
            first = int(stacks.first[index])
            numbers = stacks.module[first : first + len(pcs)].tolist()
            modules = self.walker.walker(key[0]).rows.modules
            self._equal[key] = [1, pcs.tolist(), [modules[number] for number in numbers], target.machine]
        else:
            known[0] += 1

    def flush(self) -> None:
        """Counts what was taken."""
        for (number, in_call, end, _), found in self._equal.items():
            if number < 0:
                self.folded.add(found[0], self.names[found[1]], in_call=in_call)
            else:
                count, pcs, modules, machine = found
                self.folded.add_pcs(pcs, modules, ENDS[end], count, self.names[machine], in_call)
        self._equal.clear()


def _text(options: argparse.Namespace, data: PerfData, folded: Folded, limit: int, colours: Palette) -> Iterator[str]:
    command = f"  {printable(data.command)}" if data.command else ""
    yield f"{colours.bold(f'recording {printable(options.target)}')}  {colours.dim(data.machine.name)}{command}"
    walked = folded.samples - folded.outside
    for (numbers, end), count in folded.counts.most_common(limit):
        yield ""
        yield f"{colours.bold(f'{count:,}')}  {100 * count / walked:.2f} %"
        for lines in aligned([_row(folded.places[number]) for number in numbers], colours):
            yield from lines
        yield end_line(end, "", colours)
    more = folded.different - min(limit, len(folded.counts))
    if more:
        yield ""
        yield left_out(more, "different stack", colours)
    yield ""
    yield from summary_lines(folded, data.lost, colours)


def _row(place: Place) -> Row:
    module = printable(os.path.basename(place.module)) if place.module else ""
    if place.address is not None:
        module += f"+{place.address:#x}" if module else f"{place.address:#x}"
    function = printable(place.function) if place.function else "(no symbol)" if place.module else "(no module)"
    outer = FunctionRow(function, place.function is not None, source_text(place.file, place.line))
    return Row((*map(inlined_row, place.inlined), outer), module, place.trust)


def summary_lines(folded: Folded, lost: int, colours: Palette) -> Iterator[str]:
    """How many samples there were, and how their stacks ended."""
    walked = folded.samples - folded.outside
    share = f"{100 * folded.ends[End.ENTRY] / walked:.2f} %" if walked else "none"
    lines = [("samples", f"{folded.samples:,}", ""), ("complete", share, "of the stacks reach the outermost frame")]
    if folded.outside:
        lines.append(("outside", f"{folded.outside:,}", "not in a program: the kernel's own threads"))
    lines += [("lost", f"{lost:,}", "as far as the recording says")] if lost else []
    lines += [(end.value, f"{count:,}", f"{100 * count / walked:.2f} %") for end, count in folded.ends.most_common()]
    width, digits = max(len(name) for name, _, _ in lines), max(len(value) for _, value, _ in lines)
    for name, value, remark in lines:
        shown = colours.red(name.ljust(width)) if name in _INCOMPLETE else name.ljust(width)
        yield f"  {shown}  {colours.cyan(value.rjust(digits))}  {remark}".rstrip()


_INCOMPLETE = frozenset(end.value for end in End if end not in (End.ENTRY, End.STACK_COPY_END))


def _json(options: argparse.Namespace, data: PerfData, folded: Folded, limit: int) -> dict[str, Any]:
    target: dict[str, Any] = {"kind": "sample", "machine": data.machine.name, "file": options.target}
    if data.command:
        target["command"] = data.command
    summary: dict[str, Any] = {
        "samples": folded.samples,
        "complete": folded.ends[End.ENTRY],
        "lost": data.lost,
        "outside": folded.outside,
        "ends": {end.value: count for end, count in folded.ends.most_common()},
        "different_stacks": folded.different,
    }
    stacks = [
        {
            "count": count,
            "end": end.value,
            "frames": [
                frame
                for index, number in enumerate(numbers)
                for frame in _place_json(folded.places[number], first=not index)
            ],
        }
        for (numbers, end), count in folded.counts.most_common(limit)
    ]
    return {
        "target": target,
        "summary": summary,
        "stacks": stacks,
        "problems": problems_json([*data.problems, *folded.problems]),
    }


def _place_json(place: Place, *, first: bool) -> Iterator[dict[str, Any]]:
    """The functions of a frame, those that were inlined first."""
    trust = place.trust or (Trust.CONTEXT if first else Trust.CFI)
    where: dict[str, Any] = {}
    if place.module is not None:
        where["module"] = place.module
    if place.build_id is not None:
        where["build_id"] = place.build_id.hex()
    if place.address is not None:
        where["module_offset" if place.module is not None else "pc"] = f"{place.address:#x}"
    for call in place.inlined:
        yield {"trust": trust.value, "inlined": True} | where | function_json(call.function, call.file, call.line)
    yield {"trust": trust.value, "inlined": False} | where | function_json(place.function, place.file, place.line)
