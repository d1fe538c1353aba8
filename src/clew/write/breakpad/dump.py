"""A whole symbol file of a binary: its names, lines and inlined calls, and its unwind table.

with Symbolizer.open("/usr/bin/python3.11") as symbols:
    dump = dump_symbols(symbols)
    with open("python3.11.sym", "wb") as stream:
        stream.writelines(dump.text())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from clew.errors import Error, NotFoundError, Problem
from clew.image.breakpad_id import architecture, code_id, debug_id, identifier, load_address, module_name
from clew.read.breakpad.module import ModuleRecord
from clew.symbols.demangle import demangle
from clew.symbols.dwarf.info import silent
from clew.symbols.symbol_map import Functions, Inlines, Publics, SymbolMap
from clew.symbols.symbolizer import Symbolizer
from clew.write.breakpad.cfi import StackCfi, stack_cfi
from clew.write.breakpad.symbols import symbol_text

GENERATOR = "clew"


@dataclass(frozen=True, slots=True)
class Dump:
    """The parts of a symbol file.

    Attributes:
        module: what it is of; ``id`` and ``name`` say where in a store it belongs.
        info: the ``INFO`` records.
        symbols: functions, lines, inlined calls and public symbols, at addresses relative to the module.
        cfi: the unwind table; None where there is none, or none was wanted.
        problems: what was wrong with the files that it was read from.
    """

    module: ModuleRecord
    info: tuple[tuple[str, str], ...]
    symbols: SymbolMap
    cfi: StackCfi | None
    problems: tuple[Problem, ...]

    def text(self, name_text: Callable[[str], str] = demangle) -> Iterator[bytes]:
        """The symbol file, in pieces of about a mebibyte.

        Args:
            name_text: turns a name as the linker knows it into the one that is written.
        """
        return symbol_text(
            self.module, self.info, self.symbols, name_text=name_text, cfi_chunks=() if self.cfi is None else self.cfi
        )


def dump_symbols(
    symbolizer: Symbolizer,
    *,
    inlines: bool = True,
    cfi: bool = True,
    machine: str | None = None,
    progress: Callable[[int], None] = silent,
    processes: int = 1,
) -> Dump:
    """What a symbol file says of a binary.

    Args:
        symbolizer: of the binary.
        inlines: whether inlined calls are told. Without them their lines are those of the function around them.
        cfi: whether the unwind table is.
        machine: what the module's machine is called, if not as :func:`clew.image.breakpad_id.architecture` calls it.
        progress: is called now and then with how many units of DWARF are done.
        processes: how many may share the work, where there is much of it.
    """
    image = symbolizer.image
    base = load_address(image)
    found = identifier(image)
    problems: list[Problem] = []
    symbols = relative(symbolizer.read_whole(progress, processes=processes), base)
    problems.extend(symbolizer.problems)
    # What comes next needs memory, too.
    symbolizer.forget()
    table = _stack_cfi(symbolizer, base, problems) if cfi else None
    if not inlines:
        none = np.zeros(len(symbols.functions.address), np.uint32)
        functions = replace(symbols.functions, first_inline=none, end_inline=none)
        symbols = replace(symbols, inlines=_no_inlines(), functions=functions)
    module = ModuleRecord("Linux", machine or architecture(image), debug_id(found), module_name(image))
    code = code_id(found)
    info = (("CODE_ID", code),) if code is not None else ()
    return Dump(module, info, symbols, table, (*image.problems, *problems))


def relative(symbols: SymbolMap, base: int) -> SymbolMap:
    """The map with its addresses counted from ``base``; it takes the place of the one given. What is below is left out."""
    if not base:
        return symbols
    functions, publics = symbols.functions, symbols.publics
    first = int(np.searchsorted(functions.address, np.uint64(base)))
    public = int(np.searchsorted(publics.address, np.uint64(base)))
    functions = Functions(*(getattr(functions, each.name)[first:] for each in fields(functions)))
    publics = Publics(*(getattr(publics, each.name)[public:] for each in fields(publics)))
    # What belongs to functions that were left out wraps around, and nobody looks at it.
    for column in (functions.address, publics.address, symbols.lines.address, symbols.inlines.range_address):
        np.subtract(column, np.uint64(base), out=column)
    return replace(symbols, functions=functions, publics=publics)


def _stack_cfi(symbolizer: Symbolizer, base: int, problems: list[Problem]) -> StackCfi | None:
    """The unwind table of the binary, or of its debug file, which has the ``.debug_frame`` that was stripped."""
    from clew.read.frames import read_table

    for image in dict.fromkeys((symbolizer.image, symbolizer.files.dwarf)):
        if image is None:
            continue
        try:
            table = read_table(image)
        except NotFoundError:
            continue
        except Error as error:
            problems.append(Problem(error.message, error.section, error.offset))
            continue
        problems.extend(problem for problem in table.problems if problem not in image.problems)
        return stack_cfi(table, base=base)
    return None


def _no_inlines() -> Inlines:
    none, bounds, wide = np.zeros(0, np.uint32), np.zeros(1, np.uint32), np.zeros(0, np.uint64)
    return Inlines(np.zeros(0, np.uint16), none, none, none, bounds, wide, wide)
