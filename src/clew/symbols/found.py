"""What a search found, and the places where it looked in vain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from clew.image import Image


class Tried(NamedTuple):
    """A place that did not serve.

    Attributes:
        path: a file's path, or a URL.
        reason: why, as a sentence about it.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class DebugFile:
    """What the search for a file found.

    Attributes:
        image: the file, the caller's to close; or None.
        tried: places that did not serve, and why.
    """

    image: Image | None
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPath:
    """What the search for a file found that is not opened.

    Attributes:
        path: where it is, or None.
        tried: places that did not serve, and why.
    """

    path: str | None
    tried: tuple[Tried, ...] = ()


def merged(tried: Iterable[tuple[str, str]]) -> tuple[Tried, ...]:
    """Each place once, in order, with all its reasons.

    >>> merged([Tried("a", "has no symbols"), Tried("b", "is cut"), Tried("a", "has no DWARF"), Tried("b", "is cut")])
    (Tried(path='a', reason='has no symbols, has no DWARF'), Tried(path='b', reason='is cut'))
    """
    reasons: dict[str, dict[str, None]] = {}
    for path, reason in tried:
        reasons.setdefault(path, {})[reason] = None
    return tuple(Tried(path, ", ".join(each)) for path, each in reasons.items())
