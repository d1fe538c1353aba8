"""From a thread's registers to its frames: never a bad pointer, always a reason."""

from clew.walk.fast import FastWalker
from clew.walk.model import CodeAddress, End, Frame, Interrupted, Read, ReturnAddress, Stack, Trust
from clew.walk.samples import SampleStacks, SampleWalker
from clew.walk.step import Caller, Here, Outcome, Stop, Strategy
from clew.walk.walker import LIMIT, STRATEGIES, Walker

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
