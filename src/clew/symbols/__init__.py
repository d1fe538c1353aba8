"""From an address to names: symbol tables, mini debug info, the maps of JIT compilers; and names as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew._lazy import lazily

# Eagerly: the module has the function's name, and would take its place.
from clew.symbols.demangle import demangle

if TYPE_CHECKING:
    from clew.symbols.alternate_file import find_alternate_file
    from clew.symbols.debug_file import DebugFiles, find_debug_file, find_debug_information
    from clew.symbols.debug_links import AlternateLink, alternate_link, debug_link
    from clew.symbols.debug_places import SYSTEM_DIRECTORY, Places
    from clew.symbols.debuginfod_settings import DebuginfodSettings
    from clew.symbols.found import DebugFile, FoundPath, Tried
    from clew.symbols.lookup import Lookup, SourceFrame
    from clew.symbols.minidebug import minidebug_image
    from clew.symbols.names import FileNames, Name, SymbolSource
    from clew.symbols.perf_map import PerfMap
    from clew.symbols.split_file import find_split_file, find_split_package
    from clew.symbols.sym_file import SymbolFile
    from clew.symbols.symbol_map import SymbolMap
    from clew.symbols.symbol_store import find_symbol_file
    from clew.symbols.symbolizer import Symbolizer

_HOMES = {
    "clew.symbols.alternate_file": ("find_alternate_file",),
    "clew.symbols.debug_file": (
        "DebugFiles",
        "find_debug_file",
        "find_debug_information",
    ),
    "clew.symbols.debug_links": (
        "AlternateLink",
        "alternate_link",
        "debug_link",
    ),
    "clew.symbols.debug_places": (
        "SYSTEM_DIRECTORY",
        "Places",
    ),
    "clew.symbols.debuginfod_settings": ("DebuginfodSettings",),
    "clew.symbols.found": (
        "DebugFile",
        "FoundPath",
        "Tried",
    ),
    "clew.symbols.lookup": (
        "Lookup",
        "SourceFrame",
    ),
    "clew.symbols.minidebug": ("minidebug_image",),
    "clew.symbols.names": (
        "FileNames",
        "Name",
        "SymbolSource",
    ),
    "clew.symbols.perf_map": ("PerfMap",),
    "clew.symbols.split_file": (
        "find_split_file",
        "find_split_package",
    ),
    "clew.symbols.sym_file": ("SymbolFile",),
    "clew.symbols.symbol_map": ("SymbolMap",),
    "clew.symbols.symbol_store": ("find_symbol_file",),
    "clew.symbols.symbolizer": ("Symbolizer",),
}

__all__ = [
    "SYSTEM_DIRECTORY",
    "AlternateLink",
    "DebugFile",
    "DebugFiles",
    "DebuginfodSettings",
    "FileNames",
    "FoundPath",
    "Lookup",
    "Name",
    "PerfMap",
    "Places",
    "SourceFrame",
    "SymbolFile",
    "SymbolMap",
    "SymbolSource",
    "Symbolizer",
    "Tried",
    "alternate_link",
    "debug_link",
    "demangle",
    "find_alternate_file",
    "find_debug_file",
    "find_debug_information",
    "find_split_file",
    "find_split_package",
    "find_symbol_file",
    "minidebug_image",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
