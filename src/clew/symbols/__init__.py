"""From an address to names: symbol tables, mini debug info, the maps of JIT compilers; and names as people write them."""

from clew.symbols.demangle import demangle
from clew.symbols.minidebug import minidebug_image
from clew.symbols.names import FileNames, Name
from clew.symbols.perf_map import PerfMap

__all__ = ["FileNames", "Name", "PerfMap", "demangle", "minidebug_image"]
