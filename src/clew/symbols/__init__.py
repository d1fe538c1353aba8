"""From an address to names: symbol tables, mini debug info, the maps of JIT compilers; and names as people write them."""

from clew.symbols.alternate_file import find_alternate_file
from clew.symbols.debug_file import DebugFiles, find_debug_file, find_debug_information
from clew.symbols.debug_links import AlternateLink, alternate_link, debug_link
from clew.symbols.debug_places import SYSTEM_DIRECTORY, Places
from clew.symbols.debuginfod_settings import DebuginfodSettings
from clew.symbols.demangle import demangle
from clew.symbols.found import DebugFile, FoundPath, Tried
from clew.symbols.lookup import Lookup, SourceFrame
from clew.symbols.minidebug import minidebug_image
from clew.symbols.names import FileNames, Name, SymbolSource
from clew.symbols.perf_map import PerfMap
from clew.symbols.split_file import find_split_file, find_split_package
from clew.symbols.symbol_map import SymbolMap
from clew.symbols.symbol_store import find_symbol_file
from clew.symbols.symbolizer import Symbolizer

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
