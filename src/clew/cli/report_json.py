"""Counted stacks for programs: as JSON, and in the form of flame graphs' stackcollapse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from posixpath import basename
from typing import TYPE_CHECKING, Any

from clew.cli.output import printable, problems_json
from clew.walk.model import End

if TYPE_CHECKING:
    from clew.cli.report_counts import Counted, Place, StackKey, Weight

_UNKNOWN = "[unknown]"


def report_json(counted: Counted, file: str) -> dict[str, Any]:
    """The document of ``--json``: the most frequent stacks first."""
    data = counted.data
    target: dict[str, Any] = {"kind": "sample", "machine": data.machine.name, "file": file}
    if data.command:
        target["command"] = data.command
    summary = {
        "samples": counted.samples,
        "complete": counted.ends[End.ENTRY],
        "without_table": counted.tableless,
        "lost": data.lost,
        "outside": counted.outside,
        "chains": counted.chains,
        "bare": counted.bare,
        "ends": {end.value: count for end, count in counted.ends.most_common()},
    }
    events = [
        {"name": event.name, ("frequency" if event.frequency else "period"): event.period} for event in data.events
    ]
    stacks = [_stack(counted, key, weight) for key, weight in most(counted)]
    return {
        "target": target,
        "summary": summary,
        "events": events,
        "stacks": stacks,
        "problems": problems_json(data.problems),
    }


def most(counted: Counted) -> list[tuple[StackKey, Weight]]:
    """The stacks, those with the most samples first; of equal ones, those that came first."""
    return sorted(counted.stacks.items(), key=lambda item: -item[1].samples)


def _stack(counted: Counted, key: StackKey, weight: Weight) -> dict[str, Any]:
    out: dict[str, Any] = {
        "count": weight.samples,
        "period": weight.period,
        "event": counted.data.events[key.event].name,
    }
    out["comm"] = key.comm
    if key.pid >= 0:
        out["pid"] = key.pid
    if key.end is not None:
        out["end"] = key.end.value
    out["frames"] = [_frame(place) for place in counted.frames(key)]
    return out


def _frame(place: Place) -> dict[str, Any]:
    out: dict[str, Any] = {"kernel": True} if place.kernel else {}
    known = place.module != _UNKNOWN
    if known:
        out["module"] = place.module
    if place.function is not None:
        out["function"] = place.function
    elif place.address is not None:
        inside = known and not place.kernel
        out["file_offset" if inside else "pc"] = f"{place.address:#x}"
    return out


def collapsed(counted: Counted, events: Iterable[int]) -> Iterator[str]:
    """Lines of ``comm;outermost;...;innermost count``, sorted, as ``stackcollapse-perf.pl`` makes them.

    A stack that ended before its outermost frame begins with ``[unknown]``, so that it does not look like a whole one.
    """
    found: Counter[str] = Counter()
    for key, weight in chain.from_iterable(map(counted.of_event, events)):
        parts = [_plain(place) for place in counted.frames(key)]
        if key.end not in (None, End.ENTRY):
            parts.append(_UNKNOWN)
        parts.append(printable(key.comm).replace(" ", "_").replace(";", ":"))
        found[";".join(reversed(parts))] += weight.samples
    for line, count in sorted(found.items()):
        yield f"{line} {count}"


def _plain(place: Place) -> str:
    """A frame's name, without what stands between frames. One without a name is called by its module."""
    if place.function is None:
        return f"[{basename(place.module).strip('[]') or 'unknown'}]".replace(";", ":")
    return place.function.replace(";", ":").replace('"', "").replace("'", "")
