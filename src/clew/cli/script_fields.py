"""The fields of ``perf script``'s lines, by the names that perf gives them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.target.perfdata.attributes import Event

FIELDS = ("comm", "tid", "pid", "time", "cpu", "event", "ip", "sym", "symoff", "dso", "period")
"""Those that there are."""

DEFAULT = ("comm", "tid", "cpu", "time", "period", "event", "ip", "sym", "symoff", "dso")
"""Those that are printed unless told otherwise."""

#: What a sample has to have for them: a bit of ``perf_event_attr.sample_type``, and its name. (They stand here, not imported,
#: so that the command line is understood before what reads recordings is loaded.)
_NEEDS = {
    "ip": (1 << 0, "IP"),
    "tid": (1 << 1, "TID"),
    "pid": (1 << 1, "TID"),
    "time": (1 << 2, "TIME"),
    "cpu": (1 << 7, "CPU"),
}
_TYPES = ("hw", "sw", "trace", "raw", "synth")


def chosen_fields(text: str | None, events: Collection[Event]) -> frozenset[str]:
    """The fields that are printed.

    Args:
        text: of ``--fields``: a list, or changes of the usual one.
        events: whose samples; fields of the usual list that one of them does not have are left out.

    Raises:
        UsageError: there is no such field, or the samples do not have it, or it stands without another that it needs.
    """
    named: set[str] = set()
    found = set(DEFAULT)
    if text is not None:
        kind, colon, rest = text.partition(":")
        if colon and kind not in _TYPES:
            raise UsageError(f"--fields: there is no type of event {kind!r}", hint=f"they are {', '.join(_TYPES)}")
        words = (rest if colon else text).split(",")
        changes = [word for word in words if word[:1] in ("+", "-")]
        if changes and len(changes) < len(words):
            raise UsageError("--fields takes a list, or changes with + and -, not both")
        if not changes:
            found = set()
        for word in words:
            name = word.lstrip("+-")
            if name not in FIELDS:
                raise UsageError(f"--fields: there is no field {name!r}", hint=f"there are {', '.join(FIELDS)}")
            if word.startswith("-"):
                found.discard(name)
            else:
                found.add(name)
                named.add(name)
    for name, (bit, what) in _NEEDS.items():
        missing = next((event for event in events if not event.sample_type & bit), None)
        if missing is None or name not in found:
            continue
        if name in named:
            raise UsageError(f"samples of {missing.name!r} do not have {what}: there is no {name!r} to print")
        found.discard(name)
    if found & {"sym", "dso"} and "ip" not in found:
        if named & {"sym", "dso"}:
            raise UsageError("--fields: sym and dso are names of ip, which is not printed")
        found -= {"sym", "dso", "symoff"}
    if "symoff" in found and "sym" not in found:
        if "symoff" in named:
            raise UsageError("--fields: symoff stands behind sym, which is not printed")
        found.discard("symoff")
    return frozenset(found)
