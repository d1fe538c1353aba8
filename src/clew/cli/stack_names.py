"""Frames by name: the function that a frame is in, its source line, and the calls that were inlined into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from clew.cli.stack_lines import ModuleLines, stored_symbols
from clew.cli.target import debug_directories
from clew.errors import Error
from clew.symbols.debug_file import DebugFiles, find_debug_information
from clew.symbols.debug_places import SYSTEM_DIRECTORY, Places
from clew.symbols.demangle import demangle
from clew.symbols.names import FileNames, Name
from clew.symbols.perf_map import PerfMap

if TYPE_CHECKING:
    import argparse

    from clew.errors import Problem
    from clew.image import Image
    from clew.symbols.lookup import SourceFrame
    from clew.target import Module, Target
    from clew.walk import CodeAddress, Frame


_INSTALLED = Places()
#: Names that are remembered.
_MOST_NAMES = 1 << 18
#: A recording has programs of 32 bits and of 64 beside each other.
_ADDRESSES = (1 << 64) - 1


class InlinedCall(NamedTuple):
    """A function that was inlined, and where in it a frame is.

    Attributes:
        function: its name, or None where that is not known.
        file: the path of the source file, or None where that is not known.
        line: in that file; 0 where that is not known.
    """

    function: str | None
    file: str | None
    line: int


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
        file: the path of the function's source file, or None where that is not known.
        line: in that file, of the code, or of the outermost of the inlined calls; 0 where that is not known.
        inlined: the calls inlined into the function that the pc is in, the innermost first.
    """

    module: str | None
    build_id: bytes | None
    address: int | None
    function: str | None
    offset: int
    signal: bool = False
    file: str | None = None
    line: int = 0
    inlined: tuple[InlinedCall, ...] = ()


@dataclass(slots=True)
class ModuleNames:
    """The symbols of one module.

    Attributes:
        names: them, or None where the module has no file.
        debug: where its symbols and its DWARF are, or were looked for; None where they were not, because the module was
            read from memory.
        lines: its lines and inlined calls, or None where there is neither DWARF nor a symbol file, or nobody wants any.
    """

    names: FileNames | None
    debug: DebugFiles | None = None
    lines: ModuleLines | None = None


