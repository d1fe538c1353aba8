"""From a thread's registers to its frames: never a bad pointer, always a reason."""

from clew.walk.model import End, Frame, Interrupted, Read, ReturnAddress, Stack, Trust

__all__ = ["End", "Frame", "Interrupted", "Read", "ReturnAddress", "Stack", "Trust"]
