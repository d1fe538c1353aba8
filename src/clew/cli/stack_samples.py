"""``clew stack`` of a recording: equal stacks are counted, the most frequent are printed, and the ends of all."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.cli.output import Palette, palette, print_json, printable, problems_json, report
from clew.cli.stack_names import FrameNames, name_directories
from clew.cli.stack_text import PLAIN, Row, aligned, end_line, left_out
from clew.cli.walking import check_places, debug_directories, walk_samples
from clew.errors import NotFoundError, UsageError
from clew.walk.model import End, Trust

if TYPE_CHECKING:
    from clew.target import Module
    from clew.target.perfdata import PerfData
    from clew.walk import Frame, Stack

_SHOWN = 20
_MOST_STACKS = 1 << 18


class Place(NamedTuple):
    """Where a frame is, as far as stacks are told apart by it: a function, or an address where no symbol is known.

    Attributes:
        trust: how it was found; ``context`` and ``cfi`` are one.
    """

    function: str | None
    module: str | None
    address: int | None
    build_id: bytes | None
    trust: Trust | None


@dataclass
class Folded:
    """Stacks, counted.

    Attributes:
        samples: how many there were.
        outside: how many of them were not in a program, and have no stack of one.
        ends: why the stacks ended.
        counts: places of each different stack from the innermost out, with its end.
        rare: different stacks that were seen once and put aside, for there are too many.
    """

    samples: int = 0
    outside: int = 0
    ends: Counter[End] = field(default_factory=Counter)
    counts: Counter[tuple[tuple[int, ...], End]] = field(default_factory=Counter)
    places: list[Place] = field(default_factory=list)
    rare: int = 0
    _numbers: dict[Place, int] = field(default_factory=dict)
    _known: dict[tuple[Module | None, int, int, Trust | None], int] = field(default_factory=dict)

    def add(self, stack: Stack, names: FrameNames, *, in_call: bool = False) -> None:
        """Count a stack.

        Args:
            in_call: whether the thread is in a system call.
        """
        self.ends[stack.end] += 1
        numbers = tuple(
            self._number(frame, names, in_call=in_call and index == 0) for index, frame in enumerate(stack.frames)
        )
        self.counts[numbers, stack.end] += 1
        if len(self.counts) > _MOST_STACKS:
            often = Counter({key: count for key, count in self.counts.items() if count > 1})
            self.rare += len(self.counts) - len(often)
            self.counts = often

    def _number(self, frame: Frame, names: FrameNames, *, in_call: bool) -> int:
        """The number of a frame's place."""
        # What is only true of an interrupted call is not remembered.
        trust = None if frame.trust in PLAIN else frame.trust
        key = (frame.module, frame.pc.address, frame.pc.lookup, trust)
        number = None if in_call else self._known.get(key)
        if number is None:
            name = names.of(frame.pc, frame.module, in_call=in_call)
            address = name.address if name.module is not None else frame.pc.address
            place = Place(name.function, name.module, None if name.function else address, name.build_id, trust)
            number = self._numbers.get(place)
            if number is None:
                number = self._numbers[place] = len(self.places)
                self.places.append(place)
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
    check_places(options)
    from clew.target.perfdata import open_perf_data

    debug = debug_directories(options)
    with open_perf_data(options.target, exe=options.exe, sysroot=options.sysroot, debug_dirs=debug) as data:
        folded = fold(options, data)
        if options.thread and not folded.samples:
            raise NotFoundError(f"there is no sample of thread {options.thread[0]}", file=options.target)
        limit = options.limit if options.limit is not None else _SHOWN
        if options.json:
            print_json(_json(options, data, folded, limit))
        else:
            for line in _text(options, data, folded, limit, palette()):
                print(line)
        code = report(options.target, data.problems)
    return 1 if any(end is not End.ENTRY for end in folded.ends) else code


def fold(options: argparse.Namespace, data: PerfData) -> Folded:
    """The stacks of a recording, counted."""
    directories = name_directories(debug_directories(options), options.sysroot)
    folded = Folded()
    by_machine: dict[object, FrameNames] = {}
    for sample, stack in walk_samples(data, options.thread, scan=options.scan):
        folded.samples += 1
        if stack is None:
            folded.outside += 1
            continue
        target = sample.process.target
        names = by_machine.get(target.machine)
        if names is None:
            names = FrameNames(target, directories, named=not options.no_names, raw=options.raw_names)
            by_machine[target.machine] = names
        folded.add(stack, names, in_call=sample.thread is not None and sample.thread.interrupted_call)
    return folded


def _text(options: argparse.Namespace, data: PerfData, folded: Folded, limit: int, colours: Palette) -> Iterator[str]:
    command = f"  {printable(data.command)}" if data.command else ""
    yield f"{colours.bold(f'recording {printable(options.target)}')}  {colours.dim(data.machine.name)}{command}"
    walked = folded.samples - folded.outside
    for (numbers, end), count in folded.counts.most_common(limit):
        yield ""
        yield f"{colours.bold(f'{count:,}')}  {100 * count / walked:.2f} %"
        yield from aligned([_row(folded.places[number]) for number in numbers], colours)
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
    return Row(function, place.function is not None, module, place.trust)


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
            "frames": [_place_json(folded.places[number], first=not index) for index, number in enumerate(numbers)],
        }
        for (numbers, end), count in folded.counts.most_common(limit)
    ]
    return {"target": target, "summary": summary, "stacks": stacks, "problems": problems_json(data.problems)}


def _place_json(place: Place, *, first: bool) -> dict[str, Any]:
    trust = place.trust or (Trust.CONTEXT if first else Trust.CFI)
    out: dict[str, Any] = {"trust": trust.value, "inlined": False}
    if place.module is not None:
        out["module"] = place.module
    if place.build_id is not None:
        out["build_id"] = place.build_id.hex()
    if place.address is not None:
        out["module_offset" if place.module is not None else "pc"] = f"{place.address:#x}"
    if place.function is not None:
        out["function"] = place.function
    return out