@dataclass
class FrameNames:
    """Names the frames of a target. It may have been closed. Modules that share a file share its names.

    Args:
        target: whose frames.
        places: where debug files are looked for.
        named: whether functions are named at all, or only modules.
        raw: whether their names are as they stand in the file, rather than demangled.
        dwarf: whether files with DWARF are looked for, too. They then name what no symbol names.
        lines: whether frames have source lines, as far as DWARF or symbol files have them.
        inlines: whether they then have the calls that were inlined.
    """

    target: Target
    places: Places = _INSTALLED
    named: bool = True
    raw: bool = False
    dwarf: bool = False
    lines: bool = False
    inlines: bool = True
    _known: dict[Image | Module, ModuleNames] = field(default_factory=dict, repr=False)
    _found: dict[tuple[Image | None, int], Name | None] = field(default_factory=dict, repr=False)
    _sources: dict[tuple[Image | Module, int], tuple[SourceFrame, ...]] = field(default_factory=dict, repr=False)
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
        # A return address is one byte behind where it is looked up.
        at = pc.lookup
        name = self._at(pc.address, module) if self.named and signal else None
        if name is not None:
            at = pc.address
        elif self.named:
            name = self._at(at, module)
        if self.named and in_call and (name is None or name.offset == 0):
            at -= 1
            name = self._at(at, module)
        function = None if name is None else name.function if self.raw else name.demangled
        offset = 0 if name is None else name.offset + pc.address - at
        if module is None:
            return FrameName(None, None, None, function, offset, signal)
        place = (pc.address - module.bias) & _ADDRESSES
        found = FrameName(module.name, build_id_of(module), place, function, offset, signal)
        if not self.named or not (self.lines or name is None):
            return found
        return self._with_lines(found, module, pc.address, pc.address if signal else at)

    def _with_lines(self, found: FrameName, module: Module, pc: int, at: int) -> FrameName:
        """A frame's name with what the source of its code says.

        Args:
            at: the address that it is looked up by.
        """
        chain = self._source(at, module)
        if not chain:
            return found
        outer = chain[-1]
        if found.function is None and outer.function is not None:
            behind = 0 if outer.offset is None else outer.offset + pc - at
            found = replace(found, function=self._shown(outer.function), offset=behind)
        if not self.lines:
            return found
        inner = chain[:-1] if self.inlines else ()
        inlined = tuple(InlinedCall(self._shown(each.function), each.file, each.line) for each in inner)
        return replace(found, file=outer.file, line=outer.line, inlined=inlined)

    def _shown(self, function: str | None) -> str | None:
        return function if function is None or self.raw else demangle(function)

    @property
    def problems(self) -> list[Problem]:
        """What was wrong with the debugging information, as far as it was read, with the names of files."""
        return [each for known in self._known.values() if known.lines is not None for each in known.lines.problems]

    def symbols(self, module: Module) -> ModuleNames:
        """Where the names of a module come from."""
        image = module.image
        key = image or module
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._unread(module) if image is None else self._read(module, image)
        return known

    def _at(self, address: int, module: Module | None) -> Name | None:
        if module is not None:
            if module.image is None:
                return None
            address = (address - module.bias) & _ADDRESSES
        key = (None if module is None else module.image, address)
        if key not in self._found:
            if len(self._found) >= _MOST_NAMES:
                self._found.clear()
            self._found[key] = self._of_jit(address) if module is None else self._of_module(address, module)
        return self._found[key]

    def _source(self, address: int, module: Module) -> tuple[SourceFrame, ...]:
        lines = self.symbols(module).lines
        if lines is None:
            return ()
        address = (address - module.bias) & _ADDRESSES
        key = (module.image or module, address)
        found = self._sources.get(key)
        if found is None:
            if len(self._sources) >= _MOST_NAMES:
                self._sources.clear()
            found = self._sources[key] = lines.at(address)
        return found

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
            wanted = self.dwarf or self.lines
            debug = find_debug_information(image, self.places, dwarf=wanted, build_id=module.build_id, path=path)
        except Error:
            return ModuleNames(FileNames(image))
        names = FileNames(image, None if debug.symbols is image else debug.symbols)
        if debug.dwarf is None and debug.symbol_file is None:
            return ModuleNames(names, debug)
        from clew.image.breakpad_id import load_address

        return ModuleNames(names, debug, ModuleLines(image, debug, self.places, load_address(image)))

    def _unread(self, module: Module) -> ModuleNames:
        """Of a module without a file, a symbol file has all that can be known."""
        debug = stored_symbols(module, self.places)
        if debug is None or debug.symbol_file is None:
            return ModuleNames(None, debug)
        return ModuleNames(None, debug, ModuleLines(None, debug, self.places, module.start - module.bias))


def build_id_of(module: Module) -> bytes | None:
    """The build id of a module: as the target has it, else as the file has it."""
    if module.build_id is None and module.image is not None:
        return module.image.build_id
    return module.build_id


def name_places(debug: Iterable[str], sysroot: str | None, stores: Iterable[str] = ()) -> Places:
    """Where debug files are: where the user says, then where they are installed, then where the environment says.

    Args:
        stores: directories of Breakpad symbol files.
    """
    installed = [f"{sysroot.rstrip('/')}{SYSTEM_DIRECTORY}"] if sysroot else []
    return Places.default([*debug, *installed], stores)


def names_of(options: argparse.Namespace, target: Target, *, lines: bool) -> FrameNames:
    """The names of a target's frames, as the options of ``clew stack`` want them.

    Args:
        lines: whether frames have source lines.
    """
    places = name_places(debug_directories(options), options.sysroot, options.symbols)
    named = not options.no_names
    inlines = not options.no_inlines
    return FrameNames(target, places, named, options.raw_names, lines=named and lines, inlines=inlines)
