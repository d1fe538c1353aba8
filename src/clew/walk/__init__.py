"""From a thread's registers to its frames: never a bad pointer, always a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.walk.fast import FastWalker
from clew.walk.model import CodeAddress, End, Frame, Interrupted, Read, ReturnAddress, Stack, Trust
from clew.walk.step import Caller, Here, Outcome, Stop, Strategy
from clew.walk.walker import LIMIT, STRATEGIES, Walker

if TYPE_CHECKING:
    from clew.walk.samples import SampleStacks, SampleWalker

__all__ = [
    "LIMIT",
    "STRATEGIES",
    "Caller",
    "CodeAddress",
    "End",
    "FastWalker",
    "Frame",
    "Here",
    "Interrupted",
    "Outcome",
    "Read",
    "ReturnAddress",
    "SampleStacks",
    "SampleWalker",
    "Stack",
    "Stop",
    "Strategy",
    "Trust",
    "Walker",
]


def __getattr__(name: str) -> object:
    # Only who walks recordings loads what reads them.
    if name in ("SampleStacks", "SampleWalker"):
        from clew.walk import samples

        return getattr(samples, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
