"""From an address to names: symbol tables, mini debug info, the maps of JIT compilers; and names as people write them."""

from clew.symbols.debug_file import SYSTEM_DIRECTORY, DebugFile, debug_link, find_debug_file
from clew.symbols.demangle import demangle
from clew.symbols.minidebug import minidebug_image
from clew.symbols.names import FileNames, Name, SymbolSource
from clew.symbols.perf_map import PerfMap

__all__ = [
    "SYSTEM_DIRECTORY",
    "DebugFile",
    "FileNames",
    "Name",
    "PerfMap",
    "SymbolSource",
    "debug_link",
    "demangle",
    "find_debug_file",
    "minidebug_image",
]
