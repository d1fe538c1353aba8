"""The frames of a recording's samples, as perf shows them: each different one is named once."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.cli.output import printable
from clew.cli.script_kernel import Kernel
from clew.cli.script_missing import Missing
from clew.cli.script_symbols import FileSymbols
from clew.errors import Error
from clew.native.columns import distinct
from clew.native.script_frames import ALONE, KERNEL, FrameNumbers
from clew.symbols.debug_file import find_debug_information
from clew.symbols.perf_map import PerfMap
from clew.target.perfdata.modules import is_file

if TYPE_CHECKING:
    from clew.cli.script_samples import Rows
    from clew.image import Image
    from clew.symbols.debug_places import Places
    from clew.target.perfdata import PerfData
    from clew.target.perfdata.history import Generation
    from clew.target.perfdata.records import Mapped

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

UNKNOWN = "[unknown]"
"""What perf calls a module that it does not know."""

_LARGEST_MAP = 1 << 28
_HIGHEST = (1 << 64) - 1


@dataclass
class Frames:
    """Frames by number.

    Attributes:
        alone: whether it is not part of a call chain (u1).
        kernel: whether it is the kernel's (bool).
        pc: the address (u8).
        address: in a program's file, the offset of that (u8); else as it was.
        symbol: index in ``symbols`` (i8), or -1.
        offset: how far it is behind the symbol's beginning (u8).
        module: index in ``modules`` (i8).
        missing: number of its file in ``missing`` (i8), or -1 where that was found or there is none.
    """

    alone: U8
    kernel: npt.NDArray[np.bool_]
    pc: U64
    address: U64
    symbol: I64
    offset: U64
    module: I64
    missing: I64


@dataclass(slots=True)
class _Space:
    """The code that processes have mapped."""

    state: int
    mappings: list[Mapped]
    starts: U64
    ends: U64


@dataclass(slots=True)
class _File:
    """What is mapped.

    Attributes:
        module: its number.
        moved: whether its frames are shown as offsets in it.
        symbols: None where it has none.
        missing: its number among the files that were not found, or -1.
        numbers: of its symbols' names, by symbol.
    """

    module: int
    moved: bool
    symbols: FileSymbols | PerfMap | None
    missing: int = -1
    numbers: dict[int, int] = field(default_factory=dict)


class FrameBook:
    """Names frames.

    Args:
        data: the recording.
        places: where files with symbols are looked for.

    Attributes:
        numbers: the frames by number.
        symbols, modules: names, as they may be printed.
        missing: files that were not found.
        age: how often all frames were forgotten.
        full: set by who keeps something of each frame, and has too much of it: frames are then forgotten as soon as may be.
    """

    def __init__(self, data: PerfData, places: Places) -> None:
        self._data = data
        self._places = places
        self.symbols: list[str] = []
        self.modules: list[str] = [UNKNOWN]
        self._symbol_numbers: dict[str, int] = {}
        self._module_numbers: dict[str, int] = {UNKNOWN: 0}
        self._spaces: list[_Space] = []
        self._space_of: dict[tuple[int, int], int] = {}
        self._states: U32 = np.zeros(0, np.uint32)
        self._files: dict[tuple[str, bytes | None, int], _File] = {}
        self.missing = Missing()
        self._kernel: Kernel | None = None
        self._kernel_numbers: dict[int, int] = {}
        self.age = -1
        self.forget()

    def forget(self) -> None:
        """Forgets all frames, but not what they are called: numbers begin anew."""
        odd = int.from_bytes(os.urandom(8), "little") | 1
        self.numbers = FrameNumbers(odd, self._data.order == "big")
        self._resolved = 0
        # For each frame, the number of its file among those that were not found, or -1.
        self._missing: I64 = np.zeros(0, np.int64)
        self.age += 1
        self.full = False

    def spaces(self, states: I64) -> U32:
        """The space, for :class:`FrameNumbers`, of each sample's state."""
        highest = int(states.max(initial=-1))
        if highest >= len(self._states):
            more = [self._space(state) for state in range(len(self._states), highest + 1)]
            self._states = np.concatenate([self._states, np.array(more, np.uint32)])
        return self._states[states]

    def _space(self, state: int) -> int:
        generation: Generation = self._data.generation(state)
        key = id(generation), self._data.bits(state)
        number = self._space_of.get(key)
        if number is None:
            mappings = generation.mappings
            starts = np.array([each.start for each in mappings], np.uint64)
            ends = np.array([min(each.end, _HIGHEST) for each in mappings], np.uint64)
            self._spaces.append(_Space(state, mappings, starts, ends))
            number = self._space_of[key] = len(self._spaces) + KERNEL
        return number

    def resolve(self) -> Frames:
        """The frames that are new since the last time."""
        spaces, addresses = self.numbers.known(self._resolved)
        self._resolved = len(self.numbers)
        count = len(addresses)
        alone = (spaces & np.uint32(ALONE)) != 0
        spaces = spaces & np.uint32(ALONE - 1)
        found = Frames(
            alone.astype(np.uint8),
            spaces == KERNEL,
            addresses,
            addresses.copy(),
            np.full(count, -1, np.int64),
            np.zeros(count, np.uint64),
            np.zeros(count, np.int64),
            np.full(count, -1, np.int64),
        )
        for space, which in _kinds(spaces):
            if space == KERNEL:
                self._in_kernel(found, which)
            elif space > KERNEL:
                self._in_program(found, which, self._spaces[space - KERNEL - 1])
        self._missing = np.concatenate([self._missing, found.missing])
        return found

    def count_missing(self, rows: Rows, order: I64) -> None:
        """Counts which of these samples have frames in files that were not found. Their frames have to be resolved."""
        if not self.missing:
            return
        rows = rows.taken(order)
        files = self._missing[rows.numbers]
        samples = np.repeat(np.arange(len(rows)), (rows.last - rows.first).astype(np.int64))
        kinds = len(self.missing.samples)
        each = distinct(samples[files >= 0] * kinds + files[files >= 0])
        self.missing.count(enumerate(np.bincount(each % kinds, minlength=kinds).tolist()))

    def _in_kernel(self, found: Frames, which: I64) -> None:
        if self._kernel is None:
            self._kernel = Kernel(self._data)
        kernel = self._kernel
        modules, symbols, found.offset[which] = kernel.lookup(found.address[which])
        numbers = np.array([0, *(self._module_number(each) for each in kernel.modules)], np.int64)
        found.module[which] = numbers[modules + 1]
        found.symbol[which] = self._named(symbols, self._kernel_numbers, kernel.name)

    def _in_program(self, found: Frames, which: I64, space: _Space) -> None:
        if not len(space.starts):
            return
        address = found.address[which]
        mapping = np.searchsorted(space.starts, address, "right").astype(np.int64) - 1
        mapping[address >= space.ends[np.maximum(mapping, 0)]] = -1
        for index, places in _kinds(mapping):
            if index < 0:
                continue
            each = space.mappings[index]
            file = self._file(space.state, each)
            inside = which[places]
            found.module[inside] = file.module
            found.missing[inside] = file.missing
            if file.moved:
                found.address[inside] += np.uint64((each.offset - each.start) & _HIGHEST)
            if isinstance(file.symbols, FileSymbols):
                symbols, found.offset[inside] = file.symbols.lookup(found.address[inside])
                found.symbol[inside] = self._named(symbols, file.numbers, file.symbols.name)
            elif file.symbols is not None:
                self._in_map(found, inside, file.symbols)

    def _in_map(self, found: Frames, which: I64, names: PerfMap) -> None:
        """Names of code that was made while the program ran."""
        for index in which.tolist():
            name = names.at(int(found.address[index]))
            if name is not None:
                found.symbol[index], found.offset[index] = self._symbol_number(name.function), name.offset

    def _named(self, symbols: I64, numbers: dict[int, int], name: Callable[[int], str]) -> I64:
        """The numbers of the names of symbols."""
        unique = distinct(symbols)
        for each in unique.tolist():
            if each not in numbers:
                numbers[each] = -1 if each < 0 else self._symbol_number(name(each))
        table = np.array([numbers[each] for each in unique.tolist()], np.int64)
        return table[np.searchsorted(unique, symbols)]

    def _symbol_number(self, name: str) -> int:
        number = self._symbol_numbers.get(name)
        if number is None:
            number = self._symbol_numbers[name] = len(self.symbols)
            self.symbols.append(printable(name))
        return number

    def _module_number(self, name: str) -> int:
        number = self._module_numbers.get(name)
        if number is None:
            number = self._module_numbers[name] = len(self.modules)
            self.modules.append(printable(name))
        return number

    def _file(self, state: int, mapping: Mapped) -> _File:
        """What a mapping is of."""
        path = mapping.path
        # Code that was made at run time is of one process.
        process = self._data.state(state).pid if _is_anonymous(path) else -1 - self._data.bits(state)
        key = path, mapping.build_id, process
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = self._opened(state, mapping, process)
        return file

    def _opened(self, state: int, mapping: Mapped, process: int) -> _File:
        path = mapping.path
        if _is_anonymous(path):
            path = f"/tmp/perf-{process}.map"
            return _File(self._module_number(path), False, _perf_map(path))
        if path.startswith(("[stack", "/SYSV")) or path == "[heap]":
            return _File(self._module_number(path), False, None)
        module = self._module_number(path) if path else 0
        image = self._data.image(state, mapping)
        if image is None:
            return _File(module, True, None, self.missing.add(path) if is_file(mapping) else -1)
        return _File(module, True, self._symbols(image, path))

    def _symbols(self, image: Image, path: str) -> FileSymbols | None:
        try:
            if image.load_bias is not None:
                return FileSymbols(image, None)
            path = path.removesuffix(" (deleted)")
            debug = find_debug_information(image, self._places, dwarf=False, path=path)
            return FileSymbols(image, debug.symbols)
        except Error:
            return None


def _kinds(column: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, I64]]:
    """The different numbers of a column, and where each stands."""
    order = np.argsort(column, kind="stable").astype(np.int64)
    unique = distinct(column)
    bounds = [*np.searchsorted(column[order], unique).tolist(), len(order)]
    for number, first, last in zip(unique.tolist(), bounds, bounds[1:], strict=False):
        yield number, order[first:last]


def _is_anonymous(path: str) -> bool:
    return path == "//anon" or path.startswith(("/dev/zero", "/anon_hugepage"))


def _perf_map(path: str) -> PerfMap | None:
    """The map that a JIT compiler left, if it is this user's or root's: anybody may write to ``/tmp``."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            there = os.fstat(stream.fileno())
            if not stat.S_ISREG(there.st_mode) or there.st_uid not in (0, os.geteuid()):
                return None
            return PerfMap.parse(stream.read(_LARGEST_MAP))
    except OSError:
        return None
