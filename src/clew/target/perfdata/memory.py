"""The memory of a sample: the copy of its stack, and the code of the files that are loaded."""

from __future__ import annotations

from clew.target.perfdata.modules import MappedModules

_PAGE = 4096


class SampleMemory:
    """Memory that shows one sample after another.

    Attributes:
        stack_end: the address behind the copied part of the stack; what lies there is not known.
    """

    __slots__ = ("_at", "_buffer", "_modules", "stack_end", "stack_start")

    def __init__(self, modules: MappedModules) -> None:
        self._modules = modules
        self._buffer: memoryview = memoryview(b"")
        self._at = 0
        self.stack_start = 0
        self.stack_end = 0

    def show(self, buffer: memoryview, offset: int, size: int, address: int) -> None:
        """Show another sample's stack.

        Args:
            buffer: holds the copy, from ``offset`` on, ``size`` bytes of it.
            address: where they were: the sample's stack pointer.
        """
        self._buffer = buffer
        self._at = offset - address
        self.stack_start = address
        self.stack_end = address + size

    def read(self, address: int, size: int) -> bytes | None:
        """The ``size`` bytes at ``address``, or None where the sample does not have all of them, nor a file does."""
        if self.stack_start <= address and address + size <= self.stack_end and size > 0:
            at = self._at + address
            return self._buffer[at : at + size].tobytes()
        if size <= 0:
            return b"" if size == 0 else None
        return self._modules.read(address, size)

    def window(self, address: int) -> tuple[int, memoryview | bytes] | None:
        """As much as can be looked at around an address, and where it begins; None where that is nothing.

        Of the stack it is all that was copied, which is not copied again.
        """
        if self.stack_start <= address < self.stack_end:
            at = self._at + self.stack_start
            return self.stack_start, self._buffer[at : self._at + self.stack_end]
        start = address & -_PAGE
        for begin, size in ((start, _PAGE), (address, 8)):
            data = self._modules.read(begin, size)
            if data is not None:
                return begin, data
        return None

    def __repr__(self) -> str:
        return f"SampleMemory({self.stack_end - self.stack_start} bytes at {self.stack_start:#x})"
