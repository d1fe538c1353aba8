"""Frames by name: the function that a frame is in, from every source of symbols that its module has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clew.errors import Error
from clew.symbols import SYSTEM_DIRECTORY, DebugFiles, FileNames, Name, PerfMap, Places, find_debug_information

if TYPE_CHECKING:
    from clew.image import Image
    from clew.target import Module, Target
    from clew.walk import CodeAddress, Frame


_INSTALLED = Places()
#: Names that are remembered.
_MOST_NAMES = 1 << 18
#: A recording has programs of 32 bits and of 64 beside each other.
_ADDRESSES = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class FrameName:
    """What a frame is called.

    Attributes:
        module: the file's path, or a name such as ``[vdso]``; None where the pc is in none.
        build_id: the file's, if known.
        address: the pc as an address of the file, if it is in one.
        function: the function's name, or None where no symbol is known.
        offset: how far the pc is behind the function's first byte.
        signal: whether it is a signal's trampoline.
    """

    module: str | None
    build_id: bytes | None
    address: int | None
    function: str | None
    offset: int
    signal: bool = False


@dataclass(slots=True)
class ModuleNames:
    """The symbols of one module.

    Attributes:
        names: them, or None where the module has no file.
        debug: where its symbols and its DWARF are, or were looked for; None where they were not, because the module was
            read from memory.
    """

    names: FileNames | None
    debug: DebugFiles | None = None


@dataclass
class FrameNames:
    """Names the frames of a target. It may have been closed. Modules that share a file share its names.

    Args:
        target: whose frames.
        places: where debug files are looked for.
        named: whether functions are named at all, or only modules.
        raw: whether their names are as they stand in the file, rather than demangled.
        lines: whether files with DWARF are looked for, too.
    """

    target: Target
    places: Places = _INSTALLED
    named: bool = True
    raw: bool = False
    lines: bool = False
    _known: dict[Image, ModuleNames] = field(default_factory=dict, repr=False)
    _found: dict[tuple[Image | None, int], Name | None] = field(default_factory=dict, repr=False)
    _map: PerfMap | None = None
    _map_is_read: bool = False

    def of_frame(self, frames: Sequence[Frame], index: int, *, in_call: bool = False) -> FrameName:
        """The name of one of a stack's frames.

        Args:
            in_call: whether the thread is in a system call.
        """
        frame = frames[index]
        signal = frame.rule is not None and frame.rule.signal_frame
        # Where there is no rule for it, how the next one was found tells.
        signal = signal or (index + 1 < len(frames) and frames[index + 1].trust.value == "signal")
        return self.of(frame.pc, frame.module, in_call=in_call and index == 0, signal=signal)

    def of(self, pc: CodeAddress, module: Module | None, *, in_call: bool = False, signal: bool = False) -> FrameName:
        """The name of a frame.

        Args:
            in_call: whether the thread is in a system call there, whose instruction may be the last of its function.
            signal: whether it is a signal trampoline, which nobody has called: handlers return to its beginning.
        """
        name = self._at(pc.address, module) if self.named and signal else None
        # A return address is one byte behind where it is looked up.
        behind = 0 if name is not None else pc.address - pc.lookup
        if name is None and self.named:
            name = self._at(pc.lookup, module)
        if self.named and in_call and (name is None or name.offset == 0):
            before = self._at(pc.lookup - 1, module)
            name = None if before is None else Name(before.function, before.offset + 1)
        function = None if name is None else name.function if self.raw else name.demangled
        offset = 0 if name is None else name.offset + behind
        if module is None:
            return FrameName(None, None, None, function, offset, signal)
        place = (pc.address - module.bias) & _ADDRESSES
        return FrameName(module.name, build_id_of(module), place, function, offset, signal)

    def symbols(self, module: Module) -> ModuleNames:
        """Where the names of a module come from."""
        image = module.image
        if image is None:
            return ModuleNames(None)
        known = self._known.get(image)
        if known is None:
            known = self._known[image] = self._read(module, image)
        return known

    def _at(self, address: int, module: Module | None) -> Name | None:
        image = None if module is None else module.image
        if module is not None:
            if image is None:
                return None
            address = (address - module.bias) & _ADDRESSES
        key = (image, address)
        if key not in self._found:
            if len(self._found) >= _MOST_NAMES:
                self._found.clear()
            self._found[key] = self._of_jit(address) if module is None else self._of_module(address, module)
        return self._found[key]

    def _of_module(self, address: int, module: Module) -> Name | None:
        names = self.symbols(module).names
        return None if names is None else names.at(address)

    def _of_jit(self, address: int) -> Name | None:
        """Code that a JIT compiler made has a name only where the process tells it."""
        if not self._map_is_read:
            self._map_is_read = True
            if self.target.kind == "process" and self.target.process_id is not None:
                self._map = PerfMap.of_process(self.target.process_id)
        return None if self._map is None else self._map.at(address)

    def _read(self, module: Module, image: Image) -> ModuleNames:
        try:
            if image.load_bias is not None:
                return ModuleNames(FileNames(image))
            path = module.name.removesuffix(" (deleted)")
            debug = find_debug_information(image, self.places, dwarf=self.lines, build_id=module.build_id, path=path)
        except Error:
            return ModuleNames(FileNames(image))
        return ModuleNames(FileNames(image, None if debug.symbols is image else debug.symbols), debug)


def build_id_of(module: Module) -> bytes | None:
    """The build id of a module: as the target has it, else as the file has it."""
    if module.build_id is None and module.image is not None:
        return module.image.build_id
    return module.build_id


def name_places(debug: Iterable[str], sysroot: str | None) -> Places:
    """Where debug files are: where the user says, then where they are installed, then where the environment says."""
    installed = [f"{sysroot.rstrip('/')}{SYSTEM_DIRECTORY}"] if sysroot else []
    return Places.default([*debug, *installed])
