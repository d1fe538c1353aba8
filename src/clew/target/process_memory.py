"""The memory of a process that stands still: read in pages, each once."""

from __future__ import annotations

from typing import Final

from clew.memory import MAXIMUM_READ, ProcessMemory

PAGE: Final = 4096

_MAXIMUM_PAGES = 1 << 12

_LONG: Final = 16 * PAGE

_WINDOW: Final = 4 * PAGE


class StoppedMemory:
    """The memory of a stopped process. What was read once is not read again, so it must not run meanwhile.

    A walker reads a word at a time, and a page costs hardly more than a word: ``pread`` on ``/proc/PID/mem`` takes 1.8 µs
    for 8 bytes and 2.1 µs for 4096, ``process_vm_readv`` through ctypes 4.0 and 4.2 µs.

    Raises:
        NotFoundError: there is no such process.
        Error: the kernel does not let this user read it.
    """

    def __init__(self, pid: int) -> None:
        self._memory: ProcessMemory | None = ProcessMemory(pid)
        # Empty bytes stand for a page that cannot be read.
        self._pages: dict[int, bytes] = {}

    def read(self, address: int, size: int) -> bytes | None:
        """The ``size`` bytes at ``address``, or None. At most 16 MiB at once; nothing once it is closed."""
        inside = address & (PAGE - 1)
        if 0 < size <= PAGE - inside:
            page = self._pages.get(address - inside)
            if page is None:
                page = self._load(address - inside)
            return page[inside : inside + size] if page else None
        if size <= 0:
            return b"" if size == 0 else None
        if size > _LONG:
            return self._memory.read(address, size) if self._memory is not None and size <= MAXIMUM_READ else None
        pieces = []
        end = address + size
        while address < end:
            step = min(PAGE - (address & (PAGE - 1)), end - address)
            piece = self.read(address, step)
            if piece is None:
                return None
            pieces.append(piece)
            address += step
        return b"".join(pieces)

    def window(self, address: int) -> tuple[int, bytes] | None:
        """What can be read at once of the page of an address and the next ones, with its address; None where nothing can."""
        start = address & -PAGE
        data = self._memory.beginning(start, _WINDOW) if self._memory is not None else b""
        return (start, data) if data else None

    def _load(self, address: int) -> bytes:
        if self._memory is None:
            return b""
        if len(self._pages) >= _MAXIMUM_PAGES:
            self._pages.clear()
        page = self._pages[address] = self._memory.read(address, PAGE) or b""
        return page

    def close(self) -> None:
        """Forget everything, before the process goes on. Closing twice is fine."""
        self._pages.clear()
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __repr__(self) -> str:
        return f"StoppedMemory({len(self._pages)} pages)"
