"""A target as the walker sees it: rows and code by address, and what may be a return address."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from clew.errors import Error
from clew.table import Row, Rule
from clew.target.model import Module, Target
from clew.walk import calls
from clew.walk.go_rules import go_row
from clew.walk.model import CodeAddress
from clew.walk.sigframes import Trampoline, trampolines_of

_K = TypeVar("_K")
_T = TypeVar("_T")

_CACHED = 1 << 16

ENDBR64 = b"\xf3\x0f\x1e\xfa"
"""What functions of x86-64 begin with that may be called through pointers (Intel SDM 2A, ENDBR64)."""

Synthesise = Callable[[Module, int], Rule | None]
"""Makes a rule from machine code: for an address of the module's file, or None where that cannot be done."""


class Surroundings:
    """What is the same for every frame of a target.

    Args:
        target: where the frames are.
        synthesise: makes rules where tables have none.

    Attributes:
        machine, memory, modules: the target's.
        word: bytes in an address.
        mask: the bits of an address.
    """

    def __init__(self, target: Target, synthesise: Synthesise | None = None) -> None:
        self.target = target
        self.machine = target.machine
        self.memory = target.memory
        self.modules = target.modules
        self.synthesise = synthesise
        self.word = self.machine.address_size
        self.mask = (1 << self.machine.bits) - 1
        self._rows: dict[int, tuple[Module | None, Row | None]] = {}
        self._trampolines: dict[int, tuple[Trampoline, int] | None] = {}
        self._returns: dict[int, bool] = {}
        self._records: dict[tuple[int, int], bool] = {}
        self._starts: dict[tuple[CodeAddress, bytes], bool] = {}

    def row(self, address: int) -> tuple[Module | None, Row | None]:
        """The module at an address, and the row that its table has there."""
        found = self._rows.get(address)
        if found is None:
            module = self.modules.at(address)
            table = None if module is None else module.table
            row = None
            if module is not None and table is not None:
                place = (address - module.bias) & self.mask
                row = table.lookup(place)
                row = None if row is None else go_row(module, place, row)
            found = (module, row)
            _remember(self._rows, address, found)
        return found

    def starts_function(self, address: int) -> bool:
        """Whether a function that the table knows begins at an address."""
        start = self.function_start(address)
        return start == address

    def function_start(self, address: int) -> int | None:
        """Where the function begins that the table has at an address, or None."""
        module, row = self.row(address)
        if module is None or row is None or module.table is None:
            return None
        found = module.table.range_at((address - module.bias) & self.mask)
        return None if found is None else (found.start + module.bias) & self.mask

    def symbol_start(self, address: int) -> int | None:
        """Where the function begins that has a symbol at an address, or None."""
        extent = self.symbol_extent(address)
        return None if extent is None else extent[0]

    def symbol_extent(self, address: int) -> tuple[int, int] | None:
        """Where the function begins and ends that has a symbol at an address, or None. The end is the start where the
        symbol does not say. A part that compilers put elsewhere, as it is seldom run, is no function, but has a symbol."""
        module = self.modules.at(address)
        if module is None or module.image is None:
            return None
        try:
            symbols = module.image.symbols()
            found = symbols.at((address - module.bias) & self.mask)
            if found is None or b".cold" in symbols.name_bytes(found[0]):
                return None
            size = int(symbols.size[found[0]])
        except Error:
            return None
        start = None if found is None else (address - found[1]) & self.mask
        return None if start is None else (start, start + size)

    def once(self, extent: tuple[int, int], find: Callable[[], bool | None]) -> bool | None:
        """What is found out of a function by its code from start to end; asked again only where that was None."""
        known = self._records.get(extent)
        if known is None:
            found = find()
            if found is not None:
                _remember(self._records, extent, found)
            return found
        return known

    def starts_with(self, pc: CodeAddress, code: bytes) -> bool:
        """Whether the function of a pc begins with this code, after an ``endbr64``; or what begins at the very pc."""
        # A return address is in the function that the call is in, too.
        key = (pc, code)
        known = self._starts.get(key)
        if known is None:
            starts = {pc.address, self.function_start(pc.lookup), self.function_start(pc.address)} - {None}
            found = [
                self.code(start, len(code) + len(ENDBR64)) or self.code(start, len(code)) or b""
                for start in starts
                if start
            ]
            known = any(data.removeprefix(ENDBR64).startswith(code) for data in found)
            _remember(self._starts, key, known)
        return known

    def code(self, address: int, size: int) -> bytes | None:
        """Machine code: from memory, else from the module's file, as cores often leave the code out."""
        data = self.memory.read(address, size)
        if data is None:
            module = self.modules.at(address)
            image = None if module is None else module.image
            if module is not None and image is not None:
                try:
                    view = image.bytes_at((address - module.bias) & self.mask, size)
                except Error:
                    return None
                data = None if view is None else bytes(view)
        return data

    @cached_property
    def code_mask(self) -> int:
        """The bits of a code pointer that may be pointer authentication.

        Where the target does not say, AArch64 has them between the virtual address and bit 55, which tells user from
        kernel addresses; user addresses have 48 bits, or as many as the highest that is used.
        """
        if self.target.code_mask or not self.machine.name.startswith("aarch64") or self.machine.bits != 64:
            return self.target.code_mask & self.mask
        low = [module.end for module in self.modules if 0 < module.end < 1 << 55]
        bits = max([48, *(end.bit_length() for end in low)])
        return (1 << 55) - (1 << bits)

    def strip(self, value: int) -> int:
        """A code pointer without its authentication bits. They are bit 55's copies in a plain address (AArch64)."""
        mask = self.code_mask
        return (value | mask if value >> 55 & 1 else value & ~mask) if mask else value

    def return_target(self, value: int, *, signed: bool) -> int:
        """Where a call returns to, given the return address as it is stored.

        Args:
            value: the register or word.
            signed: whether it may be signed although the target does not say that its code pointers are.
        """
        return self.machine.return_target(self.pointer(value, signed=signed))

    def pointer(self, value: int, *, signed: bool) -> int:
        """The address in a code pointer, as :meth:`return_target` has it before what a call adds."""
        value &= self.mask
        return (self.strip(value) if signed or self.target.code_mask else value) & self.machine.address_mask & self.mask

    def may_return_to(self, address: int) -> bool:
        """Whether an address that no table vouches for can be a return address.

        It is if a call stands before it, it is a signal trampoline, or a table knows the function that it is in; in the
        code of a module that cannot be read, if it is there. A stale word or a pointer to data is not.
        """
        known = self._returns.get(address)
        if known is None:
            known = self._may_return_to(address)
            _remember(self._returns, address, known)
        return known

    def _may_return_to(self, address: int) -> bool:
        if not 1 < address <= self.mask:
            return False
        module, row = self.row(address - 1)
        call = calls.stands_before(address, self.machine, self.code)
        # A trampoline may be the first of what can be read there, so that nothing stands before it.
        if call or self.trampoline(address) is not None:
            return True
        if call is not None:
            return row is not None and self.row(address)[1] is not None
        if module is None:
            return False
        if row is not None or module.image is None:
            return True
        place = (address - 1 - module.bias) & self.mask
        try:
            return any(start <= place < end for start, end in module.image.code_ranges())
        except Error:
            return False

    def called(self, address: int) -> bool:
        """Whether a call is known to stand before an address."""
        return bool(calls.stands_before(address, self.machine, self.code))

    def certainly_returns_to(self, address: int) -> bool:
        """Whether an address can hardly be anything else than a return address: of a call, or of a signal's handler."""
        return self.called(address) or self.trampoline(address) is not None

    def trampoline(self, address: int) -> tuple[Trampoline, int] | None:
        """The signal trampoline that an address is in, by its bytes, and which of its instructions comes next."""
        if address in self._trampolines:
            return self._trampolines[address]
        found = None
        for trampoline in trampolines_of(self.machine):
            for index, offset in enumerate(trampoline.offsets):
                if self.code(address - offset, len(trampoline.code)) == trampoline.code:
                    found = (trampoline, index)
                    break
            if found is not None:
                break
        _remember(self._trampolines, address, found)
        return found

    def lookup(self, pc: CodeAddress, interrupted_call: bool) -> tuple[Module | None, Row | None]:
        """The module and the row for a pc.

        A pc behind a system call's instruction may lie behind its function (``__restore_rt`` ends with one), where the
        next one begins or nothing.
        """
        found = self.row(pc.lookup)
        if interrupted_call and (found[1] is None or self.starts_function(pc.lookup)):
            before = self.row(pc.lookup - 1)
            if before[1] is not None:
                return before
        return found


def _remember(cache: dict[_K, _T], key: _K, value: _T) -> None:
    if len(cache) >= _CACHED:
        cache.clear()
    cache[key] = value
