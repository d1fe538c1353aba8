"""Memory by the window: the largest piece that can be looked at around an address, so that each word needs no call."""

from __future__ import annotations

from typing import Any

from clew.memory import Memory

_PAGE = 4096
_PAGES = 4


class Windows:
    """What the compiled core reads memory through.

    Args:
        memory: it may have a method ``window(address)`` of its own; otherwise a few pages are read at a time.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        own: Any = getattr(memory, "window", None)
        self.window = own if own is not None else self._pages

    def _pages(self, address: int) -> tuple[int, bytes] | None:
        start = address & -_PAGE
        for pages in (_PAGES, 1):
            data = self._memory.read(start, pages * _PAGE)
            if data is not None:
                return start, data
        # A piece that ends within a page, as those of copied stacks do.
        word = self._memory.read(address, 8)
        return None if word is None else (address, word)
