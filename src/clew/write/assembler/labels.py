"""Frames of the function's bodies, by kind, and the names of the places where bodies end."""

from __future__ import annotations

from clew.write.assembler.operands import R12, R13, R14, R15, RBP, RBX
from clew.write.compiled.abi import Outcome

SAVED = {"": (RBX, RBP, R12, R13, R14, R15), "_short": (RBX, RBP, R12, R13), "_long": (RBX, RBP, R12, R13, R14, R15)}
"""What is saved in a frame, by the kind of the frame. The first is the one that all bodies share, with the paper's interface; of
the others each body that needs one has its own: short where nothing but the CFA has to outlive a call."""

ROOM = {"": 24, "_short": 8, "_long": 24}
"""Bytes below that: so the stack is at a multiple of 16. The long ones have a word there for what the parameter loads; in the
short ones it is the pc as it was, which is put back if the return address cannot be loaded into its place."""


def depth_of(kind: str) -> int:
    """How far the CFA is above the stack pointer in a frame of this kind."""
    return 8 + 8 * len(SAVED[kind]) + ROOM[kind]


def done(kind: str, signal: bool) -> str:
    """Where bodies end that have the return address and the known bits ready; or of a frame that a signal interrupted."""
    return f"done{'_signal' if signal else ''}{kind}"


def end(kind: str, signal: bool) -> str:
    """Where bodies end that have written all of the frame."""
    return f"end{'_signal' if signal else ''}{kind}"


RETURN_UNREADABLE = "return_unreadable"
"""Where it ends when the return address cannot be loaded into its place."""


def failed(kind: str) -> str:
    """Where it ends with the reason in edx."""
    return f"failed{kind}"


def failed_with(outcome: Outcome, kind: str) -> str:
    """Where it ends for this reason."""
    return f"fails_{outcome.name.lower()}{kind}"
